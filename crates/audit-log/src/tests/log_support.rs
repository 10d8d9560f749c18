//! What the tests of the log have in common.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_core::{Digest, Timestamp};
use countersign_keys::SigningKey;
use countersign_keys::note::KeyName;

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

/// Options of a log without a state, for tests that stand for a crash by cutting a log that ended in order.
pub(super) fn options() -> LogOptions {
    options_with_state().dangerous_without_state()
}

pub(super) fn options_with_state() -> LogOptions {
    LogOptions::new(origin(), signing())
}

/// A folder that is not there yet.
pub(super) fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    (folder, path)
}

pub(super) fn segment(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:012}.jsonl"))
}

/// Records so many, in batches of that many.
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

/// The record of a cut of these bytes, which has that number.
pub(super) fn recovered(seq: u64, time: Timestamp, cut: &[u8]) -> Record {
    let mut record = RecoveredRecord::new(time, cut.len() as u64, Digest::of(cut));
    record.file = Some(format!("cut-{seq}").as_str().into());
    Record::Recovered(record)
}

/// The record lines of a log, in order, without newlines.
pub(super) fn calls(folder: &Path) -> Vec<(u64, Record)> {
    read_log(folder).unwrap().map(|entry| entry.unwrap()).map(|e| (e.seq(), e.into_record())).collect()
}

/// Each accepted call has one outcome, and no other call has any.
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
