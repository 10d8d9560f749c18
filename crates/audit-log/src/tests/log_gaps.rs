//! Answers given while the log fails: the first entry afterwards counts them.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::fs;
use std::path::Path;

use super::log_support::*;
use super::sim::{Faults, SimDisk};
use super::{at, decision};
use crate::*;

fn disk() -> SimDisk {
    SimDisk::new(1, 4_096)
}

fn open(disk: &SimDisk, state: &Path) -> Log {
    Log::open_on(disk.clone(), options_with_state().state(state).opened_at(at(9_000))).unwrap()
}

/// Makes the disk fail, so that records are refused and `answers` answers have no entry.
fn outage(disk: &SimDisk, log: &Log, answers: u64) {
    disk.set_faults(Faults { write: 1, ..Faults::default() });
    for n in 0..answers {
        let failed = log.record(&decision("lost")).unwrap_err();
        assert!(["AUDIT_WRITE", "AUDIT_UNAVAILABLE"].contains(&failed.code()), "{failed:?}");
        let approval = format!("token-{n}").parse().unwrap();
        let answer = UnrecordedAnswer {
            time: at(2_000 + n),
            code: "AUDIT_UNAVAILABLE",
            approval: Some(&approval),
            co_approvals: &[],
        };
        log.note_unrecorded(&answer);
    }
    log.note_unrecorded(&UnrecordedAnswer {
        time: at(3_000),
        code: "MALFORMED_CALL",
        approval: None,
        co_approvals: &[],
    });
}

/// Returns the gaps, each with its position among the entries. A failed write may have left bytes; the entry of their
/// cut comes first and is not counted.
fn gaps(disk: &SimDisk) -> Vec<(u64, GapRecord)> {
    let entries = read_disk(disk.clone()).unwrap().map(|entry| entry.unwrap().into_record());
    let entries = (1..).zip(entries.filter(|record| !matches!(record, Record::Recovered(_))));
    let gap = |(place, record)| if let Record::Gap(gap) = record { Some((place, gap)) } else { None };
    entries.filter_map(gap).collect()
}

fn has_gap(state: &Path) -> bool {
    fs::read_to_string(state).unwrap().contains("\"gap\":{\"answers\":")
}

#[test]
fn gap_is_the_first_entry_after_an_outage() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), disk());
    let log = open(&disk, &folder.path().join("state"));
    log.record(&decision("before")).unwrap();
    outage(&disk, &log, 70);
    disk.set_faults(Faults::default());
    log.record(&decision("after")).unwrap();
    let found = gaps(&disk);
    let [(2, gap)] = found.as_slice() else { panic!("not the first entry") };
    assert_eq!((gap.from, gap.to, gap.time), (at(2_000), at(3_000), at(3_000)));
    assert_eq!(gap.reason.as_str(), "AUDIT_WRITE");
    let rows: Vec<_> = gap.answers.iter().map(|row| (row.code.as_str(), row.count)).collect();
    assert_eq!(rows, [("AUDIT_UNAVAILABLE", 70), ("MALFORMED_CALL", 1)]);
    assert_eq!((gap.approvals.len(), gap.omitted, gap.approvals[63].as_str()), (64, 6, "token-63"));
    log.record(&decision("later")).unwrap();
    assert_eq!(gaps(&disk).len(), 1);
}

#[test]
fn gap_stays_in_the_state_until_the_next_opening() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), disk());
    let state = folder.path().join("state");
    let log = open(&disk, &state);
    outage(&disk, &log, 5);
    drop(log);
    assert!(has_gap(&state));
    disk.set_faults(Faults::default());
    let lagging = fs::read(&state).unwrap();
    drop(open(&disk, &state));
    let found = gaps(&disk);
    let [(1, gap)] = found.as_slice() else { panic!("not the first entry") };
    assert_eq!((gap.total(), gap.from, gap.time), (6, at(2_000), at(9_000)));
    assert!(!has_gap(&state));
    // A process that ends between the entry and the save of the state leaves both.
    fs::write(&state, lagging).unwrap();
    drop(open(&disk, &state));
    drop(open(&disk, &state));
    assert_eq!(gaps(&disk).len(), 1);
    assert!(!has_gap(&state));
}

#[test]
fn state_of_a_record_that_works_again_names_no_gap() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), disk());
    let state = folder.path().join("state");
    let log = open(&disk, &state);
    outage(&disk, &log, 1);
    log.save_state().unwrap();
    assert!(has_gap(&state));
    disk.set_faults(Faults::default());
    log.record(&decision("after")).unwrap();
    assert!(!has_gap(&state), "it is saved with the gap's batch");
    assert_eq!(gaps(&disk).len(), 1);
}

#[test]
fn gap_that_fails_to_be_written_is_kept() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), disk());
    let log = open(&disk, &folder.path().join("state"));
    outage(&disk, &log, 2);
    // The log is reopened, and its first batch fails.
    disk.set_faults(Faults::default());
    let pending = log.submit(&decision("first")).unwrap();
    disk.set_faults(Faults { write: 1, ..Faults::default() });
    pending.wait().unwrap_err();
    log.note_unrecorded(&UnrecordedAnswer {
        time: at(4_000),
        code: "AUDIT_UNAVAILABLE",
        approval: None,
        co_approvals: &[],
    });
    disk.set_faults(Faults::default());
    log.record(&decision("second")).unwrap();
    let found = gaps(&disk);
    let [(1, gap)] = found.as_slice() else { panic!("not the first entry") };
    assert_eq!((gap.total(), gap.from, gap.to), (4, at(2_000), at(4_000)));
}

#[test]
fn codes_of_a_gap_are_bounded() {
    let mut gap = GapRecord::new(at(1), "AUDIT_WRITE");
    for n in 0..1_000 {
        gap.add(&UnrecordedAnswer {
            time: at(n),
            code: &format!("CODE_{n}"),
            approval: None,
            co_approvals: &[],
        });
    }
    assert_eq!((gap.answers.len(), gap.total()), (64, 1_000));
    assert_eq!((gap.answers[63].code.as_str(), gap.answers[63].count), ("(others)", 937));
}
