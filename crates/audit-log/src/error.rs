use std::io;
use std::sync::Arc;

use crate::{LogError, LogStateError};

/// Reason why a sink could not keep a record, or could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The sink's storage cannot be reached.
    #[error("the record cannot be opened")]
    Unavailable(#[source] io::Error),
    /// Another writer has the sink.
    #[error("the record is in use by another writer")]
    Locked,
    /// A file changed while this writer used it, and cannot be continued.
    #[error("the record is damaged at byte {at}, left unchanged")]
    Corrupt {
        /// Offset of the first wrong byte.
        at: u64,
    },
    /// The path no longer leads to the open file, which was moved, deleted or replaced. No reader would find records
    /// written to that file. The sink refuses everything until the file is back.
    #[error("the record was moved or replaced")]
    Replaced,
    /// The file `lock` is no longer the file that this writer locked, so a second writer could start. The sink refuses
    /// everything until the file is back.
    #[error("the file `lock` of the record was deleted or replaced")]
    LockReplaced,
    /// Writing or syncing failed. The record may have been kept; the next record tries again.
    #[error("the record cannot be written")]
    Write(#[source] io::Error),
    /// The record is longer than a line may be. Nothing was written.
    #[error("the record exceeds the line limit")]
    TooLong,
    /// An earlier write or sync failed, and no later record has reopened the log.
    #[error("an earlier write failed, and the record was not reopened")]
    Poisoned,
    /// The log does not continue from its state: it was deleted, cut, replaced by an older copy or swapped. It is left
    /// unchanged.
    #[error(
        "the log does not extend its state `{state}`: restore the log, or close what is left with \
         `countersign audit retire` and continue under another origin (docs/runbook.md)"
    )]
    NotContinued {
        /// File that holds the state.
        state: String,
        /// How log and state differ.
        source: Box<LogError>,
    },
    /// The log's state cannot be used, and the log is not opened without it.
    #[error("the log's state `{state}`")]
    State {
        /// File that holds the state.
        state: String,
        /// The reason.
        source: LogStateError,
    },
    /// The origin of a new log is that of another log's numbered log, and two logs under one origin are a fork.
    #[error(
        "the origin `{origin}` is that of a numbered log of `{first}`, which the state `{state}` knows: choose another"
    )]
    Origin {
        /// The new log's origin.
        origin: String,
        /// Origin of the other log.
        first: String,
        /// File that holds the state.
        state: String,
    },
    /// The folder has a closing note, so no log in it may continue.
    #[error(
        "the log was closed: run `countersign audit retire` again to finish closing it, or name the folder of its successor \
         (docs/runbook.md)"
    )]
    Closed,
    /// The log does not verify. It is left unchanged.
    #[error("{}", way_on(.0))]
    Log(#[source] Box<LogError>),
    /// Entries from before the log was opened do not verify. This was found after the log was opened.
    #[error(
        "older entries of the log do not verify: restore the log, or close it with `countersign audit retire` and continue \
         under another origin (docs/runbook.md)"
    )]
    Older(#[source] Arc<LogError>),
}

/// Returns advice for an operator whose log is not opened.
fn way_on(error: &LogError) -> &'static str {
    if matches!(error, LogError::Archived { .. }) {
        "the kept checkpoint is older than the first segment of the log (docs/runbook.md)"
    } else if matches!(error, LogError::Known(_)) {
        "the kept checkpoint belongs to another log (docs/runbook.md)"
    } else {
        "the log cannot be continued: restore it, or close it with `countersign audit retire` and continue under \
         another origin (docs/runbook.md)"
    }
}

impl AuditError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "AUDIT_UNAVAILABLE",
            Self::Locked => "AUDIT_LOCKED",
            Self::Closed => "AUDIT_CLOSED",
            Self::Origin { .. } => "AUDIT_ORIGIN",
            Self::Corrupt { .. } => "AUDIT_CORRUPT",
            Self::Replaced | Self::LockReplaced => "AUDIT_REPLACED",
            Self::Write(_) | Self::TooLong => "AUDIT_WRITE",
            Self::Poisoned => "AUDIT_POISONED",
            Self::Older(error) => error.code(),
            Self::Log(error) | Self::NotContinued { source: error, .. } => error.code(),
            Self::State { source, .. } => source.code(),
        }
    }
}

countersign_core::coded!(AuditError);

impl From<LogError> for AuditError {
    fn from(error: LogError) -> Self {
        if let LogError::Io(error) = error { Self::Unavailable(error) } else { Self::Log(Box::new(error)) }
    }
}
