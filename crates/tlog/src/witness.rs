use crate::note::{NoteError, SignedNote};
use countersign_merkle::{ConsistencyProof, NodeHash, ProofError, verify_consistency};

use crate::checkpoint::parse_decimal;
use crate::{Checkpoint, CheckpointError, LogKey, base64};

/// Most hashes of a consistency proof in a request (C2SP tlog-witness).
const MAX_PROOF: usize = 63;

/// Request of a log to a witness: a new checkpoint, and the proof that it continues from the one that the witness
/// cosigned last. Its text form is the body of `POST /add-checkpoint` (C2SP tlog-witness). This type does not send it.
///
/// ```
/// use countersign_tlog::{AddCheckpoint, Checkpoint};
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
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
    /// Builds a request to a witness that has seen nothing of the log.
    ///
    /// # Errors
    /// [`NoteError`] if the note cannot be read.
    pub fn first(note: &str) -> Result<Self, NoteError> {
        Self::of_parts(0, Vec::new(), note)
    }

    /// Builds a request to a witness that cosigned the checkpoint of the proof's old size.
    ///
    /// # Errors
    /// [`NoteError`] if the note cannot be read, or the proof is too long for a request.
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

    /// Parses a body: the line `old <size>`, one line for each hash in base64, an empty line, and the checkpoint's
    /// note.
    ///
    /// # Errors
    /// [`NoteError`] if the body is malformed or too long.
    pub fn from_body(body: &str) -> Result<Self, NoteError> {
        let (head, note) = body.split_once("\n\n").ok_or(NoteError::Malformed)?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| line.strip_prefix("old ")).and_then(parse_decimal);
        // One more than allowed, so that too many hashes are distinguished from a malformed one, and no more are read.
        let hashes = lines.take(MAX_PROOF.saturating_add(1)).map(base64::decode_hash);
        let proof: Option<Vec<NodeHash>> = hashes.map(|hash| hash.map(NodeHash::from_digest)).collect();
        let (Some(old), Some(proof)) = (old, proof) else {
            return Err(NoteError::Malformed);
        };
        Self::of_parts(old, proof, note)
    }

    /// Returns the request's body.
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

    /// Size of the checkpoint that the witness is assumed to have cosigned last; 0 for none.
    #[must_use]
    pub const fn old_size(&self) -> u64 {
        self.old_size
    }

    /// Hashes of the consistency proof.
    #[must_use]
    pub fn proof(&self) -> &[NodeHash] {
        &self.proof
    }

    /// Note of the new checkpoint, as sent.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// Reason why a witness does not cosign. Each is one answer of C2SP tlog-witness, with its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessRefusal {
    /// The note is not a checkpoint.
    #[error("no checkpoint in the request")]
    Malformed,
    /// The checkpoint belongs to a log that this witness does not know.
    #[error("the checkpoint belongs to another log")]
    UnknownLog,
    /// The log's key did not sign the checkpoint.
    #[error("the checkpoint is not signed by the log")]
    Unsigned,
    /// The old size is larger than the new one.
    #[error("old size larger than the checkpoint's size")]
    OldSize,
    /// The witness has another size, or another root of this size; in the latter case the log forked.
    #[error("conflict: the latest known checkpoint has another size or root")]
    Conflict {
        /// Number of records in the latest checkpoint of the witness; 0 for none.
        size: u64,
    },
    /// The proof does not show that the checkpoint continues from the latest one.
    #[error("the consistency proof does not verify")]
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

    /// HTTP status of the witness's answer. The body of a 409 is the size in decimal and a newline.
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

countersign_core::coded!(WitnessRefusal);

/// State of a witness for one log: the log's key and the latest checkpoint.
///
/// This is a plain value. The witness must store the checkpoint that [`check`](Self::check) returns, atomically with
/// the check and before it calls [`cosign`](crate::cosign); otherwise two concurrent requests could roll the log back.
///
/// ```
/// use countersign_tlog::{AddCheckpoint, Checkpoint, LogKey, WitnessRefusal, WitnessedLog};
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
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
    /// Builds the state from a log's key and latest checkpoint; `None` for a log that was never seen.
    #[must_use]
    pub const fn new(key: LogKey, latest: Option<Checkpoint>) -> Self {
        Self { key, latest }
    }

    /// Key of the log.
    #[must_use]
    pub const fn key(&self) -> &LogKey {
        &self.key
    }

    /// Latest checkpoint.
    #[must_use]
    pub const fn latest(&self) -> Option<&Checkpoint> {
        self.latest.as_ref()
    }

    /// Verifies that this checkpoint belongs to the log and continues from the latest one. Returns the checkpoint,
    /// which the caller then stores as the latest and cosigns.
    ///
    /// # Errors
    /// [`WitnessRefusal`] if it does not, in the order of C2SP tlog-witness.
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
                    // Two roots of one size are a fork, not a failed proof.
                    let forked = error == ProofError::Root && size == new.size();
                    if forked { WitnessRefusal::Conflict { size } } else { WitnessRefusal::Proof }
                })?;
            }
            // Every tree continues from the empty one, without any hash.
            Some(_) | None if request.proof.is_empty() => {}
            Some(_) | None => return Err(WitnessRefusal::Proof),
        }
        Ok(new)
    }
}
