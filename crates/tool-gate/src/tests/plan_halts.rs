//! A host that halts its plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, OutcomeRecord, Record, Verdict};
use countersign_committed_plan::FinishError;
use countersign_core::*;

/// Recorded halts, with their reasons.
fn halts(gate: &ToolGate) -> Vec<(String, Option<Digest>)> {
    let log = gate.call_log();
    let of_halts = log.iter().filter(|record| record.tool.name.as_str() == "halt_plan");
    of_halts
        .map(|record| {
            assert_eq!(record.verdict, Verdict::Reject);
            assert_eq!(record.code.as_ref().unwrap().as_str(), "PLAN_HALTED");
            let reason = record.reason.as_ref().map(|reason| reason.as_str().to_owned());
            (reason.unwrap_or_default(), record.plan)
        })
        .collect()
}

#[test]
fn halted_plan_accepts_nothing_more() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let root = gate.plan_root().unwrap();
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    let amendment = amendment_of(&gate, steps());
    let token = world.approve_again(&gate, &amendment, 901);
    let clone = gate.clone();
    for reason in ["MODEL_DOWN", "again"] {
        assert_eq!(gate.halt_plan(reason), Ok(()));
    }
    for call in [refund("c2"), mail("c3"), search("c4"), refund("c5").plan_step(2)] {
        assert_eq!(why(&clone, &call), (PlanHalted, "the plan was halted: by-host".into()));
    }
    assert_eq!(clone.finish_plan().unwrap_err(), FinishError::Halted.into());
    let amended = clone.amend_plan(PlanSettings::new(amendment).approval(&token));
    assert_eq!(amended.unwrap_err().code(), "PLAN_HALTED");
    assert_eq!(start_plan(&clone, steps()).unwrap_err().code(), "PLAN_STARTED");
    assert_eq!(halts(&gate), [("MODEL_DOWN".to_owned(), Some(root.digest()))]);
}

#[test]
fn a_plan_that_a_breach_halted_is_not_halted_again() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(code(&gate, &mail("c")), Some(PlanOutOfOrder));
    assert_eq!(gate.halt_plan("MODEL_DOWN"), Ok(()));
    assert_eq!(halts(&gate), []);
    assert_eq!(why(&gate, &search("c")), (PlanHalted, "the plan was halted: skipped".into()));
}

#[test]
fn a_gate_without_a_plan_under_way_has_none_to_halt() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(gate.halt_plan("x").unwrap_err().code(), "PLAN_NOT_STARTED");
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    assert_eq!(run(&gate, &search("c"), "found"), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);
    assert_eq!(gate.halt_plan("x").unwrap_err(), HaltPlanError::NoPlan);
    assert_eq!(halts(&gate), []);
}

#[test]
fn a_root_is_halted_as_a_plan_is() {
    let world = World::new();
    let planner = world.gate();
    let plan = committed(&planner, plan_of(&planner, steps()));
    let gate = world.rooted("gate-2", &plan);
    gate.halt_plan("MODEL_DOWN").unwrap();
    let proofs = proofs_of(&plan);
    let call = search("c").plan_proof(proofs[0].as_bytes());
    assert_eq!(why(&gate, &call), (PlanHalted, "the plan was halted: by-host".into()));
}

#[test]
fn halt_during_a_decision_refuses_the_call() {
    let world = World::new();
    let inner: Arc<parking_lot::Mutex<Option<ToolGate>>> = Arc::default();
    let of_check = Arc::clone(&inner);
    let check = move |_: &CheckedCall<'_>| {
        if let Some(gate) = of_check.lock().take() {
            gate.halt_plan("MODEL_DOWN").unwrap();
        }
        Ok(())
    };
    let sink = Arc::new(MemorySink::new());
    let builder = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>);
    let gate = builder.pinned_ask(world.pin()).user_check("meanwhile", check).open().unwrap();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    *inner.lock() = Some(gate.clone());
    let no = gate.check(&search("c")).unwrap_err();
    assert_eq!(no.code(), PlanHalted);
    assert_eq!(gate.plan_position(), Some(0));
    // Its acceptance was already being recorded, so the record also says that it did not run, and why.
    let not_run = |record: &Record| {
        matches!(record, Record::Outcome(OutcomeRecord { outcome: OutcomeKind::NotRun, decision, code: Some(code), .. })
            if Some(*decision) == no.sequence() && code.as_str() == "PLAN_HALTED")
    };
    assert_eq!(sink.latest().iter().filter(|(_, record)| not_run(record)).count(), 1);
}

#[test]
fn halt_during_an_amendment_refuses_the_amendment() {
    struct Halts(parking_lot::Mutex<Option<ToolGate>>);
    impl std::fmt::Debug for Halts {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Halts")
        }
    }
    impl SpentTokens for Halts {
        fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
            if let Some(gate) = self.0.lock().take() {
                gate.halt_plan("MODEL_DOWN").unwrap();
            }
            Ok(())
        }
    }
    let world = World::new();
    let spent = Arc::new(Halts(parking_lot::Mutex::default()));
    let settings = world.settings(Arc::clone(&spent) as Arc<dyn SpentTokens>);
    let gate = world.bare().pinned_ask(world.pin()).approvals(settings).open().unwrap();
    let old = start_plan(&gate, steps()).unwrap();
    *spent.0.lock() = Some(gate.clone());
    let error = world.amend(&gate, vec![step("twin", "{}")], 901).unwrap_err();
    assert_eq!((error.code(), gate.plan_root()), ("PLAN_HALTED", Some(old)));
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "twin", b"{}")), Some(PlanHalted));
}

#[test]
fn plan_halted_during_a_step_returns_no_trace() {
    let world = World::new();
    let gate = world.gate();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    let call = gate.check(&search("c")).unwrap();
    call.run_step(|_| {
        gate.halt_plan("MODEL_DOWN").unwrap();
        Ok::<_, ()>(b"found".to_vec())
    })
    .unwrap();
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::Halted.into());
}

/// A sink that can be set to fail or panic.
#[derive(Debug)]
struct Full(MemorySink, AtomicU32);

impl AuditSink for Full {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        match self.1.load(Ordering::SeqCst) {
            0 => self.0.record(record),
            1 => Err(AuditError::Poisoned),
            _ => panic!("injected"),
        }
    }
}

#[test]
fn unrecorded_halt_still_halts_the_plan() {
    for fault in [1, 2] {
        let world = World::new();
        let sink = Arc::new(Full(MemorySink::new(), AtomicU32::new(0)));
        let builder = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>);
        let gate = builder.pinned_ask(world.pin()).open().unwrap();
        start_plan(&gate, steps()).unwrap();
        sink.1.store(fault, Ordering::SeqCst);
        assert_eq!(gate.halt_plan("MODEL_DOWN").unwrap_err().code(), "AUDIT_UNAVAILABLE");
        sink.1.store(0, Ordering::SeqCst);
        assert_eq!(why(&gate, &search("c")), (PlanHalted, "the plan was halted: by-host".into()));
    }
}

#[test]
fn halt_reason_is_escaped_within_the_record_limit() {
    let world = World::new();
    let gate = world.planned();
    gate.halt_plan(&format!("\u{202e}\n{}", "x".repeat(4_096))).unwrap();
    let (reason, _) = halts(&gate).remove(0);
    assert!(reason.len() <= 512 && reason.chars().all(|c| !is_hidden(c)), "{reason}");
}

#[test]
fn concurrent_halts_are_recorded_once() {
    let world = World::new();
    let gate = world.planned();
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                gate.halt_plan("MODEL_DOWN").unwrap();
            });
        }
    });
    assert_eq!(halts(&gate).len(), 1);
}
