use std::fmt;
use std::str::FromStr;

use crate::note::{
    Algorithm, KeyName, NoteError, SignedNote, Signer, VerifierKey, VerifierKeyError, cosignature_line,
};
use countersign_core::Timestamp;
use countersign_keys::{SigningKey, VerifyingKey};

use crate::{Checkpoint, CheckpointError, LogKey};

/// Public key of a witness: the name and key that verify its cosignatures (C2SP tlog-cosignature, Ed25519).
///
/// Its text form is that of [`VerifierKey`], of type 0x04. A cosignature does not cover the witness's name, so two
/// witnesses need two keys; witnesses that share a key count as one.
///
/// ```
/// use countersign_tlog::WitnessKey;
/// let text = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";
/// assert_eq!(text.parse::<WitnessKey>()?.to_string(), text);
/// # Ok::<(), countersign_tlog::note::VerifierKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WitnessKey(VerifierKey);

impl WitnessKey {
    /// Builds the key of a name.
    #[must_use]
    pub const fn new(name: KeyName, key: VerifyingKey) -> Self {
        Self(VerifierKey::cosigner(name, key))
    }

    /// Name of the witness.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        self.0.name()
    }

    /// The key as a verifier key of signed notes.
    #[must_use]
    pub const fn verifier_key(&self) -> &VerifierKey {
        &self.0
    }
}

impl FromStr for WitnessKey {
    type Err = VerifierKeyError;
    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        let key: VerifierKey = text.parse()?;
        if key.algorithm() == Algorithm::Cosignature {
            Ok(Self(key))
        } else {
            Err(VerifierKeyError::Algorithm)
        }
    }
}

impl fmt::Display for WitnessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Checkpoint signed by its log, with the cosignatures of known witnesses.
///
/// ```
/// use countersign_tlog::{Checkpoint, LogKey, WitnessKey, WitnessedCheckpoint, attach_cosignatures, cosign};
/// use countersign_core::Timestamp;
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// use countersign_merkle::Frontier;
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let (name, witness) = (KeyName::new("witness.example")?, SigningKey::from_seed([8; 32]));
/// let log = LogKey::new(origin.clone(), key.verifying_key());
/// let checkpoint = Checkpoint::new(origin, Frontier::new().head());
/// let line = cosign(&checkpoint, &name, &witness, Timestamp::EPOCH);
/// let witnesses = [WitnessKey::new(name, witness.verifying_key())];
/// let note = attach_cosignatures(&checkpoint.sign(&key), &line, &witnesses)?;
/// assert_eq!(WitnessedCheckpoint::verify(&note, &log, &witnesses)?.witnesses(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessedCheckpoint {
    checkpoint: Checkpoint,
    cosignatures: Vec<Cosignature>,
    strangers: usize,
}

/// One cosignature that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cosignature {
    /// Witness that cosigned.
    pub witness: WitnessKey,
    /// Time, in seconds since 1970, at which the witness states that it had seen no later checkpoint of the log.
    pub seconds: u64,
}

impl WitnessedCheckpoint {
    /// Reads a note and verifies that the log signed it. Verifies every cosignature of these witnesses.
    ///
    /// # Errors
    /// As [`Checkpoint::verify`]; [`NoteError::Signature`] also if a known witness's cosignature does not verify.
    pub fn verify(note: &str, log: &LogKey, witnesses: &[WitnessKey]) -> Result<Self, CheckpointError> {
        let keys: Vec<VerifierKey> =
            [log.verifier_key()].into_iter().chain(witnesses.iter().map(|w| &w.0)).cloned().collect();
        let note = SignedNote::parse(note)?;
        let opened = note.open(&keys)?;
        let checkpoint = Checkpoint::of_opened(&opened, log)?;
        let cosignatures = opened.signers().iter().filter_map(Cosignature::of).collect();
        let mut known: Vec<&Signer> = Vec::new();
        for signer in opened.signers() {
            if !known.contains(&signer) {
                known.push(signer);
            }
        }
        let strangers = note.signature_lines().saturating_sub(known.len());
        Ok(Self { checkpoint, cosignatures, strangers })
    }

    /// The checkpoint.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Cosignatures of known witnesses, in the order of the note.
    #[must_use]
    pub fn cosignatures(&self) -> &[Cosignature] {
        &self.cosignatures
    }

    /// Number of witnesses that cosigned; each public key counts once.
    #[must_use]
    pub fn witnesses(&self) -> usize {
        let keys = self.cosignatures.iter().map(|c| c.witness.0.verifying_key());
        keys.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Number of signature lines that belong to no known key, or repeat another line.
    #[must_use]
    pub const fn strangers(&self) -> usize {
        self.strangers
    }
}

impl Cosignature {
    fn of(signer: &Signer) -> Option<Self> {
        let seconds = signer.seconds?;
        Some(Self { witness: WitnessKey(signer.key.clone()), seconds })
    }
}

/// Cosigns a checkpoint as a witness and returns the signature line. A witness may cosign only the result of
/// [`WitnessedLog::check`](crate::WitnessedLog::check), after it stored that as the log's latest.
#[must_use]
pub fn cosign(checkpoint: &Checkpoint, name: &KeyName, key: &SigningKey, at: Timestamp) -> String {
    cosignature_line(&checkpoint.to_text(), name, key, at)
}

/// Adds signature lines returned by witnesses to a checkpoint's note. Lines of known witnesses are verified and added,
/// all others are dropped. Lines already in the note are not added again. It does not verify the log's own signature:
/// use [`WitnessedCheckpoint::verify`].
///
/// # Errors
/// [`NoteError`] if the note or a line is malformed, a known witness's cosignature does not verify, or the note becomes
/// too long.
pub fn attach_cosignatures(note: &str, lines: &str, witnesses: &[WitnessKey]) -> Result<String, NoteError> {
    let text = SignedNote::parse(note)?.unverified_text();
    let known: Vec<VerifierKey> = witnesses.iter().map(|witness| witness.0.clone()).collect();
    let mut whole = note.to_owned();
    for line in lines.split_inclusive('\n') {
        let known = signer_of(text, line, &known)?.is_some();
        if known && !whole.split_inclusive('\n').any(|old| old == line) {
            whole.push_str(line);
        }
    }
    SignedNote::parse(&whole)?;
    Ok(whole)
}

/// Reads one signature line under a text, newline included, and returns its signer; `None` if the signer is unknown.
pub(crate) fn signer_of(text: &str, line: &str, known: &[VerifierKey]) -> Result<Option<Signer>, NoteError> {
    match SignedNote::parse(&format!("{text}\n{line}"))?.open(known) {
        Ok(opened) => Ok(opened.signers().first().cloned()),
        Err(NoteError::Unsigned) => Ok(None),
        Err(error) => Err(error),
    }
}
