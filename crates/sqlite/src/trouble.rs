use rusqlite::ErrorCode;

/// Why an open store cannot answer. It is the source of a refusal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Other threads of this process held the connection for too long.
    #[error("the store is busy")]
    Busy,
    /// After an earlier failure, the file's content is unknown.
    #[error("an earlier failure stopped the store, it must be opened anew")]
    Poisoned,
    /// The path leads to another file now, or to none; other processes would use that one.
    #[error("the store's file was moved or replaced")]
    Replaced,
    /// A row holds a value that this program never writes.
    #[error("the store is damaged")]
    Damaged,
    /// SQLite reported an error.
    #[error("the store's database failed")]
    Sqlite(#[from] rusqlite::Error),
}

impl Trouble {
    /// Returns `true` if the store can still be used: only after a failure that certainly left the file unchanged.
    pub(crate) fn is_passing(&self) -> bool {
        use ErrorCode::{ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull};
        let passing = |code| matches!(code, DatabaseBusy | DatabaseLocked | DiskFull | ConstraintViolation);
        match self {
            Self::Busy => true,
            Self::Poisoned | Self::Replaced | Self::Damaged => false,
            Self::Sqlite(error) => error.sqlite_error_code().is_some_and(passing),
        }
    }
}
