use countersign_canonical_json::{Canonical, Limits, Recipe, read, to_canonical};
use countersign_merkle::{InclusionProof, LeafHash, NodeHash, ProofError, verify_inclusion};

use crate::read::parse_line;
use crate::{
    CallRecord, Checkpoint, CheckpointError, Cosignature, LogKey, Record, WitnessKey, WitnessedCheckpoint,
    base64,
};

/// The most bytes that a receipt has.
pub const MAX_RECEIPT_BYTES: usize = 1 << 20;

/// What a receipt of this form begins to say of itself.
const FORM: &str = "countersign-receipt-1";

/// The highest index that a receipt can name, so that every reader of JSON has it exactly.
const MAX_INDEX: u64 = (1 << 53) - 1;

/// The most hashes of an inclusion proof.
const MAX_PROOF: usize = 63;

/// Why a receipt cannot be read or does not hold. Never holds any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// Not a JSON object of just the members of a receipt.
    #[error("the receipt is malformed")]
    Malformed,
    /// The members of a receipt in JSON that is not canonical, as a pretty-printer writes it. Nothing was verified.
    #[error("receipt not in canonical JSON (RFC 8785): it was formatted anew")]
    Spelling,
    /// The receipt is longer than [`MAX_RECEIPT_BYTES`].
    #[error("the receipt is too long")]
    TooLong,
    /// The checkpoint is none, or is not the log's.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint has signatures of others than the log and the witnesses that are known, or has one twice.
    #[error("the checkpoint of the receipt has a signature of nobody known, or one twice")]
    Stranger,
    /// Fewer of the known witnesses cosigned the checkpoint than have to.
    #[error("the checkpoint of the receipt is cosigned by too few witnesses")]
    Quorum,
    /// The proof does not lead from the record to the checkpoint.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// What is in the log at that place is not a record that this version reads, or says that it is another one.
    #[error("the receipt holds no record with the sequence number of its place")]
    Record,
}

impl ReceiptError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "RECEIPT_MALFORMED",
            Self::Spelling => "RECEIPT_SPELLING",
            Self::TooLong => "RECEIPT_TOO_LONG",
            Self::Checkpoint(error) => error.code(),
            Self::Stranger => "RECEIPT_STRANGER",
            Self::Quorum => "RECEIPT_QUORUM",
            Self::Proof(error) => error.code(),
            Self::Record => "RECEIPT_RECORD",
        }
    }
}

/// Holds the proof that one record is in a log: the record's line as it was written, the hashes from it to a root, and a
/// checkpoint with that root. Who has the log's public key needs nothing else, and no connection to anything.
///
/// Its text form is canonical JSON (RFC 8785, recipe `jcs-1`), and no byte of it can be changed unseen: each is in what is
/// hashed, or signed, or has one spelling. Only cosignatures can be left out or be in another order. One newline ends it;
/// a reader takes any JSON whitespace there, or nothing, since programs that pass text on add and strip it.
///
/// A receipt says what the log holds, for an accepted call as for a refused one. It does not say that the log's owner
/// shows everybody the same log; cosignatures of witnesses do ([`verify_witnessed`](Self::verify_witnessed)).
///
/// ```
/// use countersign_audit_log::{Checkpoint, LogKey, Receipt};
/// use countersign_keys::{SigningKey, note::KeyName};
/// use countersign_merkle::{LeafHash, MerkleTree};
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let line = br#"{"seq":1,"type":"gateway","time":0,"direction":"to_server","code":"MALFORMED_CALL"}"#;
/// let tree: MerkleTree = [LeafHash::of(line)].into_iter().collect();
/// let note = Checkpoint::new(origin.clone(), tree.head()).sign(&key);
/// let receipt = Receipt::new(line, &tree.prove_inclusion(0)?, &note)?;
/// let read = Receipt::from_json(receipt.to_json().as_bytes())?;
/// assert_eq!(read.verify(&LogKey::new(origin, key.verifying_key()))?.sequence(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    json: String,
    record: String,
    index: u64,
    proof: Vec<NodeHash>,
    checkpoint: String,
}

impl Receipt {
    /// Puts a receipt together from a line of the log without its newline, the proof of it, and the note of the checkpoint
    /// that the proof leads to. Whether they belong together is for [`verify`](Self::verify) to say.
    ///
    /// # Errors
    /// [`ReceiptError::TooLong`]; [`ReceiptError::Malformed`] when the line is not UTF-8 or the index is 2^53 or above.
    pub fn new(line: &[u8], proof: &InclusionProof, note: &str) -> Result<Self, ReceiptError> {
        let line = std::str::from_utf8(line).map_err(|_| ReceiptError::Malformed)?;
        if proof.index() > MAX_INDEX {
            return Err(ReceiptError::Malformed);
        }
        let wire = Wire {
            checkpoint: note.to_owned(),
            index: proof.index(),
            proof: proof.path().iter().map(|hash| base64::encode(hash.as_bytes())).collect(),
            receipt: FORM.to_owned(),
            record: line.to_owned(),
        };
        let mut json = to_canonical(&wire).map_err(|_| ReceiptError::Malformed)?.as_str().to_owned();
        json.push('\n');
        if json.len() > MAX_RECEIPT_BYTES {
            return Err(ReceiptError::TooLong);
        }
        let (record, index, checkpoint) = (wire.record, wire.index, wire.checkpoint);
        Ok(Self { json, record, index, proof: proof.path().to_vec(), checkpoint })
    }

    /// Reads a receipt, without the whitespace behind it.
    ///
    /// # Errors
    /// [`ReceiptError::TooLong`], [`ReceiptError::Malformed`], [`ReceiptError::Spelling`].
    pub fn from_json(json: &[u8]) -> Result<Self, ReceiptError> {
        if json.len() > MAX_RECEIPT_BYTES {
            return Err(ReceiptError::TooLong);
        }
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let end = json.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last.saturating_add(1));
        let body = json.get(..end).unwrap_or_default();
        let canonical = read(body, Recipe::Jcs1, &Limits::default()).map_err(|_| ReceiptError::Malformed)?;
        let receipt = Self::of_members(&canonical).ok_or(ReceiptError::Malformed)?;
        if canonical.bytes() == body { Ok(receipt) } else { Err(ReceiptError::Spelling) }
    }

    fn of_members(canonical: &Canonical) -> Option<Self> {
        let wire: Wire = serde::Deserialize::deserialize(canonical.value()).ok()?;
        if wire.receipt != FORM || wire.index > MAX_INDEX || wire.proof.len() > MAX_PROOF {
            return None;
        }
        let hash = |text: &String| base64::decode_hash(text).map(NodeHash::from_digest);
        let proof = wire.proof.iter().map(hash).collect::<Option<_>>()?;
        let json = format!("{}\n", canonical.as_str());
        Some(Self { json, record: wire.record, index: wire.index, proof, checkpoint: wire.checkpoint })
    }

    /// The receipt as text, its newline included.
    #[must_use]
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// The note of the checkpoint, on nobody's word: for finding out which log's key is needed.
    #[must_use]
    pub fn unverified_checkpoint(&self) -> &str {
        &self.checkpoint
    }

    /// Verifies it with the log's key alone. A checkpoint that others signed too is not taken: their signatures could not
    /// be verified here, and so could be changed.
    ///
    /// # Errors
    /// [`ReceiptError`] when it does not hold.
    pub fn verify(&self, log: &LogKey) -> Result<VerifiedReceipt, ReceiptError> {
        self.verify_witnessed(log, &[], 0)
    }

    /// Verifies it with the log's key and the keys of witnesses: of all those at least that cosigned its checkpoint. As many of
    /// them have to have cosigned as `quorum` says, each public key counted once.
    ///
    /// # Errors
    /// [`ReceiptError`] when it does not hold.
    pub fn verify_witnessed(
        &self,
        log: &LogKey,
        witnesses: &[WitnessKey],
        quorum: usize,
    ) -> Result<VerifiedReceipt, ReceiptError> {
        let witnessed = WitnessedCheckpoint::verify(&self.checkpoint, log, witnesses)?;
        if witnessed.strangers() > 0 {
            return Err(ReceiptError::Stranger);
        }
        if witnessed.witnesses() < quorum {
            return Err(ReceiptError::Quorum);
        }
        let leaf = LeafHash::of(self.record.as_bytes());
        verify_inclusion(&leaf, self.index, witnessed.checkpoint().head(), &self.proof)?;
        let (sequence, record) = parse_line(self.record.as_bytes()).ok_or(ReceiptError::Record)?;
        // A leaf that says its own place, so that the proof is not all there is to say it.
        if self.index.checked_add(1) != Some(sequence) {
            return Err(ReceiptError::Record);
        }
        Ok(VerifiedReceipt { sequence, record, line: self.record.clone(), witnessed })
    }
}

/// A receipt as it travels.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    checkpoint: String,
    index: u64,
    proof: Vec<String>,
    receipt: String,
    record: String,
}

/// Holds a record that is in a log. Only [`Receipt::verify`] and [`Receipt::verify_witnessed`] give one.
///
/// Registry version, goal, plan, approval and evidence of a decision are in the record itself ([`CallRecord`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedReceipt {
    sequence: u64,
    record: Record,
    line: String,
    witnessed: WitnessedCheckpoint,
}

impl VerifiedReceipt {
    /// The record's sequence number, from 1.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The record.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// The decision, where the record is one.
    #[must_use]
    pub const fn decision(&self) -> Option<&CallRecord> {
        if let Record::Decision(call) = &self.record { Some(call) } else { None }
    }

    /// The record's line, as it is in the log.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The checkpoint under which it was verified.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        self.witnessed.checkpoint()
    }

    /// The cosignatures of known witnesses on that checkpoint.
    #[must_use]
    pub fn cosignatures(&self) -> &[Cosignature] {
        self.witnessed.cosignatures()
    }
}
