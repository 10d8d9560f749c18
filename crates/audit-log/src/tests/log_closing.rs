//! Hostile and unlucky circumstances while a log is closed.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use countersign_tlog::note::KeyName;

use super::at;
use super::log_support::{copy, fill, key, options_with_state as options, place, segment, signing};
use crate::log_files::stop::{pause_after, stop_after};
use crate::*;

const NEXT: &str = "example.com/next";

/// Returns a folder with a log, a numbered one, and their state.
fn scene() -> (tempfile::TempDir, PathBuf) {
    let (place, folder) = place();
    let (first, _) = Log::open_shared(&folder, options()).unwrap();
    let (second, _) = Log::open_shared(&folder, options()).unwrap();
    fill(&first, 3, 1);
    fill(&second, 2, 1);
    (place, folder)
}

fn name(origin: &str) -> KeyName {
    KeyName::new(origin).unwrap()
}

fn next_key() -> LogKey {
    LogKey::new(name(NEXT), signing().verifying_key())
}

fn retire(folder: &Path, next: &str) -> Result<Retired, RetireError> {
    let next = LogOptions::new(name(next), signing());
    retire_log(folder, &signing(), next, RetireWhich::Any, at(99))
}

/// Requires the new log to be alone in its folder, and the closed one to be whole.
fn require_one_log(folder: &Path, done: &Retired) {
    assert_eq!(list_logs(folder).unwrap(), [LogNumber::FIRST]);
    assert_eq!(verify_log(folder, &next_key(), &[]).unwrap().records, 1);
    verify_closing(&done.folder, &key()).unwrap();
    let origins: Vec<_> = done.closing.logs.iter().map(|log| log.origin.as_str()).collect();
    assert_eq!(origins, ["example.com/log", "example.com/log/1"]);
    assert!(done.closing.logs.iter().all(|log| log.code.is_none()), "{:?}", done.closing);
}

#[test]
fn appended_checkpoint_does_not_name_the_log() {
    let (_place, folder) = scene();
    let last = |folder: &Path| {
        let text = fs::read_to_string(segment(folder, 1)).unwrap();
        text.lines().rfind(|line| line.starts_with("{\"checkpoint\"")).unwrap().to_owned()
    };
    let (path, line) = (segment(&folder, 1), last(&folder.join("1")));
    fs::write(&path, format!("{}{line}\n", fs::read_to_string(&path).unwrap())).unwrap();
    assert_eq!(signed_key(&folder, key().verifying_key()).unwrap(), Some(key()));
    let done = retire(&folder, NEXT).unwrap();
    assert_eq!(done.closing.origin, "example.com/log");
    let of_first = done.closing.first().unwrap();
    assert_eq!(of_first.latest, of_first.state);
    verify_closing(&done.folder, &key()).unwrap();
}

#[test]
fn two_origins_behind_a_damaged_head_name_no_log() {
    let (_place, folder) = scene();
    let path = segment(&folder, 1);
    let damaged = fs::read_to_string(&path).unwrap().replacen("{\"segment\"", "{\"segmemt\"", 1);
    fs::write(&path, &damaged).unwrap();
    assert_eq!(signed_key(&folder, key().verifying_key()).unwrap(), Some(key()));
    let other = fs::read_to_string(segment(&folder.join("1"), 1)).unwrap();
    fs::write(&path, format!("{other}{damaged}").replacen("{\"segment\"", "{\"segmemt\"", 1)).unwrap();
    assert_eq!(signed_key(&folder, key().verifying_key()).unwrap(), None);
}

#[test]
fn invalid_state_of_a_numbered_log_is_refused() {
    for which in [RetireWhich::Any, RetireWhich::Sound] {
        let (place, folder) = scene();
        let path = place.path().join("log.state");
        let state = fs::read_to_string(&path).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&state).unwrap();
        assert_eq!(json["logs"][1]["origin"], "example.com/log/1");
        json["logs"][1]["checkpoint"] = json["logs"][0]["checkpoint"].clone();
        fs::write(&path, json.to_string()).unwrap();
        let next = || LogOptions::new(name(NEXT), signing());
        let error = retire_log(&folder, &signing(), next(), which, at(99)).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("AUDIT_SIGNATURE", "log `example.com/log/1`")
        );
        fs::write(&path, "{}").unwrap();
        let error = retire_log(&folder, &signing(), next(), which, at(99)).unwrap_err();
        assert_eq!(error.code(), "AUDIT_STATE");
        assert!(!folder.join("closing").exists() && segment(&folder, 1).exists());
    }
}

#[test]
fn writer_that_starts_while_a_log_is_retired_has_one_log() {
    type Start = fn(&Path) -> Result<(Log, LogNumber), OpenLogError>;
    let starts: [(bool, Start); 4] = [
        (true, |folder| Log::open_shared(folder, options())),
        (true, |folder| Log::open_numbered(folder, options())),
        (false, |folder| Log::open_shared(folder, options().dangerous_without_state())),
        (false, |folder| {
            let log = Log::open(folder.join("2"), options()).map(|log| (log, LogNumber::FIRST));
            log.map_err(|source| OpenLogError { log: LogNumber::FIRST, source })
        }),
    ];
    // More steps than a retirement has: after its last step nothing starts in between.
    for ((has_state, start), at_step) in
        starts.into_iter().flat_map(|start| (0..16).map(move |step| (start, step)))
    {
        let (_place, folder) = scene();
        let started = Rc::new(RefCell::new(None));
        let (place, result) = (folder.clone(), Rc::clone(&started));
        pause_after(at_step, move || {
            // The log's path is free for a moment. Without the state, nothing shows that a log was there.
            let is_old = place.join("1").exists();
            if is_old || (place.exists() && has_state) {
                *result.borrow_mut() = Some(start(&place));
            }
        });
        let done = retire(&folder, NEXT);
        stop_after(None);
        match started.take() {
            None => assert!(at_step > 5 && done.is_ok()),
            Some(Ok(started)) => {
                assert_eq!(done.unwrap_err().code(), "AUDIT_LOCKED", "{at_step}");
                assert!(!folder.join("closing").exists(), "{at_step}");
                drop(started);
            }
            Some(Err(error)) => {
                let code = error.source.code();
                let codes = ["AUDIT_CLOSED", "AUDIT_LOCKED", "AUDIT_MISSING", "AUDIT_SIGNATURE"];
                assert!(codes.contains(&code), "{at_step}: {code}");
                require_one_log(&folder, &done.unwrap());
            }
        }
    }
}

#[test]
fn log_that_is_retired_while_a_writer_starts_is_not_written() {
    type Start = fn(&Path) -> Result<(Log, LogNumber), OpenLogError>;
    let starts: [Start; 4] = [
        |folder| Log::open_shared(folder, options()),
        |folder| Log::open_numbered(folder, options()),
        |folder| Log::open_shared(folder, options().dangerous_without_state()),
        |folder| Log::open_numbered(folder, options().dangerous_without_state()),
    ];
    for start in starts {
        for step in 0..8 {
            let (_place, folder) = scene();
            let retired = Rc::new(RefCell::new(None));
            let (place, result) = (folder.clone(), Rc::clone(&retired));
            pause_after(step, move || *result.borrow_mut() = Some(retire(&place, NEXT)));
            let started = start(&folder);
            stop_after(None);
            match (retired.take(), started) {
                (None | Some(Err(_)), Ok(_)) => assert!(!folder.join("closing").exists()),
                (Some(Ok(done)), Err(_)) => require_one_log(&folder, &done),
                (retired, started) => panic!("{step}: {retired:?}, {:?}", started.map(drop)),
            }
        }
    }
}

#[test]
fn folder_that_is_locked_behind_the_survey_is_not_moved() {
    let (_place, folder) = scene();
    let held = Rc::new(RefCell::new(None));
    let (numbered, lock) = (folder.join("2"), Rc::clone(&held));
    // Another process is about to look for the note.
    pause_after(1, move || {
        fs::create_dir(&numbered).unwrap();
        let file = fs::File::create(numbered.join("lock")).unwrap();
        file.lock().unwrap();
        *lock.borrow_mut() = Some(file);
    });
    assert_eq!(retire(&folder, NEXT).unwrap_err().code(), "AUDIT_LOCKED");
    assert!(held.take().is_some());
    assert!(!folder.join("closing").exists() && !folder.join("closing.sha256").exists());
    require_one_log(&folder, &retire(&folder, NEXT).unwrap());
}

#[test]
fn moved_folder_is_not_made_anew_without_a_state() {
    let (place, folder) = scene();
    let (from, to) = (folder.clone(), place.path().join("aside"));
    pause_after(0, move || fs::rename(from, to).unwrap());
    let error = Log::open_shared(&folder, options().dangerous_without_state()).unwrap_err();
    assert_eq!((error.source.code(), folder.exists()), ("AUDIT_UNAVAILABLE", false));
}

#[test]
fn writer_of_another_origin_does_not_join_a_folder() {
    let (_place, folder) = scene();
    let _next = Log::open(&folder, options()).unwrap();
    let other = || LogOptions::new(name("example.com/other"), signing());
    let error = Log::open_shared(&folder, other()).unwrap_err();
    assert_eq!((error.log, error.source.code()), (LogNumber::FIRST, "AUDIT_SIGNATURE"));
    assert_eq!(Log::open_numbered(&folder, other()).unwrap_err().source.code(), "AUDIT_SIGNATURE");
    fs::remove_file(segment(&folder, 1)).unwrap();
    let gone = Log::open_numbered(&folder, options()).unwrap_err();
    assert_eq!((gone.log, gone.source.code()), (LogNumber::FIRST, "AUDIT_MISSING"));
}

#[test]
fn log_of_an_interrupted_retirement_is_found() {
    for steps in 0.. {
        let (place, folder) = scene();
        stop_after(Some(steps));
        let result = retire(&folder, NEXT);
        stop_after(None);
        let found = interrupted_retirement(&folder, key().verifying_key(), &next_key()).unwrap();
        let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let is_moved = names.filter(|name| name.to_str().unwrap().starts_with("log.retired-")).count() == 1;
        assert_eq!(found, is_moved.then(key), "{steps}");
        if result.is_ok() {
            return;
        }
    }
}

/// Returns a folder whose retirement stopped after the note, before the rename.
fn closed_in_place() -> (tempfile::TempDir, PathBuf) {
    let stopped = |steps| {
        let (place, folder) = scene();
        stop_after(Some(steps));
        let result = retire(&folder, NEXT);
        stop_after(None);
        (result.is_err() && folder.join("closing").exists()).then_some((place, folder))
    };
    (0..).find_map(stopped).unwrap()
}

#[test]
fn copy_of_a_closed_folder_does_not_hinder() {
    let (place, folder) = closed_in_place();
    let note = countersign_core::Digest::of(&fs::read(folder.join("closing")).unwrap()).to_string();
    let note = note.get(..12).unwrap();
    let due = place.path().join(format!("log.retired-{note}"));
    for copied in [due.clone(), place.path().join("log.retired-copy")] {
        fs::create_dir(&copied).unwrap();
        for name in ["000000000001.jsonl", "closing", "closing.sha256"] {
            fs::copy(folder.join(name), copied.join(name)).unwrap();
        }
    }
    let done = retire(&folder, NEXT).unwrap();
    assert_eq!(done.folder, due.with_file_name(format!("log.retired-{note}-2")));
    require_one_log(&folder, &done);
}

#[test]
fn file_changed_behind_the_note_stops_the_retirement() {
    let (_place, folder) = closed_in_place();
    let path = segment(&folder, 1);
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[70] ^= 1;
    fs::write(&path, bad).unwrap();
    let error = retire(&folder, NEXT).unwrap_err();
    assert_eq!(error.code(), "AUDIT_CORRUPT");
    assert!(error.to_string().contains("000000000001.jsonl"), "{error}");
    assert!(folder.join("closing").exists());
    fs::write(&path, good).unwrap();
    require_one_log(&folder, &retire(&folder, NEXT).unwrap());
}

#[test]
fn retired_folder_is_not_retired_again() {
    let (_place, folder) = scene();
    let done = retire(&folder, NEXT).unwrap();
    let error = retire(&done.folder, NEXT).unwrap_err();
    assert_eq!(error.code(), "AUDIT_CLOSED");
    let error = interrupted_retirement(&done.folder, key().verifying_key(), &next_key()).unwrap_err();
    assert_eq!(error.code(), "AUDIT_CLOSED");
    require_one_log(&folder, &done);
}

#[test]
fn restored_folder_needs_an_origin_of_its_own() {
    let (_place, folder) = scene();
    let done = retire(&folder, NEXT).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    copy_all(&done.folder, &folder);
    fs::remove_file(folder.join("closing")).unwrap();
    assert_eq!(retire(&folder, NEXT).unwrap_err().code(), "RETIRE_ORIGIN");
    retire(&folder, "example.com/third").unwrap();
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() { copy(&entry.path(), &to) } else { drop(fs::copy(entry.path(), to)) }
    }
}

#[cfg(unix)]
#[test]
fn added_link_or_odd_name_is_found() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    type Add = fn(&Path);
    let adds: [(&str, Add); 7] = [
        ("000000000009.jsonl", |folder| symlink("/dev/null", folder.join("000000000009.jsonl")).unwrap()),
        ("a.side", |folder| symlink("/dev/null", folder.join("a.side")).unwrap()),
        ("1/link", |folder| symlink("/dev/null", folder.join("1/link")).unwrap()),
        ("2", |folder| symlink("1", folder.join("2")).unwrap()),
        ("more", |folder| fs::create_dir(folder.join("more")).unwrap()),
        ("a\\u{a}b\\\\", |folder| fs::write(folder.join("a\nb\\"), "x").unwrap()),
        ("a\u{fffd}", |folder| fs::write(folder.join(OsStr::from_bytes(b"a\xff")), "x").unwrap()),
    ];
    for (name, add) in adds {
        // After the closing.
        let (_place, folder) = scene();
        let done = retire(&folder, NEXT).unwrap();
        add(&done.folder);
        let error = verify_closing(&done.folder, &key()).unwrap_err();
        let ClosingError::Changed { name: found } = error else { panic!("{name}: {error:?}") };
        assert_eq!(found, name);
        assert_eq!(unsummed_names(&done.folder).unwrap(), [name]);
        // Before the closing, unless it is a link in a log's place.
        let (_place, folder) = scene();
        add(&folder);
        let Ok(done) = retire(&folder, NEXT) else {
            assert!(["2", "000000000009.jsonl"].contains(&name));
            continue;
        };
        verify_closing(&done.folder, &key()).unwrap();
        assert_eq!(unsummed_names(&done.folder).unwrap(), [name]);
    }
}
