//! Outcomes that no caller waits for.

use countersign_core::SessionId;

use super::log_support::*;
use super::sim::{Faults, SimDisk};
use super::{at, decision};
use crate::*;

const ALWAYS: u64 = 1;

fn outcome(call_id: &str, of: u64) -> OutcomeRecord {
    OutcomeRecord::new(at(5), SessionId::new("s").unwrap(), call_id, of, OutcomeKind::Returned)
}

fn ended(call_id: &str, of: u64) -> Record {
    Record::Outcome(outcome(call_id, of))
}

fn records(disk: &SimDisk) -> Vec<Record> {
    read_disk(disk.clone()).unwrap().map(|entry| entry.unwrap().into_record()).collect()
}

#[test]
fn late_outcome_precedes_the_next_record() {
    for (durability, at_once) in [(Durability::Every, 2), (Durability::Group, 1), (Durability::System, 1)] {
        let disk = SimDisk::new(3, 512);
        let log = Log::open_on(disk.clone(), options().durability(durability)).unwrap();
        log.record(&decision("a")).unwrap();
        log.record_later(&outcome("a", 1)).unwrap();
        assert_eq!(records(&disk).len(), at_once, "{durability:?}");
        assert_eq!(log.record(&decision("b")).unwrap(), 3);
        assert_eq!(records(&disk), [decision("a"), ended("a", 1), decision("b")]);
    }
}

#[test]
fn late_outcomes_are_kept_by_a_flush_and_by_the_end() {
    let disk = SimDisk::new(3, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    log.record(&decision("a")).unwrap();
    log.flush().unwrap();
    log.record_later(&outcome("a", 1)).unwrap();
    log.flush().unwrap();
    assert_eq!((records(&disk).len(), log.synced_size()), (2, 2));
    log.record_later(&outcome("b", 1)).unwrap();
    drop(log);
    assert_eq!(records(&disk), [decision("a"), ended("a", 1), ended("b", 1)]);
}

#[test]
fn late_outcome_of_a_failed_batch_is_kept_once() {
    let each = [Faults { write: ALWAYS, ..Faults::default() }, Faults { sync: ALWAYS, ..Faults::default() }];
    for faults in each {
        for seed in 0..50 {
            let disk = SimDisk::new(seed, 512);
            let log = Log::open_on(disk.clone(), options()).unwrap();
            log.record(&decision("a")).unwrap();
            log.record_later(&outcome("a", 1)).unwrap();
            disk.set_faults(faults);
            log.record(&decision("b")).unwrap_err();
            log.record_later(&outcome("c", 1)).unwrap();
            assert!(log.flush().is_err());
            disk.set_faults(Faults::default());
            log.record(&decision("d")).unwrap();
            let found = records(&disk);
            let times = |one: &Record| found.iter().filter(|record| *record == one).count();
            assert_eq!((times(&ended("a", 1)), times(&ended("c", 1))), (1, 1), "{found:?}");
            assert_eq!(found.last(), Some(&decision("d")));
            log.flush().unwrap();
            drop(log);
            assert_eq!(verify_disk(&disk, &key(), &[]).unwrap().records, found.len() as u64);
        }
    }
}

#[test]
fn flush_brings_late_outcomes_back_after_a_failure() {
    let disk = SimDisk::new(3, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    log.record(&decision("a")).unwrap();
    log.record_later(&outcome("a", 1)).unwrap();
    disk.set_faults(Faults { write: ALWAYS, ..Faults::default() });
    assert_eq!(log.flush().unwrap_err().code(), "AUDIT_WRITE");
    disk.set_faults(Faults::default());
    log.flush().unwrap();
    assert_eq!(records(&disk).last(), Some(&ended("a", 1)));
}
