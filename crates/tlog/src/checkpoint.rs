use std::fmt;
use std::str::FromStr;

use crate::note::{
    Algorithm, KeyName, NoteError, OpenedNote, SignedNote, VerifierKey, VerifierKeyError, signature_line,
};
use countersign_keys::{SigningKey, VerifyingKey};
use countersign_merkle::{HeadError, RootHash, TreeHead};

use crate::base64;

/// Public key of a log: its origin, which is also the name of its key, and the key that verifies its checkpoints.
///
/// Its text form is the verifier key of C2SP signed-note: `origin+id+key`.
///
/// ```
/// use countersign_tlog::LogKey;
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// let key = LogKey::new(KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]).verifying_key());
/// assert_eq!(key.to_string().parse::<LogKey>()?, key);
/// # Ok::<(), countersign_tlog::note::VerifierKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogKey(VerifierKey);

impl LogKey {
    /// Builds the key of an origin.
    #[must_use]
    pub const fn new(origin: KeyName, key: VerifyingKey) -> Self {
        Self(VerifierKey::new(origin, key))
    }

    /// Origin of the log.
    #[must_use]
    pub const fn origin(&self) -> &KeyName {
        self.0.name()
    }

    /// Public key of the log.
    #[must_use]
    pub const fn verifying_key(&self) -> &VerifyingKey {
        self.0.verifying_key()
    }

    /// The key as a verifier key of signed notes.
    #[must_use]
    pub const fn verifier_key(&self) -> &VerifierKey {
        &self.0
    }
}

impl TryFrom<VerifierKey> for LogKey {
    type Error = VerifierKeyError;
    fn try_from(key: VerifierKey) -> Result<Self, VerifierKeyError> {
        if key.algorithm() == Algorithm::Ed25519 { Ok(Self(key)) } else { Err(VerifierKeyError::Algorithm) }
    }
}

impl FromStr for LogKey {
    type Err = VerifierKeyError;
    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        text.parse::<VerifierKey>()?.try_into()
    }
}

impl fmt::Display for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reason why a note is not a checkpoint of a log. Never contains the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The note cannot be read, or is not signed by the log.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The text is not exactly an origin, a size and a root, each on its own line.
    #[error("malformed checkpoint: lines with origin, size and root expected")]
    Malformed,
    /// The checkpoint belongs to another log.
    #[error("the checkpoint belongs to another log")]
    Origin,
    /// No tree has that size and root.
    #[error(transparent)]
    Head(#[from] HeadError),
}

impl CheckpointError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Note(error) => error.code(),
            Self::Malformed => "CHECKPOINT_MALFORMED",
            Self::Origin => "CHECKPOINT_ORIGIN",
            Self::Head(error) => error.code(),
        }
    }
}

countersign_core::coded!(CheckpointError);

/// Size and root hash of a log (C2SP tlog-checkpoint, RFC 9162, section 4.9).
///
/// The text form has three lines: the origin, the size in decimal, and the root in base64. Extension lines are neither
/// written nor read, because no one could audit their content. The signed form is a note ([`sign`](Self::sign),
/// [`verify`](Self::verify)).
///
/// A checkpoint that verifies shows what the log stated once. It does not show that every reader sees the same log. Two
/// checkpoints of the same size with different roots, or a later one that does not continue from an earlier one, prove
/// that the log forked.
///
/// ```
/// use countersign_tlog::{Checkpoint, LogKey};
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// use countersign_merkle::{Frontier, LeafHash};
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let mut tree = Frontier::new();
/// tree.append(LeafHash::of(b"{}"))?;
/// let note = Checkpoint::new(origin.clone(), tree.head()).sign(&key);
/// let read = Checkpoint::verify(&note, &LogKey::new(origin, key.verifying_key()))?;
/// assert_eq!(read.head(), &tree.head());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    origin: KeyName,
    head: TreeHead,
}

impl Checkpoint {
    /// Builds one from a log's origin and the head of its tree.
    #[must_use]
    pub const fn new(origin: KeyName, head: TreeHead) -> Self {
        Self { origin, head }
    }

    /// Reads the three lines of a checkpoint. Verifies nothing.
    ///
    /// # Errors
    /// [`CheckpointError::Malformed`], [`CheckpointError::Head`].
    pub fn from_text(text: &str) -> Result<Self, CheckpointError> {
        let mut lines = text.strip_suffix('\n').ok_or(CheckpointError::Malformed)?.split('\n');
        let (Some(origin), Some(size), Some(root), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(CheckpointError::Malformed);
        };
        let origin = KeyName::new(origin).map_err(|_| CheckpointError::Malformed)?;
        let size = parse_decimal(size).ok_or(CheckpointError::Malformed)?;
        let root = base64::decode_hash(root).ok_or(CheckpointError::Malformed)?;
        Ok(Self { origin, head: TreeHead::new(size, RootHash::from_digest(root))? })
    }

    /// Returns the signed text: three lines, each with its newline.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size(), base64::encode(self.root().as_bytes()))
    }

    /// Signs the checkpoint, under its origin as the key's name, and returns the whole note.
    ///
    /// A log must never sign two checkpoints of which neither continues from the other. The caller has to ensure that.
    #[must_use]
    pub fn sign(&self, key: &SigningKey) -> String {
        let text = self.to_text();
        let line = signature_line(&text, &self.origin, key);
        format!("{text}\n{line}")
    }

    /// Reads a note and verifies that it is a checkpoint signed by this log. Ignores other signatures.
    ///
    /// # Errors
    /// [`CheckpointError`] if it is not.
    pub fn verify(note: &str, key: &LogKey) -> Result<Self, CheckpointError> {
        Self::of_opened(&SignedNote::parse(note)?.open(std::slice::from_ref(key.verifier_key()))?, key)
    }

    /// Returns the checkpoint of a note that was opened with this log's key, perhaps among others.
    pub(crate) fn of_opened(note: &OpenedNote<'_>, key: &LogKey) -> Result<Self, CheckpointError> {
        if !note.signers().iter().any(|signer| &signer.key == key.verifier_key()) {
            return Err(NoteError::Unsigned.into());
        }
        let checkpoint = Self::from_text(note.text())?;
        if &checkpoint.origin == key.origin() { Ok(checkpoint) } else { Err(CheckpointError::Origin) }
    }

    /// Origin of the log.
    #[must_use]
    pub const fn origin(&self) -> &KeyName {
        &self.origin
    }

    /// Number of records in the log.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.head.size()
    }

    /// Root hash of the records.
    #[must_use]
    pub const fn root(&self) -> &RootHash {
        self.head.root()
    }

    /// Size and root.
    #[must_use]
    pub const fn head(&self) -> &TreeHead {
        &self.head
    }
}

/// Parses a decimal number: digits only, no leading zeros.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    if canonical && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}
