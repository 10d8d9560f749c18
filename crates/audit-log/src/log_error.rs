use std::io;

use crate::{CheckpointError, Place};

/// Reason why a log does not verify or cannot be read. Never contains bytes of the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The log cannot be read.
    #[error("the log cannot be read")]
    Io(#[from] io::Error),
    /// The folder holds no log.
    #[error("no log in the folder")]
    Missing,
    /// The folder holds no log, although the log's state knows one.
    #[error("log missing: its state covers {known} records")]
    Gone {
        /// Number of records in the state.
        known: u64,
    },
    /// Older segments are missing that the log's state knows.
    #[error("oldest records missing: numbers {first} to {last}")]
    OldestGone {
        /// Number of the first missing record.
        first: u64,
        /// Number of the last missing record.
        last: u64,
    },
    /// A line is not a record, checkpoint or head, or is in the wrong place.
    #[error("malformed or misplaced log line: {0}")]
    Malformed(Place),
    /// A line is longer than a line may be.
    #[error("log line too long: {0}")]
    TooLong(Place),
    /// The sequence numbers skip or repeat.
    #[error("unexpected sequence number at {at}: {expected} expected")]
    Sequence {
        /// Position of the line.
        at: Place,
        /// Expected sequence number.
        expected: u64,
    },
    /// A segment other than the last ends without a checkpoint, or without a newline.
    #[error("the segment ends without a checkpoint after {0}")]
    Unfinished(Place),
    /// The lines from here to the next checkpoint are not the lines that it was signed for.
    #[error("root mismatch: the lines from {0} on differ from those that the next checkpoint signs")]
    Root(Place),
    /// A checkpoint counts no more records than an earlier one.
    #[error("checkpoint out of order at {at}: {size} records, an earlier one covers {last}")]
    Older {
        /// Position of the checkpoint.
        at: Place,
        /// Number of records that it counts.
        size: u64,
        /// Number of records that the earlier one counts.
        last: u64,
    },
    /// A segment does not begin where the one before it ends: lines or a segment are missing, or there are too many.
    #[error("the segment of {0} does not begin where the previous one ends")]
    Gap(Place),
    /// A checkpoint in the log is not signed by the log's key, or belongs to another log.
    #[error("the checkpoint at {at} does not belong to this log")]
    Signature {
        /// Position of the checkpoint.
        at: Place,
        /// Reason why it does not verify.
        #[source]
        source: CheckpointError,
    },
    /// A checkpoint kept elsewhere is not signed by the log's key, or belongs to another log.
    #[error("the checkpoint kept elsewhere does not belong to this log")]
    Known(#[source] CheckpointError),
    /// The log's key signed two histories: at this size, one other than this log's.
    #[error("log forked: its key signed another checkpoint of {size} records")]
    Fork {
        /// Number of records that the checkpoint counts.
        size: u64,
    },
    /// A checkpoint kept elsewhere counts more records than the log has: the end was cut, or an older copy was
    /// restored.
    #[error("log truncated: {records} records, checkpoint covers {known}")]
    RolledBack {
        /// Number of records in the log.
        records: u64,
        /// Number of records that the checkpoint counts.
        known: u64,
    },
    /// A checkpoint kept elsewhere, or a requested record, lies before the first segment in the folder.
    #[error("record or size {asked} is not here: the log begins after record {first}")]
    Archived {
        /// Number of the last record before that segment.
        first: u64,
        /// Requested number.
        asked: u64,
    },
    /// No such record, or no such size, is under a checkpoint yet.
    #[error("no such record or size under a checkpoint yet")]
    NoSuchSize,
}

impl LogError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io(_) | Self::Missing => "AUDIT_UNAVAILABLE",
            Self::Gone { .. } | Self::OldestGone { .. } => "AUDIT_MISSING",
            Self::Malformed(_)
            | Self::TooLong(_)
            | Self::Sequence { .. }
            | Self::Unfinished(_)
            | Self::Root(_)
            | Self::Older { .. }
            | Self::Gap(_) => "AUDIT_CORRUPT",
            Self::Signature { .. } | Self::Known(_) => "AUDIT_SIGNATURE",
            Self::Fork { .. } => "AUDIT_FORK",
            Self::RolledBack { .. } => "AUDIT_ROLLED_BACK",
            Self::Archived { .. } => "AUDIT_ARCHIVED",
            Self::NoSuchSize => "AUDIT_NO_SUCH_SIZE",
        }
    }

    /// Returns the position where the fault begins, if it has one.
    #[must_use]
    pub const fn place(&self) -> Option<Place> {
        match self {
            Self::Malformed(at)
            | Self::TooLong(at)
            | Self::Sequence { at, .. }
            | Self::Unfinished(at)
            | Self::Root(at)
            | Self::Older { at, .. }
            | Self::Gap(at)
            | Self::Signature { at, .. } => Some(*at),
            Self::Io(_)
            | Self::Missing
            | Self::Gone { .. }
            | Self::OldestGone { .. }
            | Self::Known(_)
            | Self::Fork { .. }
            | Self::RolledBack { .. }
            | Self::Archived { .. }
            | Self::NoSuchSize => None,
        }
    }
}

countersign_core::coded!(LogError);
