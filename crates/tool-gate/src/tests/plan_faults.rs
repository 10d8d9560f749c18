//! Faults at step 6 and at the start of a plan: nothing runs, and the plan does not advance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::plan_world::*;
use super::world::{World, code, search};
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_committed_plan::FinishError;
use countersign_core::*;

/// A sink that takes this many records and then fails until it gets a new number.
#[derive(Debug)]
struct Gauge {
    inner: MemorySink,
    left: AtomicU32,
}

impl Gauge {
    fn new(left: u32) -> Arc<Self> {
        Arc::new(Self { inner: MemorySink::new(), left: AtomicU32::new(left) })
    }
}

impl AuditSink for Gauge {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_err() { Err(AuditError::Poisoned) } else { self.inner.record(record) }
    }
}

#[derive(Debug)]
struct Broken(bool);

impl SpentTokens for Broken {
    fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        assert!(!self.0, "injected");
        Err(SpendError::Unavailable("injected".into()))
    }
}

fn gate_over(world: &World, sink: &Arc<Gauge>) -> ToolGate {
    world.builder_with(Arc::clone(sink) as Arc<dyn AuditSink>).pinned_ask(world.pin()).open().unwrap()
}

#[test]
fn step_with_an_unrecorded_acceptance_does_not_run() {
    let world = World::new();
    let sink = Gauge::new(100);
    let gate = gate_over(&world, &sink);
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    sink.left.store(0, Ordering::SeqCst);
    assert_eq!(code(&gate, &search("c")), Some(AuditUnavailable));
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::Incomplete.into());
    sink.left.store(100, Ordering::SeqCst);
    assert_eq!(run(&gate, &search("c"), "found"), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);
}

#[test]
fn unrecorded_plan_reports_its_spent_approval() {
    let world = World::new();
    let sink = Gauge::new(1);
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let builder = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>);
    let gate = builder.pinned_ask(world.pin()).approvals(settings).open().unwrap();
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    let start = || gate.start_plan(PlanSettings::new(plan.clone()).approval(&token)).unwrap_err();
    let error = start();
    assert_eq!((error.code(), error.approval_spent()), ("AUDIT_UNAVAILABLE", true));
    sink.left.store(9, Ordering::SeqCst);
    let error = start();
    assert_eq!((error.code(), error.approval_spent()), ("APPROVAL_SPENT", false));
}

#[test]
fn step_with_an_unrecorded_outcome_is_not_observed() {
    let world = World::new();
    let sink = Gauge::new(100);
    let gate = gate_over(&world, &sink);
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    sink.left.store(1, Ordering::SeqCst);
    assert_eq!(run(&gate, &search("c"), "found"), None);
    sink.left.store(100, Ordering::SeqCst);
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::OutcomeMissing.into());
}

#[test]
fn plan_with_an_unrecorded_end_returns_no_trace() {
    let world = World::new();
    let sink = Gauge::new(100);
    let gate = gate_over(&world, &sink);
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    assert_eq!(run(&gate, &search("c"), "found"), None);
    sink.left.store(0, Ordering::SeqCst);
    assert_eq!(gate.finish_plan().unwrap_err(), FinishPlanError::Unrecorded);
    sink.left.store(100, Ordering::SeqCst);
    assert_eq!(gate.finish_plan().unwrap_err(), FinishPlanError::NoPlan);
    assert_eq!(code(&gate, &search("d")), Some(PlanExhausted));
}

#[test]
fn plan_with_an_unrecorded_start_does_not_start() {
    let world = World::new();
    let sink = Gauge::new(1);
    let gate = gate_over(&world, &sink);
    let started = start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]);
    assert_eq!(started.unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(gate.plan_root(), None);
    let refused = start_plan(&gate, vec![step("none", "{}")]);
    assert_eq!(refused.unwrap_err().code(), "AUDIT_UNAVAILABLE", "nor is it heard why");
}

#[test]
fn a_store_that_fails_starts_no_plan_with_an_approval() {
    for (panics, expected) in [(false, "STORE_UNAVAILABLE"), (true, "INTERNAL")] {
        let world = World::new();
        let settings = world.settings(Arc::new(Broken(panics)));
        let gate = world.bare().pinned_ask(world.pin()).approvals(settings).open().unwrap();
        let plan = plan_of(&gate, steps());
        let token = world.approve_plan(&gate, &plan);
        let started = gate.start_plan(PlanSettings::new(plan).approval(&token));
        assert_eq!(started.unwrap_err().code(), expected);
        assert_eq!(gate.plan_root(), None);
    }
}

#[test]
fn panicking_user_check_releases_the_step() {
    let world = World::new();
    let panics = AtomicU32::new(1);
    let check = move |_: &CheckedCall<'_>| {
        assert!(panics.swap(0, Ordering::SeqCst) == 0, "injected");
        Ok(())
    };
    let gate = world.full().user_check("panics", check).open().unwrap();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    assert_eq!(code(&gate, &search("c")), Some(CheckRefused));
    assert_eq!(code(&gate, &search("c")), None);
}

#[test]
fn a_tool_that_panics_leaves_the_plan_unfinished() {
    let world = World::new();
    let gate = world.gate();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    let call = gate.check(&search("c")).unwrap();
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        call.run_step(|_| -> Result<Vec<u8>, ()> { panic!("tool") })
    }));
    assert!(ran.is_err());
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::OutcomeMissing.into());
}

#[test]
fn plan_started_during_a_call_refuses_that_call() {
    // The plan starts while the call is decided: in a check of the host's, or while its acceptance is recorded.
    for at in ["check", "record"] {
        let world = World::new();
        let inner: Arc<parking_lot::Mutex<Option<ToolGate>>> = Arc::default();
        let starts = move |inner: &parking_lot::Mutex<Option<ToolGate>>, here: &str| {
            let gate = if here == at { inner.lock().take() } else { None };
            if let Some(gate) = gate {
                start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
            }
        };
        let (of_check, of_sink) = (Arc::clone(&inner), Arc::clone(&inner));
        let check = move |_: &CheckedCall<'_>| {
            starts(&of_check, "check");
            Ok(())
        };
        let sink = Arc::new(Meanwhile {
            inner: MemorySink::new(),
            act: Box::new(move || starts(&of_sink, "record")),
        });
        let builder = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>);
        let gate = builder.pinned_ask(world.pin()).user_check("meanwhile", check).open().unwrap();
        let twin = ToolCall::new("c", "desk", "twin", b"{}");
        assert_eq!(code(&gate, &twin), None, "without a plan the call passes");
        *inner.lock() = Some(gate.clone());
        assert_eq!(code(&gate, &twin), Some(PlanRequired), "{at}");
        assert!(gate.plan_root().is_some());
        assert_eq!(run(&gate, &search("c"), "found"), None, "and the plan goes on");
        assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);
    }
}

/// A sink that acts before it records.
struct Meanwhile {
    inner: MemorySink,
    act: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meanwhile").finish_non_exhaustive()
    }
}

impl AuditSink for Meanwhile {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        (self.act)();
        self.inner.record(record)
    }
}

#[test]
fn unrecorded_plan_denial_is_audit_unavailable() {
    let world = World::new();
    let asked = {
        let gate = world.gate();
        gate.plan_approval_request(&plan_of(&gate, steps())).unwrap()
    };
    let gate = gate_over(&world, &Gauge::new(1));
    assert_eq!(gate.refuse_plan(&asked, Some("olga")).code(), "AUDIT_UNAVAILABLE");
}
