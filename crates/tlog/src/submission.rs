use std::fmt;

use crate::note::{NoteError, SignedNote};
use countersign_merkle::{ConsistencyProof, MerkleTree};

use crate::checkpoint::parse_decimal;
use crate::cosignature::signer_of;
use crate::{AddCheckpoint, Checkpoint, CheckpointError, LogKey, WitnessKey, WitnessRefusal};

/// Most bytes of a witness's answer that are accepted. A cosignature takes less than 500 bytes, so this leaves room for
/// those of sixteen other types, the largest in use included.
pub const MAX_WITNESS_ANSWER_BYTES: usize = 64 << 10;

/// Reason why there is no cosignature of a witness. Never contains the witness's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmissionError {
    /// The note is not a checkpoint of the log.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The tree has another root at the checkpoint's size, or there was no proof from another size to it.
    #[error("root mismatch: the tree does not match the checkpoint")]
    Tree,
    /// The witness does not cosign. [`WitnessRefusal::Proof`], and [`WitnessRefusal::Conflict`] with the size that was
    /// sent, mean that it has another history of the log: one of the two was forked or is wrong.
    #[error(transparent)]
    Refused(#[from] WitnessRefusal),
    /// The witness has a checkpoint of more records than this log has: the log's end was cut, an older copy was
    /// restored, or a later checkpoint was sent to the witness from elsewhere.
    #[error("log behind the witness: it knows a larger checkpoint")]
    Ahead,
    /// The witness has a checkpoint of fewer records than it cosigned before.
    #[error("witness rolled back: its checkpoint is older than its last cosignature")]
    Forgot,
    /// The witness's latest checkpoint changed between two requests.
    #[error("concurrent update: the witness received another checkpoint of the log")]
    Busy,
    /// The answer has a status that the protocol does not define.
    #[error("unexpected HTTP status from the witness")]
    Status,
    /// The answer is too long, or its body does not fit its status.
    #[error("malformed response from the witness")]
    Answer,
    /// The answer has no cosignature by the witness's key.
    #[error("no cosignature by the witness's key in its response")]
    Key,
    /// The cosignature does not verify for the checkpoint.
    #[error("the cosignature of the witness does not verify")]
    Signature,
}

impl SubmissionError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(error) => error.code(),
            Self::Tree => "WITNESS_TREE",
            Self::Refused(refusal) => refusal.code(),
            Self::Ahead => "WITNESS_AHEAD",
            Self::Forgot => "WITNESS_FORGOT",
            Self::Busy => "WITNESS_BUSY",
            Self::Status => "WITNESS_STATUS",
            Self::Answer => "WITNESS_ANSWER",
            Self::Key => "WITNESS_KEY",
            Self::Signature => "WITNESS_SIGNATURE",
        }
    }
}

countersign_core::coded!(SubmissionError);

/// Builds the requests to one witness and verifies its answers (C2SP tlog-witness, `add-checkpoint`). It sends nothing.
/// A caller with a connection posts [`body`](Self::body) and passes the answer to [`answer`](Self::answer); if that
/// returns `None`, the caller does so once more.
///
/// A refusal is unsigned, and only as trustworthy as the connection. A cosignature is verified.
///
/// ```
/// use countersign_tlog::{AddCheckpoint, Checkpoint, LogKey, Submission, WitnessKey, WitnessedLog, cosign};
/// use countersign_core::Timestamp;
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// use countersign_merkle::{LeafHash, MerkleTree};
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let (name, theirs) = (KeyName::new("witness.example")?, SigningKey::from_seed([8; 32]));
/// let log = LogKey::new(origin.clone(), key.verifying_key());
/// let tree: MerkleTree = [b"a", b"b", b"c"].map(|entry| LeafHash::of(entry)).into_iter().collect();
/// let note = Checkpoint::new(origin, tree.head()).sign(&key);
/// let witness = WitnessKey::new(name.clone(), theirs.verifying_key());
/// let mut asked = Submission::new(&tree, &note, &log, &witness, 0)?;
/// // At the witness, which sees the log for the first time:
/// let seen = WitnessedLog::new(log.clone(), None).check(&AddCheckpoint::from_body(&asked.body())?)?;
/// let line = cosign(&seen, &name, &theirs, Timestamp::EPOCH);
/// assert_eq!(asked.answer(200, line.as_bytes())?, Some(line));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Submission<'a> {
    /// Proves that the checkpoint continues from the given size.
    prove: Box<dyn FnMut(u64) -> Option<ConsistencyProof> + 'a>,
    note: &'a str,
    witness: &'a WitnessKey,
    size: u64,
    cosigned: u64,
    request: AddCheckpoint,
    turn: Exchange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    First,
    Last,
}

impl fmt::Debug for Submission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<'a> Submission<'a> {
    /// Builds the first request. `cosigned` is the size of the latest checkpoint that the witness is known to have
    /// cosigned, by a verified cosignature of its own; 0 if there is none, which costs one more request.
    ///
    /// # Errors
    /// [`SubmissionError::Checkpoint`]; [`SubmissionError::Tree`] if the tree has another root at the checkpoint's
    /// size, or is smaller; [`SubmissionError::Ahead`] if the witness cosigned more than the checkpoint counts.
    pub fn new(
        tree: &'a MerkleTree,
        note: &'a str,
        log: &LogKey,
        witness: &'a WitnessKey,
        cosigned: u64,
    ) -> Result<Self, SubmissionError> {
        let checkpoint = Checkpoint::verify(note, log)?;
        let size = checkpoint.size();
        if tree.head_at(size).ok().as_ref() != Some(checkpoint.head()) {
            return Err(SubmissionError::Tree);
        }
        let prove = move |old| tree.prove_consistency_at(old, size).ok();
        Self::with_proofs(prove, note, log, witness, cosigned)
    }

    /// As [`new`](Self::new), with a function instead of the tree, for a caller that reads proofs out of a log's files. The
    /// function proves that the checkpoint continues from a size.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`SubmissionError::Tree`] also if there is no such proof.
    pub fn with_proofs(
        mut prove: impl FnMut(u64) -> Option<ConsistencyProof> + 'a,
        note: &'a str,
        log: &LogKey,
        witness: &'a WitnessKey,
        cosigned: u64,
    ) -> Result<Self, SubmissionError> {
        let size = Checkpoint::verify(note, log)?.size();
        if cosigned > size {
            return Err(SubmissionError::Ahead);
        }
        let request = request(&mut prove, note, cosigned, size)?;
        Ok(Self { prove: Box::new(prove), note, witness, size, cosigned, request, turn: Exchange::First })
    }

    /// Body of the request.
    #[must_use]
    pub fn body(&self) -> String {
        self.request.to_body()
    }

    /// Verifies the answer to the request: its status, and its body of at most [`MAX_WITNESS_ANSWER_BYTES`]. Returns
    /// the witness's cosignature as a line for [`attach_cosignatures`](crate::attach_cosignatures), the latest of
    /// several. Returns `None`, at most once, if the witness is at another size: the request has changed and has to be
    /// sent again.
    ///
    /// # Errors
    /// [`SubmissionError`] if the witness does not cosign, or its answer is invalid.
    pub fn answer(&mut self, status: u16, body: &[u8]) -> Result<Option<String>, SubmissionError> {
        let text = || std::str::from_utf8(body).map_err(|_| SubmissionError::Answer);
        if body.len() > MAX_WITNESS_ANSWER_BYTES {
            return Err(SubmissionError::Answer);
        }
        match status {
            200 => self.cosignature(text()?).map(Some),
            400 => Err(WitnessRefusal::Malformed.into()),
            403 => Err(WitnessRefusal::Unsigned.into()),
            404 => Err(WitnessRefusal::UnknownLog.into()),
            409 => {
                let size =
                    text()?.strip_suffix('\n').and_then(parse_decimal).ok_or(SubmissionError::Answer)?;
                self.again(size).map(|()| None)
            }
            422 => Err(WitnessRefusal::Proof.into()),
            _ => Err(SubmissionError::Status),
        }
    }

    /// Returns the line by the witness's key. Ignores lines of other keys.
    fn cosignature(&self, lines: &str) -> Result<String, SubmissionError> {
        let text = SignedNote::parse(self.note).map_err(CheckpointError::Note)?.unverified_text();
        let keys = std::slice::from_ref(self.witness.verifier_key());
        let mut latest = None;
        for line in lines.split_inclusive('\n') {
            let signer = signer_of(text, line, keys).map_err(|error| {
                if error == NoteError::Signature {
                    SubmissionError::Signature
                } else {
                    SubmissionError::Answer
                }
            })?;
            if let Some(signer) = signer {
                latest = latest.max(Some((signer.seconds, line)));
            }
        }
        latest.map(|(_, line)| line.to_owned()).ok_or(SubmissionError::Key)
    }

    /// Prepares the request from the size that the witness reports.
    fn again(&mut self, size: u64) -> Result<(), SubmissionError> {
        let sent = self.request.old_size();
        if size > self.size {
            return Err(SubmissionError::Ahead);
        }
        if size < self.cosigned {
            return Err(SubmissionError::Forgot);
        }
        if size == sent {
            // The size that was sent. Unless the roots of that size differ, there is no conflict.
            let forked = size == self.size;
            return Err(if forked {
                WitnessRefusal::Conflict { size }.into()
            } else {
                SubmissionError::Answer
            });
        }
        if self.turn == Exchange::Last {
            return Err(SubmissionError::Busy);
        }
        self.request = request(&mut *self.prove, self.note, size, self.size)?;
        self.turn = Exchange::Last;
        Ok(())
    }
}

fn request(
    prove: &mut dyn FnMut(u64) -> Option<ConsistencyProof>,
    note: &str,
    old: u64,
    size: u64,
) -> Result<AddCheckpoint, SubmissionError> {
    if old == 0 {
        return AddCheckpoint::first(note).map_err(|error| CheckpointError::Note(error).into());
    }
    let is_due = |proof: &ConsistencyProof| proof.old_size() == old && proof.new_size() == size;
    let proof = prove(old).filter(is_due).ok_or(SubmissionError::Tree)?;
    AddCheckpoint::new(&proof, note).map_err(|error| CheckpointError::Note(error).into())
}
