//! Audit log: one line for every decision, outcome, session and refused message, in a sink that keeps it. Refusals
//! beyond a rate are counted in one line ([`RefusedRecord`]).
//!
//! [`AuditSink::record`] adds a record. It returns the sequence number once the record is kept, and an error otherwise;
//! the caller must then refuse. [`Log`] keeps records durably in a folder, under signed checkpoints of a Merkle
//! tree. [`verify_log`] verifies the whole log, [`read_log`] reads it, and [`prove_inclusion`] and
//! [`prove_consistency`] prove it. [`MemorySink`] keeps the latest records of this process and the tree of all of them.
//! [`Submission`] has a witness cosign a checkpoint. A [`Receipt`] proves one record to a reader that has only public
//! keys.
//!
//! The crate decides nothing, reads no clock, and stores no argument values except those that an operator named. A
//! holder of the signing key can write another log, and a writer of the folder can cut its end: a checkpoint kept
//! elsewhere reveals both.

mod answer;
mod archive;
mod call_record;
mod call_record_ref;
mod closing;
mod decision_line;
mod disk;
mod error;
mod folder_disk;
mod gap_record;
mod joined_disk;
mod line;
mod log;
mod log_behind;
mod log_error;
mod log_files;
mod log_number;
mod log_prover;
mod log_read;
mod log_state;
mod log_verify;
mod memory_sink;
mod proposal;
mod receipt;
mod record;
mod refused;
mod retire;
mod segment;
mod session_record;
mod side_files;
mod sink;
mod text;
mod value;

#[cfg(test)]
mod tests;

pub use countersign_core::Signal;
pub use countersign_tlog::{
    AddCheckpoint, Checkpoint, CheckpointError, Cosignature, LogKey, MAX_WITNESS_ANSWER_BYTES, Submission,
    SubmissionError, TileWriter, TilesError, WitnessKey, WitnessRefusal, WitnessedCheckpoint, WitnessedLog,
    attach_cosignatures, cosign, full_tiles,
};

pub use answer::{AnswerRecord, AnswerVerdict};
pub use archive::{ArchiveBefore, ArchiveError, Archived, archive_log};
pub use call_record::{CallRecord, CoApproval, RecordedTool, Verdict};
pub use call_record_ref::{CallOrigin, CallRecordRef, KnownTool, OriginRef, ToolRef};
pub use closing::{ClosedLog, ClosingError, ClosingNote, unsummed_names, verify_closing};
pub use decision_line::DecisionLine;
pub use disk::{Disk, DiskFile};
pub use error::AuditError;
pub use folder_disk::FolderDisk;
pub use gap_record::{GapRecord, GapRow, UnrecordedAnswer};
pub use joined_disk::JoinedDisk;
pub use log::{CutBytes, Durability, Log, LogOptions, LogStart, Pending};
pub use log_behind::{LogBehind, read_log_behind};
pub use log_error::LogError;
pub use log_files::FileSum;
pub use log_number::{LogNumber, OpenLogError, key_of_log, list_logs, signed_key};
pub use log_prover::{LogProver, VerifiedEntries, prove_consistency, prove_inclusion};
pub use log_read::{LogEntries, LogEntry, read_disk, read_log};
pub use log_state::{KnownLog, LogStateError, LogStateFile, LogStates};
pub use log_verify::{LogSummary, verify_disk, verify_log};
pub use memory_sink::MemorySink;
pub use proposal::{EvidenceKind, EvidenceRecord, ProposalRecord};
pub use receipt::{MAX_RECEIPT_BYTES, Receipt, ReceiptError, VerifiedReceipt};
pub use record::{
    ArchivedRecord, BeganRecord, OutcomeBy, OutcomeKind, OutcomeRecord, Record, RecoveredRecord,
    SignalRecord, StandingChange, StandingRecord,
};
pub use refused::{Direction, GatewayRecord, RefusedRecord, RefusedRow, SeenSums};
pub use retire::{RetireError, RetireWhich, Retired, interrupted_retirement, retire_log};
pub use segment::Place;
pub use session_record::{ClaimsRecord, EndReason, EndRecord, Instructions, ServerRecord, SessionRecord};
pub use side_files::{RebuiltSide, place_before_end};
pub use sink::{AuditSink, SubmittedDecision};
pub use text::{Escaped, EscapedError, EscapedRef};
pub use value::{RecordedValue, RecordedValues, RecordedValuesError};
