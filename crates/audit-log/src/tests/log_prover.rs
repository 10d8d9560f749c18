//! A prover reads little of a log, and does not write through a link.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::log_support::*;
use super::side_files::{damage, log_of, record, segments, small, tree_of};
use crate::segment::{checkpoint_line, side_name};
use crate::*;

/// Folder that counts the bytes read from segments.
#[derive(Clone, Debug)]
struct CountingDisk {
    disk: FolderDisk,
    read: Arc<AtomicU64>,
}

struct Counting(Box<dyn Read + Send>, Arc<AtomicU64>);

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl CountingDisk {
    fn new(folder: &Path) -> Self {
        Self { disk: FolderDisk::existing(folder).unwrap(), read: Arc::default() }
    }

    fn take(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }
}

impl Disk for CountingDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.disk.size(name)
    }

    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let input = self.disk.read(name, from)?;
        let is_segment = name.ends_with(".jsonl");
        Ok(if is_segment { Box::new(Counting(input, Arc::clone(&self.read))) } else { input })
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        self.disk.lock(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }
}

fn prover(folder: &Path) -> LogProver {
    LogProver::open(FolderDisk::existing(folder).unwrap(), &key(), &[]).unwrap()
}

fn append(folder: &Path, bytes: &[u8]) {
    let path = segment(folder, segments(folder).pop().unwrap());
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn proof_reads_little_of_a_large_log() {
    let (_keep, folder) = log_of(5_000);
    let disk = CountingDisk::new(&folder);
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    prover.prove_inclusion(2_000, 5_000).unwrap();
    prover.prove_consistency(2_000, 5_000).unwrap();
    let (read, all) = (disk.take(), fs::metadata(segment(&folder, 1)).unwrap().len());
    assert!(segments(&folder).len() > 10 && read < 10 * all, "{read}");
}

#[test]
fn public_proofs_read_no_damaged_entry() {
    let (_keep, folder) = log_of(2_000);
    let tree = tree_of(&folder);
    let place = segments(&folder).into_iter().rfind(|first| *first <= 500).unwrap();
    let text = fs::read_to_string(segment(&folder, place)).unwrap();
    fs::write(segment(&folder, place), text.replacen("call-500", "call-5oo", 1)).unwrap();
    let proof = prove_inclusion(&folder, &key(), 3, 2_000).unwrap();
    assert_eq!(proof, tree.prove_inclusion(2).unwrap());
    let proof = prove_consistency(&folder, &key(), 1_500, 2_000).unwrap();
    assert_eq!(proof, tree.prove_consistency_at(1_500, 2_000).unwrap());
    assert_eq!(prove_inclusion(&folder, &key(), 500, 2_000).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn entries_from_a_number_are_those_of_the_log() {
    let (_keep, folder) = log_of(1_500);
    let all: Vec<_> = read_log(&folder).unwrap().map(Result::unwrap).collect();
    let log = Log::open(&folder, small()).unwrap();
    let mut prover = prover(&folder);
    record(&log, 1..400);
    for from in (1..1_500).step_by(77).chain([1_500, 1_501]) {
        let read: Vec<_> = prover.entries_from(from).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, all[usize::try_from(from).unwrap() - 1..], "{from}");
    }
    for none in [0, 1_502] {
        assert_eq!(prover.entries_from(none).unwrap_err().code(), "AUDIT_NO_SUCH_SIZE");
    }
}

#[test]
fn entries_from_a_number_are_all_that_is_read() {
    let (_keep, folder) = log_of(5_000);
    let disk = CountingDisk::new(&folder);
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    let last = segments(&folder).pop().unwrap();
    assert_eq!(prover.entries_from(last).unwrap().count() as u64, 5_001 - last);
    let (read, most) = (disk.take(), 3 * fs::metadata(segment(&folder, 1)).unwrap().len());
    assert!(segments(&folder).len() > 10 && read < 2 * most, "{read}");
    // Damage in unread entries is for others to find; damaged entries themselves are not returned.
    damage(&folder, 1);
    assert!(prover.entries_from(last).is_ok());
    damage(&folder, last);
    assert_eq!(prover.entries_from(last).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn entries_that_change_while_they_are_given_end_in_an_error() {
    let (_keep, folder) = log_of(50);
    let mut entries = prover(&folder).entries_from(1).unwrap();
    let path = segment(&folder, 1);
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.replacen("\"call_id\":\"", "\"call_id\":\"x", 1);
    assert_ne!(changed, text);
    fs::write(&path, changed).unwrap();
    let failed = entries.find_map(Result::err).unwrap();
    assert_eq!(failed.code(), "AUDIT_CORRUPT");
    assert!(entries.next().is_none());
}

#[test]
fn entries_behind_archived_segments_are_read() {
    let (_keep, folder) = log_of(2_000);
    fs::remove_file(segment(&folder, 1)).unwrap();
    let mut prover = prover(&folder);
    let first = prover.first_here();
    assert_eq!(prover.entries_from(first).unwrap().count() as u64, 2_001 - first);
    assert_eq!(prover.entries_from(first - 1).unwrap_err().code(), "AUDIT_ARCHIVED");
}

#[test]
fn older_checkpoint_at_the_end_is_damage() {
    for size in [5, 900] {
        let (_keep, folder) = log_of(900);
        let older = Checkpoint::new(origin(), tree_of(&folder).head_at(size).unwrap()).sign(&signing());
        append(&folder, &checkpoint_line(&older).unwrap());
        let refused = LogProver::open(FolderDisk::existing(&folder).unwrap(), &key(), &[]).unwrap_err();
        assert_eq!(refused.code(), "AUDIT_CORRUPT");
        let said = format!("(entry 900, byte {})", refused.place().unwrap().byte);
        let text = format!("{said}: {size} records, an earlier one covers 900");
        assert!(refused.to_string().ends_with(&text), "{refused}");
        assert_eq!(verify_all(&folder).unwrap_err().to_string(), refused.to_string());
    }
}

#[test]
fn repeated_entry_under_its_checkpoint_is_damage() {
    let (_keep, folder) = log_of(900);
    let tree = tree_of(&folder);
    let fifth = read_log(&folder).unwrap().nth(4).unwrap().unwrap();
    append(&folder, &[fifth.line(), b"\n"].concat());
    let older = Checkpoint::new(origin(), tree.head_at(5).unwrap()).sign(&signing());
    append(&folder, &checkpoint_line(&older).unwrap());
    let refused = LogProver::open(FolderDisk::existing(&folder).unwrap(), &key(), &[]).unwrap_err();
    assert_eq!(refused.code(), "AUDIT_CORRUPT");
}

#[test]
fn end_of_a_log_is_searched_no_farther_than_a_crash_reaches() {
    let (_keep, folder) = log_of(300);
    append(&folder, &b"nothing of a log\n".repeat(3 << 20));
    let disk = CountingDisk::new(&folder);
    let refused = LogProver::open(disk.clone(), &key(), &[]).unwrap_err();
    assert_eq!(refused.code(), "AUDIT_CORRUPT");
    let read = disk.take();
    assert!(read < 20 << 20, "{read}");
}

#[test]
fn checkpoint_before_a_long_tail_is_found() {
    for entries in [0, 1, 200, 2_000] {
        let (_keep, folder) = place();
        let log = Log::open(&folder, options()).unwrap();
        fill(&log, 300, 300);
        if entries > 0 {
            fill(&log, entries, entries);
        }
        log.close().unwrap();
        let path = segment(&folder, 1);
        let mut bytes = fs::read(&path).unwrap();
        if entries > 0 {
            let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
            bytes.truncate(last - 3);
        }
        fs::write(path, &bytes).unwrap();
        let disk = CountingDisk::new(&folder);
        let prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
        assert_eq!(prover.checkpoint().size(), 300);
        assert!(disk.take() < 3 * bytes.len() as u64 + (400 << 10), "{entries}");
    }
}

#[test]
fn checkpoint_before_lost_pages_is_found() {
    let (_keep, folder) = log_of(8_000);
    let last = segment(&folder, segments(&folder).pop().unwrap());
    let size = usize::try_from(fs::metadata(&last).unwrap().len()).unwrap();
    let mut lost = vec![0; 600 << 10];
    lost.truncate((600 << 10) - size % 512);
    append(&folder, &lost);
    for more in [&b""[..], b"\"}\n"] {
        append(&folder, more);
        let disk = CountingDisk::new(&folder);
        let prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
        assert_eq!(prover.checkpoint().size(), 8_000);
        let read = disk.take();
        assert!(read < 1_600_000, "{read}");
    }
}

#[test]
fn prover_keeps_its_checkpoint_while_the_log_grows() {
    let (_keep, folder) = log_of(1_400);
    let log = Log::open(&folder, small()).unwrap();
    let mut prover = prover(&folder);
    let note = prover.note().to_owned();
    record(&log, 1..500);
    log.checkpoint().unwrap();
    for first in segments(&folder) {
        let _ = fs::write(folder.join(side_name(first)), b"wrong");
    }
    let entry = prover.entry(3).unwrap();
    let proof = prover.prove_inclusion(3, prover.checkpoint().size()).unwrap();
    assert_eq!(prover.decisions_on("none", 1_400).unwrap(), [0; 0], "all of it is verified");
    assert_eq!(prover.note(), note);
    let receipt = Receipt::new(entry.line(), &proof, prover.note()).unwrap();
    assert_eq!(receipt.verify(&key()).unwrap().checkpoint().size(), 1_400);
}

#[test]
fn absent_call_is_answered_before_a_torn_head() {
    let (_keep, folder) = log_of(600);
    fs::write(segment(&folder, 601), b"{\"segment\":{\"first\":6").unwrap();
    let mut prover = prover(&folder);
    assert_eq!(prover.decisions_on("none", 600).unwrap(), [0; 0]);
    assert_eq!(prover.decisions_on("call-7", 600).unwrap(), [7]);
}

/// Replaces all side files by links to a file. Readers and a writer then make them anew.
#[cfg(unix)]
fn is_made_anew(link: impl Fn(&Path, &Path) -> io::Result<()>) {
    let (keep, folder) = log_of(700);
    let (tree, other) = (tree_of(&folder), keep.path().join("other"));
    fs::write(&other, "another's").unwrap();
    for first in segments(&folder) {
        let side = folder.join(side_name(first));
        let _ = fs::remove_file(&side);
        link(&other, &side).unwrap();
    }
    let mut prover = prover(&folder);
    for first in segments(&folder) {
        let proof = prover.prove_inclusion(first, 700).unwrap();
        assert_eq!(proof, tree.prove_inclusion(first - 1).unwrap());
    }
    assert_eq!(prover.decisions_on("none", 700).unwrap(), [0; 0]);
    assert_eq!(prover.decisions_on("call-7", 700).unwrap(), [7]);
    let rebuilt = prover.take_rebuilt();
    assert!(!rebuilt.is_empty() && rebuilt.iter().all(|side| side.failure.is_none()), "{rebuilt:?}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
    let log = Log::open(&folder, small()).unwrap();
    record(&log, 701..1_400);
    log.close().unwrap();
    assert_eq!(verify_all(&folder).unwrap().records, 1_399);
    assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
    let mut prover = self::prover(&folder);
    prover.prove_inclusion(1, 1_399).unwrap();
    assert!(prover.take_rebuilt().is_empty());
}

#[cfg(unix)]
#[test]
fn writer_goes_on_in_a_copy_of_a_linked_side_file() {
    let (keep, folder) = log_of(300);
    let (side, other) = (folder.join(side_name(1)), keep.path().join("other"));
    fs::hard_link(&side, &other).unwrap();
    let before = fs::read(&other).unwrap();
    let log = Log::open(&folder, small().segment_bytes(1 << 20)).unwrap();
    record(&log, 301..701);
    log.close().unwrap();
    assert_eq!(fs::read(&other).unwrap(), before);
    assert!(fs::metadata(&side).unwrap().len() > 2 * before.len() as u64);
    let mut prover = prover(&folder);
    prover.prove_inclusion(1, 700).unwrap();
    assert!(prover.take_rebuilt().is_empty());
}

#[cfg(unix)]
#[test]
fn hard_linked_side_file_is_not_written_through() {
    is_made_anew(|other, side| fs::hard_link(other, side));
}

#[cfg(unix)]
#[test]
fn dangling_link_for_a_side_file_is_made_anew() {
    let (_keep, folder) = log_of(700);
    for first in segments(&folder) {
        let side = folder.join(side_name(first));
        let _ = fs::remove_file(&side);
        std::os::unix::fs::symlink("missing", &side).unwrap();
    }
    let mut prover = prover(&folder);
    prover.prove_inclusion(1, 700).unwrap();
    let rebuilt = prover.take_rebuilt();
    assert!(!rebuilt.is_empty() && rebuilt.iter().all(|side| side.failure.is_none()), "{rebuilt:?}");
}

#[cfg(unix)]
#[test]
fn symbolic_link_for_a_side_file_is_not_written_through() {
    is_made_anew(|other, side| std::os::unix::fs::symlink(other, side));
}
