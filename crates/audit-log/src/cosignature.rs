use std::fmt;
use std::str::FromStr;

use countersign_core::Timestamp;
use countersign_keys::note::{
    Algorithm, KeyName, NoteError, SignedNote, Signer, VerifierKey, VerifierKeyError, cosignature_line,
};
use countersign_keys::{SigningKey, VerifyingKey};

use crate::{Checkpoint, CheckpointError, LogKey};

/// Holds what the cosignatures of one witness are verified by (C2SP tlog-cosignature, Ed25519): a name and a public key.
///
/// Its text form is that of [`VerifierKey`], of the kind 0x04. What a witness signs does not hold its name, so two
/// witnesses need two keys; those that share one count as one.
///
/// ```
/// use countersign_audit_log::WitnessKey;
/// let text = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";
/// assert_eq!(text.parse::<WitnessKey>()?.to_string(), text);
/// # Ok::<(), countersign_keys::note::VerifierKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WitnessKey(VerifierKey);

impl WitnessKey {
    /// Puts a name and a key together.
    #[must_use]
    pub const fn new(name: KeyName, key: VerifyingKey) -> Self {
        Self(VerifierKey::cosigner(name, key))
    }

    /// The witness's name.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        self.0.name()
    }

    /// The key as notes have it.
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

/// Holds a checkpoint that its log signed, and the cosignatures of known witnesses on it.
///
/// ```
/// use countersign_audit_log::{Checkpoint, LogKey, WitnessKey, WitnessedCheckpoint, attach_cosignatures, cosign};
/// use countersign_core::Timestamp;
/// use countersign_keys::{SigningKey, note::KeyName};
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
    /// Whose it is.
    pub witness: WitnessKey,
    /// When the witness says that it saw no later checkpoint of the log, in seconds since 1970.
    pub seconds: u64,
}

impl WitnessedCheckpoint {
    /// Reads a note and verifies that the log signed it, and every cosignature that is of one of these witnesses.
    ///
    /// # Errors
    /// As [`Checkpoint::verify`]; [`NoteError::Signature`] also when a known witness's cosignature does not verify.
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

    /// The cosignatures of known witnesses, in the order of the note.
    #[must_use]
    pub fn cosignatures(&self) -> &[Cosignature] {
        &self.cosignatures
    }

    /// How many witnesses cosigned, each public key counted once.
    #[must_use]
    pub fn witnesses(&self) -> usize {
        let keys = self.cosignatures.iter().map(|c| c.witness.0.verifying_key());
        keys.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// How many signature lines are of nobody known, or repeat another.
    pub(crate) const fn strangers(&self) -> usize {
        self.strangers
    }
}

impl Cosignature {
    fn of(signer: &Signer) -> Option<Self> {
        let seconds = signer.seconds?;
        Some(Self { witness: WitnessKey(signer.key.clone()), seconds })
    }
}

/// Cosigns a checkpoint as a witness and gives the signature line. A witness does so only for what
/// [`WitnessedLog::check`](crate::WitnessedLog::check) gave, after it kept that as the log's latest.
#[must_use]
pub fn cosign(checkpoint: &Checkpoint, name: &KeyName, key: &SigningKey, at: Timestamp) -> String {
    cosignature_line(&checkpoint.to_text(), name, key, at)
}

/// Adds to a checkpoint's note what witnesses answered: signature lines, of which those of known witnesses are verified
/// and kept, and the others left out. Lines that are there already are not added again. Whether the log signed the note
/// is for [`WitnessedCheckpoint::verify`] to say.
///
/// # Errors
/// [`NoteError`] when the note or a line is malformed, a known witness's cosignature does not verify, or the note gets too
/// long.
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

/// Reads one signature line under a text, its newline included, and says whose it is; `None` for a line of nobody known.
pub(crate) fn signer_of(text: &str, line: &str, known: &[VerifierKey]) -> Result<Option<Signer>, NoteError> {
    match SignedNote::parse(&format!("{text}\n{line}"))?.open(known) {
        Ok(opened) => Ok(opened.signers().first().cloned()),
        Err(NoteError::Unsigned) => Ok(None),
        Err(error) => Err(error),
    }
}
