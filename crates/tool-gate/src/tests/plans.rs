//! Step 6: only the plan's next call is accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::plan_world::*;
use super::proposal_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{Record, Verdict};
use countersign_committed_plan::FinishError;

#[test]
fn honest_run_ends_in_a_complete_trace() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let root = gate.plan_root().unwrap();
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    assert_eq!(run(&gate, &refund("c2").plan_step(2), "refunded"), None);
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::Incomplete.into());
    assert_eq!(run(&gate, &mail("c3"), "sent"), None);
    let trace = gate.finish_plan().unwrap();
    assert_eq!(trace.roots(), [root]);
    let seen: Vec<_> = trace
        .steps()
        .iter()
        .map(|step| (step.index(), std::str::from_utf8(step.observation()).unwrap()))
        .collect();
    assert_eq!(seen, [(1, "found"), (2, "refunded"), (3, "sent")]);
    let log = gate.call_log();
    let steps: Vec<_> = log.iter().map(|record| (record.plan, record.plan_step)).collect();
    let root = Some(root.digest());
    assert_eq!(steps, [(root, None), (root, Some(1)), (root, Some(2)), (root, Some(3)), (root, None)]);
    let end = log.last().unwrap();
    assert_eq!((end.tool.name.as_str(), end.verdict), ("finish_plan", Verdict::Accept));
    let (_, last) = world.sink.latest().pop().unwrap();
    assert!(matches!(last, Record::Outcome(outcome) if outcome.outcome == OutcomeKind::Returned));
    assert_eq!(gate.finish_plan().unwrap_err(), FinishPlanError::NoPlan, "once");
    assert_eq!(why(&gate, &search("c4")), (PlanExhausted, "the plan is finished".into()));
}

#[test]
fn a_call_that_the_plan_has_not_here_halts_it() {
    let other = br#"{"query":"T-1002"}"#;
    let extra = br#"{"to":"x@customers.example","body":"b","cc":"y@customers.example"}"#;
    let cases: [(u32, ToolCall<'_>, RejectionCode, &str); 7] = [
        (0, ToolCall::new("c", "desk", "search", other), PlanStepMismatch, "fixed-argument"),
        (0, ToolCall::new("c", "desk", "twin", b"{}"), PlanStepMismatch, "other-tool"),
        (2, ToolCall::new("c", "desk", "mail", extra), PlanStepMismatch, "added-argument"),
        (0, mail("c"), PlanOutOfOrder, "skipped"),
        (2, search("c"), PlanOutOfOrder, "behind"),
        (1, search("c"), PlanExhausted, "count"),
        (3, mail("c"), PlanExhausted, "count"),
    ];
    for (ran, call, expected, reason) in cases {
        let world = World::new();
        let gate = world.approved_plan(steps());
        for done in [search("1"), refund("2"), mail("3")].iter().take(ran as usize) {
            assert_eq!(run(&gate, done, ""), None);
        }
        assert_eq!(why(&gate, &call), (expected, reason.to_owned()));
        // Every later call, including the honest next step.
        for next in [search("n"), refund("n"), mail("n")] {
            assert_eq!(why(&gate, &next), (PlanHalted, format!("the plan was halted: {reason}")));
        }
        assert_eq!(gate.finish_plan().unwrap_err(), FinishError::Halted.into());
    }
}

#[test]
fn a_step_that_the_call_names_is_held_against_its_turn() {
    let world = World::new();
    let reason = |index| why(&world.planned(), &search("c").plan_step(index));
    assert_eq!(reason(0), (PlanOutOfOrder, "unknown-step".into()));
    assert_eq!(reason(2), (PlanOutOfOrder, "skipped".into()));
    assert_eq!(reason(9), (PlanOutOfOrder, "unknown-step".into()));
    assert_eq!(code(&world.planned(), &search("c").plan_step(1)), None);
    let gate = world.gate();
    assert_eq!(code(&gate, &search("c").plan_step(1)), Some(PlanRequired), "there is no plan to have a step");
}

#[test]
fn missing_plan_refuses_if_rule_or_host_requires_one() {
    let world = World::new();
    let planned = ToolCall::new("c", "desk", "planned", b"{}");
    let gate = world.gate();
    assert_eq!(code(&gate, &search("c")), None);
    assert_eq!(code(&gate, &planned), Some(PlanRequired));
    start_plan(&gate, vec![step("planned", "{}")]).unwrap();
    assert_eq!(code(&gate, &planned), None);

    let gate = world.full().plan_first().open().unwrap();
    assert_eq!(why(&gate, &search("c")), (PlanRequired, "no plan was started".into()));
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    assert_eq!(code(&gate, &search("c")), None);
}

#[test]
fn the_plan_is_asked_after_the_goal_and_before_the_approval() {
    let world = World::new();
    let gate = world.planned();
    let wrong = ToolCall::new("c", "desk", "refund", br#"{"ticket":"T-1001","amount":50}"#);
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "none", b"{}")), Some(UndisclosedTool));
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "refund", b"{}")), Some(ArgsSchema));
    assert_eq!(code(&gate, &wrong.clone().ask("Delete everything")), Some(AskDrift));
    assert_eq!(run(&gate, &search("c"), ""), None, "refusals before step 6 halt nothing");
    assert_eq!(code(&gate, &wrong), Some(PlanStepMismatch), "and not APPROVAL_REQUIRED");
}

#[test]
fn refusal_after_the_plan_check_releases_the_step() {
    let world = World::new();
    let gate = world.planned();
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    let token = world.approve(&gate, &refund("c2"));
    assert_eq!(code(&gate, &refund("other").approval(token.as_str())), Some(ApprovalInvalid));
    let record = gate.call_log().pop().unwrap();
    assert_eq!(record.plan_step, Some(2), "the step that was refused is on record");
    assert_eq!(run(&gate, &refund("c2").approval(token.as_str()), "refunded"), None);
    assert_eq!(run(&gate, &mail("c3"), "sent"), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 3);
}

#[test]
fn user_check_or_spent_token_releases_the_step() {
    let world = World::new();
    let no = AtomicU32::new(1);
    let check = move |_: &CheckedCall<'_>| {
        if no.fetch_sub(1, Ordering::SeqCst) == 1 { Err("not yet".to_owned()) } else { Ok(()) }
    };
    let gate = world.full().user_check("once", check).open().unwrap();
    let twice = step("refund", r#"{"ticket":"T-1001","amount":49}"#).calls(2).unwrap();
    start_plan(&gate, vec![twice]).unwrap();
    let token = world.approve(&gate, &refund("c"));
    let call = refund("c").approval(token.as_str());
    assert_eq!(code(&gate, &call), Some(CheckRefused));
    assert_eq!(code(&gate, &call), None);
    assert_eq!(code(&gate, &call), Some(ApprovalSpent));
    let again = world.approve(&gate, &refund("d"));
    assert_eq!(code(&gate, &refund("d").approval(again.as_str())), None);
}

#[test]
fn a_token_of_a_single_call_binds_the_plan() {
    let world = World::new();
    let before = world.approve(&world.gate(), &refund("c"));
    let gate = world.gate();
    start_plan(&gate, vec![step("refund", r#"{"ticket":"T-1001","amount":49}"#)]).unwrap();
    assert_eq!(why(&gate, &refund("c").approval(before.as_str())), (ApprovalInvalid, "other-plan".into()));
    let token = world.approve(&gate, &refund("c"));
    assert_eq!(code(&world.gate(), &refund("c").approval(token.as_str())), Some(ApprovalInvalid));
    assert_eq!(code(&gate, &refund("c").approval(token.as_str())), None);
}

#[test]
fn an_attestation_binds_the_plan() {
    let world = World::new();
    let before = world.proving().open().unwrap();
    let gate = world.proving().open().unwrap();
    start_plan(&gate, vec![step("wire", std::str::from_utf8(WIRE).unwrap())]).unwrap();
    let without = world.attested_wire(&before, "c", "n1");
    assert_eq!(code(&gate, &wire("c").proposal(&without)), Some(PicEvidenceFailed));
    let within = world.attested_wire(&gate, "c", "n2");
    assert_eq!(code(&before, &wire("c").proposal(&within)), Some(PicEvidenceFailed));
    let within = world.attested_wire(&gate, "c", "n3");
    assert_eq!(code(&gate, &wire("c").proposal(&within)), None);
}

#[test]
fn of_many_threads_with_one_step_one_passes() {
    let world = World::new();
    let open = Arc::new(std::sync::Barrier::new(8));
    let gate = world.gate();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    let passed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                open.wait();
                if let Ok(call) = gate.check(&search("c")) {
                    passed.fetch_add(1, Ordering::SeqCst);
                    call.run_step(|_| Ok::<_, ()>(Vec::new())).unwrap();
                }
            });
        }
    });
    assert_eq!(passed.load(Ordering::SeqCst), 1);
}

#[test]
fn call_during_another_step_is_refused_without_a_halt() {
    let world = World::new();
    let inner: Arc<parking_lot::Mutex<Option<ToolGate>>> = Arc::default();
    let seen: Arc<parking_lot::Mutex<Vec<(RejectionCode, String)>>> = Arc::default();
    let (gate_of_check, told) = (Arc::clone(&inner), Arc::clone(&seen));
    let check = move |_: &CheckedCall<'_>| {
        let gate = gate_of_check.lock().take();
        if let Some(gate) = gate {
            told.lock().push(why(&gate, &search("second")));
            told.lock().push((Internal, gate.finish_plan().unwrap_err().code().to_owned()));
        }
        Ok(())
    };
    let gate = world.full().user_check("meanwhile", check).open().unwrap();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    *inner.lock() = Some(gate.clone());
    assert_eq!(run(&gate, &search("first"), "found"), None);
    assert_eq!(*seen.lock(), [(PlanOutOfOrder, "busy".to_owned()), (Internal, "PLAN_BUSY".to_owned())]);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);
}

#[test]
fn plan_of_an_older_registry_accepts_no_call() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c"), ""), None);
    world.reload(2, NONE_REVOKED);
    assert_eq!(why(&gate, &refund("c")), (PlanRequired, "other-registry".into()));
}

#[test]
fn nothing_of_an_observation_is_had_before_the_end() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c"), "secret result"), None);
    assert_eq!(gate.finish_plan().unwrap_err().code(), "PLAN_INCOMPLETE");
    let shown = format!("{gate:?} {:?}", gate.parts().progress.plan);
    assert!(!shown.contains("secret") && !shown.contains("115, 101, 99"), "{shown}");
}

#[test]
fn step_without_an_observation_leaves_plan_unfinished() {
    let one = || vec![step("search", r#"{"query":"T-1001"}"#)];
    let ends: [fn(AcceptedCall); 4] = [
        |call| assert!(call.run_step(|_| Err(())).is_err()),
        drop,
        |call| call.run(|_| Ok::<_, ()>(())).unwrap(),
        |call| call.dispatch().unwrap().1.finish(OutcomeKind::Returned),
    ];
    for end in ends {
        let world = World::new();
        let gate = world.gate();
        start_plan(&gate, one()).unwrap();
        end(gate.check(&search("c")).unwrap());
        assert_eq!(gate.finish_plan().unwrap_err(), FinishError::OutcomeMissing.into());
    }
}

#[test]
fn an_asynchronous_step_is_in_the_trace_and_one_cut_off_is_not() {
    use std::future::{pending, ready};
    use std::task::{Context, Poll, Waker};
    let world = World::new();
    let gate = world.gate();
    start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#).calls(2).unwrap()]).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut done =
        Box::pin(gate.check(&search("c")).unwrap().run_step_async(|_| ready(Ok::<_, ()>(b"found".to_vec()))));
    assert!(matches!(done.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    {
        let call = gate.check(&search("c")).unwrap();
        let mut never = Box::pin(call.run_step_async(|_| pending::<Result<Vec<u8>, ()>>()));
        assert!(matches!(never.as_mut().poll(&mut context), Poll::Pending));
    }
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::OutcomeMissing.into());
}
