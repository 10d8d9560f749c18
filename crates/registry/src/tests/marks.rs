use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::{Digest, KeyId};

use super::fixture::*;
use crate::*;

fn mark(version: u64, content: &[u8]) -> Mark {
    Mark::new(version, Digest::of(content), BTreeSet::new())
}

#[test]
fn a_mark_outlives_the_process_that_raised_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mark.json");
    let marks = Arc::new(FileHighWater::new(&path));
    let load = |marks: Arc<FileHighWater>, version| {
        CapabilityRegistry::load(&sign(&desk(version)), &root(), marks, LoadOptions::default(), now())
    };
    load(marks, 7).unwrap();
    let again = Arc::new(FileHighWater::new(&path));
    assert_eq!(again.current().unwrap().unwrap().version(), 7);
    assert_eq!(load(again.clone(), 6).unwrap_err().code(), "REGISTRY_ROLLBACK");
    assert!(load(again.clone(), 7).is_ok());
    assert!(load(again.clone(), 8).is_ok());
    assert_eq!(load(again, 7).unwrap_err().code(), "REGISTRY_ROLLBACK");
}

#[test]
#[cfg(unix)]
fn pipe_instead_of_a_mark_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let path = folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    pipe("mark");
    pipe("free.lock");
    let marks = |name: &str| FileHighWater::new(folder.path().join(name));
    let (read, locked) = (marks("mark"), marks("free"));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send((read.current(), locked.compare_and_raise(None, &mark(1, b"1")))));
    let got = receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("nobody waits");
    assert_eq!(got, (Err(MarkError::Unavailable("read")), Err(MarkError::Unavailable("locked"))));
}

#[test]
fn a_missing_mark_is_the_first_load() {
    let folder = tempfile::tempdir().unwrap();
    let marks = FileHighWater::new(folder.path().join("mark.json"));
    assert_eq!(marks.current(), Ok(None));
    assert_eq!(marks.compare_and_raise(None, &mark(5, b"5")), Ok(()));
    assert_eq!(marks.current(), Ok(Some(mark(5, b"5"))));
}

#[test]
fn a_corrupt_mark_refuses_and_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mark.json");
    let marks = FileHighWater::new(&path);
    marks.compare_and_raise(None, &mark(5, b"5")).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let bent = [
        String::new(),
        good.replace("version\":5", "version\":0"),
        good.replace("countersign-mark-1", "countersign-mark-2"),
        good.replacen('{', "{\"more\":1,", 1),
        good.replacen('{', "{\"version\":9,", 1),
        good.get(..good.len() / 2).unwrap().to_owned(),
    ];
    for text in bent {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(marks.current().unwrap_err().code(), "REGISTRY_MARK_CORRUPT", "{text}");
        let refused = marks.compare_and_raise(Some(&mark(5, b"5")), &mark(6, b"6")).unwrap_err();
        assert_eq!(refused.code(), "REGISTRY_MARK_CORRUPT");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_mark_in_a_folder_that_is_not_there_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let marks = FileHighWater::new(folder.path().join("gone").join("mark.json"));
    let refused = marks.compare_and_raise(None, &mark(1, b"1")).unwrap_err();
    assert_eq!(refused.code(), "REGISTRY_MARK_UNAVAILABLE");
}

#[test]
fn a_folder_in_place_of_the_mark_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let marks = FileHighWater::new(folder.path());
    assert_eq!(marks.current().unwrap_err().code(), "REGISTRY_MARK_UNAVAILABLE");
}

#[test]
fn leftovers_of_a_dead_writer_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mark.json");
    std::fs::write(folder.path().join("mark.json.new"), "half").unwrap();
    let marks = FileHighWater::new(&path);
    assert_eq!(marks.compare_and_raise(None, &mark(1, b"1")), Ok(()));
    assert!(!folder.path().join("mark.json.new").exists());
}

#[test]
fn concurrent_raises_keep_the_highest_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mark.json");
    let forks = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0u8..8 {
            let (path, forks) = (&path, &forks);
            scope.spawn(move || {
                let marks = FileHighWater::new(path);
                for version in 1..=10 {
                    let raise = || loop {
                        let seen = marks.current().unwrap();
                        match marks.compare_and_raise(seen.as_ref(), &mark(version, &[thread])) {
                            Err(MarkError::Moved) => {}
                            other => break other,
                        }
                    };
                    match raise() {
                        Ok(()) | Err(MarkError::Rollback { .. }) => {}
                        Err(MarkError::Fork { .. }) => {
                            forks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let left = FileHighWater::new(&path).current().unwrap().unwrap();
    assert_eq!(left.version(), 10);
    // Version 10 was offered eight times with eight contents: one was accepted, the others are forks.
    assert!(forks.load(std::sync::atomic::Ordering::SeqCst) >= 7);
}

#[test]
fn revoked_keys_add_up_over_marks() {
    let keys = |names: &[&str]| names.iter().map(|name| KeyId::new(name).unwrap()).collect();
    let marks = MemoryHighWater::new();
    marks.compare_and_raise(None, &Mark::new(1, Digest::of(b"1"), keys(&["a"]))).unwrap();
    let seen = marks.current().unwrap();
    marks.compare_and_raise(seen.as_ref(), &Mark::new(2, Digest::of(b"2"), keys(&["b"]))).unwrap();
    let seen = marks.current().unwrap();
    assert_eq!(seen.as_ref().unwrap().revoked_keys(), &keys(&["a", "b"]));
    marks.compare_and_raise(seen.as_ref(), &Mark::new(1, Digest::of(b"1"), keys(&["c"]))).unwrap_err();
    assert_eq!(marks.current(), Ok(seen));
}

#[test]
fn a_mark_is_raised_only_from_the_one_that_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileHighWater::new(folder.path().join("mark.json"));
    let memory = MemoryHighWater::new();
    let stores: [&dyn HighWaterStore; 2] = [&memory, &file];
    for marks in stores {
        assert_eq!(marks.compare_and_raise(Some(&mark(1, b"1")), &mark(2, b"2")), Err(MarkError::Moved));
        assert_eq!(marks.current(), Ok(None));
        marks.compare_and_raise(None, &mark(2, b"2")).unwrap();
        assert_eq!(marks.compare_and_raise(None, &mark(3, b"3")), Err(MarkError::Moved));
        let keys = BTreeSet::from([KeyId::new("k").unwrap()]);
        let same_version = Mark::new(2, Digest::of(b"2"), keys.clone());
        assert_eq!(marks.compare_and_raise(None, &same_version), Err(MarkError::Moved));
        assert_eq!(marks.compare_and_raise(None, &mark(2, b"2")), Ok(()), "it stands already");
        assert_eq!(marks.current(), Ok(Some(mark(2, b"2"))));
        marks.compare_and_raise(Some(&mark(2, b"2")), &same_version).unwrap();
        // why: a mark with fewer revoked keys comes from a registry that was verified against an older mark.
        assert_eq!(marks.compare_and_raise(Some(&mark(2, b"2")), &mark(2, b"2")), Err(MarkError::Moved));
        assert_eq!(
            marks.compare_and_raise(None, &mark(1, b"1")),
            Err(MarkError::Rollback { offered: 1, accepted: 2 })
        );
    }
}

#[test]
fn a_first_version_out_of_reach_of_every_later_one_is_refused() {
    assert_eq!(mark(1 << 32, b"").check_after(None), Ok(()));
    assert_eq!(
        mark((1 << 32) + 1, b"").check_after(None),
        Err(MarkError::FastForward { offered: (1 << 32) + 1, accepted: 0 })
    );
    assert_eq!(refused(&sign(&desk((1 << 53) - 1))), "REGISTRY_FAST_FORWARD");
    assert!(load_with(&sign(&desk(1 << 32)), marks()).is_ok());
}
