//! The start of a plan: its checks, and one approval for the whole of it.

use std::sync::Arc;

use super::plan_world::*;
use super::world::{NONE_REVOKED, World, code, hour, mint_for, refund, search};
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{MemorySink, Verdict};
use countersign_committed_plan::*;
use countersign_core::*;

fn refused(gate: &ToolGate, steps: Vec<Step>) -> &'static str {
    let error = start_plan(gate, steps).unwrap_err();
    let record = gate.call_log().pop().unwrap();
    assert_eq!((record.verdict, record.code.unwrap().as_str()), (Verdict::Reject, error.code()));
    assert_eq!(record.tool.name.as_str(), "submit_plan");
    error.code()
}

#[test]
fn plan_with_disallowed_tool_or_arguments_is_refused() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(refused(&gate, vec![step("delete_ticket", "{}")]), "PLAN_TOOL_UNDISCLOSED");
    assert_eq!(refused(&gate, vec![step("no_such_tool", "{}")]), "PLAN_TOOL_UNDISCLOSED");
    assert_eq!(refused(&gate, vec![step("refund", r#"{"ticket":"T-1"}"#)]), "PLAN_ARGS_SCHEMA");
    assert_eq!(refused(&gate, vec![step("mail", r#"{"to":"x@evil.example"}"#)]), "PLAN_ARGS_SCHEMA");
    assert_eq!(refused(&gate, vec![step("search", r#"{"query":7}"#)]), "PLAN_ARGS_SCHEMA");
    assert_eq!(code(&gate, &search("c")), None, "and the gate is as it was");
    assert_eq!(gate.plan_root(), None);
    start_plan(&gate, steps()).unwrap();
}

#[test]
fn a_control_argument_marked_dynamic_is_refused_at_the_start() {
    let world = World::new();
    let gate = world.gate();
    for control in [
        step("mail", r#"{"to":"<DYNAMIC>","body":"b"}"#),
        step("mail", r#"{"to":"x@customers.example","bodyguard":"<DYNAMIC>"}"#),
        step("refund", r#"{"ticket":"T-1001","amount":"<DYNAMIC>"}"#),
        step("search", r#"{"query":"<DYNAMIC>"}"#),
    ] {
        assert_eq!(refused(&gate, vec![control]), "PLAN_CONTROL_OPEN");
    }
    let data = [
        step("mail", r#"{"to":"x@customers.example","body":"<DYNAMIC>"}"#),
        step("mail", r#"{"to":"x@customers.example","body":{"text":"<DYNAMIC>"}}"#),
    ];
    start_plan(&gate, data.to_vec()).unwrap();
}

#[test]
fn a_plan_of_another_session_goal_or_registry_is_refused() {
    let world = World::new();
    let gate = world.gate();
    let own = gate.plan_context().unwrap();
    let plan = |goal, session: &str, version| {
        let context = PlanContext::new(goal, SessionId::new(session).unwrap(), version).unwrap();
        let plan = Plan::new(context, steps()).unwrap();
        let asked = gate.plan_approval_request(&plan).unwrap_err().code();
        let started = gate.start_plan(PlanSettings::new(plan)).unwrap_err().code();
        assert_eq!(asked, started, "nobody is asked to approve what cannot start");
        started
    };
    assert_eq!(plan(*own.goal(), "session-2", 1), "PLAN_OTHER_SESSION");
    assert_eq!(plan(Digest::of(b"another goal"), "session-1", 1), "PLAN_OTHER_GOAL");
    assert_eq!(plan(*own.goal(), "session-1", 2), "PLAN_OTHER_REGISTRY");
    let settings = PlanSettings::new(plan_of(&gate, steps()));
    world.reload(2, NONE_REVOKED);
    assert_eq!(gate.start_plan(settings).unwrap_err().code(), "PLAN_OTHER_REGISTRY");
    start_plan(&gate, steps()).unwrap();
}

#[test]
fn amendment_or_second_plan_does_not_start() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    let amendment = plan.clone().amending(PlanRoot::from_digest(Digest::of(b"root")), 0);
    assert_eq!(gate.start_plan(PlanSettings::new(amendment)).unwrap_err().code(), "PLAN_AMENDMENT_LINK");
    let root = gate.start_plan(PlanSettings::new(plan.clone())).unwrap();
    assert_eq!(refused(&gate, vec![step("twin", "{}")]), "PLAN_STARTED");
    assert_eq!(gate.plan_root(), Some(root));
}

#[test]
fn of_many_threads_that_start_a_plan_one_does() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    let started = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| gate.start_plan(PlanSettings::new(plan.clone())).is_ok()))
            .collect();
        workers.into_iter().map(|worker| u32::from(worker.join().unwrap())).sum::<u32>()
    });
    assert_eq!(started, 1);
}

#[test]
fn a_session_without_a_goal_or_past_its_end_starts_no_plan() {
    let world = World::new();
    let plan = plan_of(&world.gate(), steps());
    let bare = world.bare().open().unwrap();
    assert_eq!(bare.plan_context().unwrap_err().code(), "PLAN_NO_GOAL");
    assert_eq!(bare.start_plan(PlanSettings::new(plan.clone())).unwrap_err().code(), "PLAN_NO_GOAL");
    let gate = world.gate();
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(gate.start_plan(PlanSettings::new(plan.clone())).unwrap_err().code(), "AGENT_REVOKED");
    let world = World::new();
    let gate = world.gate();
    world.clock.advance(hour()).unwrap();
    assert_eq!(gate.start_plan(PlanSettings::new(plan)).unwrap_err().code(), "CONTRACT_EXPIRED");
}

#[test]
fn a_gate_opens_with_its_plan_or_not_at_all() {
    let world = World::new();
    let plan = plan_of(&world.gate(), steps());
    let gate = world.full().plan(PlanSettings::new(plan.clone())).open().unwrap();
    assert_eq!(code(&gate, &mail("c")), Some(PlanOutOfOrder));
    let refused = world.bare().plan(PlanSettings::new(plan)).open().unwrap_err();
    assert_eq!(refused.code(), "PLAN_NO_GOAL");
}

#[test]
fn plan_approval_is_recorded_with_each_step_it_covers() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c1"), ""), None);
    let call = gate.check(&refund("c2")).unwrap();
    assert!(call.approval().is_none(), "the call itself used none up");
    assert_eq!(call.plan_step(), Some(2));
    call.run_step(|_| Ok::<_, ()>(Vec::new())).unwrap();
    let log = gate.call_log();
    let approved: Vec<_> = log.iter().map(|record| record.approval.as_ref().map(TokenId::as_str)).collect();
    assert_eq!(approved, [Some("token-900"), None, Some("token-900")], "search needs none");
    assert_eq!(log[2].approver.as_ref().unwrap().as_str(), "grace@example.com");
}

#[test]
fn without_an_approval_of_the_plan_each_step_needs_its_own() {
    let world = World::new();
    let gate = world.planned();
    assert_eq!(run(&gate, &search("c1"), ""), None);
    assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired));
}

#[test]
fn plan_approval_does_not_cover_an_each_call_tool() {
    let world = World::new();
    let gate = world.approved_plan(vec![step("wipe", "{}")]);
    let call = ToolCall::new("c", "desk", "wipe", b"{}");
    let token = world.approve(&gate, &call);
    assert_eq!(code(&gate, &call.approval(token.as_str())), None);
    // Without a plan it is as strict as before.
    assert_eq!(code(&world.gate(), &ToolCall::new("c", "desk", "wipe", b"{}")), Some(ApprovalRequired));
}

#[test]
fn a_plans_approval_is_good_once_and_for_this_plan_alone() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    let with = |gate: &ToolGate, plan: &Plan, token: &str| {
        gate.start_plan(PlanSettings::new(plan.clone()).approval(token)).map_err(|error| error.code())
    };
    let mut other = steps();
    other.swap(0, 1);
    assert_eq!(with(&gate, &plan_of(&gate, other), &token), Err("APPROVAL_INVALID"));
    assert_eq!(with(&gate, &plan, "cs1.a.b"), Err("APPROVAL_INVALID"));
    let sink = Arc::clone(&world.sink);
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let pin = countersign_pinned_ask::PinnedAsk::pin(
        super::world::GOAL,
        &SessionId::new("session-2").unwrap(),
        hour(),
        world.clock.now().unwrap(),
    );
    let session =
        world.builder_for("session-2", sink).pinned_ask(pin.unwrap()).approvals(settings).open().unwrap();
    assert_eq!(with(&session, &plan_of(&session, steps()), &token), Err("APPROVAL_INVALID"));
    assert!(with(&gate, &plan, &token).is_ok());
    let again = world.gate();
    assert_eq!(with(&again, &plan, &token), Err("APPROVAL_SPENT"), "another gate over the same store");
    assert_eq!(again.plan_root(), None);
    let fresh = world.gate();
    let token = mint_for(&world, fresh.plan_approval_request(&plan).unwrap().binding(), 901);
    world.clock.advance(Millis::from_secs(300)).unwrap();
    assert_eq!(with(&fresh, &plan, &token), Err("APPROVAL_EXPIRED"));
}

#[test]
fn approvals_of_call_or_plan_are_not_interchangeable() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, vec![step("refund", r#"{"ticket":"T-1001","amount":49}"#)]);
    let call = world.approve(&gate, &refund("c"));
    let settings = PlanSettings::new(plan.clone()).approval(call.as_str());
    assert_eq!(gate.start_plan(settings).unwrap_err().code(), "APPROVAL_INVALID");
    let token = world.approve_plan(&gate, &plan);
    assert_eq!(code(&gate, &refund("c").approval(&token)), Some(ApprovalInvalid));
    gate.start_plan(PlanSettings::new(plan)).unwrap();
    assert_eq!(code(&gate, &refund("c").approval(&token)), Some(ApprovalInvalid), "nor of its step");
}

#[test]
fn a_partial_token_approves_no_plan() {
    let world = World::new();
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let gate = world
        .bare()
        .pinned_ask(world.pin())
        .approvals(settings.dangerous_accept_partial_bindings())
        .open()
        .unwrap();
    let plan = plan_of(&gate, steps());
    let request = gate.plan_approval_request(&plan).unwrap();
    let whole = request.binding();
    let partial = countersign_core::CallFacts::new(
        whole.call_id.clone(),
        whole.tool.clone(),
        whole.args,
        countersign_canonical_json::Recipe::Jcs1,
        gate.principal().clone(),
    )
    .plan(whole.plan.unwrap());
    let token = mint_for(&world, &partial, 1);
    let started = gate.start_plan(PlanSettings::new(plan).approval(&token));
    assert_eq!(started.unwrap_err().code(), "APPROVAL_INVALID");
}

#[test]
fn a_gate_that_takes_no_approvals_takes_none_of_a_plan() {
    let world = World::new();
    let gate = world.bare().pinned_ask(world.pin()).open().unwrap();
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&world.gate(), &plan);
    let started = gate.start_plan(PlanSettings::new(plan.clone()).approval(&token));
    assert_eq!(started.unwrap_err().code(), "APPROVAL_INVALID");
    assert_eq!(gate.plan_approval_request(&plan).unwrap_err().code(), "APPROVAL_INVALID");
}

#[test]
fn plan_start_is_recorded_with_its_outcome() {
    let world = World::new();
    let sink = Arc::new(MemorySink::new());
    let gate = world.builder_with(Arc::clone(&sink) as Arc<_>).pinned_ask(world.pin()).open().unwrap();
    let root = start_plan(&gate, steps()).unwrap();
    let record = gate.call_log().pop().unwrap();
    assert_eq!((record.verdict, record.plan), (Verdict::Accept, Some(root.digest())));
    assert_eq!(record.call_id.as_str(), root.to_string());
    assert_eq!(record.args, Some(Digest::of(plan_of(&gate, steps()).to_json().as_bytes())));
    assert_eq!(sink.latest().len(), 3, "session, decision, outcome");
    assert_eq!(gate.counts().accepted(), 0, "it is no call of the agent's");
}

#[test]
fn plan_for_an_expired_goal_spends_no_approval() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    world.clock.advance(Millis::from_secs(1_700)).unwrap();
    let token = world.approve_plan(&gate, &plan);
    world.clock.advance(Millis::from_secs(100)).unwrap();
    let started = gate.start_plan(PlanSettings::new(plan).approval(&token));
    assert_eq!(started.unwrap_err().code(), "ASK_EXPIRED");
    assert_eq!((gate.plan_root(), world.spent.len()), (None, 0));
}
