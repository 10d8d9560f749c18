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
    #[error("the folder holds no log")]
    Missing,
    /// The folder holds no log, although the log's state knows one.
    #[error("the log is gone, and there were {known} records once")]
    Gone {
        /// Number of records in the state.
        known: u64,
    },
    /// Older segments are missing that the log's state knows.
    #[error("the oldest records are gone, numbers {first} to {last}")]
    OldestGone {
        /// Number of the first missing record.
        first: u64,
        /// Number of the last missing record.
        last: u64,
    },
    /// A line is not a record, checkpoint or head, or is in the wrong place.
    #[error("{0} is not what a log holds there")]
    Malformed(Place),
    /// A line is longer than a line may be.
    #[error("{0} is longer than a line may be")]
    TooLong(Place),
    /// The sequence numbers skip or repeat.
    #[error("{at} is not record number {expected}, which is due")]
    Sequence {
        /// Position of the line.
        at: Place,
        /// Expected sequence number.
        expected: u64,
    },
    /// A segment other than the last ends without a checkpoint, or without a newline.
    #[error("the segment ends without a checkpoint: {0} has none behind it")]
    Unfinished(Place),
    /// The lines from here to the next checkpoint are not the lines that it was signed for.
    #[error("what begins with {0} is not what the next checkpoint was signed for")]
    Root(Place),
    /// A checkpoint counts no more records than an earlier one.
    #[error("the checkpoint of {at} counts {size} records, and one before it counts {last}")]
    Older {
        /// Position of the checkpoint.
        at: Place,
        /// Number of records that it counts.
        size: u64,
        /// Number of records that the earlier one counts.
        last: u64,
    },
    /// A segment does not begin where the one before it ends: lines or a segment are missing, or there are too many.
    #[error("the segment of {0} does not begin where the one before it ends")]
    Gap(Place),
    /// A checkpoint in the log is not signed by the log's key, or belongs to another log.
    #[error("the checkpoint of {at} is not one of this log's")]
    Signature {
        /// Position of the checkpoint.
        at: Place,
        /// Reason why it does not verify.
        #[source]
        source: CheckpointError,
    },
    /// A checkpoint kept elsewhere is not signed by the log's key, or belongs to another log.
    #[error("a checkpoint that was kept elsewhere is not one of this log's")]
    Known(#[source] CheckpointError),
    /// The log's key signed two histories: at this size, one other than this log's.
    #[error("the log forked: a checkpoint of {size} records was signed over others")]
    Fork {
        /// Number of records that the checkpoint counts.
        size: u64,
    },
    /// A checkpoint kept elsewhere counts more records than the log has: the end was cut, or an older copy was
    /// restored.
    #[error("the log ends with record {records}, and there were {known} once")]
    RolledBack {
        /// Number of records in the log.
        records: u64,
        /// Number of records that the checkpoint counts.
        known: u64,
    },
    /// A checkpoint kept elsewhere, or a requested record, lies before the first segment in the folder.
    #[error("the log begins behind record {first}, and number {asked} is asked for")]
    Archived {
        /// Number of the last record before that segment.
        first: u64,
        /// Requested number.
        asked: u64,
    },
    /// No such record, or no such size, is under a checkpoint yet.
    #[error("the log does not hold that much yet")]
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
