//! Two histories under one key, and an old history restored.

use std::fs;

use super::call_record;
use super::log_support::*;
use crate::*;

/// Returns two logs that continue from one prefix: their folders and the notes of their ends.
fn fork() -> (tempfile::TempDir, [(std::path::PathBuf, String); 2]) {
    let (folder, path) = place();
    fill(&Log::open(&path, options().segment_bytes(2_000)).unwrap(), 10, 2);
    let other = folder.path().join("other");
    copy(&path, &other);
    let go_on = |path: &std::path::Path, call: &str| {
        let log = Log::open(path, options().segment_bytes(2_000)).unwrap();
        let mut record = call_record(call);
        record.verdict = Verdict::Reject;
        log.record(&Record::Decision(record)).unwrap();
        fill(&log, 5, 2);
        log.close().unwrap()
    };
    let (one, two) = (go_on(&path, "one"), go_on(&other, "two"));
    (folder, [(path, one), (other, two)])
}

#[test]
fn a_fork_with_two_heads_is_found_by_a_checkpoint_of_the_other() {
    let (_folder, [(path, one), (other, two)]) = fork();
    for folder in [&path, &other] {
        assert_eq!(verify_all(folder).unwrap().records, 16, "each by itself is a log");
    }
    verify_known(&path, &one).unwrap();
    assert_eq!(verify_known(&path, &two).unwrap_err().code(), "AUDIT_FORK");
    assert_eq!(verify_known(&other, &one).unwrap_err().code(), "AUDIT_FORK");
    let before = fs::read(segment(&path, 1)).unwrap();
    let error = Log::open(&path, options().known_checkpoint(two)).unwrap_err();
    assert_eq!(error.code(), "AUDIT_FORK");
    assert_eq!(fs::read(segment(&path, 1)).unwrap(), before);
    assert_eq!(Log::open(&path, options().known_checkpoint(one)).unwrap().head().size(), 16);
}

#[test]
fn segments_of_two_branches_do_not_make_one_log() {
    let (_folder, [(path, _), (other, _)]) = fork();
    let names = |folder: &std::path::Path| {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.retain(|name| name != "lock");
        names.sort();
        names
    };
    let (ours, theirs) = (names(&path), names(&other));
    assert_eq!(ours, theirs);
    for name in &ours {
        if fs::read(path.join(name)).unwrap() == fs::read(other.join(name)).unwrap() {
            continue;
        }
        let before = fs::read(path.join(name)).unwrap();
        fs::copy(other.join(name), path.join(name)).unwrap();
        let mixed = verify_all(&path);
        if Some(name) != ours.last() {
            let code = mixed.unwrap_err().code();
            assert!(["AUDIT_FORK", "AUDIT_CORRUPT"].contains(&code), "{code}");
        } else {
            assert_eq!(mixed.unwrap_err().code(), "AUDIT_FORK");
        }
        fs::write(path.join(name), before).unwrap();
    }
}

#[test]
fn older_copy_of_a_log_is_found_by_a_kept_checkpoint() {
    let (folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    fill(&log, 10, 3);
    drop(log);
    let old = folder.path().join("old");
    copy(&path, &old);
    let log = Log::open(&path, options()).unwrap();
    fill(&log, 10, 3);
    let note = log.close().unwrap();
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&old, &path).unwrap();
    assert_eq!(verify_all(&path).unwrap().records, 10, "by itself it is a log");
    assert_eq!(verify_known(&path, &note).unwrap_err().code(), "AUDIT_ROLLED_BACK");
    let error = Log::open(&path, options().known_checkpoint(note.clone())).unwrap_err();
    assert_eq!(error.code(), "AUDIT_ROLLED_BACK");
    fs::remove_dir_all(&path).unwrap();
    let error = Log::open(&path, options().known_checkpoint(note)).unwrap_err();
    assert_eq!(error.code(), "AUDIT_ROLLED_BACK", "nor is a new log what was there");
    assert!(!segment(&path, 1).exists());
}
