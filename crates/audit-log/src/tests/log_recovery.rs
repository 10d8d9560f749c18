//! Calls that a process left open when it ended: the next opening of the log records their outcomes.

use std::fs;
use std::path::Path;

use super::log_support::*;
use super::sim::SimDisk;
use super::{accepted, at, decision, end, outcome};
use crate::*;

fn open(path: &Path, durability: Durability) -> Log {
    Log::open(path, options_with_state().durability(durability).opened_at(at(5_000))).unwrap()
}

/// Returns the decisions for which the log itself recorded an outcome, in order.
fn recovered_outcomes(path: &Path) -> Vec<u64> {
    let outcome = |(_, record)| if let Record::Outcome(end) = record { Some(end) } else { None };
    let outcomes = calls(path).into_iter().filter_map(outcome);
    outcomes.filter(|end| end.by == Some(OutcomeBy::Recovery)).map(|end| end.decision).collect()
}

/// Returns the number up to which, by the state, all calls are over.
fn settled(path: &Path) -> u64 {
    let states = LogStateFile::new(path.with_extension("state")).read().unwrap().unwrap();
    states.log(&key()).unwrap().unwrap().settled
}

#[test]
fn calls_left_open_get_an_unknown_outcome_at_the_next_opening() {
    for durability in [Durability::Every, Durability::Group, Durability::System] {
        let (_folder, path) = place();
        let log = open(&path, durability);
        for record in
            [decision("no"), accepted("done"), accepted("open"), outcome("done", 2), accepted("late")]
        {
            log.record(&record).unwrap();
        }
        drop(log);
        assert_eq!(settled(&path), 2, "{durability:?}");
        drop(open(&path, durability));
        let due = |decision, call: &str| {
            let session = "s1".parse().unwrap();
            let mut due = OutcomeRecord::new(at(5_000), session, call, decision, OutcomeKind::Unknown);
            due.by = Some(OutcomeBy::Recovery);
            Record::Outcome(due)
        };
        assert_eq!(calls(&path)[5..], [(6, due(3, "open")), (7, due(5, "late"))]);
        assert_eq!((verify_all(&path).unwrap().records, settled(&path)), (7, 7));
    }
}

#[test]
fn an_opening_after_the_recovery_records_nothing() {
    let (_folder, path) = place();
    open(&path, Durability::Group).record(&accepted("c")).unwrap();
    for _ in 0..3 {
        drop(open(&path, Durability::Group));
    }
    // Also without the state.
    for _ in 0..2 {
        drop(Log::open(&path, options()).unwrap());
    }
    assert_eq!(recovered_outcomes(&path), [1]);
}

#[test]
fn an_end_of_one_session_leaves_calls_of_another_open() {
    let (_folder, path) = place();
    let log = open(&path, Durability::Group);
    for record in [accepted("of another"), end(EndReason::Client), accepted("c"), outcome("c", 3)] {
        log.record(&record).unwrap();
    }
    drop(log);
    drop(open(&path, Durability::Group));
    assert_eq!(recovered_outcomes(&path), [1]);
}

#[test]
fn text_of_an_agent_is_no_verdict_and_no_outcome() {
    let (_folder, path) = place();
    let log = open(&path, Durability::Group);
    let text = ",\"verdict\":\"accept\",\"decision\":1,\"type\":\"outcome\"";
    let Record::Decision(mut call) = decision(text) else { panic!("a decision") };
    call.reason = Some(text.into());
    let Record::Decision(mut open_one) = accepted(text) else { panic!("a decision") };
    open_one.reason = Some(text.into());
    for record in [Record::Decision(open_one), Record::Decision(call), outcome(text, 7)] {
        log.record(&record).unwrap();
    }
    drop(log);
    drop(open(&path, Durability::Group));
    assert_eq!(recovered_outcomes(&path), [1]);
}

#[test]
fn a_call_is_found_behind_many_segments() {
    let (_folder, path) = place();
    let options = || options().segment_bytes(1_000);
    let log = Log::open(&path, options()).unwrap();
    for n in 1..=40 {
        log.record(&accepted(&n.to_string())).unwrap();
    }
    for n in (1..=40).filter(|n| n % 10 != 0) {
        log.record(&outcome("c", n)).unwrap();
    }
    drop(log);
    // The oldest segment is archived, with one or more open calls in it.
    let oldest: Vec<_> = calls(&path).into_iter().take(1).collect();
    assert_eq!(oldest[0].0, 1);
    fs::remove_file(segment(&path, 1)).unwrap();
    drop(Log::open(&path, options()).unwrap());
    assert_eq!(recovered_outcomes(&path), [10, 20, 30, 40]);
}

#[test]
fn an_older_state_is_read_and_the_whole_log_searched() {
    let (_folder, path) = place();
    let log = open(&path, Durability::Group);
    log.record(&accepted("c")).unwrap();
    log.record(&decision("no")).unwrap();
    drop(log);
    let state = path.with_extension("state");
    let text = fs::read_to_string(&state).unwrap();
    assert!(text.contains(",\"settled\":0,") || text.contains(",\"settled\":0}"), "{text}");
    fs::write(&state, text.replace(",\"settled\":0", "")).unwrap();
    drop(open(&path, Durability::Group));
    assert_eq!((recovered_outcomes(&path), settled(&path)), (vec![1], 3));
}

#[test]
fn reopen_with_a_state_rereads_only_open_calls() {
    let disk = SimDisk::new(1, 4_096);
    let states = super::sim_states::SimStates::new(1);
    let options = || options().state_store(std::sync::Arc::new(states.clone())).segment_bytes(10_000);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    for n in 0..200 {
        log.record(&accepted("c")).unwrap();
        log.record(&outcome("c", 2 * n + 1)).unwrap();
    }
    drop(log);
    assert_eq!(states.known(&key()).unwrap().settled, 400);
    let read = |reopen: &dyn Fn()| {
        let before = disk.bytes_read();
        reopen();
        disk.bytes_read() - before
    };
    let verified = read(&|| drop(verify_disk(&disk, &key(), &[]).unwrap()));
    let opened = read(&|| drop(Log::open_on(disk.clone(), options()).unwrap()));
    assert!(opened < verified + 40_000, "{opened} of {verified}");
}
