//! Several logs in one folder.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_keys::state_file::LockWait;

use super::log_support::{fill, key, options, place};
use super::{at, decision};
use crate::log_state::LogProgress;
use crate::log_state::StateStore;
use crate::*;

fn number(text: &str) -> LogNumber {
    text.parse().unwrap()
}

#[test]
fn a_second_writer_gets_a_numbered_log() {
    let (_place, folder) = place();
    let (first, zero) = Log::open_shared(&folder, options()).unwrap();
    let (second, one) = Log::open_shared(&folder, options()).unwrap();
    assert_eq!((zero, one), (LogNumber::FIRST, number("1")));
    for log in [&first, &second] {
        assert_eq!(log.record(&decision("c")).unwrap(), 1);
    }
    assert_eq!(list_logs(&folder).unwrap(), [zero, one]);
    assert_eq!(second.key().origin().as_str(), "example.com/log/1");
    let derived = one.key(&key()).unwrap();
    assert_eq!(verify_log(folder.join("1"), &derived, &[]).unwrap().records, 1);
    assert!(verify_log(folder.join("1"), &key(), &[]).is_err(), "each has an origin of its own");
    assert_eq!(verify_log(&folder, &key(), &[]).unwrap().records, 1);
}

#[test]
fn a_number_is_used_again_once_it_is_free() {
    let (_place, folder) = place();
    let held = Log::open_shared(&folder, options()).unwrap();
    for records in 1..=3 {
        let (log, number) = Log::open_shared(&folder, options()).unwrap();
        assert_eq!((number.to_string().as_str(), log.record(&decision("c")).unwrap()), ("1", records));
    }
    drop(held);
    assert_eq!(Log::open_shared(&folder, options()).unwrap().1, LogNumber::FIRST);
    assert_eq!(list_logs(&folder).unwrap().len(), 2);
}

/// A process that is being started has copies of all open files until it runs its program.
#[test]
fn closed_log_is_free_while_processes_are_started() {
    let (_place, folder) = place();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::process::Command::new(std::env::current_exe().unwrap())
                        .arg("--help")
                        .stdout(std::process::Stdio::null())
                        .status()
                        .unwrap();
                }
            });
        }
        let opened: Vec<_> = (0..200).map(|_| Log::open(&folder, options()).map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    });
}

#[test]
fn a_numbered_log_leaves_the_folders_own_alone() {
    let (_place, folder) = place();
    let (_log, one) = Log::open_numbered(&folder, options()).unwrap();
    assert_eq!((one, list_logs(&folder).unwrap()), (number("1"), vec![number("1")]));
    assert_eq!(Log::open_shared(&folder, options()).unwrap().1, LogNumber::FIRST);
}

#[test]
fn a_kept_checkpoint_counts_for_the_log_of_its_origin() {
    let (_place, folder) = place();
    let (first, _) = Log::open_shared(&folder, options()).unwrap();
    let (second, _) = Log::open_shared(&folder, options()).unwrap();
    second.record(&decision("c")).unwrap();
    let kept = second.close().unwrap();
    drop(Log::open_numbered(&folder, options().known_checkpoint(&kept)).unwrap());
    fs::remove_file(folder.join("1/000000000001.jsonl")).unwrap();
    let gone = Log::open_numbered(&folder, options().known_checkpoint(&kept)).unwrap_err();
    assert_eq!((gone.log, gone.source.code()), (number("1"), "AUDIT_ROLLED_BACK"));
    drop(first);
    assert!(Log::open_shared(&folder, options().known_checkpoint(&kept)).is_ok(), "it is not the first's");
}

#[test]
fn a_numbered_log_is_verified_by_the_key_of_its_folder() {
    let (_place, folder) = place();
    drop(Log::open_numbered(&folder, options()).unwrap());
    let own = key_of_log(folder.join("1"), &key());
    assert_eq!(own, number("1").key(&key()).unwrap());
    assert_eq!(key_of_log(folder.join("1"), &own), own, "its own key is taken as it is");
    // A log of its own in a folder that merely has such a name.
    let (_other, other) = place();
    drop(Log::open(&other, options()).unwrap());
    fs::rename(&other, folder.join("2")).unwrap();
    assert_eq!(key_of_log(folder.join("2"), &key()), key());
}

#[test]
fn only_numbers_in_one_spelling_name_a_log() {
    let (_place, folder) = place();
    drop(Log::open_shared(&folder, options()).unwrap());
    for name in ["0", "01", "+1", "1025", "one", "1.old"] {
        assert!(name.parse::<LogNumber>().is_err(), "{name}");
        fs::create_dir_all(folder.join(name)).unwrap();
        let _ = fs::copy(folder.join("000000000001.jsonl"), folder.join(name).join("000000000001.jsonl"));
    }
    fs::create_dir(folder.join("3")).unwrap();
    assert_eq!(list_logs(&folder).unwrap(), [LogNumber::FIRST]);
}

#[test]
fn an_answer_is_a_record_of_its_own() {
    let tool = RecordedTool::new("desk", "refund");
    let digest = countersign_core::Digest::of(b"a");
    let by = "olga".parse().unwrap();
    let answer = AnswerRecord::new(at(7), "c1", tool, digest, AnswerVerdict::Approved, by);
    let json = serde_json::to_string(&Record::Answer(answer)).unwrap();
    let expected = format!(
        r#"{{"type":"answer","time":7,"call_id":"c1","tool":{{"server":"desk","name":"refund"}},"args":"{digest}","verdict":"approved","approver":"olga"}}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn log_that_is_removed_meanwhile_is_not_listed() {
    let (_place, folder) = place();
    drop(Log::open_shared(&folder, options()).unwrap());
    let (begun, removed) = (folder.join("1"), folder.join("1"));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let maker = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            fs::create_dir(&begun).unwrap();
            fs::write(begun.join("000000000001.jsonl"), "").unwrap();
            fs::remove_dir_all(&begun).unwrap();
        }
    });
    let listed: Result<Vec<_>, _> = (0..20_000).map(|_| list_logs(&folder)).collect();
    drop(stop);
    maker.join().unwrap();
    assert!(!removed.exists() && listed.unwrap().iter().all(|logs| logs[0] == LogNumber::FIRST));
}

/// State of a log that a busy writer saves between any two reads, up to a limit.
#[derive(Debug)]
struct MovingState {
    key: LogKey,
    note: String,
    size: u64,
    reads: AtomicU64,
}

impl MovingState {
    const LIMIT: u64 = 50;

    fn of(log: &Log) -> Self {
        let note = log.checkpoint().unwrap();
        Self { key: log.key(), note, size: log.synced_size(), reads: AtomicU64::new(0) }
    }

    /// Opens the log in this folder beside another one with this state. Returns the error's code, and the number of
    /// reads.
    fn open(self, own: &Path, beside: &Path) -> (&'static str, u64) {
        let (this, key) = (Arc::new(self), number("1").key(&key()).unwrap());
        let log = Log::open(own, options().state_store(Arc::<Self>::clone(&this))).unwrap();
        let before = this.reads.load(Ordering::Relaxed);
        let opened = log.open_beside(beside, &key, &log.known_logs().unwrap());
        let error = opened.map(drop).unwrap_err();
        (error.code(), this.reads.load(Ordering::Relaxed).saturating_sub(before))
    }
}

impl StateStore for MovingState {
    fn name(&self) -> String {
        "moving".to_owned()
    }

    fn read(&self) -> Result<LogStates, LogStateError> {
        let settled = self.reads.fetch_add(1, Ordering::Relaxed).min(Self::LIMIT).min(self.size);
        let mut states = LogStates::default();
        let stand = LogProgress { size: self.size, note: self.note.as_str().into(), settled, gap: None };
        states.set(self.key.origin(), 1, &stand);
        Ok(states)
    }

    fn update(&self, _: LockWait, _: &mut dyn FnMut(&mut LogStates)) -> Result<(), LogStateError> {
        Ok(())
    }
}

#[test]
fn damage_beside_is_reported_while_its_state_moves() {
    let (place, folder) = place();
    let (log, _) = Log::open_numbered(&folder, options()).unwrap();
    fill(&log, 100, 10);
    let state = MovingState::of(&log);
    fill(&log, 100, 10);
    drop(log);
    let segment = folder.join("1/000000000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replacen("desk", "dusk", 1)).unwrap();
    let (code, reads) = state.open(&place.path().join("own"), &folder.join("1"));
    assert_eq!((code, reads), ("AUDIT_CORRUPT", 1));
}

#[test]
fn missing_log_beside_is_reported_while_its_state_moves() {
    let (place, folder) = place();
    let (log, _) = Log::open_numbered(&folder, options()).unwrap();
    fill(&log, 100, 10);
    let state = MovingState::of(&log);
    drop(log);
    fs::remove_dir_all(folder.join("1")).unwrap();
    let (code, reads) = state.open(&place.path().join("own"), &folder.join("1"));
    assert_eq!(code, "AUDIT_MISSING");
    assert!(reads < 10, "{reads}");
}
