//! Approval requests for a plan's calls before the plan begins.

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{StandingChange, StandingRecord};
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::*;

const WIPE: &str = r#"{"all":true}"#;

fn args(json: &str) -> Canonical {
    read(json.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

fn wipe(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "wipe", WIPE.as_bytes())
}

/// A plan of a search and a wipe, and the approval request for the wipe under this id.
fn asked(gate: &ToolGate, id: &str) -> (countersign_committed_plan::Plan, ApprovalRequest) {
    let plan = plan_of(gate, vec![step("search", r#"{"query":"T-1001"}"#), step("wipe", WIPE)]);
    let id = CallId::new(id).unwrap();
    let request = gate.step_approval_request(&committed(gate, plan.clone()), 2, &id, &args(WIPE));
    (plan, request.unwrap())
}

#[test]
fn early_step_request_equals_the_gates_later_one() {
    let world = World::new();
    let gate = world.gate();
    let (plan, request) = asked(&gate, "c2");
    gate.start_plan(PlanSettings::new(plan)).unwrap();
    assert_eq!(run(&gate, &ToolCall::new("c1", "desk", "search", br#"{"query":"T-1001"}"#), "found"), None);
    let refused = gate.check(&wipe("c2")).unwrap_err();
    let then = refused.approval_request().unwrap();
    assert_eq!((then.binding(), then.args()), (request.binding(), request.args()));
    assert_eq!(then.session_ends(), request.session_ends());
    let token = mint_for(&world, request.binding(), 7);
    assert_eq!(run(&gate, &wipe("c2").approval(&token), "wiped"), None);
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 2);
}

#[test]
fn verifying_an_approval_does_not_spend_it() {
    let world = World::new();
    let gate = world.gate();
    let (plan, request) = asked(&gate, "c2");
    let (_, other) = asked(&gate, "c3");
    let before = world.sink.latest().len();
    let token = mint_for(&world, request.binding(), 7);
    for _ in 0..2 {
        assert!(gate.verify_approval(&request, &token).is_ok());
    }
    assert_eq!(gate.verify_approval(&other, &token), Err(ApprovalInvalid));
    assert_eq!(gate.verify_approval(&request, "cs1.a.b"), Err(ApprovalInvalid));
    let whole = gate.plan_approval_request(&plan).unwrap();
    assert!(gate.verify_approval(&whole, &world.approve_plan(&gate, &plan)).is_ok());
    assert_eq!(gate.verify_approval(&whole, &token), Err(ApprovalInvalid));
    world.clock.advance(hour()).unwrap();
    assert_eq!(gate.verify_approval(&request, &token), Err(ApprovalExpired));
    assert_eq!(world.bare().open().unwrap().verify_approval(&request, &token), Err(ApprovalInvalid));
    assert_eq!(world.sink.latest().len(), before + 1, "the other gate's session, and nothing else");
}

#[test]
fn invalid_step_or_quarantined_agent_gets_no_request() {
    let world = World::new();
    let gate = world.gate();
    let plan = committed(&gate, plan_of(&gate, vec![step("wipe", WIPE)]));
    let id = CallId::new("c").unwrap();
    let ask = |gate: &ToolGate, step| {
        gate.step_approval_request(&plan, step, &id, &args(WIPE)).map(drop).map_err(|error| error.code())
    };
    assert_eq!(ask(&gate, 1), Ok(()));
    for step in [0, 2, u64::MAX] {
        assert_eq!(ask(&gate, step), Err("PLAN_STEP_MISMATCH"));
    }
    let untaken = world.bare().pinned_ask(world.pin()).open().unwrap();
    assert_eq!(ask(&untaken, 1), Err("APPROVAL_INVALID"));
    let change = StandingRecord::new(start(), super::signals::agent(), StandingChange::Quarantined, "ada");
    gate.stats().set_standing(&change).unwrap();
    assert_eq!(ask(&gate, 1), Err("AGENT_QUARANTINED"));
}

#[test]
fn early_denial_is_recorded_but_not_counted_as_a_call() {
    let world = World::new();
    let gate = world.gate();
    let (plan, request) = asked(&gate, "c2");
    assert_eq!(gate.refuse_plan(&request, Some("olga")).code(), "APPROVAL_DENIED");
    let entry = last_decision(&world);
    assert_eq!((entry.call_id.as_str(), entry.tool.name.as_str()), ("c2", "wipe"));
    assert_eq!(entry.plan, Some(committed(&gate, plan).root().digest()));
    assert_eq!(entry.args, Some(request.args().digest()));
    assert_eq!((entry.denied_by.unwrap().as_str(), entry.about_plan), ("olga", true));
    assert_eq!(gate.counts().total(), 0);
}
