//! The record: one line for every decision, outcome, session and refused message, in a sink that keeps it.
//!
//! A record goes in through [`AuditSink::record`], which returns its sequence number once it is kept and an error
//! otherwise; whoever asked then refuses. [`MemorySink`] keeps the latest records of this process, [`FileSink`]
//! writes JSON lines and syncs each one before it answers. [`read_lines`] and [`verify`] read such a file back.
//!
//! What it does not do: it decides nothing, reads no clock, holds no argument values (digests only) and proves
//! nothing to somebody who does not trust the machine that wrote the file. Whoever can write the file can rewrite it;
//! [`verify`] finds accidents, not forgers.

mod error;
mod file;
mod memory;
mod proposal;
mod read;
mod record;
mod sink;
mod tail;
mod text;

#[cfg(test)]
mod tests;

pub use error::{AuditError, ReadError};
pub use file::FileSink;
pub use memory::MemorySink;
pub use proposal::{EvidenceKind, EvidenceRecord, ProposalRecord};
pub use read::{Lines, Summary, read_lines, verify};
pub use record::{
    CallRecord, ClaimsRecord, Direction, GatewayRecord, OutcomeKind, OutcomeRecord, Record, RecordedTool,
    SessionRecord, Verdict,
};
pub use sink::AuditSink;
pub use text::{Escaped, EscapedError};
