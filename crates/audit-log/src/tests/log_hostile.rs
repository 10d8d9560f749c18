//! Faults of a disk other than errors: it panics, is taken over, or holds unexpected files.

use std::fs;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::log_support::*;
use super::sim::{Faults, SimDisk};
use super::{at, call_record, decision};
use crate::*;
use countersign_core::Digest;

/// Disk of which one operation panics, after `left` others.
#[derive(Clone, Debug)]
struct PanickingDisk {
    inner: SimDisk,
    left: Arc<AtomicI64>,
}

#[derive(Debug)]
struct PanickingFile {
    inner: Box<dyn DiskFile>,
    left: Arc<AtomicI64>,
}

fn step(left: &AtomicI64) {
    assert!(left.fetch_sub(1, Ordering::SeqCst) != 0, "the disk panics");
}

impl PanickingDisk {
    fn file(&self, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(PanickingFile { inner, left: Arc::clone(&self.left) })
    }
}

impl Disk for PanickingDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        step(&self.left);
        self.inner.list()
    }
    fn size(&self, name: &str) -> io::Result<u64> {
        step(&self.left);
        self.inner.size(name)
    }
    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        step(&self.left);
        self.inner.read(name, from)
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        step(&self.left);
        self.inner.create(name).map(|file| self.file(file))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        step(&self.left);
        self.inner.open(name).map(|file| self.file(file))
    }
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        step(&self.left);
        Ok(self.inner.lock(name)?.map(|file| self.file(file)))
    }
    fn sync_folder(&self) -> io::Result<()> {
        step(&self.left);
        self.inner.sync_folder()
    }
}

impl DiskFile for PanickingFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        step(&self.left);
        self.inner.write_at(offset, bytes)
    }
    fn truncate(&mut self, size: u64) -> io::Result<()> {
        step(&self.left);
        self.inner.truncate(size)
    }
    fn sync(&mut self) -> io::Result<()> {
        step(&self.left);
        self.inner.sync()
    }
    fn size_in_place(&mut self) -> io::Result<Option<u64>> {
        step(&self.left);
        self.inner.size_in_place()
    }
}

/// Runs three records in flight, then two more one by one. The operation after `after` others panics, and then the one
/// after `again` others.
fn panicking(after: i64, again: i64) {
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let disk = PanickingDisk { inner: SimDisk::new(7, 512), left: Arc::clone(&left) };
    let log = Log::open_on(disk.clone(), options().segment_bytes(1)).unwrap();
    let mut kept = vec![log.record(&decision("1")).unwrap()];
    left.store(after, Ordering::SeqCst);
    let flying: Vec<_> = (0..3).map(|_| log.submit(&decision("2")).unwrap()).collect();
    let done: Vec<_> = std::thread::scope(|scope| {
        let waiting: Vec<_> = flying.into_iter().map(|pending| scope.spawn(|| pending.wait())).collect();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let failed = done.iter().any(Result::is_err);
    kept.extend(done.into_iter().flatten());
    if failed {
        left.store(again, Ordering::SeqCst);
    }
    for call in ["3", "4", "5"] {
        kept.extend(log.record(&decision(call)).ok());
    }
    left.store(i64::MAX, Ordering::SeqCst);
    kept.push(log.record(&decision("last")).unwrap());
    drop(log);
    assert!(kept.is_sorted_by(|one, next| one < next), "{after} {again}: {kept:?}");
    let summary = verify_disk(&disk.inner, &key(), &[]).unwrap();
    assert_eq!(Some(&summary.records), kept.last(), "{after} {again}");
    let last = read_disk(disk.inner).unwrap().last().unwrap().unwrap();
    assert_eq!(last.into_record(), decision("last"));
}

#[test]
fn panicking_disk_leaves_no_caller_waiting() {
    let (told, done) = mpsc::channel();
    std::thread::spawn(move || {
        for after in 0..20 {
            for again in 0..20 {
                panicking(after, again);
            }
        }
        told.send(()).unwrap();
    });
    // Only a log that hangs takes this long.
    done.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[cfg(unix)]
#[test]
fn replaced_log_folder_gets_no_segment_of_the_old_log() {
    for durability in [Durability::Every, Durability::Group, Durability::System] {
        let (folder, path) = place();
        let first = Log::open(&path, options().durability(durability).segment_bytes(1)).unwrap();
        first.record(&decision("1")).unwrap();
        fs::rename(&path, folder.path().join("aside")).unwrap();
        let second = Log::open(&path, options()).unwrap();
        second.record(&decision("1")).unwrap();
        for _ in 0..3 {
            assert_eq!(first.record(&decision("2")).unwrap_err().code(), "AUDIT_REPLACED");
            assert_eq!(first.checkpoint().unwrap_err().code(), "AUDIT_POISONED");
        }
        drop((first, second));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "the lock and one segment");
        assert_eq!(verify_all(&path).unwrap().records, 1);
    }
}

#[cfg(unix)]
#[test]
fn deleted_lock_costs_no_acknowledged_record() {
    for durability in [Durability::Every, Durability::Group, Durability::System] {
        let (_folder, path) = place();
        let open = || Log::open(&path, options().durability(durability)).unwrap();
        let first = open();
        let mut kept = vec![(first.record(&decision("1")).unwrap(), decision("1"))];
        fs::remove_file(path.join("lock")).unwrap();
        let second = open();
        for n in 2..9 {
            for log in [&first, &second] {
                let record = decision(&format!("{n}"));
                kept.extend(log.record(&record).ok().map(|seq| (seq, record)));
            }
        }
        let refused = first.record(&decision("2")).unwrap_err();
        assert_eq!((refused.code(), refused.to_string().contains("`lock`")), ("AUDIT_REPLACED", true));
        drop((first, second));
        assert!(kept.len() >= 8, "the second writes");
        let found = calls(&path);
        for record in kept {
            assert!(found.contains(&record), "{durability:?}: {} was acknowledged", record.0);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_segment_that_is_gone_when_the_next_begins_refuses() {
    let (_folder, path) = place();
    let log = Log::open(&path, options().segment_bytes(1)).unwrap();
    log.record(&decision("1")).unwrap();
    fs::remove_file(segment(&path, 1)).unwrap();
    for _ in 0..3 {
        assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_REPLACED");
    }
    assert!(!segment(&path, 2).exists());
}

#[cfg(unix)]
#[test]
fn link_in_place_of_a_segment_or_lock_is_not_followed() {
    use std::os::unix::fs::symlink;
    let (folder, path) = place();
    let other = folder.path().join("other");
    fs::write(&other, "another's").unwrap();
    let log = Log::open(&path, options().segment_bytes(1)).unwrap();
    log.record(&decision("1")).unwrap();
    symlink(&other, segment(&path, 2)).unwrap();
    for code in ["AUDIT_WRITE", "AUDIT_UNAVAILABLE", "AUDIT_UNAVAILABLE"] {
        assert_eq!(log.record(&decision("2")).unwrap_err().code(), code);
    }
    fs::remove_file(segment(&path, 2)).unwrap();
    assert_eq!(log.record(&decision("2")).unwrap(), 2);
    drop(log);
    fs::remove_file(path.join("lock")).unwrap();
    symlink(folder.path().join("new"), path.join("lock")).unwrap();
    assert_eq!(Log::open(&path, options()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert!(!folder.path().join("new").exists());
    assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
}

#[test]
fn oversized_tail_is_refused_as_corrupt() {
    let disk = SimDisk::new(1, 4_096);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    log.record(&decision("1")).unwrap();
    drop(log);
    let mut bytes = disk.bytes("000000000001.jsonl");
    let line = serde_json::to_string(&crate::line::WireLine { seq: 0, record: &decision(&"x".repeat(200)) });
    let line = line.unwrap();
    let mut seq = 2;
    while bytes.len() < 17 << 20 {
        bytes.extend_from_slice(line.replacen(":0", &format!(":{seq}"), 1).as_bytes());
        bytes.push(b'\n');
        seq += 1;
    }
    disk.put("000000000001.jsonl", bytes);
    for durability in [Durability::Group, Durability::System] {
        let opened = Log::open_on(disk.clone(), options().durability(durability));
        assert_eq!(opened.unwrap_err().code(), "AUDIT_CORRUPT");
    }
    assert_eq!(verify_disk(&disk, &key(), &[]).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn full_disk_records_one_cut_over_many_attempts() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed, 512);
        let log = Log::open_on(disk.clone(), options()).unwrap();
        log.record(&decision("1")).unwrap();
        disk.set_faults(Faults { write: 2, ..Faults::default() });
        for n in 0..100 {
            // The record of a cut contains its time, so no two attempts leave the same bytes.
            let mut record = call_record("2");
            record.time = at(n);
            let _refused = log.record(&Record::Decision(record));
        }
        disk.set_faults(Faults::default());
        log.record(&decision("last")).unwrap();
        drop(log);
        verify_disk(&disk, &key(), &[]).unwrap();
        for name in disk.list().unwrap().iter().filter(|name| name.ends_with(".jsonl")) {
            let text = String::from_utf8(disk.bytes(name)).unwrap();
            let cuts: Vec<_> = text.lines().map(|line| line.contains("\"recovered\"")).collect();
            assert!(!cuts.windows(2).any(|two| two == [true, true]), "seed {seed}: two in one batch");
        }
    }
}

#[test]
fn full_disk_rereads_the_segment_only_once() {
    for durability in [Durability::Group, Durability::System] {
        let disk = SimDisk::new(1, 4_096);
        let options = options().durability(durability).checkpoint_every(1_000);
        let log = Log::open_on(disk.clone(), options).unwrap();
        fill(&log, 200, 1);
        disk.set_faults(Faults { write: 1, create: 1, ..Faults::default() });
        let refuse = || {
            let before = disk.bytes_read();
            log.record(&decision("2")).unwrap_err();
            disk.bytes_read() - before
        };
        refuse();
        disk.set_faults(Faults { create: 1, ..Faults::default() });
        let first = refuse();
        let whole = disk.bytes("000000000001.jsonl");
        assert!(first >= whole.len() as u64 / 2, "what was written is verified once");
        for _ in 0..10 {
            assert!(refuse() < 2_000, "{durability:?}: no more than what may be behind it");
        }
        // First another file of that name, then one that is too short.
        disk.put("000000000001.jsonl", whole.clone());
        assert!(refuse() >= whole.len() as u64);
        disk.put("000000000001.jsonl", whole[..whole.len() / 2].to_vec());
        assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_CORRUPT");
        let mut other = whole.clone();
        let at = whole.windows(4).position(|bytes| bytes == b"desk").unwrap();
        other[at] ^= 1;
        disk.put("000000000001.jsonl", other);
        assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_CORRUPT");
        disk.put("000000000001.jsonl", whole);
        disk.set_faults(Faults::default());
        let seq = log.record(&decision("last")).unwrap();
        drop(log);
        assert_eq!(verify_disk(&disk, &key(), &[]).unwrap().records, seq);
    }
}

#[test]
fn cut_is_recorded_once_despite_a_failed_sync() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed, 512);
        let log = Log::open_on(disk.clone(), options()).unwrap();
        for n in 0..100 {
            disk.set_faults(Faults { write: 3, sync: 4, ..Faults::default() });
            let mut record = call_record("2");
            record.time = at(n);
            let _refused = log.record(&Record::Decision(record));
        }
        disk.set_faults(Faults::default());
        log.record(&decision("last")).unwrap();
        drop(log);
        let mut cuts: Vec<_> = read_disk(disk)
            .unwrap()
            .filter_map(|entry| {
                let Record::Recovered(cut) = entry.unwrap().into_record() else { return None };
                // Shorter remains end before the time, and can be equal.
                (cut.bytes > 50).then(|| cut.digest.to_string())
            })
            .collect();
        cuts.sort();
        let all = cuts.len();
        cuts.dedup();
        assert_eq!(cuts.len(), all, "seed {seed}");
    }
}

#[test]
fn bytes_in_place_of_an_unstarted_segment_are_recorded() {
    for (records, name) in [(0_u64, "000000000001.jsonl"), (1, "000000000002.jsonl")] {
        let disk = SimDisk::new(1, 512);
        let log = Log::open_on(disk.clone(), options().segment_bytes(1)).unwrap();
        fill(&log, records, 1);
        drop(log);
        disk.put(name, vec![0; 900]);
        assert_eq!(
            Log::open_on(disk.clone(), options()).unwrap().record(&decision("2")).unwrap(),
            records + 2
        );
        let found = read_disk(disk).unwrap().nth(usize::try_from(records).unwrap()).unwrap().unwrap();
        let Record::Recovered(cut) = found.into_record() else { panic!("the cut is not recorded") };
        assert_eq!((cut.bytes, cut.digest), (900, Digest::of(&[0; 900])));
    }
}
