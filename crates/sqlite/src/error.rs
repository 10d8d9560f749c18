/// Why a store cannot be opened. The file is then as it was, but for what SQLite itself mends after a crash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be made or reached.
    #[error("the store cannot be reached")]
    Unavailable(#[source] std::io::Error),
    /// No store is at the path, and none may be made.
    #[error("no store is at the path, and a new one would not know which tickets were used")]
    Missing,
    /// A file is at the path of the store that is to be made.
    #[error("the store is to be made, and a file is at its path")]
    Exists,
    /// The path is a folder, link, device, pipe or socket.
    #[error("the store is not a regular file")]
    NotAFile,
    /// Others than its owner can read or write the file, and approvals lie in it.
    #[error("the store can be read or written by others than its owner")]
    TooOpen,
    /// The file or its folder cannot be written.
    #[error("the store cannot be written")]
    ReadOnly,
    /// Other processes kept it locked for longer than this one waits.
    #[error("the store is locked by others")]
    Locked,
    /// The file is no database, a damaged one, or another program's.
    #[error("the store is damaged or is another program's")]
    Corrupt,
    /// The file was made by another version of this program.
    #[error("the store has schema version {found} where {expected} is due")]
    Version {
        /// The version that the file has.
        found: i64,
        /// The version that this program reads and writes.
        expected: i64,
    },
    /// SQLite refused for another reason, or does not promise what is needed.
    #[error("the store cannot be used")]
    Sqlite(#[source] Option<rusqlite::Error>),
}

impl OpenError {
    /// The stable code.
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

impl From<rusqlite::Error> for OpenError {
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
