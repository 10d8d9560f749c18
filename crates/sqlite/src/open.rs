use std::io;
use std::path::Path;
use std::time::Duration;

use countersign_core::Millis;
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::OpenError;

/// Says that a database is one of ours (`PRAGMA application_id`): "CSGN".
const APPLICATION_ID: i64 = 0x4353_474e;

/// The version of the schema below (`PRAGMA user_version`).
const SCHEMA_VERSION: i64 = 2;

/// What a store holds. The statements are compared with what the file says, so that a trigger or a looser table is
/// noticed.
const SCHEMA: [(&str, &str); 7] = [
    (
        "spent",
        "CREATE TABLE spent (id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32), \
         keep_until INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    ),
    ("spent_by_time", "CREATE INDEX spent_by_time ON spent (keep_until)"),
    (
        "horizon",
        "CREATE TABLE horizon (one INTEGER PRIMARY KEY NOT NULL CHECK (one = 1), at INTEGER NOT NULL) STRICT",
    ),
    (
        "pending",
        "CREATE TABLE pending (number INTEGER PRIMARY KEY NOT NULL, call_id TEXT NOT NULL UNIQUE, \
         act BLOB NOT NULL CHECK (length(act) = 32), asker BLOB NOT NULL CHECK (length(asker) = 32), \
         size INTEGER NOT NULL CHECK (size >= 0), open_until INTEGER NOT NULL, \
         state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'denied', 'used')), \
         token TEXT CHECK ((token IS NOT NULL) = (state = 'approved')), request TEXT NOT NULL) STRICT",
    ),
    ("pending_by_act", "CREATE INDEX pending_by_act ON pending (act)"),
    (
        "denied",
        "CREATE TABLE denied (act BLOB PRIMARY KEY NOT NULL CHECK (length(act) = 32), \
         asker BLOB NOT NULL CHECK (length(asker) = 32), call_id TEXT NOT NULL, denier TEXT NOT NULL, \
         until INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    ),
    (
        "standing",
        "CREATE TABLE standing (agent TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL UNIQUE CHECK (number > 0), \
         quarantined INTEGER NOT NULL CHECK (quarantined IN (0, 1)), change TEXT NOT NULL) STRICT, WITHOUT ROWID",
    ),
];

/// How long one attempt at opening waits. SQLite does not wait at all for some locks (changing to WAL, recovery), so
/// opening is tried again and again instead.
const ATTEMPT_MILLIS: u64 = 10;

/// One store of this process is opened at a time, since closing a file drops the process's POSIX locks on it, those of
/// another connection included.
static OPENING: Mutex<()> = Mutex::new(());

/// Opens or makes a store's database, and checks all that the store relies on.
pub(crate) fn open(path: &Path, patience: Millis) -> Result<(Connection, FileId), OpenError> {
    let _one_at_a_time = OPENING.lock();
    create_for_owner(path).map_err(unreachable_file)?;
    let file = check_file(path)?;
    let mut attempts = patience.as_millis().div_euclid(ATTEMPT_MILLIS);
    loop {
        match connect(path, patience) {
            Err(OpenError::Locked) if attempts > 0 => {
                attempts = attempts.saturating_sub(1);
                std::thread::sleep(Duration::from_millis(ATTEMPT_MILLIS));
            }
            // The path must lead to the file that was looked at before.
            Ok(_) if check_file(path)? != file => return Err(OpenError::NotAFile),
            result => return Ok((result?, file)),
        }
    }
}

/// Makes an empty file that nobody else can read, unless there is one. SQLite itself would make it readable by all.
fn create_for_owner(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
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

fn connect(path: &Path, patience: Millis) -> Result<Connection, OpenError> {
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
    check_version(&*db.transaction()?)?;
    settle(&db)?;
    make_schema(&mut db)?;
    check_content(&db)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    wait_for_locks(&db, patience.as_millis())?;
    Ok(db)
}

fn wait_for_locks(db: &Connection, millis: u64) -> rusqlite::Result<()> {
    // SQLite counts in an i32; more than its 24 days is no patience that anybody has.
    db.busy_timeout(Duration::from_millis(millis.min(i32::MAX.unsigned_abs().into())))
}

fn pragma(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, name, |row| row.get(0))
}

/// Refuses other programs' files and other versions' before anything is written. True when the file is empty.
fn check_version(db: &Connection) -> Result<bool, OpenError> {
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (pragma(db, "application_id")?, pragma(db, "user_version")?, tables) {
        (0, 0, 0) => Ok(true),
        (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(false),
        (APPLICATION_ID, found, _) => Err(OpenError::Version { found, expected: SCHEMA_VERSION }),
        _ => Err(OpenError::Corrupt),
    }
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

fn make_schema(db: &mut Connection) -> Result<(), OpenError> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have made it meanwhile.
    if check_version(&tx)? {
        for (_, statement) in SCHEMA {
            tx.execute(statement, [])?;
        }
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    tx.commit()?;
    Ok(())
}

/// Compares the schema with ours and lets SQLite look at its pages.
fn check_content(db: &Connection) -> Result<(), OpenError> {
    let mut statement =
        db.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")?;
    let found: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let ours = SCHEMA.iter().map(|(name, sql)| (*name, *sql));
    if !found.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(ours) {
        return Err(OpenError::Corrupt);
    }
    let verdict: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(OpenError::Corrupt) }
}
