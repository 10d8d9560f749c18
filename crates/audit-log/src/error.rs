use std::io;
use std::sync::Arc;

use crate::{LogError, LogStateError};

/// Why a sink could not keep a record, or could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The place where records go cannot be reached.
    #[error("the record cannot be opened")]
    Unavailable(#[source] io::Error),
    /// Another writer has it.
    #[error("the record is in use by another writer")]
    Locked,
    /// What a file has become under this writer's hands cannot be continued.
    #[error("the record is damaged at byte {at}, and is left as it is")]
    Corrupt {
        /// Where the first byte lies that should not be there.
        at: u64,
    },
    /// The path no longer leads to the file that was opened, which was moved, deleted or replaced: what is written to it
    /// would not be found. The sink refuses everything until it is back.
    #[error("the record was moved away or replaced")]
    Replaced,
    /// The file `lock` no longer is the one that this writer has locked, so that another can write too. The sink refuses
    /// everything until it is back.
    #[error("the file `lock` of the record was deleted or replaced")]
    LockReplaced,
    /// Writing or syncing failed. The record may be kept or not, and the next one is tried anew.
    #[error("the record cannot be written")]
    Write(#[source] io::Error),
    /// The record is longer than a line may be; nothing was written.
    #[error("the record is longer than a line may be")]
    TooLong,
    /// An earlier write or sync failed, and no record came since that could have opened the log anew.
    #[error("an earlier write failed, and the record was not opened anew since")]
    Poisoned,
    /// The log does not go on from its state: it was deleted, cut, replaced by an older copy or swapped. It is left as it is.
    #[error(
        "the log does not go on from its state `{state}`: put it back as it was, or retire what is left with \
         `countersign audit retire` and go on under another origin (docs/runbook.md)"
    )]
    NotContinued {
        /// The file that keeps the state.
        state: String,
        /// The difference.
        source: Box<LogError>,
    },
    /// The log's state cannot be used, and the log is not opened without it.
    #[error("the log's state `{state}`")]
    State {
        /// The file that keeps the state.
        state: String,
        /// The reason.
        source: LogStateError,
    },
    /// The folder has a closing note, so that no log in it goes on.
    #[error(
        "the log was closed: run `countersign audit retire` again to finish that, or name the folder of the log that goes on \
         (docs/runbook.md)"
    )]
    Closed,
    /// The log does not verify, and is left as it is.
    #[error("{}", way_on(.0))]
    Log(#[source] Box<LogError>),
    /// Entries from before the log was opened do not verify, which was found since.
    #[error(
        "older entries of the log do not verify: put it back as it was, or retire it with `countersign audit retire` and go on \
         under another origin (docs/runbook.md)"
    )]
    Older(#[source] Arc<LogError>),
}

/// What leads on from a log that is not opened.
fn way_on(error: &LogError) -> &'static str {
    if matches!(error, LogError::Archived { .. }) {
        "the kept checkpoint is older than the log here (docs/runbook.md)"
    } else if matches!(error, LogError::Known(_)) {
        "the kept checkpoint is of another log (docs/runbook.md)"
    } else {
        "the log cannot be continued: put it back as it was, or retire it with `countersign audit retire` and go on under \
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
