//! Decisions that one caller submits before it waits for any.

use super::decision;
use super::log_support::*;
use super::sim::{Faults, SimDisk};
use crate::*;

fn submit(sink: &dyn AuditSink, id: &str) -> Result<SubmittedDecision, AuditError> {
    let Record::Decision(call) = decision(id) else { panic!("a decision") };
    let borrowed = (&call).into();
    sink.submit_decision(&DecisionLine::new(&borrowed)?)
}

#[test]
fn decisions_submitted_together_share_one_sync() {
    let disk = SimDisk::new(1, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    let before = disk.syncs();
    let submitted: Vec<_> = (0..100).map(|n| submit(&log, &n.to_string()).unwrap()).collect();
    assert_eq!(disk.syncs(), before);
    let kept: Vec<_> = submitted.into_iter().map(|it| log.wait_decision(it).unwrap()).collect();
    assert_eq!(kept, (1..=100).collect::<Vec<_>>());
    assert_eq!(disk.syncs(), before.saturating_add(1));
    assert_eq!(verify_disk(&disk, &key(), &[]).unwrap().records, 100);
}

#[test]
fn no_decision_of_a_failed_sync_is_kept() {
    let disk = SimDisk::new(2, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    let submitted: Vec<_> = (0..3).map(|n| submit(&log, &n.to_string()).unwrap()).collect();
    disk.set_faults(Faults { sync: 1, ..Faults::default() });
    for it in submitted {
        log.wait_decision(it).unwrap_err();
    }
    disk.set_faults(Faults::default());
    let kept = submit(&log, "later").and_then(|it| log.wait_decision(it)).unwrap();
    assert_eq!(log.head().size(), kept);
}

#[test]
fn a_dropped_decision_is_kept_with_the_next() {
    let disk = SimDisk::new(3, 512);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    drop(submit(&log, "dropped").unwrap());
    assert_eq!(log.record(&decision("next")).unwrap(), 2);
    assert_eq!(verify_disk(&disk, &key(), &[]).unwrap().records, 2);
}

#[test]
fn a_decision_of_another_log_is_refused() {
    let log = Log::open_on(SimDisk::new(4, 512), options()).unwrap();
    let other = Log::open_on(SimDisk::new(5, 512), options()).unwrap();
    let foreign = submit(&other, "elsewhere").unwrap();
    assert_eq!(log.wait_decision(foreign).unwrap_err().code(), "AUDIT_UNAVAILABLE");
}

#[test]
fn a_sink_without_batches_keeps_a_decision_at_once() {
    let sink = std::sync::Arc::new(MemorySink::new());
    let submitted = submit(&sink, "1").unwrap();
    assert_eq!(sink.count(), 1);
    assert_eq!(sink.wait_decision(submitted).unwrap(), 1);
}
