//! Moving the oldest segments of a log to an archive.

use std::fs;
use std::path::{Path, PathBuf};

use super::at;
use super::log_support::{calls, key, options_with_state as options, place, segment, verify_all};
use crate::log_files::stop::stop_after;
use crate::*;

/// Log of four segments with four entries each. The time of entry `n` is `n`.
struct Scene {
    place: tempfile::TempDir,
    log: PathBuf,
    to: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let (place, log) = place();
        let scene = Self { to: place.path().join("archive"), place, log };
        for seq in 1..=16 {
            // The first entry follows a full segment.
            let bytes = if seq % 4 == 1 { 1 } else { 1 << 20 };
            let log = Log::open(&scene.log, options().segment_bytes(bytes)).unwrap();
            let record = GatewayRecord::new(at(seq), Direction::ToServer, "MALFORMED_CALL");
            log.record(&Record::Gateway(record)).unwrap();
        }
        assert_eq!(scene.segments(&scene.log), [1, 5, 9, 13]);
        scene
    }

    fn archive(&self, before: ArchiveBefore) -> Result<Archived, ArchiveError> {
        archive_log(&self.log, options(), &[], before, &self.to, at(99))
    }

    fn segments(&self, folder: &Path) -> Vec<u64> {
        crate::segment::list_segments(&FolderDisk::existing(folder).unwrap()).unwrap()
    }

    fn joined(&self) -> LogSummary {
        verify_disk(&JoinedDisk::existing([&self.log, &self.to]).unwrap(), &key(), &[]).unwrap()
    }

    fn archived(&self) -> Vec<ArchivedRecord> {
        let all = calls(&self.log).into_iter();
        all.filter_map(|(_, record)| if let Record::Archived(it) = record { Some(it) } else { None })
            .collect()
    }
}

fn entry(seq: u64) -> ArchiveBefore {
    ArchiveBefore::Entry(seq)
}

#[test]
fn archived_segments_verify_alone() {
    let scene = Scene::new();
    let done = scene.archive(entry(9)).unwrap();
    assert_eq!((done.first, done.last, done.files.len()), (1, 8, 2));
    let archive = verify_all(&scene.to).unwrap();
    assert_eq!((archive.first_here, archive.records, archive.tail_bytes), (1, 8, 0));
    let text = fs::read_to_string(scene.to.join(&done.manifest.name)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((manifest["first"].as_u64(), manifest["last"].as_u64()), (Some(1), Some(8)));
    let note = manifest["checkpoint"].as_str().unwrap();
    assert_eq!(Checkpoint::verify(note, &key()).unwrap(), archive.checkpoint);
    assert_eq!(done.manifest, crate::log_files::FileSum::of_bytes(&done.manifest.name, text.as_bytes()));
}

#[test]
fn log_goes_on_behind_its_archive() {
    let scene = Scene::new();
    let done = scene.archive(entry(9)).unwrap();
    assert_eq!(scene.segments(&scene.log), [9, 13]);
    let log = Log::open(&scene.log, options()).unwrap();
    assert_eq!((log.start(), log.head().size()), (LogStart::Resumed, 17));
    drop(log);
    let found = scene.archived();
    assert_eq!(found, [ArchivedRecord::new(at(99), 1, 8, done.manifest.sha256)]);
    let all = scene.joined();
    assert_eq!((all.first_here, all.records), (1, 17));
    // A second archive is added to the first.
    scene.archive(entry(13)).unwrap();
    assert_eq!(verify_all(&scene.to).unwrap().records, 12);
    fs::remove_file(segment(&scene.log, 13)).unwrap();
    let gone = Log::open(&scene.log, options()).unwrap_err();
    assert_eq!(gone.code(), "AUDIT_MISSING");
}

#[test]
fn only_whole_segments_before_the_limit_are_archived() {
    for (before, last) in [
        (entry(8), Some(4)),
        (entry(9), Some(8)),
        (entry(u64::MAX), Some(12)),
        (ArchiveBefore::Time(at(10)), Some(8)),
        (ArchiveBefore::Time(at(5)), Some(4)),
        (ArchiveBefore::Time(at(1_000)), Some(12)),
        (ArchiveBefore::Time(at(4)), None),
        (entry(4), None),
        (entry(0), None),
    ] {
        let scene = Scene::new();
        match (scene.archive(before), last) {
            (Ok(done), Some(last)) => assert_eq!(done.last, last, "{before:?}"),
            (Err(error), None) => assert_eq!(error.code(), "ARCHIVE_NOTHING", "{before:?}"),
            (result, _) => panic!("{before:?}: {result:?}"),
        }
    }
}

#[test]
fn interrupted_archive_loses_nothing() {
    for steps in 0.. {
        let scene = Scene::new();
        stop_after(Some(steps));
        let result = scene.archive(entry(9));
        stop_after(None);
        if result.is_ok() {
            assert!(steps > 8, "{steps}");
            return;
        }
        assert!(Log::open(&scene.log, options()).is_ok(), "{steps}");
        if scene.to.exists() {
            assert_eq!(scene.joined().first_here, 1, "{steps}");
        }
        let is_done = scene.segments(&scene.log) == [9, 13];
        let again = scene.archive(entry(9));
        assert!(matches!((is_done, again), (false, Ok(_)) | (true, Err(ArchiveError::Nothing))), "{steps}");
        assert_eq!(scene.segments(&scene.log), [9, 13], "{steps}");
        assert_eq!(verify_all(&scene.to).unwrap().records, 8, "{steps}");
        assert_eq!(scene.archived().len(), 1, "{steps}");
        assert_eq!(scene.joined().records, 17, "{steps}");
        assert!(Log::open(&scene.log, options()).is_ok(), "{steps}");
        let left = fs::read_dir(&scene.to).unwrap().count();
        assert_eq!(left, 3, "{steps}");
    }
}

#[test]
fn refused_archive_removes_nothing() {
    type Spoil = fn(&Scene) -> Option<Log>;
    let spoils: [(&str, Spoil); 6] = [
        ("ARCHIVE_CONFLICT", |scene| {
            fs::create_dir(&scene.to).unwrap();
            fs::write(segment(&scene.to, 5), "another").unwrap();
            None
        }),
        ("ARCHIVE_FILE", |scene| {
            fs::write(&scene.to, "a file").unwrap();
            None
        }),
        ("ARCHIVE_FOLDER", |scene| {
            fs::create_dir(&scene.to).unwrap();
            fs::write(scene.to.join("lock"), "").unwrap();
            None
        }),
        ("AUDIT_LOCKED", |scene| Some(Log::open(&scene.log, options()).unwrap())),
        ("AUDIT_CORRUPT", |scene| {
            let path = segment(&scene.log, 1);
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
            None
        }),
        ("AUDIT_UNAVAILABLE", |scene| {
            fs::rename(&scene.log, scene.place.path().join("elsewhere")).unwrap();
            fs::create_dir(&scene.log).unwrap();
            None
        }),
    ];
    for (code, spoil) in spoils {
        let scene = Scene::new();
        let held = spoil(&scene);
        let before = scene.segments(&scene.log);
        let error = scene.archive(entry(9)).unwrap_err();
        let codes = if code == "AUDIT_CORRUPT" { [code, "AUDIT_SIGNATURE"] } else { [code, code] };
        assert!(codes.contains(&error.code()), "{code}: {error:?}");
        assert_eq!(scene.segments(&scene.log), before, "{code}");
        drop(held);
    }
    let scene = Scene::new();
    let within = archive_log(&scene.log, options(), &[], entry(9), scene.log.join("old"), at(99));
    assert_eq!(within.unwrap_err().code(), "ARCHIVE_FOLDER");
}

#[test]
fn other_state_knows_the_archive() {
    for steps in 0.. {
        let scene = Scene::new();
        let (aside, state) = (scene.place.path().join("aside.state"), scene.place.path().join("log.state"));
        let with = |path: &Path| options().state(path);
        // The other state lags behind, and the first of its entries are about to be removed.
        fs::copy(&state, &aside).unwrap();
        drop(Log::open(&scene.log, options()).unwrap());
        let other = [LogStateFile::new(&aside)];
        let archive = || archive_log(&scene.log, options(), &other, entry(9), &scene.to, at(99));
        stop_after(Some(steps));
        let result = archive();
        stop_after(None);
        for path in [&state, &aside] {
            let log = Log::open(&scene.log, with(path)).unwrap_or_else(|error| panic!("{steps}: {error:?}"));
            assert_eq!(log.start(), LogStart::Resumed, "{steps}");
        }
        if result.is_ok() {
            return;
        }
    }
}

#[test]
fn log_that_left_another_state_is_not_archived() {
    let scene = Scene::new();
    let aside = scene.place.path().join("aside.state");
    fs::copy(scene.place.path().join("log.state"), &aside).unwrap();
    fs::remove_file(segment(&scene.log, 13)).unwrap();
    fs::remove_file(scene.place.path().join("log.state")).unwrap();
    let other = [LogStateFile::new(&aside)];
    let result = archive_log(&scene.log, options(), &other, entry(9), &scene.to, at(99));
    assert_eq!(result.unwrap_err().code(), "AUDIT_ROLLED_BACK");
    assert_eq!(scene.segments(&scene.log), [1, 5, 9]);
}
