/// Why a store cannot be opened. The file is then unchanged, except for SQLite's own recovery after a crash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// The file cannot be created or reached.
    #[error("the store cannot be reached")]
    Unavailable(#[source] std::io::Error),
    /// The path has no store, and none may be created.
    #[error("store not found: a new one would not know the used tickets")]
    Missing,
    /// A file exists at the path of the store to be created.
    #[error("the store cannot be created: a file exists at its path")]
    Exists,
    /// The path is a folder, link, device, pipe or socket.
    #[error("the store is not a regular file")]
    NotAFile,
    /// Users other than its owner can read or write the file, which contains approvals.
    #[error("store accessible to others than its owner")]
    TooOpen,
    /// The file or its folder cannot be written.
    #[error("the store cannot be written")]
    ReadOnly,
    /// Other processes kept the file locked for longer than the busy timeout.
    #[error("store locked by another connection")]
    Locked,
    /// The file is not a database, is damaged, or belongs to another program.
    #[error("store damaged, or not a store of this program")]
    Corrupt,
    /// Another version of this program created the file.
    #[error("wrong schema version of the store: {found}, expected {expected}")]
    Version {
        /// The version of the file.
        found: i64,
        /// The version that this program reads and writes.
        expected: i64,
    },
    /// SQLite failed for another reason, or does not give a required guarantee.
    #[error("the store cannot be used")]
    Sqlite(#[source] Option<rusqlite::Error>),
}

impl StoreOpenError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) | Self::Sqlite(_) => "STORE_UNAVAILABLE",
            Self::Missing => "STORE_MISSING",
            Self::Exists => "STORE_EXISTS",
            Self::NotAFile => "STORE_NOT_A_FILE",
            Self::TooOpen => "STORE_TOO_OPEN",
            Self::ReadOnly => "STORE_READ_ONLY",
            Self::Locked => "STORE_LOCKED",
            Self::Corrupt => "STORE_CORRUPT",
            Self::Version { .. } => "STORE_VERSION",
        }
    }
}

countersign_core::coded!(StoreOpenError);

impl From<rusqlite::Error> for StoreOpenError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as C;
        match error.sqlite_error_code() {
            Some(C::DatabaseBusy | C::DatabaseLocked) => Self::Locked,
            Some(C::NotADatabase | C::DatabaseCorrupt) => Self::Corrupt,
            Some(C::ReadOnly | C::CannotOpen) => Self::ReadOnly,
            _ => Self::Sqlite(Some(error)),
        }
    }
}

/// Why an open store cannot answer. It is the source of a refusal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreFailure {
    /// Other threads of this process held the connection for too long.
    #[error("the store is busy")]
    Busy,
    /// After an earlier failure, the file's content is unknown.
    #[error("store stopped by an earlier failure: reopen it")]
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

impl StoreFailure {
    /// Returns `true` if the store can still be used: only after a failure that certainly left the file unchanged.
    pub(crate) fn is_passing(&self) -> bool {
        use rusqlite::ErrorCode::{ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull};
        let passing = |code| matches!(code, DatabaseBusy | DatabaseLocked | DiskFull | ConstraintViolation);
        match self {
            Self::Busy => true,
            Self::Poisoned | Self::Replaced | Self::Damaged => false,
            Self::Sqlite(error) => error.sqlite_error_code().is_some_and(passing),
        }
    }
}
