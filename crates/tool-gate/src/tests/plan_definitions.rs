//! An approval of a plan covers the definitions of its tools.

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_core::*;

fn tool(name: &str) -> ToolId {
    ToolId::new("desk", name).unwrap()
}

fn note(gate: &ToolGate, name: &str, definition: &[u8]) {
    gate.note_definition(&tool(name), Digest::of(definition));
}

/// Approves a plan, runs `happens`, and starts the plan.
fn between(seen: &[u8], happens: impl FnOnce(&ToolGate)) -> Result<(), (&'static str, String)> {
    let world = World::new();
    let gate = world.gate();
    note(&gate, "refund", seen);
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    happens(&gate);
    gate.start_plan(PlanSettings::new(plan).approval(&token)).map(|_| ()).map_err(|error| {
        let record = gate.call_log().pop().unwrap();
        (error.code(), record.reason.unwrap().as_str().to_owned())
    })
}

#[test]
fn definition_changed_after_approval_refuses_the_start() {
    let refused = Err(("APPROVAL_INVALID", "other-definition".to_owned()));
    assert_eq!(between(b"one", |_| {}), Ok(()));
    assert_eq!(between(b"one", |gate| note(gate, "refund", b"two")), refused);
    assert_eq!(between(b"one", |gate| gate.forget_definition(&tool("refund"))), refused);
    assert_eq!(between(b"one", |gate| note(gate, "mail", b"seen for the first time")), refused);
    assert_eq!(between(b"one", |gate| note(gate, "twin", b"no tool of the plan")), Ok(()));
    let there_and_back = |gate: &ToolGate| {
        note(gate, "refund", b"two");
        note(gate, "refund", b"one");
    };
    assert_eq!(between(b"one", there_and_back), Ok(()));
}

#[test]
fn definitions_swapped_between_tools_refuse_the_start() {
    let swapped = |gate: &ToolGate| {
        note(gate, "refund", b"b");
        note(gate, "search", b"a");
    };
    let world = World::new();
    let gate = world.gate();
    note(&gate, "refund", b"a");
    note(&gate, "search", b"b");
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    swapped(&gate);
    let started = gate.start_plan(PlanSettings::new(plan).approval(&token));
    assert_eq!(started.unwrap_err().code(), "APPROVAL_INVALID");
}

#[test]
fn definition_changed_after_approval_refuses_amendment() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    note(&gate, "twin", b"one");
    let plan = amendment_of(&gate, vec![step("twin", "{}")]);
    let token = world.approve_again(&gate, &plan, 901);
    note(&gate, "twin", b"two");
    let amended = gate.amend_plan(PlanSettings::new(plan).approval(&token));
    assert_eq!(amended.unwrap_err().code(), "APPROVAL_INVALID");
}

#[test]
fn plan_approval_does_not_cover_a_redefined_tool() {
    let world = World::new();
    let gate = world.gate();
    note(&gate, "refund", b"one");
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    gate.start_plan(PlanSettings::new(plan).approval(&token)).unwrap();
    assert_eq!(run(&gate, &search("c1"), ""), None);
    note(&gate, "refund", b"two");
    assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired));
    gate.forget_definition(&tool("refund"));
    assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired));
    note(&gate, "refund", b"two");
    let single = world.approve(&gate, &refund("c2"));
    assert_eq!(run(&gate, &refund("c2").approval(single.as_str()), ""), None, "somebody saw the new one");
    assert_eq!(run(&gate, &mail("c3"), ""), None);
}

#[test]
fn definition_unknown_at_approval_is_not_bound() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    note(&gate, "refund", b"seen once the server answered");
    assert_eq!(run(&gate, &search("c1"), ""), None);
    assert_eq!(run(&gate, &refund("c2"), ""), None);
}

#[test]
fn bound_definitions_digest_follows_its_recipe() {
    let world = World::new();
    let gate = world.gate();
    let none = gate.plan_approval_request(&plan_of(&gate, steps())).unwrap();
    assert_eq!(none.binding().definition.as_ref(), None);
    note(&gate, "refund", b"one");
    // `pinned` was not seen: the definition that the registry pins counts.
    let plan = plan_of(&gate, vec![step("pinned", "{}"), step("refund", r#"{"ticket":"T","amount":1}"#)]);
    let bound = gate.plan_approval_request(&plan).unwrap().binding().definition.unwrap();
    let (pinned, refund) = (Digest::of(b"the pinned definition"), Digest::of(b"one"));
    let text = format!(r#"{{"desk":{{"pinned":"{pinned}","refund":"{refund}"}}}}"#);
    assert_eq!(bound, Digest::framed("countersign/plan-definitions-1").field(text.as_bytes()).finish());
    assert_eq!(bound.to_string(), "61b02ff37df8adb0e25bc349592873dd53f33a53ba18fba7c60e5727ef4cd333");
}

#[test]
fn root_approval_binds_all_tool_definitions_of_the_gate() {
    let world = World::new();
    let planner = world.gate();
    let plan = committed(&planner, plan_of(&planner, steps()));
    for (name, expected) in [("refund", "APPROVAL_INVALID"), ("twin", "APPROVAL_INVALID")] {
        let gate = world.named("gate-2");
        let settings = root_of(&plan);
        let request = gate.plan_root_approval_request(&settings).unwrap();
        let token = mint_for(&world, request.binding(), 700);
        note(&gate, name, b"changed");
        let started = gate.start_plan_root(settings.approval(&token));
        assert_eq!(started.unwrap_err().code(), expected);
    }
    let gate = world.rooted("gate-2", &plan);
    let proofs = proofs_of(&plan);
    note(&gate, "refund", b"changed");
    let call = refund("c").plan_proof(proofs[1].as_bytes());
    assert_eq!(code(&gate, &call), None, "no definition was known");
}
