use std::fs;
use std::path::Path;

use countersign_approval_token::{PendingApprovals as _, SessionKind};
use countersign_core::{Millis, SpentTokens as _};

use super::*;

fn refused(path: &Path) -> &'static str {
    SqliteStore::open_with(path, at(0), Millis::new(50).unwrap()).unwrap_err().code()
}

/// Makes a store with rows on many pages and closes it.
fn filled(path: &Path) {
    let store = SqliteStore::open(path, at(0)).unwrap();
    store.on_connection(|db| {
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
             INSERT INTO spent SELECT unhex(printf('%064x', i * 7919)), 60000 + i FROM n",
        )
        .unwrap();
    });
}

fn assert_left_as_it_was(path: &Path, code: &str) {
    let before = fs::read(path).unwrap();
    assert_eq!(refused(path), code);
    assert_eq!(fs::read(path).unwrap(), before);
}

#[cfg(unix)]
fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[test]
fn every_file_of_a_new_store_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    spend(&store, &keys(), "t1").unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_store_that_others_can_read_or_write_is_refused() {
    let (_folder, path) = place();
    SqliteStore::open(&path, at(0)).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610] {
        chmod(&path, mode);
        assert_left_as_it_was(&path, "STORE_TOO_OPEN");
    }
    chmod(&path, 0o600);
    assert!(SqliteStore::open(&path, at(0)).is_ok());
}

#[cfg(unix)]
#[test]
fn a_folder_link_device_or_missing_folder_is_refused() {
    let (folder, path) = place();
    SqliteStore::open(&path, at(0)).unwrap();
    assert_eq!(refused(folder.path()), "STORE_NOT_A_FILE");
    assert_eq!(refused(&folder.path().join("none/store.db")), "STORE_UNAVAILABLE");
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(refused(&link), "STORE_NOT_A_FILE");
    let dangling = folder.path().join("dangling.db");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &dangling).unwrap();
    assert_eq!(refused(&dangling), "STORE_NOT_A_FILE");
    assert!(!folder.path().join("elsewhere").exists());
    assert_eq!(refused(Path::new("/dev/null")), "STORE_NOT_A_FILE");
}

#[test]
fn a_store_of_another_version_is_refused_and_left_as_it_was() {
    for version in [0, 1, 6, -1, i64::from(i32::MAX)] {
        let (_folder, path) = place();
        filled(&path);
        let db = rusqlite::Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        drop(db);
        assert_left_as_it_was(&path, "STORE_VERSION");
    }
}

#[test]
fn a_refused_store_keeps_its_write_ahead_log() {
    let (_folder, path) = place();
    filled(&path);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    db.execute_batch("DELETE FROM spent WHERE keep_until > 62000; PRAGMA user_version = 6").unwrap();
    drop(db);
    let log = path.with_file_name("store.db-wal");
    let before = fs::read(&log).unwrap();
    assert!(!before.is_empty());
    assert_left_as_it_was(&path, "STORE_VERSION");
    assert_eq!(fs::read(&log).unwrap(), before);
}

#[test]
fn another_programs_database_is_refused_and_left_as_it_was() {
    for statement in [
        "CREATE TABLE notes (text)",
        "PRAGMA user_version = 1",
        "PRAGMA application_id = 7",
        "CREATE TABLE spent (id, keep_until); PRAGMA user_version = 1",
    ] {
        let (_folder, path) = place();
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(statement).unwrap();
        drop(db);
        #[cfg(unix)]
        chmod(&path, 0o600);
        assert_left_as_it_was(&path, "STORE_CORRUPT");
    }
}

#[test]
fn a_store_whose_tables_were_changed_is_refused() {
    for statement in [
        "CREATE TRIGGER forget AFTER INSERT ON spent BEGIN DELETE FROM spent; END",
        "CREATE TABLE more (x)",
        "DROP TABLE horizon",
        "DROP TABLE spent; CREATE TABLE spent (id BLOB, keep_until INTEGER NOT NULL) STRICT",
        "ALTER TABLE pending ADD COLUMN note TEXT",
    ] {
        let (_folder, path) = place();
        filled(&path);
        rusqlite::Connection::open(&path).unwrap().execute_batch(statement).unwrap();
        assert_left_as_it_was(&path, "STORE_CORRUPT");
    }
}

#[test]
fn a_corrupted_store_is_refused() {
    let (_folder, path) = place();
    filled(&path);
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 20 * 4_096);
    let page = |n: usize| n * 4_096..(n + 1) * 4_096;
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    for (n, byte) in [(6, 0), (6, 255), (12, 0), (12, 255)] {
        let mut bytes = whole.clone();
        bytes[page(n)].fill(byte);
        damaged.push(bytes);
    }
    damaged.push(whole[..whole.len() / 2].to_vec());
    damaged.push(whole[..4_096].to_vec());
    let mut header = whole.clone();
    header[..16].fill(b'x');
    damaged.push(header);
    damaged.push(b"hello, this is no database, only text that somebody put here".to_vec());
    damaged.push(vec![0; 8_192]);
    for (n, bytes) in damaged.into_iter().enumerate() {
        fs::write(&path, &bytes).unwrap();
        let refused = SqliteStore::open(&path, at(0));
        assert_eq!(refused.unwrap_err().code(), "STORE_CORRUPT", "damage {n}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "damage {n}");
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_folder, path) = place();
    fs::write(&path, "").unwrap();
    #[cfg(unix)]
    chmod(&path, 0o600);
    let store = SqliteStore::open(&path, at(0)).unwrap();
    assert_eq!(spend(&store, &keys(), "t1"), Ok(()));
    assert_eq!(count(&store, "PRAGMA user_version"), 5);
}

#[test]
fn a_missing_store_is_not_made_where_it_must_exist() {
    let (_folder, path) = place();
    assert_eq!(SqliteStore::open_existing(&path).unwrap_err().code(), "STORE_MISSING");
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    #[cfg(unix)]
    chmod(&path, 0o600);
    assert_eq!(SqliteStore::open_existing(&path).unwrap_err().code(), "STORE_MISSING");
    fs::remove_file(&path).unwrap();
    drop(SqliteStore::create(&path, at(0)).unwrap());
    assert_eq!(spend(&SqliteStore::open_existing(&path).unwrap(), &keys(), "t1"), Ok(()));
}

#[test]
fn a_store_is_not_made_over_another_file() {
    let (_folder, path) = place();
    drop(SqliteStore::create(&path, at(0)).unwrap());
    let before = fs::read(&path).unwrap();
    assert_eq!(SqliteStore::create(&path, at(1)).unwrap_err().code(), "STORE_EXISTS");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Schema of version 2, as that version wrote it.
const VERSION_2: &str = "\
CREATE TABLE spent (id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32), keep_until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX spent_by_time ON spent (keep_until);
CREATE TABLE horizon (one INTEGER PRIMARY KEY NOT NULL CHECK (one = 1), at INTEGER NOT NULL) STRICT;
CREATE TABLE pending (number INTEGER PRIMARY KEY NOT NULL, call_id TEXT NOT NULL UNIQUE, act BLOB NOT NULL CHECK (length(act) = 32), asker BLOB NOT NULL CHECK (length(asker) = 32), size INTEGER NOT NULL CHECK (size >= 0), open_until INTEGER NOT NULL, state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'denied', 'used')), token TEXT CHECK ((token IS NOT NULL) = (state = 'approved')), request TEXT NOT NULL) STRICT;
CREATE INDEX pending_by_act ON pending (act);
CREATE TABLE denied (act BLOB PRIMARY KEY NOT NULL CHECK (length(act) = 32), asker BLOB NOT NULL CHECK (length(asker) = 32), call_id TEXT NOT NULL, denier TEXT NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE standing (agent TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL UNIQUE CHECK (number > 0), quarantined INTEGER NOT NULL CHECK (quarantined IN (0, 1)), change TEXT NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1129531214;
PRAGMA user_version = 2;
INSERT INTO horizon VALUES (1, 300);
INSERT INTO denied VALUES (zeroblob(32), zeroblob(32), 'c', 'bob', 99);";

/// A store of version 2 in which token `t1` was spent until 60,000.
fn older(path: &Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(VERSION_2).unwrap();
    let id = *approval(&keys(), "t1", 60_000, 1).spent_id();
    db.execute("INSERT INTO spent VALUES (?1, 60000)", [id.digest().as_bytes()]).unwrap();
    drop(db);
    #[cfg(unix)]
    chmod(path, 0o600);
}

#[test]
fn a_store_of_the_older_schema_keeps_its_rows() {
    for existing in [false, true] {
        let (_folder, path) = place();
        older(&path);
        let open = || match existing {
            true => SqliteStore::open_existing(&path).unwrap(),
            false => SqliteStore::open(&path, at(50_000)).unwrap(),
        };
        let store = open();
        assert_eq!(spend(&store, &keys(), "t1"), Err("APPROVAL_SPENT"));
        // Its creation time is unknown, so tokens of any time are accepted.
        assert_eq!((store.created(), spend(&store, &keys(), "t2")), (None, Ok(())));
        assert_eq!(count(&store, "SELECT count(*) FROM spent"), 2);
        assert_eq!(count(&store, "SELECT count(*) FROM denied"), 1);
        assert_eq!(count(&store, "SELECT at FROM horizon"), 300);
        let id = store.store_id();
        drop(store);
        assert_eq!(open().store_id(), id);
    }
}

/// Objects that version 3 adds to the schema of version 2, and an id.
const VERSION_3: &str = "\
CREATE TABLE identity (one INTEGER PRIMARY KEY NOT NULL CHECK (one = 1), id TEXT NOT NULL, created INTEGER) STRICT;
CREATE TABLE session (asker BLOB PRIMARY KEY NOT NULL CHECK (length(asker) = 32), named INTEGER NOT NULL CHECK (named IN (0, 1)), alive INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE reason (act BLOB PRIMARY KEY NOT NULL CHECK (length(act) = 32), text TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO identity VALUES (1, '000102030405060708090a0b0c0d0e0f', 0);
PRAGMA user_version = 3;";

#[test]
fn store_of_version_3_keeps_its_id() {
    let (_folder, path) = place();
    older(&path);
    rusqlite::Connection::open(&path).unwrap().execute_batch(VERSION_3).unwrap();
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(store.id().as_str(), "000102030405060708090a0b0c0d0e0f");
    assert_eq!((store.created(), spend(&store, &keys(), "t1")), (Some(at(0)), Err("APPROVAL_SPENT")));
    assert_eq!(count(&store, "PRAGMA user_version"), 5);
    let agent = countersign_core::AgentId::new("bot").unwrap();
    assert_eq!(store.alarm_state(&agent, "example.com/log").unwrap(), None);
}

#[test]
fn early_store_of_version_3_is_upgraded() {
    let (_folder, path) = place();
    older(&path);
    // The first stores of this version had no `session` and no `reason`.
    let early: Vec<_> =
        VERSION_3.lines().filter(|line| !line.contains("session") && !line.contains("reason")).collect();
    assert_eq!(early.len(), 3);
    rusqlite::Connection::open(&path).unwrap().execute_batch(&early.join("\n")).unwrap();
    let store = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(store.id().as_str(), "000102030405060708090a0b0c0d0e0f");
    assert_eq!(count(&store, "SELECT count(*) FROM session"), 0);
    assert_eq!(spend(&store, &keys(), "t1"), Err("APPROVAL_SPENT"));
}

#[test]
fn a_changed_store_of_the_older_schema_is_left_as_it_was() {
    let (_folder, path) = place();
    older(&path);
    let trigger = "CREATE TRIGGER forget AFTER INSERT ON spent BEGIN DELETE FROM spent; END";
    rusqlite::Connection::open(&path).unwrap().execute_batch(trigger).unwrap();
    assert_left_as_it_was(&path, "STORE_CORRUPT");
}

#[test]
fn a_store_without_its_id_is_refused() {
    let (_folder, path) = place();
    filled(&path);
    rusqlite::Connection::open(&path).unwrap().execute_batch("DELETE FROM identity").unwrap();
    assert_left_as_it_was(&path, "STORE_CORRUPT");
}

#[test]
fn a_commit_is_synced_before_it_counts() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    assert_eq!(count(&store, "PRAGMA synchronous"), 2);
    // A note that a session runs need not survive a power cut. Later commits do.
    let session = SessionId::new("s-1").unwrap();
    store.note_alive(&session, SessionKind::Single, at(0)).unwrap();
    store.end_session(&session).unwrap();
    assert_eq!(count(&store, "PRAGMA synchronous"), 2);
    let mode: String =
        store.on_connection(|db| db.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap());
    assert_eq!(mode, "wal");
    assert_eq!(count(&store, "PRAGMA busy_timeout"), 5_000);
}

#[test]
fn a_store_is_opened_by_many_threads_at_once() {
    let (_folder, path) = place();
    let won = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| spend(&SqliteStore::open(&path, at(0)).unwrap(), &keys(), "t1").is_ok()))
            .collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).filter(|won| *won).count()
    });
    assert_eq!(won, 1);
}
