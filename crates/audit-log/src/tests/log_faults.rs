#![expect(clippy::cast_possible_truncation, reason = "tests count with small numbers")]

use super::log_support::*;
use super::sim::{Crash, Faults, Rng, SimDisk};
use super::{at, decision};
use crate::*;

const ALWAYS: u64 = 1;

fn broken(disk: &SimDisk, faults: Faults) {
    disk.set_faults(faults);
}

fn working(disk: &SimDisk) {
    disk.set_faults(Faults::default());
}

fn verified(disk: &SimDisk) -> LogSummary {
    verify_disk(disk, &key(), &[]).unwrap()
}

fn records(disk: &SimDisk) -> Vec<Record> {
    read_disk(disk.clone()).unwrap().map(|entry| entry.unwrap().into_record()).collect()
}

#[test]
fn full_disk_refuses_records_until_it_has_room() {
    let disk = SimDisk::new(3, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    log.record(&decision("1")).unwrap();
    let kept = disk.bytes("000000000001.jsonl").len();
    broken(&disk, Faults { write: ALWAYS, ..Faults::default() });
    assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_WRITE");
    let left = disk.bytes("000000000001.jsonl").split_off(kept);
    assert!(!left.is_empty(), "some of it was written");
    for _ in 0..3 {
        assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    }
    working(&disk);
    assert_eq!(log.record(&decision("3")).unwrap(), 3);
    assert_eq!(disk.bytes("000000000001.jsonl").len(), kept);
    assert_eq!(records(&disk), [decision("1"), recovered(2, at(1_000), &left), decision("3")]);
    assert_eq!(verified(&disk).records, 3);
}

#[test]
fn handle_with_a_failed_sync_is_never_synced_again() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed, 512);
        let log = Log::open_on(disk.clone(), options()).unwrap();
        log.record(&decision("1")).unwrap();
        broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
        let flying: Vec<_> = (0..5).map(|_| log.submit(&decision("2")).unwrap()).collect();
        let syncs = disk.syncs();
        for pending in flying {
            assert_eq!(pending.wait().unwrap_err().code(), "AUDIT_WRITE");
        }
        assert_eq!(disk.syncs(), syncs + 1, "one sync for all, and none after it");
        working(&disk);
        assert_eq!(log.record(&decision("3")).unwrap(), 7, "what was refused stands in the log");
        drop(log);
        disk.crash(Crash::Power);
        let found = records(&disk);
        assert_eq!((&found[0], &found[6]), (&decision("1"), &decision("3")));
        assert!(found[1..6].iter().all(|record| *record == decision("2")));
        assert_eq!(verified(&disk).records, 7);
    }
}

#[test]
fn late_waiter_gets_the_result_of_its_own_record() {
    let disk = SimDisk::new(3, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    let [kept, late, refused] = ["1", "2", "3"].map(|call| {
        let pending = log.submit(&decision(call)).unwrap();
        if call == "2" {
            log.checkpoint().unwrap();
            broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
        }
        pending
    });
    assert_eq!(log.checkpoint().unwrap_err().code(), "AUDIT_WRITE");
    working(&disk);
    assert_eq!(log.record(&decision("4")).unwrap(), 4, "what was refused stands in the log");
    assert_eq!(kept.wait().unwrap(), 1);
    assert_eq!(refused.wait().unwrap_err().code(), "AUDIT_WRITE", "a refusal stays one");
    broken(&disk, Faults { write: ALWAYS, ..Faults::default() });
    log.record(&decision("5")).unwrap_err();
    assert_eq!(
        late.wait().unwrap_err().code(),
        "AUDIT_WRITE",
        "the log does not look back over two failures"
    );
}

#[test]
fn checkpoint_read_before_its_failed_sync_is_never_forked() {
    for seed in 0..50 {
        for durability in [Durability::Every, Durability::Group, Durability::System] {
            let disk = SimDisk::new(seed, 512);
            let options = options().durability(durability).checkpoint_every(2);
            let log = Log::open_on(disk.clone(), options).unwrap();
            log.record(&decision("1")).unwrap();
            broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
            if durability == Durability::System {
                log.record(&decision("2")).unwrap();
                log.checkpoint().unwrap_err();
            } else {
                log.record(&decision("2")).unwrap_err();
            }
            let read = [verified(&disk).checkpoint];
            assert_eq!(read[0].size(), 2, "the reader sees the batch that nobody was told of");
            // It stays unchanged while reopening fails too.
            log.record(&decision("3")).unwrap_err();
            verify_disk(&disk, &key(), &read).unwrap();
            working(&disk);
            assert_eq!(log.record(&decision("3")).unwrap(), 3, "seed {seed}");
            verify_disk(&disk, &key(), &read).unwrap();
            log.checkpoint().unwrap();
            disk.crash(Crash::Power);
            drop(log);
            assert_eq!(verify_disk(&disk, &key(), &read).unwrap().records, 3);
            assert_eq!(records(&disk), [decision("1"), decision("2"), decision("3")]);
        }
    }
}

#[test]
fn pages_of_a_failed_sync_are_rewritten_after_a_restart() {
    for seed in 0..200 {
        let disk = SimDisk::new(seed, 512);
        let log = Log::open_on(disk.clone(), options()).unwrap();
        log.record(&decision("1")).unwrap();
        broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
        log.record(&decision("2")).unwrap_err();
        disk.crash(Crash::Process);
        drop(log);
        working(&disk);
        // Reads return the whole batch, and its checkpoint verifies.
        let log = Log::open_on(disk.clone(), options()).unwrap();
        assert_eq!(log.record(&decision("3")).unwrap(), 3);
        drop(log);
        disk.crash(Crash::Power);
        assert_eq!(verified(&disk).records, 3, "seed {seed}");
        assert_eq!(records(&disk)[2], decision("3"));
    }
}

#[test]
fn returned_checkpoint_never_covers_an_unsynced_tail() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let durability = rng.pick(&[Durability::Every, Durability::Group, Durability::System]);
        let disk = SimDisk::new(rng.next(), rng.pick(&[512, 4_096]));
        let log = Log::open_on(disk.clone(), options().durability(durability).checkpoint_every(3)).unwrap();
        for n in 0..rng.below(10) {
            log.record(&decision(&n.to_string())).unwrap();
        }
        let before = log.checkpoint().unwrap();
        for n in 0..rng.below(5) {
            drop(log.submit(&decision(&n.to_string())).unwrap());
        }
        broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
        let note = match log.checkpoint() {
            Ok(note) => note,
            Err(error) => {
                assert_eq!(error.code(), "AUDIT_WRITE");
                before
            }
        };
        let known = Checkpoint::verify(&note, &key()).unwrap();
        disk.crash(Crash::Power);
        drop(log);
        working(&disk);
        verify_disk(&disk, &key(), &[known]).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        Log::open_on(disk.clone(), options().known_checkpoint(note)).unwrap();
    }
}

#[test]
fn system_checkpoint_is_synced_after_an_earlier_failed_sync() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let disk = SimDisk::new(rng.next(), rng.pick(&[512, 4_096]));
        let open = |every: u64, segment: u64| {
            let options = options().durability(Durability::System).segment_bytes(segment);
            Log::open_on(disk.clone(), options.checkpoint_every(every)).unwrap()
        };
        for _ in 0..3 {
            let log = open(1 + rng.below(3), rng.pick(&[3_000, 1 << 20]));
            for n in 0..rng.below(9) {
                log.record(&decision(&n.to_string())).unwrap();
            }
            broken(&disk, Faults { sync: rng.pick(&[1, 2]), ..Faults::default() });
            let _ = log.checkpoint();
            let _ = log.record(&decision("more"));
            disk.crash(Crash::Process);
            working(&disk);
        }
        let log = open(5, 1 << 20);
        let note = log.checkpoint().unwrap();
        disk.crash(Crash::Power);
        drop(log);
        let known = Checkpoint::verify(&note, &key()).unwrap();
        verify_disk(&disk, &key(), &[known]).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
    }
}

#[test]
fn pages_lost_after_a_read_are_never_signed_over() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = SimDisk::new(seed, 512);
        let options = options().durability(Durability::System).checkpoint_every(100);
        let log = Log::open_on(disk.clone(), options).unwrap();
        for n in 0..5 {
            log.record(&decision(&n.to_string())).unwrap();
        }
        broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
        log.checkpoint().unwrap_err();
        // The batch is read and written again, but not synced.
        log.record(&decision("6")).unwrap_err();
        working(&disk);
        disk.drop_clean();
        let recorded = log.record(&decision("6"));
        let is_refused = recorded.is_err();
        match recorded {
            Ok(_) => {
                log.checkpoint().unwrap();
                let found: Vec<_> = (0..5).map(|n| decision(&n.to_string())).collect();
                assert_eq!(records(&disk)[..5], found, "seed {seed}");
            }
            Err(error) => {
                lost += 1;
                assert_eq!(error.code(), "AUDIT_CORRUPT", "seed {seed}");
            }
        }
        // For a reader too, a page lost before later writes is damage.
        let is_damage = |error: &LogError| error.code() == "AUDIT_CORRUPT" && is_refused;
        let read = verify_disk(&disk, &key(), &[]);
        assert!(read.as_ref().err().is_none_or(is_damage), "seed {seed}: {read:?}");
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn oversized_batch_behind_a_segment_head_is_not_cut() {
    let disk = SimDisk::new(5, 4_096);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    broken(&disk, Faults { sync: ALWAYS, ..Faults::default() });
    log.record(&decision("1")).unwrap_err();
    working(&disk);
    let mut bytes = disk.bytes("000000000001.jsonl");
    bytes.resize(17 << 20, b'x');
    disk.put("000000000001.jsonl", bytes.clone());
    assert_eq!(log.record(&decision("1")).unwrap_err().code(), "AUDIT_CORRUPT");
    assert!(disk.bytes("000000000001.jsonl") == bytes);
}

#[test]
fn system_records_survive_a_process_crash() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let disk = SimDisk::new(rng.next(), 512);
        let mut kept: Vec<(u64, String)> = Vec::new();
        for life in 0..4 {
            let segment = rng.pick(&[1, 2_000, 1 << 20]);
            let options = options().durability(Durability::System).checkpoint_every(1 + rng.below(7));
            let log = Log::open_on(disk.clone(), options.segment_bytes(segment)).unwrap();
            for n in 0..rng.below(12) {
                if rng.one_in(8) {
                    disk.set_faults(Faults { write: 3, create: 2, ..Faults::default() });
                }
                let call = format!("{life}-{n}");
                if let Ok(seq) = log.record(&decision(&call)) {
                    kept.push((seq, call));
                }
                working(&disk);
            }
            disk.crash(Crash::Process);
            drop(log);
        }
        drop(Log::open_on(disk.clone(), options().durability(Durability::System)).unwrap());
        let found = records(&disk);
        assert_eq!(verified(&disk).records, found.len() as u64);
        assert!(kept.is_sorted_by(|one, next| one.0 < next.0));
        for (seq, call) in kept {
            assert_eq!(found[seq as usize - 1], decision(&call), "seed {seed}");
        }
    }
}

#[test]
fn failed_segment_creation_refuses_only_the_next_record() {
    let disk = SimDisk::new(5, 512);
    let log = Log::open_on(disk.clone(), options().segment_bytes(500)).unwrap();
    assert_eq!(log.record(&decision("1")).unwrap(), 1);
    broken(&disk, Faults { create: ALWAYS, ..Faults::default() });
    assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_WRITE");
    assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(log.head().size(), 1);
    working(&disk);
    assert_eq!(log.record(&decision("3")).unwrap(), 2);
    assert_eq!(verified(&disk).segments, 2);
}

#[test]
fn a_name_that_was_not_synced_is_not_relied_on() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed, 512);
        let log = Log::open_on(disk.clone(), options().segment_bytes(500)).unwrap();
        log.record(&decision("1")).unwrap();
        broken(&disk, Faults { folder: ALWAYS, ..Faults::default() });
        log.record(&decision("2")).unwrap_err();
        disk.crash(Crash::Power);
        drop(log);
        working(&disk);
        let log = Log::open_on(disk.clone(), options()).unwrap();
        let seq = log.record(&decision("3")).unwrap();
        assert!(seq == 2 || seq == 3, "seed {seed}: with or without a record of what was cut");
        drop(log);
        assert_eq!(verified(&disk).records, seq);
    }
}

#[test]
fn a_log_that_cannot_be_read_is_not_opened() {
    let disk = SimDisk::new(5, 512);
    drop(Log::open_on(disk.clone(), options()).unwrap());
    broken(&disk, Faults { read: ALWAYS, ..Faults::default() });
    assert_eq!(Log::open_on(disk.clone(), options()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    working(&disk);
    assert_eq!(Log::open_on(disk.clone(), options()).unwrap().record(&decision("1")).unwrap(), 1);
}
