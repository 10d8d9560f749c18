use std::io;

use crate::LogError;

/// Why a sink could not keep a record, or a file could not be opened as one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The place where records go cannot be reached.
    #[error("the record cannot be opened")]
    Unavailable(#[source] io::Error),
    /// The path is a folder, device, pipe or socket.
    #[error("the record is not a regular file")]
    NotAFile,
    /// Another writer has the file.
    #[error("the record is in use by another writer")]
    Locked,
    /// What the file holds, or has become under this writer's hands, is not a record that can be continued.
    #[error("the record is damaged at byte {at}, and is left as it is")]
    Corrupt {
        /// Where the first byte lies that should not be there.
        at: u64,
    },
    /// The path no longer leads to the file that was opened, which was moved, deleted or replaced: what is written to it
    /// would not be found. The sink refuses everything from here on.
    #[error("the record was moved away or replaced")]
    Replaced,
    /// Writing or syncing failed. The sink refuses everything from here on.
    #[error("the record cannot be written")]
    Write(#[source] io::Error),
    /// The record is longer than a line may be; nothing was written.
    #[error("the record is longer than a line may be")]
    TooLong,
    /// An earlier write or sync failed; the file must be opened anew.
    #[error("an earlier write failed, the record must be opened anew")]
    Poisoned,
    /// The log does not verify.
    #[error(transparent)]
    Log(Box<LogError>),
}

impl AuditError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) | Self::NotAFile => "AUDIT_UNAVAILABLE",
            Self::Locked => "AUDIT_LOCKED",
            Self::Corrupt { .. } => "AUDIT_CORRUPT",
            Self::Replaced => "AUDIT_REPLACED",
            Self::Write(_) | Self::TooLong => "AUDIT_WRITE",
            Self::Poisoned => "AUDIT_POISONED",
            Self::Log(error) => error.code(),
        }
    }
}

/// Why a line of a record's file cannot be read. Never holds the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("the record cannot be read")]
    Io(#[from] io::Error),
    /// The path is a folder, device, pipe or socket.
    #[error("the record is not a regular file")]
    NotAFile,
    /// The line is not one record in JSON.
    #[error("line {line} is not a record")]
    Malformed {
        /// Counted from 1.
        line: u64,
    },
    /// The line is longer than any record.
    #[error("line {line} is longer than a record can be")]
    TooLong {
        /// Counted from 1.
        line: u64,
    },
    /// The last line does not end: its writer was stopped before the record was kept.
    #[error("line {line} is cut short")]
    Torn {
        /// Counted from 1.
        line: u64,
    },
    /// The sequence numbers skip, repeat or do not start at 1.
    #[error("line {line} has sequence number {found} where {expected} is due")]
    Sequence {
        /// Counted from 1.
        line: u64,
        /// The number that is due.
        expected: u64,
        /// The number that the line has.
        found: u64,
    },
}

impl ReadError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io(_) | Self::NotAFile => "AUDIT_UNAVAILABLE",
            Self::Malformed { .. } | Self::TooLong { .. } | Self::Sequence { .. } => "AUDIT_CORRUPT",
            Self::Torn { .. } => "AUDIT_TORN",
        }
    }
}
