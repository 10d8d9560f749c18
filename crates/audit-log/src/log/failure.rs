use std::io;

use crate::AuditError;

/// Error for all waiting callers. It can be copied, unlike [`AuditError`].
#[derive(Clone, Copy, Debug)]
pub(super) enum LogFailure {
    Replaced,
    LockReplaced,
    Corrupt { at: u64 },
    TooLong,
    System(i32),
    Write(io::ErrorKind),
}

impl LogFailure {
    pub(super) fn of(error: &AuditError) -> Self {
        match error {
            AuditError::Replaced => Self::Replaced,
            AuditError::LockReplaced => Self::LockReplaced,
            AuditError::Corrupt { at } => Self::Corrupt { at: *at },
            AuditError::TooLong => Self::TooLong,
            AuditError::Write(error) | AuditError::Unavailable(error) => {
                error.raw_os_error().map_or(Self::Write(error.kind()), Self::System)
            }
            // Errors of opening. Only the caller that opened the log gets the error itself.
            AuditError::Locked
            | AuditError::Poisoned
            | AuditError::Closed
            | AuditError::Origin { .. }
            | AuditError::Log(_)
            | AuditError::Older(_)
            | AuditError::NotContinued { .. }
            | AuditError::State { .. } => Self::Write(io::ErrorKind::Other),
        }
    }

    pub(super) fn error(self) -> AuditError {
        match self {
            Self::Replaced => AuditError::Replaced,
            Self::LockReplaced => AuditError::LockReplaced,
            Self::Corrupt { at } => AuditError::Corrupt { at },
            Self::TooLong => AuditError::TooLong,
            Self::System(code) => AuditError::Write(io::Error::from_raw_os_error(code)),
            Self::Write(kind) => AuditError::Write(kind.into()),
        }
    }
}
