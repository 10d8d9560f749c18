//! Questions that are filed before the refusal is recorded.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::proposal_world::wire;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::*;

/// A desk that returns a preset answer, and notes the calls to it.
#[derive(Debug)]
struct Desk(Result<(), NotFiled>, RefCell<Vec<&'static str>>);

impl Desk {
    fn new(answer: Result<(), NotFiled>) -> Self {
        Self(answer, RefCell::default())
    }
}

impl ApprovalDesk for Desk {
    fn file(&self, _: &ApprovalRequest) -> Result<(), NotFiled> {
        self.1.borrow_mut().push("file");
        self.0
    }

    fn withdraw(&self, _: &ApprovalRequest) {
        self.1.borrow_mut().push("withdraw");
    }
}

/// A sink that fails on demand.
#[derive(Debug)]
struct Switch(Arc<MemorySink>, AtomicBool);

impl AuditSink for Switch {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if self.1.load(Ordering::SeqCst) { Err(AuditError::Poisoned) } else { self.0.record(record) }
    }
}

#[test]
fn unfiled_question_has_one_code_for_agent_record_and_counters() {
    for (why, code) in [
        (NotFiled::Full, ApprovalsFull),
        (NotFiled::Denied, ApprovalDenied),
        (NotFiled::Unavailable, StoreUnavailable),
        (NotFiled::IdInUse, ApprovalRequired),
    ] {
        let world = World::new();
        let gate = world.gate();
        let no = gate.check_asking(&refund("c"), &Desk::new(Err(why))).unwrap_err();
        assert_eq!((no.code(), no.sequence()), (code, Some(2)));
        assert_eq!(no.approval_request().is_some(), code == ApprovalRequired);
        assert_eq!(last_decision(&world).code.unwrap().as_str(), code.as_str());
        assert_eq!(gate.counts().rejected_with(code), 1);
    }
}

#[test]
fn question_whose_refusal_is_not_recorded_is_withdrawn() {
    let world = World::new();
    let sink = Arc::new(Switch(Arc::clone(&world.sink), false.into()));
    let settings = world.settings(Arc::clone(&world.spent) as _);
    let gate = world
        .builder_with(Arc::clone(&sink) as _)
        .pinned_ask(world.pin())
        .approvals(settings)
        .open()
        .unwrap();
    let desk = Desk::new(Ok(()));
    sink.1.store(true, Ordering::SeqCst);
    assert_eq!(gate.check_asking(&refund("c"), &desk).unwrap_err().code(), AuditUnavailable);
    assert_eq!(*desk.1.borrow(), ["file", "withdraw"]);
    sink.1.store(false, Ordering::SeqCst);
    assert_eq!(gate.check_asking(&refund("c"), &desk).unwrap_err().code(), ApprovalRequired);
    assert_eq!(*desk.1.borrow(), ["file", "withdraw", "file"]);
}

#[test]
fn nothing_is_asked_beyond_the_rate_of_refusals() {
    let world = World::new();
    let gate = world.full().refused_calls(RefusalRate::new(2, 1).unwrap()).open().unwrap();
    let desk = Desk::new(Ok(()));
    for _ in 0..5 {
        assert_eq!(gate.check_asking(&refund("c"), &desk).unwrap_err().code(), ApprovalRequired);
    }
    assert_eq!(*desk.1.borrow(), ["file", "file"]);
}

/// A desk that also asks for attestations.
#[derive(Debug)]
struct EvidenceDesk;

impl ApprovalDesk for EvidenceDesk {
    fn file(&self, _: &ApprovalRequest) -> Result<(), NotFiled> {
        Ok(())
    }

    fn takes_evidence(&self) -> bool {
        true
    }

    fn withdraw(&self, _: &ApprovalRequest) {}
}

#[test]
fn call_that_waits_for_evidence_feeds_no_alarm() {
    let (waiting, refused) = (World::new(), World::new());
    let (asking, alone) = (waiting.proving().open().unwrap(), refused.proving().open().unwrap());
    for number in 0..300 {
        let id = format!("c{number}");
        let no = asking.check_asking(&wire(&id), &EvidenceDesk).unwrap_err();
        assert_eq!(Some(no.code()), code(&alone, &wire(&id)), "the same code");
    }
    let raised = |world: &World| {
        let mut alarm = ReplayedAlarm::new(AlarmRule::default());
        let entries = world.sink.latest();
        entries.iter().map(|(_, entry)| alarm.replay(entry)).any(|state| state == AlarmState::Raised)
    };
    assert!(last_decision(&waiting).waits && !last_decision(&refused).waits);
    assert_eq!((raised(&waiting), raised(&refused)), (false, true));
    let state = |gate: &ToolGate| gate.stats().snapshot().agents.first().map(|agent| agent.alarm);
    assert_ne!(state(&asking), state(&alone), "the gate's own alarm agrees");
}
