use std::fmt;
use std::io;

use crate::segment::segment_name;
use crate::{AuditError, CheckpointError};

/// Where in a log something lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// First sequence number of the segment, as its name has it.
    pub segment: u64,
    /// The line, counted from 1.
    pub line: u64,
    /// Offset of the line's first byte.
    pub byte: u64,
    /// Number of the entry that the line is, or that is due there; of a checkpoint, that of the last one before it.
    pub entry: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, line, byte, entry } = self;
        write!(f, "line {line} of {} (entry {entry}, byte {byte})", segment_name(*segment))
    }
}

/// Why a log does not verify, or cannot be read. Never holds any of its bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// It cannot be read.
    #[error("the log cannot be read")]
    Io(#[from] io::Error),
    /// The folder holds no log.
    #[error("the folder holds no log")]
    Missing,
    /// The folder holds no log, and the log's state knows one.
    #[error("the log is gone, and there were {known} records once")]
    Gone {
        /// How many there were.
        known: u64,
    },
    /// Older segments are not here that the log's state knows.
    #[error("the oldest records are gone, numbers {first} to {last}")]
    OldestGone {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// A line is no record, checkpoint or head, or not in the place for one.
    #[error("{0} is not what a log holds there")]
    Malformed(Place),
    /// A line is longer than a line may be.
    #[error("{0} is longer than a line may be")]
    TooLong(Place),
    /// The sequence numbers skip or repeat.
    #[error("{at} is not record number {expected}, which is due")]
    Sequence {
        /// Where.
        at: Place,
        /// The number that is due.
        expected: u64,
    },
    /// A segment that is not the last does not end with a checkpoint, or with a line.
    #[error("the segment ends without a checkpoint: {0} has none behind it")]
    Unfinished(Place),
    /// The lines from here to the next checkpoint are not those that it was signed for.
    #[error("what begins with {0} is not what the next checkpoint was signed for")]
    Root(Place),
    /// A checkpoint stands behind another one that counts as many records, or more.
    #[error("the checkpoint of {at} counts {size} records, and one before it counts {last}")]
    Older {
        /// Where.
        at: Place,
        /// How many it counts.
        size: u64,
        /// How many the one before it counts.
        last: u64,
    },
    /// A segment does not go on where the one before it ends: lines or a segment are missing, or there are too many.
    #[error("the segment of {0} does not begin where the one before it ends")]
    Gap(Place),
    /// A checkpoint of the log is not signed by its key, or is of another log.
    #[error("the checkpoint of {at} is not one of this log's")]
    Signature {
        /// Where.
        at: Place,
        /// Why.
        #[source]
        source: CheckpointError,
    },
    /// A checkpoint that was kept elsewhere is not signed by the log's key, or is of another log.
    #[error("a checkpoint that was kept elsewhere is not one of this log's")]
    Known(#[source] CheckpointError),
    /// The log's key signed two histories: at this size, another than the one that is here.
    #[error("the log forked: a checkpoint of {size} records was signed over others")]
    Fork {
        /// How many records the checkpoint counts.
        size: u64,
    },
    /// A checkpoint that was kept elsewhere counts more records than there are: the end was cut, or an older copy
    /// restored.
    #[error("the log ends with record {records}, and there were {known} once")]
    RolledBack {
        /// How many there are.
        records: u64,
        /// How many there were.
        known: u64,
    },
    /// A checkpoint that was kept elsewhere, or what is asked for, lies before the first segment that is here.
    #[error("the log begins behind record {first}, and number {asked} is asked for")]
    Archived {
        /// The last record that is not here.
        first: u64,
        /// The number that is asked for.
        asked: u64,
    },
    /// There is no such record, or no such size, under a checkpoint yet.
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

    /// Where the trouble begins, where it has a place.
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

impl From<LogError> for AuditError {
    fn from(error: LogError) -> Self {
        if let LogError::Io(error) = error { Self::Unavailable(error) } else { Self::Log(Box::new(error)) }
    }
}
