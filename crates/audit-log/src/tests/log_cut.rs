//! Bytes that a log cuts are kept in a file next to it.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::fs;

use countersign_core::Digest;

use super::log_support::*;
use super::sim::{Faults, SimDisk};
use super::{at, decision};
use crate::*;

const ONE: &str = "000000000001.jsonl";

/// Writes a log of two entries and a torn third, and returns the part of the third that was written.
fn torn(disk: &SimDisk) -> Vec<u8> {
    let log = Log::open_on(disk.clone(), options()).unwrap();
    fill(&log, 2, 1);
    let kept = disk.bytes(ONE).len();
    log.record(&decision("third")).unwrap();
    drop(log);
    let mut bytes = disk.bytes(ONE);
    bytes.truncate(kept + 100);
    disk.put(ONE, bytes.clone());
    bytes.split_off(kept)
}

fn records(disk: &SimDisk) -> Vec<Record> {
    read_disk(disk.clone()).unwrap().map(|entry| entry.unwrap().into_record()).collect()
}

#[test]
fn cut_bytes_are_kept_and_their_file_is_named() {
    let disk = SimDisk::new(1, 512);
    let cut = torn(&disk);
    let log = Log::open_on(disk.clone(), options().opened_at(at(7))).unwrap();
    assert_eq!(disk.bytes("cut-3"), cut);
    let told = log.take_recovered();
    assert_eq!((told[0].file.as_str(), told[0].bytes, told.len()), ("cut-3", 100, 1));
    assert!(log.take_recovered().is_empty());
    drop(log);
    assert_eq!(records(&disk)[2], recovered(3, at(7), &cut));
    // Readers and writers ignore the file.
    assert_eq!(verify_disk(&disk, &key(), &[]).unwrap().records, 3);
    assert!(Log::open_on(disk.clone(), options()).unwrap().take_recovered().is_empty());
}

#[test]
fn cut_without_a_record_is_recorded_by_the_next_writer() {
    let disk = SimDisk::new(1, 512);
    let cut = torn(&disk);
    let mut bytes = disk.bytes(ONE);
    bytes.truncate(bytes.len() - cut.len());
    disk.put(ONE, bytes);
    disk.put("cut-3", cut.clone());
    assert_eq!(Log::open_on(disk.clone(), options()).unwrap().take_recovered()[0].file, "cut-3");
    assert_eq!(records(&disk)[2], recovered(3, at(1_000), &cut));
}

#[test]
fn cut_that_a_crash_interrupted_is_made_again() {
    let disk = SimDisk::new(1, 512);
    let cut = torn(&disk);
    for begun in [0, 1, 60, 100] {
        let again = SimDisk::new(1, 512);
        again.put(ONE, disk.bytes(ONE));
        again.put("cut-3", cut[..begun].to_vec());
        drop(Log::open_on(again.clone(), options()).unwrap());
        assert_eq!(again.bytes("cut-3"), cut, "{begun}");
        assert_eq!(records(&again)[2], recovered(3, at(1_000), &cut));
    }
    // The remains of the file after a power cut are not part of it, but are not discarded either.
    disk.put("cut-3", vec![0; 100]);
    drop(Log::open_on(disk.clone(), options()).unwrap());
    assert_eq!(disk.bytes("cut-3"), [&[0; 100], cut.as_slice()].concat());
}

#[test]
fn cut_is_kept_behind_a_large_earlier_one() {
    let (_folder, path) = place();
    fill(&Log::open(&path, options()).unwrap(), 2, 1);
    let file = segment(&path, 1);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 10]).unwrap();
    // Crashes in the middle of a cut leave such a file.
    let size: u64 = (33 << 20) + 1;
    fs::File::create(path.join("cut-2")).unwrap().set_len(size).unwrap();
    let recovered = Log::open(&path, options()).unwrap().take_recovered();
    let kept = fs::read(path.join("cut-2")).unwrap();
    assert!(kept.len() as u64 > size && kept[..33 << 20].iter().all(|byte| *byte == 0));
    assert!(bytes.ends_with(b"\n") && kept.ends_with(&bytes[bytes.len() - 100..bytes.len() - 10]));
    let [cut] = recovered.try_into().unwrap();
    assert_eq!((cut.bytes, cut.digest), (kept.len() as u64, Digest::of(&kept)));
}

#[test]
fn nothing_is_cut_that_cannot_be_kept() {
    let disk = SimDisk::new(1, 512);
    torn(&disk);
    let before = disk.bytes(ONE);
    for faults in [Faults { create: 1, ..Faults::default() }, Faults { sync: 1, ..Faults::default() }] {
        disk.set_faults(faults);
        assert_eq!(Log::open_on(disk.clone(), options()).unwrap_err().code(), "AUDIT_WRITE");
        assert_eq!(disk.bytes(ONE), before);
    }
}

#[cfg(unix)]
#[test]
fn file_of_cut_bytes_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = place();
    fill(&Log::open(&path, options()).unwrap(), 2, 1);
    let file = segment(&path, 1);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 10]).unwrap();
    drop(Log::open(&path, options()).unwrap());
    assert_eq!(fs::metadata(path.join("cut-2")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[cfg(unix)]
#[test]
fn link_in_the_place_of_a_cut_is_not_written_through() {
    let (folder, path) = place();
    fill(&Log::open(&path, options()).unwrap(), 2, 1);
    let (file, other) = (segment(&path, 1), folder.path().join("other"));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 10]).unwrap();
    fs::write(&other, "another's").unwrap();
    std::os::unix::fs::symlink(&other, path.join("cut-2")).unwrap();
    assert_eq!(Log::open(&path, options()).unwrap_err().code(), "AUDIT_WRITE");
    assert_eq!(fs::read(&file).unwrap(), bytes[..bytes.len() - 10]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
}
