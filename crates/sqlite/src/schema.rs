use countersign_core::{StoreId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Transaction};

use crate::StoreOpenError;

/// Marks a database as a Countersign store (`PRAGMA application_id`): "CSGN".
const APPLICATION_ID: i64 = 0x4353_474e;

/// Version of the schema below (`PRAGMA user_version`).
const VERSION: i64 = 5;

/// Versions that are upgraded in place, each with its number of schema objects: the first ones of [`SCHEMA`]. The first
/// stores of version 3 have 8.
const OLDER: [(i64, usize); 4] = [(2, 7), (3, 8), (3, 10), (4, 11)];

/// Tables and indexes of a store. The statements are compared with those in the file, so that a trigger or a looser
/// table is detected. New objects come last, where an upgrade adds them.
const SCHEMA: [(&str, &str); 14] = [
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
    (
        "identity",
        "CREATE TABLE identity (one INTEGER PRIMARY KEY NOT NULL CHECK (one = 1), id TEXT NOT NULL, \
         created INTEGER) STRICT",
    ),
    (
        "session",
        "CREATE TABLE session (asker BLOB PRIMARY KEY NOT NULL CHECK (length(asker) = 32), \
         named INTEGER NOT NULL CHECK (named IN (0, 1)), alive INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    ),
    (
        "reason",
        "CREATE TABLE reason (act BLOB PRIMARY KEY NOT NULL CHECK (length(act) = 32), \
         text TEXT NOT NULL) STRICT, WITHOUT ROWID",
    ),
    (
        "alarm",
        "CREATE TABLE alarm (agent TEXT NOT NULL, record TEXT NOT NULL, \
         state TEXT NOT NULL CHECK (length(state) <= 1048576), PRIMARY KEY (agent, record)) STRICT, WITHOUT ROWID",
    ),
    (
        "evidence",
        "CREATE TABLE evidence (call_id TEXT PRIMARY KEY NOT NULL, alone INTEGER NOT NULL CHECK (alone IN (0, 1)), \
         until INTEGER, answer TEXT CHECK ((answer IS NOT NULL) = (until IS NOT NULL))) STRICT, WITHOUT ROWID",
    ),
    (
        "granted",
        "CREATE TABLE granted (number INTEGER PRIMARY KEY NOT NULL, id TEXT NOT NULL UNIQUE, \
         server TEXT NOT NULL, tool TEXT NOT NULL, until INTEGER NOT NULL, \
         revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)), text TEXT NOT NULL) STRICT",
    ),
    (
        "approval",
        "CREATE TABLE approval (call_id TEXT NOT NULL, number INTEGER NOT NULL CHECK (number >= 0), \
         token TEXT NOT NULL, PRIMARY KEY (call_id, number)) STRICT, WITHOUT ROWID",
    ),
];

/// Kind of a database, judged by its header and its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// An empty database.
    Empty,
    /// A store of an [`OLDER`] version, with this number of schema objects.
    Older(usize),
    /// A store of this version.
    Ours,
}

/// Id and creation time of a store.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) id: StoreId,
    /// Creation time. `None` if the version that created the store did not record it.
    pub(crate) created: Option<Timestamp>,
}

/// Refuses files of other programs and of unsupported versions.
pub(crate) fn look(db: &Connection) -> Result<DatabaseKind, StoreOpenError> {
    let objects = "SELECT count(*), count(sql) FROM sqlite_schema";
    let (all, stated): (i64, i64) = db.query_row(objects, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match (pragma(db, "application_id")?, pragma(db, "user_version")?, all) {
        (0, 0, 0) => Ok(DatabaseKind::Empty),
        (APPLICATION_ID, VERSION, _) => Ok(DatabaseKind::Ours),
        (APPLICATION_ID, found, _) => {
            let mut older = OLDER.iter().filter(|(version, _)| *version == found).peekable();
            older.peek().ok_or(StoreOpenError::Version { found, expected: VERSION })?;
            let same =
                older.find(|(_, objects)| usize::try_from(stated).is_ok_and(|found| found == *objects));
            same.map(|(_, objects)| DatabaseKind::Older(*objects)).ok_or(StoreOpenError::Corrupt)
        }
        _ => Err(StoreOpenError::Corrupt),
    }
}

/// Creates the schema in an empty file at `created`, or adds the missing objects to an older store. Rows are kept.
pub(crate) fn make(tx: &Transaction<'_>, created: Timestamp) -> Result<(), StoreOpenError> {
    let (there, created) = match look(tx)? {
        DatabaseKind::Ours => return Ok(()),
        DatabaseKind::Empty => (0, Some(sql_time(created))),
        DatabaseKind::Older(objects) => {
            compare(tx, objects)?;
            (objects, None)
        }
    };
    for (name, statement) in SCHEMA.iter().skip(there) {
        tx.execute(statement, [])?;
        if *name == "identity" {
            tx.execute(
                "INSERT INTO identity (one, id, created) VALUES (1, lower(hex(randomblob(16))), ?1)",
                [created],
            )?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    Ok(())
}

/// Compares the schema with [`SCHEMA`] and lets SQLite check its pages.
pub(crate) fn check(db: &Connection) -> Result<(), StoreOpenError> {
    compare(db, SCHEMA.len())?;
    let verdict: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(StoreOpenError::Corrupt) }
}

/// Compares the tables in the file with the first `objects` of the schema.
fn compare(db: &Connection, objects: usize) -> Result<(), StoreOpenError> {
    let mut statement =
        db.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")?;
    let found: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let ours = SCHEMA.iter().take(objects).map(|(name, sql)| (*name, *sql));
    let is_same = found.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(ours);
    if is_same { Ok(()) } else { Err(StoreOpenError::Corrupt) }
}

/// Reads the store's identity.
pub(crate) fn identity(db: &Connection) -> Result<Identity, StoreOpenError> {
    let row = db.query_row("SELECT id, created FROM identity", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?))
    });
    let (id, created) = row.optional()?.ok_or(StoreOpenError::Corrupt)?;
    let id = StoreId::new(&id).map_err(|_| StoreOpenError::Corrupt)?;
    let time =
        |millis: i64| u64::try_from(millis).ok().and_then(|millis| Timestamp::from_millis(millis).ok());
    let created = match created {
        Some(millis) => Some(time(millis).ok_or(StoreOpenError::Corrupt)?),
        None => None,
    };
    Ok(Identity { id, created })
}

pub(crate) fn pragma(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, name, |row| row.get(0))
}

/// Converts a time to SQLite's integer.
pub(crate) fn sql_time(time: Timestamp) -> i64 {
    // INVARIANT: a timestamp is below 2^53.
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
