use std::io;
use std::path::Path;
use std::time::Duration;

use countersign_core::{Millis, Timestamp};
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::OpenError;
use crate::schema::{self, Found, Identity, pragma};

/// How long one attempt at opening waits. SQLite does not wait at all for some locks (changing to WAL, recovery), so
/// opening is tried again and again instead.
const ATTEMPT_MILLIS: u64 = 10;

/// One store of this process is opened at a time, since closing a file drops the process's POSIX locks on it, those of
/// another connection included.
static OPENING: Mutex<()> = Mutex::new(());

/// Whether opening may make a store, and when that would be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Making {
    /// Makes a store where it is missing.
    IfMissing(Timestamp),
    /// Makes one and refuses one that is there.
    Always(Timestamp),
    /// Refuses where it is missing.
    Never,
}

/// Opens or makes a store's database, and checks all that the store relies on.
pub(crate) fn open(
    path: &Path,
    making: Making,
    patience: Millis,
) -> Result<(Connection, FileId, Identity), OpenError> {
    let _one_at_a_time = OPENING.lock();
    make_file(path, making)?;
    let file = check_file(path)?;
    let mut attempts = patience.as_millis().div_euclid(ATTEMPT_MILLIS);
    loop {
        match connect(path, making, patience) {
            Err(OpenError::Locked) if attempts > 0 => {
                attempts = attempts.saturating_sub(1);
                std::thread::sleep(Duration::from_millis(ATTEMPT_MILLIS));
            }
            // The path must lead to the file that was looked at before.
            Ok(_) if check_file(path)? != file => return Err(OpenError::NotAFile),
            result => return result.map(|(db, identity)| (db, file, identity)),
        }
    }
}

/// Makes an empty file that only its owner can read, where that is asked for and it is missing. SQLite itself would make it
/// readable by all.
fn make_file(path: &Path, making: Making) -> Result<(), OpenError> {
    if matches!(making, Making::Never) {
        return match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::Missing),
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
            Making::Always(_) => Err(OpenError::Exists),
            Making::IfMissing(_) | Making::Never => Ok(()),
        },
        Err(error) => Err(unreachable_file(error)),
    }
}

fn unreachable_file(error: io::Error) -> OpenError {
    if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
        OpenError::ReadOnly
    } else {
        OpenError::Unavailable(error)
    }
}

/// Looks at the file by its path: opening it here, only to close it again, could drop another connection's locks.
fn check_file(path: &Path) -> Result<FileId, OpenError> {
    let metadata = path.symlink_metadata().map_err(unreachable_file)?;
    if !metadata.is_file() {
        return Err(OpenError::NotAFile);
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0 {
        return Err(OpenError::TooOpen);
    }
    Ok(FileId::of(&metadata))
}

/// Tells a file from another that is put in its place, where the system can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(Option<(u64, u64)>);

impl FileId {
    /// The file that the path leads to now.
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

fn connect(path: &Path, making: Making, patience: Millis) -> Result<(Connection, Identity), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    // A file that is refused is left as it was, its write-ahead log included.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    wait_for_locks(&db, ATTEMPT_MILLIS)?;
    if db.is_readonly("main")? {
        return Err(OpenError::ReadOnly);
    }
    // In one transaction: another process may make the schema between two questions.
    let found = schema::look(&*db.transaction()?)?;
    settle(&db)?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match making {
        Making::Never if found == Found::Empty => return Err(OpenError::Missing),
        // A store that is there keeps the time of its making.
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
    // SQLite counts in an i32; more than its 24 days is no patience that anybody has.
    db.busy_timeout(Duration::from_millis(millis.min(i32::MAX.unsigned_abs().into())))
}

/// Sets what makes a commit outlive a crash, and makes sure that it is set.
fn settle(db: &Connection) -> Result<(), OpenError> {
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    db.pragma_update(None, "cell_size_check", true)?;
    if mode != "wal" || pragma(db, "synchronous")? != 2 {
        return Err(OpenError::Sqlite(None));
    }
    Ok(())
}
