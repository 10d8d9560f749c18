//! Amendments in mid-plan, through the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_approval_token::MemorySpentTokens;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record, Verdict};
use countersign_committed_plan::*;
use countersign_core::*;

fn again() -> Vec<Step> {
    vec![step("refund", r#"{"ticket":"T-1001","amount":49}"#), step("twin", "{}")]
}

const fn twin(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "twin", b"{}")
}

fn refused(gate: &ToolGate, settings: PlanSettings) -> &'static str {
    let (root, position) = (gate.plan_root(), gate.plan_position());
    let error = gate.amend_plan(settings).unwrap_err();
    assert_eq!((gate.plan_root(), gate.plan_position()), (root, position), "the plan is as it was");
    let record = gate.call_log().pop().unwrap();
    assert_eq!((record.verdict, record.code.unwrap().as_str()), (Verdict::Reject, error.code()));
    error.code()
}

#[test]
fn amendment_replaces_the_steps_that_have_not_run() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let old = gate.plan_root().unwrap();
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    assert_eq!(gate.plan_position(), Some(1));
    let new = world.amend(&gate, again(), 901).unwrap();
    assert_eq!((gate.plan_root(), gate.plan_position()), (Some(new), Some(0)));
    assert_eq!(run(&gate, &refund("c2"), "refunded"), None);
    assert_eq!(run(&gate, &ToolCall::new("c3", "desk", "twin", b"{}"), "seen"), None);
    let trace = gate.finish_plan().unwrap();
    assert_eq!(trace.roots(), [old, new]);
    let ran: Vec<_> = trace.steps().iter().map(|step| (*step.root(), step.index())).collect();
    assert_eq!(ran, [(old, 1), (new, 1), (new, 2)]);
    let log = gate.call_log();
    let of: Vec<_> = log.iter().map(|record| (record.plan, record.plan_step)).collect();
    let (old, new) = (Some(old.digest()), Some(new.digest()));
    assert_eq!(of, [(old, None), (old, Some(1)), (new, None), (new, Some(1)), (new, Some(2)), (new, None)]);
    let by: Vec<_> = log.iter().map(|record| record.approval.as_ref().map(TokenId::as_str)).collect();
    let (first, second) = (Some("token-900"), Some("token-901"));
    assert_eq!(
        by,
        [first, None, second, second, None, None],
        "the approval is that of the plan which the step is of"
    );
    assert_eq!(gate.counts().accepted(), 3, "an amendment is no call of the agent's");
}

#[test]
fn unapproved_amendment_is_refused_for_any_steps() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let harmless = amendment_of(&gate, vec![step("twin", "{}")]);
    assert_eq!(refused(&gate, PlanSettings::new(harmless)), "APPROVAL_REQUIRED");
    assert_eq!(run(&gate, &search("c"), ""), None, "the plan goes on");
}

#[test]
fn amendment_needs_a_token_over_its_own_root() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    let of_plan = world.approve_plan(&gate, &plan);
    let again_of_plan = world.approve_again(&gate, &plan, 903);
    gate.start_plan(PlanSettings::new(plan).approval(&of_plan)).unwrap();
    let (one, two) = (amendment_of(&gate, again()), amendment_of(&gate, vec![step("twin", "{}")]));
    let of_two = world.approve_again(&gate, &two, 901);
    for token in [of_plan.as_str(), &again_of_plan, &of_two, "cs1.a.b", ""] {
        assert_eq!(refused(&gate, PlanSettings::new(one.clone()).approval(token)), "APPROVAL_INVALID");
    }
    let early = world.approve_again(&gate, &one, 902);
    world.clock.advance(Millis::from_secs(300)).unwrap();
    assert_eq!(refused(&gate, PlanSettings::new(one).approval(&early)), "APPROVAL_EXPIRED");
}

#[test]
fn the_approval_of_an_amendment_is_good_once() {
    let world = World::new();
    let (gate, other) = (world.approved_plan(steps()), world.gate());
    start_plan(&other, steps()).unwrap();
    let plan = amendment_of(&gate, again());
    let settings = PlanSettings::new(plan.clone()).approval(&world.approve_again(&gate, &plan, 901));
    gate.amend_plan(settings.clone()).unwrap();
    assert_eq!(refused(&other, settings.clone()), "APPROVAL_SPENT");
    assert_eq!(refused(&gate, settings), "PLAN_AMENDMENT_LINK", "nor is an amendment taken twice");
}

#[test]
fn finished_steps_cannot_be_rewritten() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let before = amendment_of(&gate, again());
    let token = world.approve_again(&gate, &before, 901);
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    assert_eq!(refused(&gate, PlanSettings::new(before).approval(&token)), "PLAN_AMENDMENT_LINK");
    let root = gate.plan_root().unwrap();
    for (root, position) in [(root, 0), (root, 2), (PlanRoot::from_digest(Digest::of(b"other")), 1)] {
        let plan = plan_of(&gate, again()).amending(root, position);
        assert_eq!(gate.plan_approval_request(&plan).unwrap_err().code(), "PLAN_AMENDMENT_LINK");
        assert_eq!(refused(&gate, PlanSettings::new(plan).approval(&token)), "PLAN_AMENDMENT_LINK");
    }
    let no_amendment = PlanSettings::new(plan_of(&gate, again())).approval(&token);
    assert_eq!(refused(&gate, no_amendment), "PLAN_AMENDMENT_LINK");
    world.amend(&gate, vec![step("twin", "{}")], 902).unwrap();
    assert_eq!(why(&gate, &search("c2")), (PlanStepMismatch, "other-tool".into()), "nor is it run again");
}

#[test]
fn after_an_amendment_the_old_steps_are_no_steps() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    world.amend(&gate, vec![step("twin", "{}")], 901).unwrap();
    assert_eq!(code(&gate, &refund("c2")), Some(PlanStepMismatch));
    assert_eq!(code(&gate, &twin("c3")), Some(PlanHalted), "and the plan is halted");
}

#[test]
fn an_amendment_is_checked_against_the_contract_like_any_plan() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let code = |steps| refused(&gate, PlanSettings::new(amendment_of(&gate, steps)));
    assert_eq!(code(vec![step("delete_ticket", "{}")]), "PLAN_TOOL_UNDISCLOSED");
    assert_eq!(code(vec![step("mail", r#"{"to":"<DYNAMIC>","body":"b"}"#)]), "PLAN_CONTROL_OPEN");
    assert_eq!(code(vec![step("mail", r#"{"to":"x@evil.example"}"#)]), "PLAN_ARGS_SCHEMA");
    let own = gate.plan_context().unwrap();
    let of = |goal, session: &str, version| {
        let context = PlanContext::new(goal, SessionId::new(session).unwrap(), version).unwrap();
        let plan = Plan::new(context, again()).unwrap().amending(gate.plan_root().unwrap(), 0);
        refused(&gate, PlanSettings::new(plan))
    };
    assert_eq!(of(*own.goal(), "session-2", 1), "PLAN_OTHER_SESSION");
    assert_eq!(of(Digest::of(b"another goal"), "session-1", 1), "PLAN_OTHER_GOAL");
    assert_eq!(of(*own.goal(), "session-1", 2), "PLAN_OTHER_REGISTRY");
}

#[test]
fn after_a_new_registry_an_approved_amendment_is_the_way_on() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    let stale = amendment_of(&gate, again());
    let token = world.approve_again(&gate, &stale, 901);
    world.reload(2, NONE_REVOKED);
    assert_eq!(why(&gate, &refund("c2")), (PlanRequired, "other-registry".into()));
    let stale = PlanSettings::new(stale).approval(&token);
    assert_eq!(refused(&gate, stale), "PLAN_OTHER_REGISTRY");
    let rest: Vec<Step> = steps().into_iter().skip(1).collect();
    assert_eq!(refused(&gate, PlanSettings::new(amendment_of(&gate, rest.clone()))), "APPROVAL_REQUIRED");
    world.amend(&gate, rest, 902).unwrap();
    assert_eq!(run(&gate, &refund("c2"), "refunded"), None);
    assert_eq!(run(&gate, &mail("c3"), "sent"), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 3);
}

#[test]
fn without_a_plan_under_way_there_is_nothing_to_amend() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, again()).amending(PlanRoot::from_digest(Digest::of(b"")), 0);
    assert_eq!(refused(&gate, PlanSettings::new(plan.clone())), "PLAN_NOT_STARTED");
    assert_eq!(gate.plan_approval_request(&plan).unwrap_err().code(), "PLAN_AMENDMENT_LINK");

    start_plan(&gate, vec![step("twin", "{}")]).unwrap();
    let amendment = amendment_of(&gate, again());
    assert_eq!(gate.plan_approval_request(&plan_of(&gate, again())).unwrap_err().code(), "PLAN_STARTED");
    assert_eq!(run(&gate, &twin("c"), ""), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);
    assert_eq!(refused(&gate, PlanSettings::new(amendment.clone())), "PLAN_NOT_STARTED");
    assert_eq!(gate.plan_approval_request(&amendment).unwrap_err().code(), "PLAN_NOT_STARTED");
    assert_eq!(gate.plan_position(), None);
}

#[test]
fn a_halted_plan_takes_no_amendment() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let plan = amendment_of(&gate, again());
    let token = world.approve_again(&gate, &plan, 901);
    assert_eq!(code(&gate, &mail("c")), Some(PlanOutOfOrder));
    assert_eq!(refused(&gate, PlanSettings::new(plan.clone()).approval(&token)), "PLAN_HALTED");
    assert_eq!(gate.plan_approval_request(&plan).unwrap_err().code(), "PLAN_HALTED");
}

#[test]
fn amendment_during_a_decision_spends_no_approval() {
    let world = World::new();
    let waiting: Arc<parking_lot::Mutex<Option<(ToolGate, PlanSettings)>>> = Arc::default();
    let seen = Arc::new(AtomicU32::new(0));
    let (taken, count) = (Arc::clone(&waiting), Arc::clone(&seen));
    let check = move |_: &CheckedCall<'_>| {
        let job = taken.lock().take();
        if let Some((gate, settings)) = job {
            assert_eq!(gate.amend_plan(settings).unwrap_err().code(), "PLAN_BUSY");
            count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    };
    let gate = world.full().user_check("meanwhile", check).open().unwrap();
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    let old = gate.start_plan(PlanSettings::new(plan).approval(&token)).unwrap();
    assert_eq!(run(&gate, &search("c1"), ""), None);
    let amendment = amendment_of(&gate, again());
    let token = world.approve_again(&gate, &amendment, 901);
    *waiting.lock() = Some((gate.clone(), PlanSettings::new(amendment.clone()).approval(&token)));
    assert_eq!(run(&gate, &refund("c2"), ""), None);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    let record = gate.call_log().pop().unwrap();
    assert_eq!((record.plan, record.plan_step), (Some(old.digest()), Some(2)));
    assert_eq!(record.approval.unwrap().as_str(), "token-900", "that of the plan whose turn it had");
    // The step has run by now, so the amendment names the wrong position; its token is not spent.
    assert_eq!(refused(&gate, PlanSettings::new(amendment).approval(&token)), "PLAN_AMENDMENT_LINK");
    world.amend(&gate, vec![step("twin", "{}")], 901).unwrap();
}

/// Spends like the memory store, and acts in the middle of a spend.
struct Meanwhile {
    inner: MemorySpentTokens,
    act: parking_lot::Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meanwhile").finish_non_exhaustive()
    }
}

impl SpentTokens for Meanwhile {
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        let act = self.act.lock().take();
        if let Some(act) = act {
            act();
        }
        self.inner.spend(ticket, now)
    }
}

#[test]
fn call_during_an_amendment_is_refused_without_a_halt() {
    let world = World::new();
    let spent = Arc::new(Meanwhile { inner: MemorySpentTokens::new(), act: parking_lot::Mutex::default() });
    let settings = world.settings(Arc::clone(&spent) as Arc<dyn SpentTokens>);
    let gate = world.bare().pinned_ask(world.pin()).approvals(settings).open().unwrap();
    start_plan(&gate, steps()).unwrap();
    let (other, seen) = (gate.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&seen);
    *spent.act.lock() = Some(Box::new(move || {
        assert_eq!(why(&other, &search("meanwhile")), (PlanOutOfOrder, "busy".into()));
        assert_eq!(other.finish_plan().unwrap_err().code(), "PLAN_BUSY");
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let new = world.amend(&gate, again(), 901).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert_eq!(gate.plan_root(), Some(new));
    assert_eq!(run(&gate, &refund("c1"), ""), None);
    // A store that panics in mid-amendment leaves the plan unchanged and the turn free.
    *spent.act.lock() = Some(Box::new(|| panic!("injected")));
    let error = world.amend(&gate, again(), 902).unwrap_err();
    assert_eq!((error.code(), gate.plan_root()), ("INTERNAL", Some(new)));
    assert_eq!(run(&gate, &twin("c2"), ""), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 2);
}

#[test]
fn one_of_many_racing_amendments_spends_its_approval() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let plan = amendment_of(&gate, again());
    let tokens: Vec<_> = (0..4).map(|n| world.approve_again(&gate, &plan, 910 + n)).collect();
    let barrier = std::sync::Barrier::new(4);
    let codes: Vec<_> = std::thread::scope(|scope| {
        let race = |token: String| {
            let settings = PlanSettings::new(plan.clone()).approval(&token);
            barrier.wait();
            gate.amend_plan(settings).map_err(|error| error.code())
        };
        let workers: Vec<_> = tokens.iter().map(|token| scope.spawn(move || race(token.clone()))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let root = gate.plan_root().unwrap();
    assert_eq!(codes.iter().filter(|code| **code == Ok(root)).count(), 1);
    assert_eq!(codes.iter().filter(|code| **code == Err("PLAN_AMENDMENT_LINK")).count(), 3);
    assert_eq!(world.spent.len(), 2, "the plan's and one amendment's");
}

#[test]
fn calls_and_amendments_that_race_leave_one_history() {
    for _ in 0..8 {
        let world = World::new();
        let gate = world.gate();
        start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#), step("twin", "{}")]).unwrap();
        let plan = amendment_of(&gate, vec![step("twin", "{}")]);
        let settings = PlanSettings::new(plan.clone()).approval(&world.approve_again(&gate, &plan, 901));
        let barrier = std::sync::Barrier::new(2);
        let (called, amended) = std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                barrier.wait();
                run(&gate, &search("c1"), "found")
            });
            let amend = scope.spawn(|| {
                barrier.wait();
                gate.amend_plan(settings).map_err(|error| error.code())
            });
            (call.join().unwrap(), amend.join().unwrap())
        });
        match (called, amended) {
            // The call came first: it has run, or was being decided.
            (None, Err("PLAN_AMENDMENT_LINK" | "PLAN_BUSY")) => {
                assert_eq!(run(&gate, &twin("c2"), "seen"), None);
                assert_eq!(gate.finish_plan().unwrap().steps().len(), 2);
            }
            // The amendment was being applied.
            (Some(PlanOutOfOrder), Ok(_)) => {
                assert_eq!(run(&gate, &twin("c2"), "seen"), None);
                assert_eq!(gate.finish_plan().unwrap().steps().len(), 1);
            }
            // The amendment came first, and has no such step.
            (Some(PlanStepMismatch), Ok(_)) => {
                assert_eq!(gate.finish_plan().unwrap_err().code(), "PLAN_HALTED");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn observation_after_an_amendment_is_in_the_trace() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let (_, in_flight) = gate.check(&search("c1")).unwrap().dispatch().unwrap();
    world.amend(&gate, vec![step("twin", "{}")], 901).unwrap();
    assert_eq!(run(&gate, &twin("c2"), "seen"), None);
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::OutcomeMissing.into());
    in_flight.observe(b"found".to_vec());
    let trace = gate.finish_plan().unwrap();
    let seen: Vec<_> = trace.steps().iter().map(|step| step.observation().as_slice()).collect();
    assert_eq!(seen, [b"found".as_slice(), b"seen"]);
}

/// A sink that fails from one record on.
#[derive(Debug)]
struct Until(MemorySink, AtomicU32);

impl AuditSink for Until {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let left = self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if left.is_err() { Err(AuditError::Poisoned) } else { self.0.record(record) }
    }
}

#[test]
fn unrecorded_amendment_is_not_applied() {
    let world = World::new();
    let sink = Arc::new(Until(MemorySink::new(), AtomicU32::new(100)));
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let builder = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>);
    let gate = builder.pinned_ask(world.pin()).approvals(settings).open().unwrap();
    let old = start_plan(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]).unwrap();
    sink.1.store(0, Ordering::SeqCst);
    assert_eq!(world.amend(&gate, again(), 901).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(gate.plan_root(), Some(old));
    sink.1.store(100, Ordering::SeqCst);
    assert_eq!(run(&gate, &search("c"), "found"), None, "the turn is free, and the plan the old one");
    assert_eq!(gate.finish_plan().unwrap().roots(), [old]);
}

#[test]
fn an_amendment_makes_the_plans_approval_count_where_none_did() {
    let world = World::new();
    let gate = world.planned();
    assert_eq!(run(&gate, &search("c1"), ""), None);
    assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired));
    let single = world.approve(&gate, &refund("c2"));
    world.amend(&gate, again(), 901).unwrap();
    assert_eq!(run(&gate, &refund("c2").approval(single.as_str()), ""), None);
    let log = gate.call_log();
    assert_eq!(log.last().unwrap().approval.as_ref().unwrap().as_str(), "token-901");
    assert_eq!(world.spent.len(), 1, "the single call's token was bound to the old root, and was not used");
}

#[test]
fn key_revoked_mid_plan_invalidates_its_approvals() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c1"), ""), None);
    world.reload(2, r#"{"agents":[],"keys":["k1"],"snapshots":[]}"#);
    assert_eq!(why(&gate, &refund("c2")), (PlanRequired, "other-registry".into()));
    let amendment = amendment_of(&gate, again());
    let token = world.approve_again(&gate, &amendment, 901);
    assert_eq!(refused(&gate, PlanSettings::new(amendment).approval(&token)), "APPROVAL_INVALID");
    let record = gate.call_log().pop().unwrap();
    assert_eq!(record.reason.unwrap().as_str(), "the key is revoked");
    assert_eq!(world.spent.len(), 1, "that of the start");
    assert_eq!(gate.plan_position(), Some(1));
}

#[test]
fn refused_amendments_leave_nothing_behind() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    let root = gate.plan_root();
    let kept = || (world.spent.len(), gate.plan_root(), gate.plan_position());
    let before = kept();
    for number in 0..1_100 {
        let far = plan_of(&gate, again()).amending(root.unwrap(), number % 7);
        let settings = PlanSettings::new(far).approval("not a token");
        assert!(gate.amend_plan(settings).is_err());
    }
    assert_eq!(kept(), before);
    assert_eq!(gate.call_log().len(), 1_024, "the last records are kept, and no more");
    assert_eq!(run(&gate, &search("c1"), ""), None, "and the turn is free");
}
