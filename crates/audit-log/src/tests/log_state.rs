//! A log continues from its state, or is not opened.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

use super::log_support::{
    copy, fill, key, options as stateless, options_with_state as options, origin, place, segment, signing,
};
use super::{at, call_record, decision};
use crate::*;

const DURABILITIES: [Durability; 3] = [Durability::Every, Durability::Group, Durability::System];

/// Log of three segments with four records each, closed normally, and earlier copies of it.
struct Scene {
    _place: tempfile::TempDir,
    log: PathBuf,
    older: PathBuf,
    durability: Durability,
}

impl Scene {
    fn new(durability: Durability) -> Self {
        let (place, log) = place();
        let older = place.path().join("older");
        let scene = Self { _place: place, log, older, durability };
        scene.write("a", 2, options);
        copy(&scene.log, &scene.older);
        scene.write("a", 1, options);
        assert_eq!(scene.segments(), [1, 5, 9]);
        scene
    }

    fn options(&self) -> LogOptions {
        options().durability(self.durability)
    }

    /// Adds segments of four records each.
    fn write(&self, name: &str, segments: u64, options: fn() -> LogOptions) {
        for _ in 0..segments {
            // The first record follows a full segment.
            for (bytes, records) in [(1, 1), (1 << 20, 3)] {
                let options = options().durability(self.durability).segment_bytes(bytes);
                let log = Log::open(&self.log, options).unwrap();
                (0..records).for_each(|_| assert!(log.record(&decision(name)).is_ok()));
                log.close().unwrap();
            }
        }
    }

    fn segments(&self) -> Vec<u64> {
        let names = files(&self.log).into_iter().map(|(name, _)| name);
        names.filter_map(|name| name.strip_suffix(".jsonl")?.parse().ok()).collect()
    }

    fn state(&self) -> PathBuf {
        self.log.with_extension("state")
    }
}

/// Returns the files of a folder by name, with their bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap());
    let mut all: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    all.sort();
    all
}

fn cut(path: &Path, keep: impl FnOnce(&str) -> usize) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, &text.as_bytes()[..keep(&text)]).unwrap();
}

/// Replaces the log by another one of the same key and origin.
fn swap_in(scene: &Scene, segments: u64) {
    fs::remove_dir_all(&scene.log).unwrap();
    scene.write("b", segments, stateless);
}

type Attack = (&'static str, &'static str, fn(&Scene));

const ATTACKS: &[Attack] = &[
    ("log deleted", "AUDIT_MISSING", |s| fs::remove_dir_all(&s.log).unwrap()),
    ("log emptied", "AUDIT_MISSING", |s| {
        fs::remove_dir_all(&s.log).unwrap();
        fs::create_dir(&s.log).unwrap();
    }),
    ("segments deleted", "AUDIT_MISSING", |s| {
        [1, 5, 9].iter().for_each(|n| fs::remove_file(segment(&s.log, *n)).unwrap());
    }),
    ("first segment deleted", "AUDIT_MISSING", |s| fs::remove_file(segment(&s.log, 1)).unwrap()),
    ("first segments deleted", "AUDIT_MISSING", |s| {
        [1, 5].iter().for_each(|n| fs::remove_file(segment(&s.log, *n)).unwrap());
    }),
    ("middle segment deleted", "AUDIT_CORRUPT", |s| fs::remove_file(segment(&s.log, 5)).unwrap()),
    ("last segment deleted", "AUDIT_ROLLED_BACK", |s| fs::remove_file(segment(&s.log, 9)).unwrap()),
    ("all but the first deleted", "AUDIT_ROLLED_BACK", |s| {
        [5, 9].iter().for_each(|n| fs::remove_file(segment(&s.log, *n)).unwrap());
    }),
    ("last segment emptied", "AUDIT_ROLLED_BACK", |s| fs::write(segment(&s.log, 9), "").unwrap()),
    ("first segment emptied", "AUDIT_CORRUPT", |s| fs::write(segment(&s.log, 1), "").unwrap()),
    ("only segment left emptied", "AUDIT_ROLLED_BACK", |s| {
        [5, 9].iter().for_each(|n| fs::remove_file(segment(&s.log, *n)).unwrap());
        fs::write(segment(&s.log, 1), "").unwrap();
    }),
    ("last segment cut behind its head", "AUDIT_ROLLED_BACK", |s| {
        cut(&segment(&s.log, 9), |text| text.find('\n').unwrap() + 1);
    }),
    ("last segment cut behind a checkpoint", "AUDIT_ROLLED_BACK", |s| {
        cut(&segment(&s.log, 5), |text| text.rfind("{\"checkpoint\"").unwrap());
        fs::remove_file(segment(&s.log, 9)).unwrap();
    }),
    ("last checkpoint cut", "AUDIT_ROLLED_BACK", |s| {
        cut(&segment(&s.log, 9), |text| text.rfind("{\"checkpoint\"").unwrap());
    }),
    ("last line torn", "AUDIT_ROLLED_BACK", |s| {
        cut(&segment(&s.log, 9), |text| text.len() - 9);
    }),
    ("older copy of the log", "AUDIT_ROLLED_BACK", |s| {
        fs::remove_dir_all(&s.log).unwrap();
        copy(&s.older, &s.log);
    }),
    ("shorter log of the same key", "AUDIT_ROLLED_BACK", |s| swap_in(s, 2)),
    ("longer log of the same key", "AUDIT_FORK", |s| swap_in(s, 4)),
    ("equally long log of the same key", "AUDIT_FORK", |s| swap_in(s, 3)),
    ("last segment of another log", "AUDIT_FORK", |s| {
        let aside = s.log.with_extension("aside");
        copy(&s.log, &aside);
        swap_in(s, 3);
        fs::rename(segment(&s.log, 9), segment(&aside, 9)).unwrap();
        fs::remove_dir_all(&s.log).unwrap();
        fs::rename(&aside, &s.log).unwrap();
    }),
    ("first segment of another log", "AUDIT_FORK", |s| {
        let aside = s.log.with_extension("aside");
        copy(&s.log, &aside);
        swap_in(s, 3);
        fs::rename(segment(&s.log, 1), segment(&aside, 1)).unwrap();
        fs::remove_dir_all(&s.log).unwrap();
        fs::rename(&aside, &s.log).unwrap();
    }),
];

#[test]
fn a_log_that_does_not_go_on_from_its_state_is_not_opened() {
    for durability in DURABILITIES {
        for (name, code, attack) in ATTACKS {
            let scene = Scene::new(durability);
            attack(&scene);
            let before = (scene.log.exists(), files(&scene.log), fs::read(scene.state()).unwrap());
            for _ in 0..2 {
                let error = Log::open(&scene.log, scene.options()).unwrap_err();
                let shared = Log::open_shared(&scene.log, scene.options()).unwrap_err();
                assert_eq!((error.code(), shared.source.code()), (*code, *code), "{name}: {error}");
            }
            let after = (scene.log.exists(), files(&scene.log), fs::read(scene.state()).unwrap());
            assert!(before == after, "{name} at {durability:?}: something was written");
        }
    }
}

#[test]
fn a_numbered_log_that_is_gone_is_not_begun_again() {
    let (_place, folder) = place();
    let (log, _) = Log::open_numbered(&folder, options()).unwrap();
    log.record(&decision("1")).unwrap();
    drop(log);
    fs::remove_dir_all(folder.join("1")).unwrap();
    let error = Log::open_numbered(&folder, options()).unwrap_err();
    assert_eq!((error.log.to_string().as_str(), error.source.code()), ("1", "AUDIT_MISSING"));
    assert!(!folder.join("1").exists());
    assert!(Log::open_shared(&folder, options()).is_ok(), "the folder's own is another log");
}

#[test]
fn a_log_without_a_state_is_adopted() {
    let (_place, path) = place();
    let log = Log::open(&path, options()).unwrap();
    assert_eq!(log.start(), LogStart::Begun);
    log.record(&decision("1")).unwrap();
    drop(log);
    assert_eq!(Log::open(&path, options()).unwrap().start(), LogStart::Resumed);
    fs::remove_file(path.with_extension("state")).unwrap();
    assert_eq!(Log::open(&path, options()).unwrap().start(), LogStart::Adopted);
    assert_eq!(known(&path).checkpoint.size(), 1);
}

fn known(log: &Path) -> KnownLog {
    let states = LogStateFile::new(log.with_extension("state")).read().unwrap().unwrap();
    states.log(&key()).unwrap().unwrap()
}

#[test]
fn the_state_follows_every_256_records() {
    let (_place, path) = place();
    let log = Log::open(&path, options()).unwrap();
    fill(&log, 255, 1);
    assert_eq!(known(&path).checkpoint.size(), 0);
    fill(&log, 1, 1);
    assert_eq!(known(&path).checkpoint.size(), 256);
    fill(&log, 10, 1);
    log.close().unwrap();
    assert_eq!(known(&path).checkpoint.size(), 266);
}

#[test]
fn the_state_follows_after_ten_seconds_of_records() {
    let (_place, path) = place();
    let log = Log::open(&path, options().opened_at(at(0))).unwrap();
    for (second, size) in [(9, 0), (10, 2), (19, 2), (20, 4)] {
        let mut record = call_record("c");
        record.time = at(second * 1_000);
        log.record(&Record::Decision(record)).unwrap();
        assert_eq!(known(&path).checkpoint.size(), size, "after {second} s");
    }
}

#[test]
fn the_state_names_nothing_that_is_not_synced() {
    let (_place, path) = place();
    let log = Log::open(&path, options().durability(Durability::System).checkpoint_every(2)).unwrap();
    fill(&log, 600, 1);
    assert_eq!(known(&path).checkpoint.size(), 0);
    log.save_state().unwrap();
    assert_eq!(known(&path).checkpoint.size(), 600);
}

#[test]
fn logs_of_several_folders_share_a_state() {
    let (place, path) = place();
    let state = place.path().join("record.state");
    let other = || LogOptions::new(KeyName::new("example.com/other").unwrap(), signing()).state(&state);
    let one = Log::open(&path, options().state(&state)).unwrap();
    let two = Log::open(place.path().join("other"), other()).unwrap();
    fill(&one, 3, 1);
    fill(&two, 2, 1);
    drop((one, two));
    let states = LogStateFile::new(&state).read().unwrap().unwrap();
    assert_eq!(states.origins().collect::<Vec<_>>(), ["example.com/log", "example.com/other"]);
    assert_eq!(states.log(&key()).unwrap().unwrap().checkpoint.size(), 3);
    fs::remove_dir_all(place.path().join("other")).unwrap();
    let error = Log::open(place.path().join("other"), other()).unwrap_err();
    assert_eq!(error.code(), "AUDIT_MISSING");
    assert!(Log::open(&path, options().state(&state)).is_ok());
}

#[test]
fn a_state_that_is_not_one_is_refused() {
    let text = |path: &Path| fs::read_to_string(path.with_extension("state")).unwrap();
    type Change = fn(String) -> String;
    let changes: [(&str, &str, Change); 8] = [
        ("empty", "AUDIT_STATE", |_| String::new()),
        ("half", "AUDIT_STATE", |text| text.chars().take(100).collect()),
        ("zeros", "AUDIT_STATE", |text| "\0".repeat(text.len())),
        ("other format", "AUDIT_STATE", |text| text.replace("state-1", "state-2")),
        ("no first", "AUDIT_STATE", |text| text.replace("\"first\":1", "\"first\":0")),
        ("other size", "AUDIT_STATE", |text| text.replace("\"size\":1", "\"size\":0")),
        ("unknown member", "AUDIT_STATE", |text| text.replace("\"first", "\"a\":1,\"first")),
        ("other checkpoint", "AUDIT_SIGNATURE", |text| {
            text.replace("example.com/log\\n1\\n", "example.com/log\\n2\\n")
        }),
    ];
    for (name, code, change) in changes {
        let (_place, path) = place();
        Log::open(&path, options()).unwrap().record(&decision("1")).unwrap();
        let (whole, log) = (text(&path), files(&path));
        let changed = change(whole.clone());
        assert_ne!(changed, whole, "{name}");
        fs::write(path.with_extension("state"), &changed).unwrap();
        assert_eq!(Log::open(&path, options()).unwrap_err().code(), code, "{name}");
        assert_eq!((text(&path), files(&path)), (changed, log), "{name}: something was written");
        fs::write(path.with_extension("state"), &whole).unwrap();
        assert!(Log::open(&path, options()).is_ok());
    }
}

#[test]
fn a_log_of_another_key_under_a_known_origin_is_refused() {
    let (_place, path) = place();
    drop(Log::open(&path, options()).unwrap());
    fs::remove_dir_all(&path).unwrap();
    let other = LogOptions::new(origin(), SigningKey::from_seed([8; 32]));
    assert_eq!(Log::open(&path, other).unwrap_err().code(), "AUDIT_SIGNATURE");
    assert!(!path.exists());
}

#[cfg(unix)]
#[test]
fn a_state_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_place, path) = place();
    drop(Log::open(&path, options()).unwrap());
    let state = path.with_extension("state");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&state, fs::Permissions::from_mode(0o620)).unwrap();
    assert_eq!(Log::open(&path, options()).unwrap_err().code(), "FILE_TOO_OPEN");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(Log::open(&path, options()).is_ok());
}

#[test]
fn a_state_that_cannot_be_written_stops_the_start() {
    let (place, path) = place();
    let lost = place.path().join("gone").join("record.state");
    assert_eq!(Log::open(&path, options().state(&lost)).unwrap_err().code(), "AUDIT_STATE");
}

#[test]
fn a_failing_state_refuses_no_record() {
    let (place, path) = place();
    let folder = place.path().join("states");
    fs::create_dir(&folder).unwrap();
    let log = Log::open(&path, options().state(folder.join("record.state"))).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fill(&log, 300, 1);
    assert_eq!(log.save_state().unwrap_err().code(), "AUDIT_STATE");
    fs::create_dir(&folder).unwrap();
    log.save_state().unwrap();
    let states = LogStateFile::new(folder.join("record.state")).read().unwrap().unwrap();
    assert_eq!(states.log(&key()).unwrap().unwrap().checkpoint.size(), 300);
}

#[test]
fn a_log_made_in_vain_leaves_no_state() {
    let (place, path) = place();
    let log = Log::open(&path, options()).unwrap();
    log.forget_state().unwrap();
    drop(log);
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(Log::open(&path, options()).unwrap().start(), LogStart::Begun);
}

#[test]
fn origin_of_a_numbered_log_begins_no_other_log() {
    let (place, path) = place();
    let state = place.path().join("record.state");
    drop(Log::open_shared(&path, options().state(&state)).unwrap());
    let second = "2".parse::<LogNumber>().unwrap().origin(&origin()).unwrap();
    let other = place.path().join("other");
    let error =
        Log::open_shared(&other, LogOptions::new(second, signing()).state(&state)).map(drop).unwrap_err();
    assert_eq!(error.source.code(), "AUDIT_ORIGIN");
    assert!(!other.exists());
}

#[test]
fn log_under_the_origin_of_a_numbered_one_goes_on() {
    let (place, path) = place();
    let state = place.path().join("record.state");
    let second = || LogOptions::new("2".parse::<LogNumber>().unwrap().origin(&origin()).unwrap(), signing());
    let other = place.path().join("other");
    drop(Log::open_shared(&other, second().state(&state)).unwrap());
    drop(Log::open_shared(&path, options().state(&state)).unwrap());
    assert!(Log::open_shared(&other, second().state(&state)).is_ok());
}
