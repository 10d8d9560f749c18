use std::sync::Arc;

use countersign_approval_token::MemorySpentTokens;
use countersign_audit_log::AuditSink;
use countersign_core::*;
use countersign_registry::NegotiationRequest;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

fn once(world: &World) -> ToolGate {
    world.full().call_ids_once(Arc::clone(&world.spent) as Arc<dyn SpentTokens>).open().unwrap()
}

#[test]
fn an_id_that_ran_does_not_run_again() {
    let world = World::new();
    let gate = once(&world);
    assert_eq!(code(&gate, &search("c1")), None);
    assert_eq!(code(&gate, &search("c1")), Some(CallIdReused));
    assert_eq!(code(&gate, &search("c2")), None);
}

#[test]
fn a_gate_repeats_ids_unless_the_host_opts_in() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!((code(&gate, &search("c1")), code(&gate, &search("c1"))), (None, None));
}

#[test]
fn an_id_that_ran_is_refused_before_anyone_is_asked() {
    let world = World::new();
    let gate = once(&world);
    let token = world.approve(&gate, &refund("c1"));
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
    let refused = gate.check(&refund("c1")).unwrap_err();
    assert_eq!(refused.code(), CallIdReused);
    assert!(refused.question().is_none());
}

#[test]
fn a_call_that_waits_keeps_its_id() {
    let world = World::new();
    let gate = once(&world);
    let token = world.approve(&gate, &refund("c1"));
    assert_eq!(code(&gate, &refund("c1")), Some(ApprovalRequired), "asked again, before it ran");
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
}

#[test]
fn an_id_keeps_the_arguments_first_seen_with_it() {
    let world = World::new();
    let gate = once(&world);
    world.approve(&gate, &refund("c1"));
    let other = br#"{"ticket":"T-1001","amount":4900}"#;
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "refund", other)), Some(CallIdReused));
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "search", SEARCH)), Some(CallIdReused));
}

#[test]
fn a_refused_shape_does_not_take_the_id() {
    let world = World::new();
    let gate = once(&world);
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "search", br#"{"quer":1}"#)), Some(ArgsSchema));
    assert_eq!(code(&gate, &search("c1")), None);
}

#[test]
fn ids_hold_across_gates_with_one_store() {
    let world = World::new();
    assert_eq!(code(&once(&world), &search("c1")), None);
    assert_eq!(code(&once(&world), &search("c1")), Some(CallIdReused), "another process of the session");
    let other = world
        .builder_for("session-2", Arc::clone(&world.sink) as Arc<dyn AuditSink>)
        .call_ids_once(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    assert_eq!(code(&other.open().unwrap(), &search("c1")), None, "another session has its own ids");
}

#[test]
fn an_id_stays_used_in_a_renewed_session() {
    let world = World::new();
    let gate = world.bare().call_ids_once(Arc::clone(&world.spent) as Arc<dyn SpentTokens>).open().unwrap();
    assert_eq!(code(&gate, &search("c1")), None);
    world.clock.advance(hour()).unwrap();
    let old = gate.contract();
    let request = NegotiationRequest::new(old.session().clone(), old.agent().clone());
    let renewed = gate.registry().negotiate(&request, world.clock.now().unwrap()).unwrap();
    gate.renew(renewed).unwrap();
    assert_eq!(code(&gate, &search("c1")), Some(CallIdReused));
}

#[test]
fn a_store_made_after_the_contract_refuses() {
    let world = World::new();
    let later = start().checked_add(Millis::from_secs(1)).unwrap();
    let store = Arc::new(MemorySpentTokens::since(later));
    let gate = world.full().call_ids_once(store).open().unwrap();
    world.clock.advance(Millis::from_secs(2)).unwrap();
    assert_eq!(code(&gate, &search("c1")), Some(StoreTooNew));
}

#[test]
fn a_tool_that_paused_inside_runs_again() {
    let world = World::new();
    let gate = once(&world);
    assert_eq!(code(&gate, &search("c1")), None);
    assert_eq!(code(&gate, &search("c1").runs_again(true)), None);
    let other = ToolCall::new("c1", "desk", "search", br#"{"query":"other"}"#).runs_again(true);
    assert_eq!(code(&gate, &other), Some(CallIdReused));
}

#[test]
fn one_id_runs_once_among_threads() {
    let world = World::new();
    let gate = once(&world);
    let tries = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| code(&gate, &search("c1")))).collect();
        tries.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(tries.iter().filter(|it| it.is_none()).count(), 1);
    assert!(tries.iter().flatten().all(|code| *code == CallIdReused), "{tries:?}");
}

#[test]
fn first_calls_are_remembered_up_to_a_number() {
    let world = World::new();
    let gate = once(&world);
    world.approve(&gate, &refund("c1"));
    for id in 0..1_024 {
        assert_eq!(code(&gate, &search(&format!("other-{id}"))), None);
    }
    let other = br#"{"ticket":"T-1001","amount":4900}"#;
    let changed = ToolCall::new("c1", "desk", "refund", other);
    assert_eq!(code(&gate, &changed), Some(ApprovalRequired), "forgotten, and still unapproved");
}

#[test]
fn a_framework_reports_an_id_that_it_has_seen() {
    let world = World::new();
    let gate = once(&world);
    let refused = gate.refuse_reused("c1", "search", "the first try runs");
    assert_eq!(refused.code(), CallIdReused);
    assert_eq!(last_decision(&world).code.unwrap().as_str(), "CALL_ID_REUSED");
}
