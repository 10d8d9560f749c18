use rusqlite::ErrorCode;

/// Why a store that was opened cannot do what it was asked. Users meet it as the source of a refusal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Others of this process had the connection for too long.
    #[error("the store is busy")]
    Busy,
    /// An earlier failure left it unknown what the file holds.
    #[error("an earlier failure stopped the store, it must be opened anew")]
    Poisoned,
    /// The path leads to another file now, or to none; other processes would use that one.
    #[error("the store's file was moved or replaced")]
    Replaced,
    /// A row holds what this program never wrote.
    #[error("the store is damaged")]
    Damaged,
    /// SQLite said no.
    #[error("the store's database failed")]
    Sqlite(#[from] rusqlite::Error),
}

impl Trouble {
    /// Says whether the store can be used further: only after a failure that leaves the file as it was for certain.
    pub(crate) fn is_passing(&self) -> bool {
        let passing =
            |code| matches!(code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull);
        match self {
            Self::Busy => true,
            Self::Poisoned | Self::Replaced | Self::Damaged => false,
            Self::Sqlite(error) => error.sqlite_error_code().is_some_and(passing),
        }
    }
}
