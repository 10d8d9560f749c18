//! Outcomes that are given to the record without waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, OutcomeKind, OutcomeRecord, Record};
use parking_lot::Mutex;

/// A sink that keeps late outcomes apart, and can refuse them.
#[derive(Debug, Default)]
struct SlowDisk {
    kept: MemorySink,
    late: Mutex<Vec<OutcomeRecord>>,
    refuses: AtomicBool,
}

impl AuditSink for SlowDisk {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        self.kept.record(record)
    }

    fn record_later(&self, outcome: &OutcomeRecord) -> Result<(), AuditError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(AuditError::Poisoned);
        }
        self.late.lock().push(outcome.clone());
        Ok(())
    }
}

fn world() -> (World, Arc<SlowDisk>, ToolGate) {
    let (world, disk) = (World::new(), Arc::new(SlowDisk::default()));
    let gate = world.builder_with(Arc::clone(&disk) as Arc<dyn AuditSink>).pinned_ask(world.pin()).open();
    (world, disk, gate.unwrap())
}

fn run_later(gate: &ToolGate, call_id: &str, outcome: OutcomeKind) {
    gate.check(&search(call_id)).unwrap().dispatch().unwrap().1.finish_later(outcome);
}

#[test]
fn late_outcome_is_left_to_the_sink() {
    let (_world, disk, gate) = world();
    run_later(&gate, "a", OutcomeKind::Failed);
    assert_eq!(gate.check(&search("b")).unwrap().sequence(), 3);
    let late = disk.late.lock();
    let [outcome] = late.as_slice() else { panic!("{late:?}") };
    assert_eq!((outcome.call_id.as_str(), outcome.decision), ("a", 2));
    assert_eq!((outcome.outcome, outcome.code.as_ref()), (OutcomeKind::Failed, None));
}

#[test]
fn refused_late_outcome_refuses_every_call() {
    let (_world, disk, gate) = world();
    disk.refuses.store(true, Ordering::SeqCst);
    run_later(&gate, "a", OutcomeKind::Returned);
    assert_eq!(gate.check(&search("b")).unwrap_err().code(), AuditUnavailable);
}

#[test]
fn sink_without_a_disk_keeps_an_outcome_at_once() {
    let world = World::new();
    let gate = world.gate();
    run_later(&gate, "a", OutcomeKind::Returned);
    assert!(matches!(world.sink.latest().last(), Some((_, Record::Outcome(_)))));
}
