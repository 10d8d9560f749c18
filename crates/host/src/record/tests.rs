use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use countersign_audit_log::{
    AuditSink as _, Direction, GatewayRecord, Log, LogKey, LogStart, Record, read_log_behind, verify_log,
};
use countersign_keys::SigningKey;
use countersign_merkle::Frontier;

use super::{
    Durability, KeyName, LogOptions, OlderEntries, OpenRecord, PreparedRecord, ReplayedLog, Timestamp,
    VerifiedLogs,
};
use crate::entries::{Entries, LogPart};
use crate::error::HostError;
use crate::report::Reporter;

fn prepared(folder: PathBuf, options: LogOptions, reporter: Reporter) -> PreparedRecord {
    PreparedRecord { folder, options, kept: Vec::new(), older: OlderEntries::Verified, reporter }
}

fn open(folder: &Path) -> OpenRecord {
    let origin = KeyName::new("example.com/log").unwrap();
    let options = LogOptions::new(origin, SigningKey::from_seed([7; 32])).durability(Durability::Group);
    prepared(folder.to_owned(), options, Reporter::new(|_| {})).open().unwrap()
}

fn options(state: &Path) -> LogOptions {
    LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32])).state(state)
}

/// Opens the record with this state. Appends all lines for the operator to `lines`.
fn open_with(folder: &Path, state: &Path, lines: &Arc<Mutex<Vec<String>>>) -> OpenRecord {
    let lines = Arc::clone(lines);
    let reporter = Reporter::new(move |line| lines.lock().unwrap().push(line.to_owned()));
    prepared(folder.to_owned(), options(state), reporter).open().unwrap()
}

/// Returns the paths of a record's folder and of two states in a folder of their own.
fn two_states(place: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let states = place.join("states");
    std::fs::create_dir(&states).unwrap();
    (place.join("log"), states.join("a.state"), states.join("b.state"))
}

fn entry(code: &str) -> Record {
    Record::Gateway(GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, code))
}

/// Returns all entries that existed when the record was opened.
fn earlier(record: &OpenRecord) -> Result<Vec<Record>, HostError> {
    let part = |log: ReplayedLog| {
        let behind = read_log_behind(&log.folder, &Frontier::new().head())?;
        let (entries, frontier) = behind.found.unwrap();
        Ok(LogPart { name: None, folder: log.folder, entries, frontier, heads: vec![log.head], end: log.end })
    };
    let parts = record.logs().at_start()?.into_iter().map(part).collect::<Result<Vec<_>, HostError>>()?;
    Entries::of_parts(parts).map(|read| read.map(|entry| entry.record)).collect()
}

#[test]
fn ended_record_refuses_later_entries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("log");
    let origin = KeyName::new("example.com/log").unwrap();
    let options = LogOptions::new(origin, SigningKey::from_seed([7; 32])).durability(Durability::System);
    let record = prepared(folder.clone(), options, Reporter::new(|_| {})).open().unwrap();
    record.log.record(&entry("A")).unwrap();
    // A second holder never releases the log.
    let held = Arc::clone(&record.log);
    record.log.end().unwrap();
    assert_eq!(held.record(&entry("late")).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    let key =
        LogKey::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]).verifying_key());
    let told = verify_log(&folder, &key, &[]).unwrap();
    assert_eq!((told.records, told.tail_bytes), (1, 0));
    held.end().unwrap();
}

#[test]
fn earlier_entries_are_those_verified_at_open() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("log");
    let record = open(&folder);
    record.log.record(&entry("A")).unwrap();
    assert_eq!(earlier(&record).unwrap(), []);
    record.log.record(&entry("B")).unwrap();
    drop(record);
    let record = open(&folder);
    record.log.record(&entry("C")).unwrap();
    assert_eq!(earlier(&record).unwrap(), [entry("A"), entry("B")]);
}

#[test]
fn log_with_only_a_segment_head_has_no_earlier_entries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("log");
    let open = || {
        let origin = KeyName::new("example.com/log").unwrap();
        let options = LogOptions::new(origin, SigningKey::from_seed([7; 32]));
        // Each entry has a segment of its own. There is no state, because the test removes the oldest segment and cuts
        // the last one.
        let options = options.segment_bytes(1).dangerous_without_state();
        prepared(folder.clone(), options, Reporter::new(|_| {})).open().unwrap()
    };
    let record = open();
    record.log.record(&entry("A")).unwrap();
    record.log.record(&entry("lost")).unwrap();
    drop(record);
    let last = folder.join("000000000002.jsonl");
    let text = std::fs::read_to_string(&last).unwrap();
    std::fs::write(&last, format!("{}\n", text.lines().next().unwrap())).unwrap();
    std::fs::remove_file(folder.join("000000000001.jsonl")).unwrap();
    let record = open();
    assert_eq!((record.head.size(), earlier(&record).unwrap()), (1, vec![]));
    record.log.record(&entry("B")).unwrap();
    assert_eq!(earlier(&record).unwrap(), []);
    drop(record);
    assert_eq!(earlier(&open()).unwrap(), [entry("B")]);
}

#[test]
fn log_that_lost_entries_since_its_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("log");
    let record = open(&folder);
    record.log.record(&entry("A")).unwrap();
    record.log.record(&entry("B")).unwrap();
    drop(record);
    let record = open(&folder);
    let segment = folder.join("000000000001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    let upto = text.find("{\"seq\":2").unwrap();
    std::fs::write(&segment, text.get(..upto).unwrap()).unwrap();
    assert_eq!(earlier(&record).unwrap_err().code(), "AUDIT_CORRUPT");
    std::fs::remove_file(&segment).unwrap();
    assert!(earlier(&record).is_err());
}

#[test]
fn new_log_stays_if_its_state_cannot_be_changed() {
    let place = tempfile::tempdir().unwrap();
    let (folder, state, _) = two_states(place.path());
    let lines = Arc::default();
    let first = open_with(&folder, &state, &lines);
    let second = open_with(&folder, &state, &lines);
    // The state's folder is unavailable for a moment.
    let (states, away) = (place.path().join("states"), place.path().join("away"));
    std::fs::rename(&states, &away).unwrap();
    second.roll_back();
    std::fs::rename(&away, &states).unwrap();
    let [line] = lines.lock().unwrap().clone().try_into().unwrap();
    assert!(line.starts_with("warning AUDIT_STATE: `") && line.contains("stays"), "{line}");
    assert_eq!(first.logs().at_start().unwrap().len(), 2, "the state knows both logs, and both exist");
    let (log, number) = Log::open_numbered(&folder, options(&state)).unwrap();
    assert_eq!((number.to_string().as_str(), log.start()), ("1", LogStart::Resumed));
}

#[test]
fn empty_log_that_another_process_began_is_not_rolled_back() {
    let place = tempfile::tempdir().unwrap();
    let (folder, one, other) = two_states(place.path());
    let first = open_with(&folder, &one, &Arc::default());
    // Its process is killed before the first entry.
    drop(Log::open_numbered(&folder, options(&one)).unwrap());
    open_with(&folder, &other, &Arc::default()).roll_back();
    assert_eq!(first.logs().at_start().unwrap().len(), 2);
}

#[test]
fn new_log_is_rolled_back_with_its_state() {
    let place = tempfile::tempdir().unwrap();
    let (folder, state, _) = two_states(place.path());
    let lines = Arc::default();
    let first = open_with(&folder, &state, &lines);
    open_with(&folder, &state, &lines).roll_back();
    assert!(!folder.join("1").exists() && lines.lock().unwrap().is_empty());
    assert_eq!(first.logs().at_start().unwrap().len(), 1);
}

/// Opens the log and ends it once it is verified. Returns whether it is damaged.
fn is_damaged(folder: &Path, state: &Path, verified: &VerifiedLogs) -> bool {
    let options = options(state).segment_bytes(4_096).durability(Durability::System);
    let mut record = prepared(folder.to_owned(), options, Reporter::new(|_| {}));
    record.older = OlderEntries::VerifiedOnce(verified.clone());
    let record = record.open().unwrap();
    let number = record.number;
    let log = record.in_use();
    for _ in 0..2_000 {
        if log.record(&entry("A")).is_err() {
            return true;
        }
        if verified.have(number) {
            let damaged = log.record(&entry("A")).is_err();
            log.end().unwrap();
            return damaged;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the log is neither verified nor damaged");
}

#[test]
fn older_entries_are_verified_once_unless_they_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, state) = (folder.path().join("log"), folder.path().join("log.state"));
    let verified = VerifiedLogs::default();
    assert!(!is_damaged(&folder, &state, &verified));
    let begun = Log::open(&folder, options(&state).segment_bytes(4_096)).unwrap();
    for _ in 0..100 {
        begun.record(&entry("B")).unwrap();
    }
    begun.close().unwrap();
    let first = folder.join("000000000001.jsonl");
    let mut bytes = std::fs::read(&first).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(first, bytes).unwrap();
    let later = VerifiedLogs::default();
    for _ in 0..2 {
        assert!(is_damaged(&folder, &state, &later), "each session looks again");
    }
    assert!(!is_damaged(&folder, &state, &verified), "no session looks again");
}
