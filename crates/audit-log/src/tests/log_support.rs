//! Helpers for the tests of the log.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_core::{Digest, Timestamp};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

use super::decision;
use crate::*;

pub(super) fn origin() -> KeyName {
    KeyName::new("example.com/log").unwrap()
}

pub(super) fn signing() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

pub(super) fn key() -> LogKey {
    LogKey::new(origin(), signing().verifying_key())
}

/// Options of a log without a state, for tests that simulate a crash by cutting a log that was closed normally.
pub(super) fn options() -> LogOptions {
    options_with_state().dangerous_without_state()
}

pub(super) fn options_with_state() -> LogOptions {
    LogOptions::new(origin(), signing())
}

/// Returns the path of a folder that does not exist yet.
pub(super) fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    (folder, path)
}

pub(super) fn segment(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:012}.jsonl"))
}

/// Writes `records` records, in batches of `batch`.
pub(super) fn fill(log: &Log, records: u64, batch: u64) {
    for start in (0..records).step_by(usize::try_from(batch).unwrap()) {
        let n = batch.min(records.saturating_sub(start));
        let all: Vec<_> = (0..n).map(|n| log.submit(&decision(&n.to_string())).unwrap()).collect();
        all.into_iter().for_each(|pending| {
            pending.wait().unwrap();
        });
    }
}

pub(super) fn verify_all(folder: &Path) -> Result<LogSummary, LogError> {
    verify_log(folder, &key(), &[])
}

pub(super) fn verify_known(folder: &Path, note: &str) -> Result<LogSummary, LogError> {
    verify_log(folder, &key(), &[Checkpoint::verify(note, &key()).unwrap()])
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Builds the record of a cut of these bytes, with number `seq`.
pub(super) fn recovered(seq: u64, time: Timestamp, cut: &[u8]) -> Record {
    let mut record = RecoveredRecord::new(time, cut.len() as u64, Digest::of(cut));
    record.file = Some(format!("cut-{seq}").as_str().into());
    Record::Recovered(record)
}

/// Returns the records of a log, in order, with their numbers.
pub(super) fn calls(folder: &Path) -> Vec<(u64, Record)> {
    read_log(folder).unwrap().map(|entry| entry.unwrap()).map(|e| (e.seq(), e.into_record())).collect()
}

/// Requires each accepted call to have one outcome, and every other call none.
pub(super) fn require_outcomes(entries: impl IntoIterator<Item = (u64, Record)>) {
    let mut open = BTreeSet::new();
    for (seq, record) in entries {
        if let Record::Outcome(end) = &record {
            assert!(open.remove(&end.decision), "outcome {seq} is a second one");
        }
        if matches!(&record, Record::Decision(call) if call.verdict == Verdict::Accept) {
            open.insert(seq);
        }
    }
    assert_eq!(open, BTreeSet::new(), "calls without an outcome");
}
