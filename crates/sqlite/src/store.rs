use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_core::{Millis, StoreId, Timestamp};
use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::StoreOpenError;
use crate::error::StoreFailure;
use crate::open::{FileId, Making, open, sync_commits};
use crate::schema::Identity;

/// Default busy timeout for other threads and processes: 5 seconds.
pub const DEFAULT_BUSY_TIMEOUT: Millis = Millis::from_secs(5);

/// Stores spent tokens, pending approvals and quarantines in one file, shared by all processes of a host that open it.
///
/// The store refuses unless every guarantee holds. After a failure that leaves the file's content unknown (a failed
/// write or sync, a damaged page, a moved file), every later query is refused until the file is opened again.
///
/// ```
/// use countersign_core::SpentTokens;
/// use countersign_approval_token::PendingApprovals;
/// use countersign_core::Timestamp;
/// use countersign_sqlite::SqliteStore;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store.db");
/// let now = Timestamp::from_millis(1_700_000_000_000)?;
/// let store = SqliteStore::open(&path, now)?;
/// assert!(store.list(Timestamp::EPOCH)?.is_empty());
/// let spent: &dyn SpentTokens = &store;
/// # let _ = spent;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    path: PathBuf,
    file: FileId,
    identity: Identity,
    busy_timeout: Millis,
    state: Mutex<OpenDatabase>,
}

struct OpenDatabase {
    db: Connection,
    poisoned: bool,
}

impl SqliteStore {
    /// Opens a store, or creates an empty one at `now` that only its owner can read (mode 0600). A store of an older
    /// schema is upgraded in place: its rows are kept, and an unknown creation time stays unknown.
    ///
    /// # Errors
    /// [`StoreOpenError`] if the file is not a store of this version, can be read by others, or does not give a required
    /// guarantee.
    pub fn open(path: impl AsRef<Path>, now: Timestamp) -> Result<Self, StoreOpenError> {
        Self::open_with(path, now, DEFAULT_BUSY_TIMEOUT)
    }

    /// Opens an existing store.
    ///
    /// # Errors
    /// [`StoreOpenError::Missing`] if it is missing, otherwise as [`SqliteStore::open`].
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreOpenError> {
        Self::opened(path.as_ref(), Making::Never, DEFAULT_BUSY_TIMEOUT)
    }

    /// Creates a store at `now`. Tokens that are issued from then on can be spent in it, even if no gate has opened it
    /// yet.
    ///
    /// # Errors
    /// [`StoreOpenError::Exists`] if a file is at the path, otherwise as [`SqliteStore::open`].
    pub fn create(path: impl AsRef<Path>, now: Timestamp) -> Result<Self, StoreOpenError> {
        Self::opened(path.as_ref(), Making::Always(now), DEFAULT_BUSY_TIMEOUT)
    }

    /// Opens a store with a busy timeout: it waits this long for other threads and processes, and then refuses.
    ///
    /// # Errors
    /// [`StoreOpenError`], as [`SqliteStore::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        now: Timestamp,
        busy_timeout: Millis,
    ) -> Result<Self, StoreOpenError> {
        Self::opened(path.as_ref(), Making::IfMissing(now), busy_timeout)
    }

    /// Returns the store's creation time; `None` if an older version created it.
    #[must_use]
    pub const fn created(&self) -> Option<Timestamp> {
        self.identity.created
    }

    pub(crate) const fn id(&self) -> &StoreId {
        &self.identity.id
    }

    fn opened(path: &Path, making: Making, busy_timeout: Millis) -> Result<Self, StoreOpenError> {
        // An absolute path leads to the same file after the process has changed its working directory.
        let path = std::path::absolute(path).map_err(StoreOpenError::Unavailable)?;
        let (db, file, identity) = open(&path, making, busy_timeout)?;
        Ok(Self {
            path,
            file,
            identity,
            busy_timeout,
            state: Mutex::new(OpenDatabase { db, poisoned: false }),
        })
    }

    /// Runs `work` in a transaction that holds the file's write lock from its start, and commits it.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreFailure>,
    ) -> Result<T, StoreFailure> {
        self.with(|db| transact(db, work))
    }

    /// As [`write`](Self::write), but a power cut may undo it: for rows about a process, which ends then as well.
    pub(crate) fn write_unsynced<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreFailure>,
    ) -> Result<T, StoreFailure> {
        self.with(|db| {
            db.pragma_update(None, "synchronous", "NORMAL")?;
            let done = transact(db, work);
            // INVARIANT: every other commit is synced, or the store is poisoned.
            sync_commits(db).map_err(|_| StoreFailure::Poisoned)?;
            done
        })
    }

    /// Runs the read-only `work`.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreFailure>,
    ) -> Result<T, StoreFailure> {
        self.with(|db| work(db))
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreFailure>,
    ) -> Result<T, StoreFailure> {
        let patience = Duration::from_millis(self.busy_timeout.as_millis());
        let mut state = self.state.try_lock_for(patience).ok_or(StoreFailure::Busy)?;
        if state.poisoned {
            return Err(StoreFailure::Poisoned);
        }
        // INVARIANT: poisoned until the work is known to have left the file in order; this covers a panic in it.
        state.poisoned = true;
        let result = if FileId::at(&self.path).is_ok_and(|file| file == self.file) {
            work(&mut state.db)
        } else {
            Err(StoreFailure::Replaced)
        };
        let in_order = result.as_ref().err().is_none_or(StoreFailure::is_passing);
        state.poisoned = !(in_order && state.db.is_autocommit());
        result
    }

    #[cfg(test)]
    pub(crate) fn on_connection<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        work(&self.state.lock().db)
    }
}

fn transact<T>(
    db: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreFailure>,
) -> Result<T, StoreFailure> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&tx)?;
    tx.commit()?;
    Ok(done)
}

/// Omits the path, which can be a secret of the host.
impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("busy_timeout", &self.busy_timeout).finish_non_exhaustive()
    }
}
