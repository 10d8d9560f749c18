//! A fault at every internal step: the tool runs only if its acceptance is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_core::*;
use countersign_core::{SpendError, SpentTokens, Ticket};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    Error,
    Panic,
}

impl Fault {
    fn strike<E>(self, error: impl FnOnce() -> E) -> Result<(), E> {
        match self {
            Self::None => Ok(()),
            Self::Error => Err(error()),
            Self::Panic => panic!("injected"),
        }
    }
}

/// A sink that fails from the nth record on.
#[derive(Debug)]
pub(super) struct FaultySink {
    inner: MemorySink,
    left: AtomicU32,
    fault: Fault,
}

impl FaultySink {
    pub(super) fn new(good: u32, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner: MemorySink::new(), left: AtomicU32::new(good), fault })
    }
}

impl AuditSink for FaultySink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_err() {
            self.fault.strike(|| AuditError::Poisoned)?;
        }
        self.inner.record(record)
    }
}

#[derive(Debug)]
struct FaultyStore(Fault);

impl SpentTokens for FaultyStore {
    fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        self.0.strike(|| SpendError::Unavailable("injected".into()))
    }
}

#[derive(Debug)]
struct FaultyClock(Fault, AtomicU32);

impl Clock for FaultyClock {
    fn now(&self) -> Result<Timestamp, ClockError> {
        // The first query is made when the gate opens.
        if self.1.fetch_add(1, Ordering::SeqCst) > 0 && self.0 != Fault::None {
            let broken = ManualClock::new(start());
            broken.break_down();
            let error = broken.now().unwrap_err();
            self.0.strike(|| error)?;
        }
        Ok(start())
    }
}

/// Checks an approved refund and runs it if it is accepted. Returns the code, and how often the tool ran.
fn attempt(gate: &ToolGate, call: &ToolCall<'_>) -> (Option<RejectionCode>, u32) {
    let mut ran = 0;
    let refused = match gate.check(call) {
        Ok(call) => call
            .run(|_| {
                ran += 1;
                Ok::<(), Rejection>(())
            })
            .map_err(|error| match error {
                CallError::Rejected(no) | CallError::Tool(no) => no,
            })
            .err(),
        Err(no) => Some(no),
    };
    (refused.map(|no| no.code()), ran)
}

#[test]
fn no_tool_runs_unless_its_acceptance_is_recorded() {
    for fault in [Fault::Error, Fault::Panic] {
        let world = World::new();
        let token = world.approve(&world.gate(), &refund("c"));
        let sink = FaultySink::new(1, fault);
        let gate = world
            .builder_with(sink)
            .pinned_ask(world.pin())
            .approvals(world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>))
            .open()
            .unwrap();
        assert_eq!(attempt(&gate, &refund("c").approval(token.as_str())), (Some(AuditUnavailable), 0));
        assert_eq!(attempt(&gate, &search("c")), (Some(AuditUnavailable), 0), "and nothing else does");
        assert_eq!(attempt(&gate, &ToolCall::new("c", "desk", "none", b"{}")), (Some(AuditUnavailable), 0));
        assert_eq!((gate.counts().accepted(), gate.counts().rejected()), (0, 3));
        assert_eq!(
            attempt(&world.gate(), &refund("c").approval(token.as_str())),
            (Some(ApprovalSpent), 0),
            "unknown stays spent"
        );
    }
}

#[test]
fn unrecorded_outcome_refuses_all_later_calls() {
    for fault in [Fault::Error, Fault::Panic] {
        let world = World::new();
        let sink = FaultySink::new(2, fault);
        let gate = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>).open().unwrap();
        assert_eq!(
            attempt(&gate, &search("c")),
            (None, 1),
            "session and decision were recorded, the outcome is not"
        );
        sink.left.store(100, Ordering::SeqCst);
        world.clock.advance(Millis::from_secs(5)).unwrap();
        assert_eq!(attempt(&gate, &search("c")), (Some(AuditUnavailable), 0));
        assert_eq!(
            gate.call_log().last().unwrap().time,
            world.clock.now().unwrap(),
            "dated when it happened"
        );
    }
}

#[test]
fn a_spent_store_that_fails_refuses() {
    for (fault, expected) in [(Fault::Error, StoreUnavailable), (Fault::Panic, Internal)] {
        let world = World::new();
        let token = world.approve(&world.gate(), &refund("c"));
        let gate = world
            .bare()
            .pinned_ask(world.pin())
            .approvals(world.settings(Arc::new(FaultyStore(fault))))
            .open()
            .unwrap();
        assert_eq!(attempt(&gate, &refund("c").approval(token.as_str())), (Some(expected), 0));
        assert_eq!(attempt(&gate, &search("c")), (None, 1), "the gate is still there");
    }
}

#[test]
fn a_clock_that_fails_refuses() {
    for fault in [Fault::Error, Fault::Panic] {
        let world = World::new();
        let gate = ToolGate::builder(
            Arc::clone(&world.registry),
            world.contract("session-1"),
            Principal::new("ada@example.com").unwrap(),
            Arc::new(FaultyClock(fault, AtomicU32::new(0))),
            Arc::clone(&world.sink) as Arc<dyn AuditSink>,
        )
        .open()
        .unwrap();
        assert_eq!(attempt(&gate, &search("c")), (Some(Internal), 0));
    }
}

#[test]
fn a_user_check_that_panics_is_a_refusal() {
    let world = World::new();
    let gate = world.full().user_check("panics", |_: &CheckedCall<'_>| panic!("injected")).open().unwrap();
    assert_eq!(attempt(&gate, &search("c")), (Some(CheckRefused), 0));
    let record = gate.call_log().pop().unwrap();
    assert!(record.reason.unwrap().as_str().contains("panicked"));
}

#[test]
fn passing_user_check_does_not_override_a_refusal() {
    let world = World::new();
    let gate = world.full().user_check("yes", |_: &CheckedCall<'_>| Ok(())).open().unwrap();
    assert_eq!(
        attempt(&gate, &ToolCall::new("c", "desk", "delete_ticket", b"{}")),
        (Some(UndisclosedTool), 0)
    );
    assert_eq!(attempt(&gate, &refund("c")), (Some(ApprovalRequired), 0));
}

#[test]
fn a_session_that_cannot_be_recorded_is_not_opened() {
    let world = World::new();
    let sink = FaultySink::new(0, Fault::Error);
    assert_eq!(world.builder_with(sink).open().unwrap_err().code(), "AUDIT_UNAVAILABLE");
}

#[test]
fn panicking_tool_leaves_an_unknown_outcome() {
    let world = World::new();
    let gate = world.gate();
    let call = gate.check(&search("c")).unwrap();
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        call.run(|_| -> Result<(), ()> { panic!("tool") })
    }));
    assert!(run.is_err());
    assert_eq!(outcomes(&world), ["unknown"]);
    assert_eq!(attempt(&gate, &search("c")), (None, 1));
}

#[test]
fn recorded_outcome_matches_the_end_of_the_call() {
    let world = World::new();
    let gate = world.gate();
    drop(gate.check(&search("c1")).unwrap());
    gate.check(&search("c2")).unwrap().run(|_| Err::<(), _>("no")).unwrap_err();
    gate.check(&search("c3")).unwrap().run(|_| Ok::<_, ()>(())).unwrap();
    let (_, in_flight) = gate.check(&search("c4")).unwrap().dispatch().unwrap();
    in_flight.finish(OutcomeKind::Returned);
    drop(gate.check(&search("c5")).unwrap().dispatch());
    assert_eq!(outcomes(&world), ["unknown", "failed", "returned", "returned", "unknown"]);
}

#[test]
fn a_future_dropped_at_its_await_is_recorded_as_unknown() {
    use std::future::{pending, ready};
    use std::task::{Context, Poll, Waker};
    let world = World::new();
    let gate = world.gate();
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut never =
            Box::pin(gate.check(&search("c1")).unwrap().run_async(|_| pending::<Result<(), ()>>()));
        assert!(matches!(never.as_mut().poll(&mut context), Poll::Pending));
    }
    let never_polled = gate.check(&search("c2")).unwrap().run_async(|_| pending::<Result<(), ()>>());
    drop(never_polled);
    let mut done =
        Box::pin(gate.check(&search("c3")).unwrap().run_async(|args| ready(Ok::<_, ()>(args.digest()))));
    assert!(matches!(done.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    assert_eq!(outcomes(&world), ["unknown", "unknown", "returned"]);
}

fn outcomes(world: &World) -> Vec<&'static str> {
    let name = |record: &Record| {
        let Record::Outcome(outcome) = record else { return None };
        let name = if outcome.outcome == OutcomeKind::Returned { "returned" } else { "failed" };
        Some(if outcome.outcome == OutcomeKind::Unknown { "unknown" } else { name })
    };
    world.sink.latest().iter().filter_map(|(_, record)| name(record)).collect()
}
