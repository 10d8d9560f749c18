use countersign_keys::note::{NoteError, SignedNote};
use countersign_merkle::{ConsistencyProof, NodeHash, ProofError, verify_consistency};

use crate::checkpoint::parse_decimal;
use crate::{Checkpoint, CheckpointError, LogKey, base64};

/// The most hashes of a consistency proof in a request (C2SP tlog-witness).
const MAX_PROOF: usize = 63;

/// Holds what a log sends to a witness: a new checkpoint, and the proof that it goes on from the one that the witness
/// cosigned last. Its text form is the body of `POST /add-checkpoint` (C2SP tlog-witness); nothing here sends it.
///
/// ```
/// use countersign_audit_log::{AddCheckpoint, Checkpoint};
/// use countersign_keys::{SigningKey, note::KeyName};
/// use countersign_merkle::Frontier;
/// let checkpoint = Checkpoint::new(KeyName::new("example.com/log")?, Frontier::new().head());
/// let request = AddCheckpoint::first(&checkpoint.sign(&SigningKey::from_seed([7; 32])))?;
/// assert!(request.to_body().starts_with("old 0\n\nexample.com/log\n0\n"));
/// assert_eq!(AddCheckpoint::from_body(&request.to_body())?, request);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    old_size: u64,
    proof: Vec<NodeHash>,
    note: String,
}

impl AddCheckpoint {
    /// For a witness that has seen nothing of the log.
    ///
    /// # Errors
    /// [`NoteError`] when the note is none.
    pub fn first(note: &str) -> Result<Self, NoteError> {
        Self::of_parts(0, Vec::new(), note)
    }

    /// For a witness that cosigned the checkpoint of the proof's old size.
    ///
    /// # Errors
    /// [`NoteError`] when the note is none, or the proof is longer than a request may have it.
    pub fn new(proof: &ConsistencyProof, note: &str) -> Result<Self, NoteError> {
        Self::of_parts(proof.old_size(), proof.path().to_vec(), note)
    }

    fn of_parts(old_size: u64, proof: Vec<NodeHash>, note: &str) -> Result<Self, NoteError> {
        SignedNote::parse(note)?;
        if proof.len() > MAX_PROOF {
            return Err(NoteError::TooLong);
        }
        Ok(Self { old_size, proof, note: note.to_owned() })
    }

    /// Reads a body: the line `old <size>`, a line for each hash in base64, an empty line, the checkpoint's note.
    ///
    /// # Errors
    /// [`NoteError`] when it is anything else.
    pub fn from_body(body: &str) -> Result<Self, NoteError> {
        let (head, note) = body.split_once("\n\n").ok_or(NoteError::Malformed)?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| line.strip_prefix("old ")).and_then(parse_decimal);
        // One more than there may be, so that too many are still told from a malformed one, and no more are read.
        let hashes = lines.take(MAX_PROOF.saturating_add(1)).map(base64::decode_hash);
        let proof: Option<Vec<NodeHash>> = hashes.map(|hash| hash.map(NodeHash::from_digest)).collect();
        let (Some(old), Some(proof)) = (old, proof) else {
            return Err(NoteError::Malformed);
        };
        Self::of_parts(old, proof, note)
    }

    /// The body.
    #[must_use]
    pub fn to_body(&self) -> String {
        let mut body = format!("old {}\n", self.old_size);
        for hash in &self.proof {
            body.push_str(&base64::encode(hash.as_bytes()));
            body.push('\n');
        }
        body.push('\n');
        body.push_str(&self.note);
        body
    }

    /// The size of the checkpoint that the witness is thought to have cosigned last; 0 for none.
    #[must_use]
    pub const fn old_size(&self) -> u64 {
        self.old_size
    }

    /// The hashes of the consistency proof.
    #[must_use]
    pub fn proof(&self) -> &[NodeHash] {
        &self.proof
    }

    /// The new checkpoint's note, as it was sent.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// Why a witness does not cosign. Each is one answer of C2SP tlog-witness, with its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessRefusal {
    /// The note is no checkpoint.
    #[error("the request holds no checkpoint")]
    Malformed,
    /// The checkpoint is of a log that this witness does not know.
    #[error("the checkpoint is of another log")]
    UnknownLog,
    /// The log's key did not sign it.
    #[error("the checkpoint is not signed by the log")]
    Unsigned,
    /// The old size is above the new one.
    #[error("the old size is above the checkpoint's")]
    OldSize,
    /// The witness knows another size, or another root of this size: then the log forked.
    #[error("the latest checkpoint known here has another size or root")]
    Conflict {
        /// How many records the latest checkpoint known here has; 0 for none.
        size: u64,
    },
    /// The checkpoint does not go on from the latest one, as far as the proof shows.
    #[error("the proof of consistency does not hold")]
    Proof,
}

impl WitnessRefusal {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "WITNESS_MALFORMED",
            Self::UnknownLog => "WITNESS_UNKNOWN_LOG",
            Self::Unsigned => "WITNESS_UNSIGNED",
            Self::OldSize => "WITNESS_OLD_SIZE",
            Self::Conflict { .. } => "WITNESS_CONFLICT",
            Self::Proof => "WITNESS_PROOF",
        }
    }

    /// The status that a witness answers with over HTTP. With 409 its body is the size in decimal and a newline.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Malformed | Self::OldSize => 400,
            Self::Unsigned => 403,
            Self::UnknownLog => 404,
            Self::Conflict { .. } => 409,
            Self::Proof => 422,
        }
    }
}

/// Holds what a witness remembers of one log: its key and the latest checkpoint.
///
/// It is a value: whoever runs a witness keeps the checkpoint that [`check`](Self::check) gives, in one step with the
/// check and before [`cosign`](crate::cosign) is called, or two requests at once could take the log back.
///
/// ```
/// use countersign_audit_log::{AddCheckpoint, Checkpoint, LogKey, WitnessRefusal, WitnessedLog};
/// use countersign_keys::{SigningKey, note::KeyName};
/// use countersign_merkle::{LeafHash, MerkleTree};
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let tree: MerkleTree = [b"a", b"b", b"c"].map(|entry| LeafHash::of(entry)).into_iter().collect();
/// let note = |size| tree.head_at(size).map(|head| Checkpoint::new(origin.clone(), head).sign(&key));
/// let empty = WitnessedLog::new(LogKey::new(origin.clone(), key.verifying_key()), None);
/// let known = empty.check(&AddCheckpoint::first(&note(2)?)?)?;
/// let witness = WitnessedLog::new(empty.key().clone(), Some(known));
/// assert_eq!(witness.check(&AddCheckpoint::new(&tree.prove_consistency(2)?, &note(3)?)?)?.size(), 3);
/// assert_eq!(witness.check(&AddCheckpoint::first(&note(3)?)?), Err(WitnessRefusal::Conflict { size: 2 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessedLog {
    key: LogKey,
    latest: Option<Checkpoint>,
}

impl WitnessedLog {
    /// Takes up what is remembered of a log; no checkpoint for one that was never seen.
    #[must_use]
    pub const fn new(key: LogKey, latest: Option<Checkpoint>) -> Self {
        Self { key, latest }
    }

    /// The log's key.
    #[must_use]
    pub const fn key(&self) -> &LogKey {
        &self.key
    }

    /// The latest checkpoint.
    #[must_use]
    pub const fn latest(&self) -> Option<&Checkpoint> {
        self.latest.as_ref()
    }

    /// Says whether this checkpoint is the log's and goes on from the latest one, and gives it: what is to be kept now
    /// as the latest, and then cosigned.
    ///
    /// # Errors
    /// [`WitnessRefusal`] when it is not, in the order that C2SP tlog-witness has.
    pub fn check(&self, request: &AddCheckpoint) -> Result<Checkpoint, WitnessRefusal> {
        let note = SignedNote::parse(&request.note).map_err(|_| WitnessRefusal::Malformed)?;
        if note.unverified_text().split('\n').next() != Some(self.key.origin().as_str()) {
            return Err(WitnessRefusal::UnknownLog);
        }
        let new = Checkpoint::verify(&request.note, &self.key).map_err(|error| match error {
            CheckpointError::Note(_) => WitnessRefusal::Unsigned,
            CheckpointError::Malformed | CheckpointError::Head(_) => WitnessRefusal::Malformed,
            CheckpointError::Origin => WitnessRefusal::UnknownLog,
        })?;
        if request.old_size > new.size() {
            return Err(WitnessRefusal::OldSize);
        }
        let size = self.latest.as_ref().map_or(0, Checkpoint::size);
        if request.old_size != size {
            return Err(WitnessRefusal::Conflict { size });
        }
        match &self.latest {
            Some(latest) if size > 0 => {
                verify_consistency(latest.head(), new.head(), &request.proof).map_err(|error| {
                    // Two roots of one size are a fork, and no failed proof.
                    let forked = error == ProofError::Root && size == new.size();
                    if forked { WitnessRefusal::Conflict { size } } else { WitnessRefusal::Proof }
                })?;
            }
            // Every tree goes on from an empty one, and no hash is needed to see it.
            Some(_) | None if request.proof.is_empty() => {}
            Some(_) | None => return Err(WitnessRefusal::Proof),
        }
        Ok(new)
    }
}
