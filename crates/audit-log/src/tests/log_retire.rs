//! A log is closed by a note and moved aside, and another one continues it.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

use super::at;
use super::log_support::{
    calls, fill, key, options_with_state as options, origin, place, segment, signing, verify_all,
};
use crate::log_files::stop::stop_after;
use crate::*;

/// Log and its state.
struct Scene {
    place: tempfile::TempDir,
    log: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let (place, log) = place();
        let scene = Self { place, log };
        for _ in 0..2 {
            fill(&Log::open(&scene.log, options().segment_bytes(1)).unwrap(), 6, 3);
        }
        scene
    }

    /// Flips a bit of the fifth entry.
    fn damage(&self) {
        let last = *self.segments().iter().rev().find(|first| **first <= 5).unwrap();
        let path = segment(&self.log, last);
        let mut bytes = fs::read(&path).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let at = text.find("{\"seq\":5,").unwrap();
        bytes[at..][60] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    fn segments(&self) -> Vec<u64> {
        crate::segment::list_segments(&FolderDisk::existing(&self.log).unwrap()).unwrap()
    }

    fn retire(&self, next: &str, which: RetireWhich) -> Result<Retired, RetireError> {
        retire_log(&self.log, &signing(), self.next(next), which, at(99))
    }

    fn next(&self, origin: &str) -> LogOptions {
        LogOptions::new(name(origin), signing()).state(self.place.path().join("log.state"))
    }

    /// Returns the bytes of every file of a log.
    fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
            .collect();
        all.sort();
        all
    }

    fn retired(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.place.path()).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log.retired-")).collect()
    }
}

fn name(origin: &str) -> KeyName {
    KeyName::new(origin).unwrap()
}

fn verify_next(folder: &Path) -> LogSummary {
    verify_log(folder, &LogKey::new(name("example.com/next"), signing().verifying_key()), &[]).unwrap()
}

#[test]
fn damaged_log_is_closed_by_a_note() {
    let scene = Scene::new();
    let sound = verify_all(&scene.log).unwrap();
    scene.damage();
    let before = Scene::content(&scene.log);
    assert_eq!(Log::open(&scene.log, options()).unwrap_err().code(), "AUDIT_CORRUPT");
    let done = scene.retire("example.com/next", RetireWhich::Any).unwrap();
    assert_eq!(Scene::content(&done.folder), before);
    assert_eq!(scene.retired(), std::slice::from_ref(&done.folder));

    let closing = verify_closing(&done.folder, &key()).unwrap();
    assert_eq!(closing, done.closing);
    assert_eq!((closing.files, closing.time), (before.len() as u64, at(99)));
    let of_log = closing.first().unwrap();
    let good = Checkpoint::verify(of_log.checkpoint.as_ref().unwrap(), &key()).unwrap();
    assert!((3..5).contains(&good.size()), "{}", good.size());
    assert_eq!(of_log.code.as_deref(), Some("AUDIT_CORRUPT"));
    assert_eq!(of_log.latest.as_ref(), Some(&sound.note));
    assert_eq!(of_log.state.as_ref(), Some(&sound.note));
}

#[test]
fn next_log_begins_with_the_note() {
    let scene = Scene::new();
    scene.damage();
    let done = scene.retire("example.com/next", RetireWhich::Any).unwrap();
    assert_eq!((done.seq, verify_next(&scene.log).records), (1, 1));
    let note = fs::read(done.folder.join("closing")).unwrap();
    let digest = countersign_core::Digest::of(&note);
    let began = BeganRecord::new(at(99), "example.com/log", digest);
    assert_eq!(calls(&scene.log), [(1, Record::Began(began))]);
    let suffix: String = digest.to_string().chars().take(12).collect();
    assert!(done.folder.to_str().unwrap().ends_with(&suffix));
    let log = Log::open(&scene.log, scene.next("example.com/next")).unwrap();
    assert_eq!((log.start(), log.head().size()), (LogStart::Resumed, 1));
    // The old origin stays in use.
    assert_eq!(Log::open(&done.folder, options()).unwrap_err().code(), "AUDIT_CLOSED");
    drop(log);
    fs::remove_dir_all(&scene.log).unwrap();
    assert_eq!(Log::open(&scene.log, options()).unwrap_err().code(), "AUDIT_MISSING");
}

#[test]
fn interrupted_retirement_is_finished() {
    for steps in 0.. {
        let scene = Scene::new();
        scene.damage();
        let before = Scene::content(&scene.log);
        stop_after(Some(steps));
        let result = scene.retire("example.com/next", RetireWhich::Any);
        stop_after(None);
        if result.is_ok() {
            assert!(steps > 5, "{steps}");
            return;
        }
        let again = scene.retire("example.com/next", RetireWhich::Any).unwrap();
        assert_eq!(again.seq, 1, "{steps}");
        assert_eq!(Scene::content(&again.folder), before, "{steps}");
        assert_eq!(scene.retired(), std::slice::from_ref(&again.folder), "{steps}");
        verify_closing(&again.folder, &key()).unwrap();
        assert_eq!(verify_next(&scene.log).records, 1, "{steps}");
        // A second call changes nothing.
        assert_eq!(scene.retire("example.com/next", RetireWhich::Any).unwrap(), again, "{steps}");
        assert_eq!(verify_next(&scene.log).records, 1, "{steps}");
    }
}

#[test]
fn closed_log_is_not_opened_before_it_is_moved() {
    let scene = Scene::new();
    // After the note, before the rename.
    let step = (0..).find(|steps| {
        stop_after(Some(*steps));
        let result = scene.retire("example.com/next", RetireWhich::Any);
        stop_after(None);
        result.is_err() && scene.log.join("closing").exists()
    });
    assert!(step.is_some());
    assert_eq!(Log::open(&scene.log, options()).unwrap_err().code(), "AUDIT_CLOSED");
    let shared = Log::open_shared(&scene.log, options()).unwrap_err();
    assert_eq!(shared.source.code(), "AUDIT_CLOSED");
    assert_eq!(Log::open_numbered(&scene.log, options()).unwrap_err().source.code(), "AUDIT_CLOSED");
    let numbered = scene.log.join("1");
    assert_eq!(Log::open(&numbered, options()).unwrap_err().code(), "AUDIT_CLOSED");
    assert_eq!(Log::open_shared(&numbered, options()).unwrap_err().source.code(), "AUDIT_CLOSED");
    let other = scene.retire("example.com/other", RetireWhich::Any).unwrap_err();
    assert_eq!(other.code(), "AUDIT_CLOSED");
    scene.retire("example.com/next", RetireWhich::Any).unwrap();
}

#[test]
fn used_origin_is_refused() {
    let scene = Scene::new();
    for used in ["example.com/log", "example.com/log/1", "example.com/log/1024"] {
        assert_eq!(scene.retire(used, RetireWhich::Any).unwrap_err().code(), "RETIRE_ORIGIN", "{used}");
    }
    scene.retire("example.com/next", RetireWhich::Any).unwrap();
    // Also without the state that knows it.
    fs::remove_file(scene.place.path().join("log.state")).unwrap();
    let back = scene.retire("example.com/log", RetireWhich::Any).unwrap_err();
    assert_eq!(back.code(), "RETIRE_ORIGIN");
    scene.retire("example.com/log/1025", RetireWhich::Any).unwrap();
    assert_eq!(scene.retired().len(), 2);
}

#[test]
fn other_key_closes_nothing() {
    let scene = Scene::new();
    let before = Scene::content(&scene.log);
    let other = SigningKey::from_seed([8; 32]);
    let error =
        retire_log(&scene.log, &other, scene.next("example.com/next"), RetireWhich::Any, at(99)).unwrap_err();
    assert_eq!(error.code(), "AUDIT_SIGNATURE");
    assert_eq!((Scene::content(&scene.log), scene.retired()), (before, vec![]));
}

#[test]
fn log_in_use_is_not_retired() {
    let scene = Scene::new();
    let held = Log::open(&scene.log, options()).unwrap();
    assert_eq!(scene.retire("example.com/next", RetireWhich::Any).unwrap_err().code(), "AUDIT_LOCKED");
    let (second, number) = Log::open_shared(&scene.log, options()).unwrap();
    drop(held);
    assert_eq!(scene.retire("example.com/next", RetireWhich::Any).unwrap_err().code(), "AUDIT_LOCKED");
    fill(&second, 1, 1);
    drop(second);
    // A numbered log is retired with its folder.
    let numbered = number.folder_in(&scene.log);
    let alone = retire_log(&numbered, &signing(), scene.next("example.com/next"), RetireWhich::Any, at(99));
    assert_eq!(alone.unwrap_err().code(), "RETIRE_NUMBERED");
    let done = scene.retire("example.com/next", RetireWhich::Any).unwrap();
    let origins: Vec<_> = done.closing.logs.iter().map(|log| log.origin.as_str()).collect();
    assert_eq!(origins, ["example.com/log", "example.com/log/1"]);
    verify_closing(&done.folder, &key()).unwrap();
}

#[test]
fn only_a_sound_log_changes_its_key() {
    let next = || LogOptions::new(name("example.com/next"), SigningKey::from_seed([9; 32]));
    for (code, spoil) in [
        ("AUDIT_CORRUPT", Scene::damage as fn(&Scene)),
        ("AUDIT_ROLLED_BACK", |scene: &Scene| {
            fs::remove_file(segment(&scene.log, *scene.segments().last().unwrap())).unwrap();
        }),
    ] {
        let scene = Scene::new();
        spoil(&scene);
        let state = scene.place.path().join("log.state");
        let error =
            retire_log(&scene.log, &signing(), next().state(state), RetireWhich::Sound, at(99)).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(scene.retired().is_empty() && !scene.log.join("closing").exists(), "{code}");
    }
    let scene = Scene::new();
    let state = scene.place.path().join("log.state");
    let done = retire_log(&scene.log, &signing(), next().state(&state), RetireWhich::Sound, at(99)).unwrap();
    assert_eq!(done.closing.first().unwrap().code, None);
    assert_eq!(verify_log(&done.folder, &key(), &[]).unwrap().records, 12);
    let new = LogKey::new(name("example.com/next"), SigningKey::from_seed([9; 32]).verifying_key());
    assert_eq!(verify_log(&scene.log, &new, &[]).unwrap().records, 1);
    assert_eq!(done.closing.next, new.to_string());
    let states = LogStateFile::new(state).read().unwrap().unwrap();
    assert_eq!(states.origins().collect::<Vec<_>>(), ["example.com/log", "example.com/next"]);
}

#[test]
fn changed_retired_file_is_found() {
    let scene = Scene::new();
    let done = scene.retire("example.com/next", RetireWhich::Any).unwrap();
    let path = segment(&done.folder, 1);
    // A side file can be rebuilt at any time.
    fs::write(path.with_extension("side"), "new").unwrap();
    verify_closing(&done.folder, &key()).unwrap();
    let good = fs::read(&path).unwrap();
    type Change = fn(&Path);
    let changes: [Change; 4] = [
        |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[9] ^= 1;
            fs::write(path, bytes).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path.with_file_name("more"), "more").unwrap(),
        |path| {
            let sums = path.with_file_name("closing.sha256");
            let text = fs::read_to_string(&sums).unwrap();
            fs::write(sums, text.replace("  0", "  1")).unwrap();
        },
    ];
    for change in changes {
        change(&path);
        assert!(matches!(verify_closing(&done.folder, &key()), Err(ClosingError::Changed { .. })));
        fs::write(&path, &good).unwrap();
        let _ = fs::remove_file(path.with_file_name("more"));
    }
    let other = LogKey::new(origin(), SigningKey::from_seed([8; 32]).verifying_key());
    assert_eq!(verify_closing(&done.folder, &other).unwrap_err().code(), "AUDIT_SIGNATURE");
}
