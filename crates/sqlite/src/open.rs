use std::io;
use std::path::Path;
use std::time::Duration;

use countersign_core::{Millis, Timestamp};
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::StoreOpenError;
use crate::schema::{self, DatabaseKind, Identity, pragma};

/// Timeout of one attempt to open, in milliseconds. SQLite does not wait at all for some locks (changing to WAL,
/// recovery), so opening is retried instead.
const ATTEMPT_MILLIS: u64 = 10;

/// Serialises opening within this process: closing a file drops the process's POSIX locks on it, including those of
/// another connection.
static OPENING: Mutex<()> = Mutex::new(());

/// Whether opening may create a store, and at which time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Making {
    /// Creates the store if it is missing.
    IfMissing(Timestamp),
    /// Creates the store, and refuses an existing one.
    Always(Timestamp),
    /// Refuses a missing store.
    Never,
}

/// Opens or creates a store's database, and checks every guarantee that the store relies on.
pub(crate) fn open(
    path: &Path,
    making: Making,
    patience: Millis,
) -> Result<(Connection, FileId, Identity), StoreOpenError> {
    let _one_at_a_time = OPENING.lock();
    make_file(path, making)?;
    let file = check_file(path)?;
    let mut attempts = patience.as_millis().div_euclid(ATTEMPT_MILLIS);
    loop {
        match connect(path, making, patience) {
            Err(StoreOpenError::Locked) if attempts > 0 => {
                attempts = attempts.saturating_sub(1);
                std::thread::sleep(Duration::from_millis(ATTEMPT_MILLIS));
            }
            // The path must still lead to the file that was checked above.
            Ok(_) if check_file(path)? != file => return Err(StoreOpenError::NotAFile),
            result => return result.map(|(db, identity)| (db, file, identity)),
        }
    }
}

/// Creates an empty file with mode 0600 if `making` allows it and the file is missing. SQLite itself would create it
/// readable by all.
fn make_file(path: &Path, making: Making) -> Result<(), StoreOpenError> {
    if matches!(making, Making::Never) {
        return match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreOpenError::Missing),
            _ => Ok(()),
        };
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match making {
            Making::Always(_) => Err(StoreOpenError::Exists),
            Making::IfMissing(_) | Making::Never => Ok(()),
        },
        Err(error) => Err(unreachable_file(error)),
    }
}

fn unreachable_file(error: io::Error) -> StoreOpenError {
    if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
        StoreOpenError::ReadOnly
    } else {
        StoreOpenError::Unavailable(error)
    }
}

/// Checks the file by its path. Opening and closing it here could drop the locks of another connection.
fn check_file(path: &Path) -> Result<FileId, StoreOpenError> {
    let metadata = path.symlink_metadata().map_err(unreachable_file)?;
    if !metadata.is_file() {
        return Err(StoreOpenError::NotAFile);
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
        return Err(StoreOpenError::TooOpen);
    }
    Ok(FileId::of(&metadata))
}

/// Device and inode of a file, to detect a replacement. Always equal on systems other than Unix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(Option<(u64, u64)>);

impl FileId {
    /// Returns the id of the file that the path leads to now.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(|metadata| Self::of(&metadata))
    }

    #[cfg(unix)]
    fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self(Some((metadata.dev(), metadata.ino())))
    }

    #[cfg(not(unix))]
    const fn of(_: &std::fs::Metadata) -> Self {
        Self(None)
    }
}

fn connect(path: &Path, making: Making, patience: Millis) -> Result<(Connection, Identity), StoreOpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    // A refused file stays unchanged, including its write-ahead log.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    wait_for_locks(&db, ATTEMPT_MILLIS)?;
    if db.is_readonly("main")? {
        return Err(StoreOpenError::ReadOnly);
    }
    // In one transaction: another process may create the schema between two queries.
    let found = schema::look(&*db.transaction()?)?;
    settle(&db)?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match making {
        Making::Never if found == DatabaseKind::Empty => return Err(StoreOpenError::Missing),
        // An existing store keeps its creation time.
        Making::Never => schema::make(&tx, Timestamp::EPOCH)?,
        Making::IfMissing(now) | Making::Always(now) => schema::make(&tx, now)?,
    }
    tx.commit()?;
    schema::check(&db)?;
    let identity = schema::identity(&db)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    wait_for_locks(&db, patience.as_millis())?;
    Ok((db, identity))
}

fn wait_for_locks(db: &Connection, millis: u64) -> rusqlite::Result<()> {
    // SQLite takes an i32: at most 24 days.
    db.busy_timeout(Duration::from_millis(millis.min(i32::MAX.unsigned_abs().into())))
}

/// Has each commit synced, and verifies that.
pub(crate) fn sync_commits(db: &Connection) -> Result<(), StoreOpenError> {
    db.pragma_update(None, "synchronous", "FULL")?;
    if pragma(db, "synchronous")? == 2 { Ok(()) } else { Err(StoreOpenError::Sqlite(None)) }
}

/// Sets the options that make a commit survive a crash, and verifies them.
fn settle(db: &Connection) -> Result<(), StoreOpenError> {
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    sync_commits(db)?;
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    db.pragma_update(None, "cell_size_check", true)?;
    if mode == "wal" { Ok(()) } else { Err(StoreOpenError::Sqlite(None)) }
}
