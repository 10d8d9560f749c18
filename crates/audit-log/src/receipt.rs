use countersign_canonical_json::{Canonical, Limits, Recipe, read, to_canonical};
use countersign_merkle::{InclusionProof, LeafHash, NodeHash, ProofError, verify_inclusion};
use countersign_tlog::base64;

use crate::line::parse_line;
use crate::{
    CallRecord, Checkpoint, CheckpointError, Cosignature, LogKey, Record, WitnessKey, WitnessedCheckpoint,
};

/// Most bytes of a receipt.
pub const MAX_RECEIPT_BYTES: usize = 1 << 20;

/// Format name in a receipt.
const FORM: &str = "countersign-receipt-1";

/// Highest index that a receipt can name: every JSON reader represents it exactly.
const MAX_INDEX: u64 = (1 << 53) - 1;

/// Most hashes of an inclusion proof.
const MAX_PROOF: usize = 63;

/// Reason why a receipt cannot be read or does not verify. Never contains any of the receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// Not a JSON object with exactly the members of a receipt.
    #[error("the receipt is malformed")]
    Malformed,
    /// JSON with the members of a receipt, but not canonical, for example written by a pretty-printer. Nothing was
    /// verified.
    #[error("receipt not in canonical JSON (RFC 8785): it was reformatted")]
    Spelling,
    /// The receipt is longer than [`MAX_RECEIPT_BYTES`].
    #[error("the receipt is too long")]
    TooLong,
    /// The checkpoint cannot be read, or is not the log's.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint has a signature by a key other than the log's and the known witnesses', or has one twice.
    #[error("unknown or duplicate signature on the checkpoint of the receipt")]
    Stranger,
    /// Too few of the known witnesses cosigned the checkpoint.
    #[error("too few witness cosignatures on the checkpoint of the receipt")]
    Quorum,
    /// The proof does not lead from the record to the checkpoint.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The log's entry at that index is not a record that this version reads, or has another sequence number.
    #[error("sequence number of the record does not match its index in the receipt")]
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

countersign_core::coded!(ReceiptError);

/// Proof that one record is in a log: the record's line as written, the hashes from it to a root, and a checkpoint with
/// that root. A verifier needs only the log's public key, and no connection.
///
/// Its text form is canonical JSON (RFC 8785, recipe `jcs-1`). Every changed byte is detected, because each is hashed,
/// signed, or has only one spelling. Only cosignatures can be left out or reordered. The text ends with one newline. A
/// reader accepts any JSON whitespace there, or none, because programs that forward text add and strip it.
///
/// A receipt shows what the log holds, for accepted and for refused calls. It does not show that every reader sees the
/// same log; cosignatures of witnesses do ([`verify_witnessed`](Self::verify_witnessed)).
///
/// ```
/// use countersign_audit_log::{Checkpoint, LogKey, Receipt};
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
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
    /// Builds a receipt from a line of the log without its newline, its inclusion proof, and the note of the checkpoint
    /// that the proof leads to. [`verify`](Self::verify) checks that they belong together.
    ///
    /// # Errors
    /// [`ReceiptError::TooLong`]; [`ReceiptError::Malformed`] if the line is not UTF-8, or the index is 2^53 or above.
    pub fn new(line: &[u8], proof: &InclusionProof, note: &str) -> Result<Self, ReceiptError> {
        let line = std::str::from_utf8(line).map_err(|_| ReceiptError::Malformed)?;
        if proof.index() > MAX_INDEX {
            return Err(ReceiptError::Malformed);
        }
        let wire = WireReceipt {
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

    /// Parses a receipt. Ignores whitespace after it.
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
        let wire: WireReceipt = serde::Deserialize::deserialize(canonical.value()).ok()?;
        if wire.receipt != FORM || wire.index > MAX_INDEX || wire.proof.len() > MAX_PROOF {
            return None;
        }
        let hash = |text: &String| base64::decode_hash(text).map(NodeHash::from_digest);
        let proof = wire.proof.iter().map(hash).collect::<Option<_>>()?;
        let json = format!("{}\n", canonical.as_str());
        Some(Self { json, record: wire.record, index: wire.index, proof, checkpoint: wire.checkpoint })
    }

    /// The receipt as text, newline included.
    #[must_use]
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// Returns the checkpoint's note, unverified, to find out which log's key is needed.
    #[must_use]
    pub fn unverified_checkpoint(&self) -> &str {
        &self.checkpoint
    }

    /// Verifies the receipt with only the log's key. Refuses a checkpoint with other signatures: they could not be
    /// verified here, and so could be changed.
    ///
    /// # Errors
    /// [`ReceiptError`] if it does not verify.
    pub fn verify(&self, log: &LogKey) -> Result<VerifiedReceipt, ReceiptError> {
        self.verify_witnessed(log, &[], 0)
    }

    /// Verifies the receipt with the log's key and the keys of witnesses, which must include all that cosigned its
    /// checkpoint. At least `quorum` of them must have cosigned; each public key counts once.
    ///
    /// # Errors
    /// [`ReceiptError`] if it does not verify.
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
        // The leaf states its own place, so the proof is not the only evidence of it.
        if self.index.checked_add(1) != Some(sequence) {
            return Err(ReceiptError::Record);
        }
        Ok(VerifiedReceipt { sequence, record, line: self.record.clone(), witnessed })
    }
}

/// Wire form of a receipt.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireReceipt {
    checkpoint: String,
    index: u64,
    proof: Vec<String>,
    receipt: String,
    record: String,
}

/// Record that is in a log. Only [`Receipt::verify`] and [`Receipt::verify_witnessed`] return one.
///
/// A decision's registry version, goal, plan, approval and evidence are in the record itself ([`CallRecord`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedReceipt {
    sequence: u64,
    record: Record,
    line: String,
    witnessed: WitnessedCheckpoint,
}

impl VerifiedReceipt {
    /// Sequence number of the record, from 1.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The record.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the decision, if the record is one.
    #[must_use]
    pub const fn decision(&self) -> Option<&CallRecord> {
        if let Record::Decision(call) = &self.record { Some(call) } else { None }
    }

    /// The record's line, as in the log.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Checkpoint under which the record was verified.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        self.witnessed.checkpoint()
    }

    /// Cosignatures of known witnesses on that checkpoint.
    #[must_use]
    pub fn cosignatures(&self) -> &[Cosignature] {
        self.witnessed.cosignatures()
    }
}
