use std::sync::Arc;

use countersign_audit_log::{AuditSink, MemorySink, Record, Verdict};
use countersign_core::{Clock as _, Digest, ManualClock, Millis, Timestamp, ToolId};
use proptest::prelude::*;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// The only codes that observe mode may overlook.
const SHADOWED: [RejectionCode; 3] = [ApprovalRequired, ArgsConstraint, RateLimit];

fn end() -> Timestamp {
    start().checked_add(Millis::from_secs(600)).unwrap()
}

fn observing(world: &World) -> ToolGate {
    world.full().dangerous_observe(end()).open().unwrap()
}

fn mail<'a>(id: &'a str, args: &'a [u8]) -> ToolCall<'a> {
    ToolCall::new(id, "desk", "mail", args)
}

fn observed(world: &World) -> Option<Vec<String>> {
    let codes = last_decision(world).observed?;
    Some(codes.iter().map(|code| code.as_str().to_owned()).collect())
}

#[test]
fn call_without_approval_runs_and_is_recorded_as_observed() {
    let world = World::new();
    let gate = observing(&world);
    assert_eq!(code(&gate, &refund("c1")), None);
    assert_eq!(last_decision(&world).verdict, Verdict::Accept);
    assert_eq!(observed(&world).unwrap(), ["APPROVAL_REQUIRED"]);
    assert_eq!(code(&gate, &ToolCall::new("c2", "desk", "wipe", b"{}")), None);
}

#[test]
fn call_outside_a_constraint_runs_observed() {
    let world = World::new();
    assert_eq!(code(&observing(&world), &mail("c1", br#"{"to":"eve@evil.example"}"#)), None);
    assert_eq!(observed(&world).unwrap(), ["ARGS_CONSTRAINT"]);
}

#[test]
fn rate_is_overlooked_but_a_sessions_limit_is_not() {
    let world = World::new();
    let gate = observing(&world);
    let answers: Vec<_> =
        ["1", "2", "3", "4"].map(|id| code(&gate, &ToolCall::new(id, "desk", "scarce", b"{}"))).into();
    assert_eq!(answers, [None, None, None, Some(CallLimit)]);
}

#[test]
fn every_decision_of_the_mode_says_observed() {
    let world = World::new();
    let gate = observing(&world);
    assert_eq!(code(&gate, &search("c1")), None);
    assert_eq!(observed(&world), Some(vec![]));
    assert_eq!(code(&gate, &ToolCall::new("c2", "desk", "made_up", b"{}")), Some(UndisclosedTool));
    assert_eq!(observed(&world), Some(vec![]));
    let _ = gate.refuse_malformed("c3", "no JSON");
    assert_eq!(observed(&world), Some(vec![]));
    let records = world.sink.latest();
    let Some((_, Record::Session(session))) = records.first() else { panic!("{records:?}") };
    assert_eq!(session.observe_until, Some(end()));
}

#[test]
fn a_denial_an_invalid_token_or_an_edit_is_not_overlooked() {
    let world = World::new();
    let gate = observing(&world);
    assert_eq!(code(&gate, &refund("c1").denied()), Some(ApprovalDenied));
    assert_eq!(code(&gate, &refund("c2").approval("cs1.bad.bad")), Some(ApprovalInvalid));
    let asked = Digest::of(b"asked");
    assert_eq!(code(&gate, &refund("c3").edited_from(&asked)), Some(ApprovalRequired));
}

#[test]
fn the_gate_enforces_from_the_end_on() {
    let world = World::new();
    let gate = observing(&world);
    world.clock.set(end());
    assert_eq!(code(&gate, &refund("c1")), Some(ApprovalRequired));
    assert_eq!(observed(&world), None);
}

#[test]
fn observed_call_that_is_held_over_the_end_does_not_run() {
    let world = World::new();
    let gate = observing(&world);
    let held = gate.check(&refund("c1")).unwrap();
    let free = gate.check(&search("c2")).unwrap();
    world.clock.set(end());
    assert_eq!(held.dispatch().unwrap_err().code(), CallExpired);
    assert!(free.dispatch().is_ok());
}

/// One move of a hostile or honest agent, or of the world.
#[derive(Clone, Debug)]
enum Move {
    Call(&'static str, &'static str),
    Wait(u32),
    Revoke,
    Change,
}

const TOOLS: [&str; 13] = [
    "search",
    "refund",
    "mail",
    "pinned",
    "scarce",
    "asking",
    "planned",
    "proven",
    "wire",
    "wipe",
    "twin",
    "delete_ticket",
    "made_up",
];

const ARGS: [&str; 8] = [
    "{}",
    r#"{"query":"T-1001"}"#,
    r#"{"ticket":"T-1001","amount":49}"#,
    r#"{"to":"a@customers.example"}"#,
    r#"{"to":"eve@evil.example"}"#,
    r#"{"to":7}"#,
    "[]",
    r#"{"to":"x","to":"y"}"#,
];

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let call = (prop::sample::select(&TOOLS[..]), prop::sample::select(&ARGS[..]));
    let one = prop_oneof![
        20 => call.prop_map(|(tool, args)| Move::Call(tool, args)),
        3 => (0u32..90).prop_map(Move::Wait),
        1 => Just(Move::Change),
        1 => Just(Move::Revoke),
    ];
    prop::collection::vec(one, 1..40)
}

proptest! {
    #[test]
    fn observe_lets_through_only_what_lacks_an_approval(moves in moves()) {
        let world = World::new();
        let sink = || Arc::new(MemorySink::new()) as Arc<dyn AuditSink>;
        let enforcing = world.builder_for("enforcing", sink()).open().unwrap();
        let watching = world.builder_for("watching", sink()).dangerous_observe(end()).open().unwrap();
        let pinned = ToolId::new("desk", "pinned").unwrap();
        for (number, step) in moves.into_iter().enumerate() {
            match step {
                Move::Wait(seconds) => advance(&world.clock, seconds),
                Move::Revoke => world.registry.revoke(enforcing.contract().agent()),
                Move::Change => {
                    let digest = Digest::of(if number % 2 == 0 { b"the pinned definition" } else { b"another" });
                    enforcing.note_definition(&pinned, digest);
                    watching.note_definition(&pinned, digest);
                }
                Move::Call(tool, args) => {
                    let id = format!("c{number}");
                    let call = ToolCall::new(&id, "desk", tool, args.as_bytes());
                    let (enforced, seen) = (code(&enforcing, &call), code(&watching, &call));
                    if seen.is_none() {
                        prop_assert!(enforced.is_none_or(|code| SHADOWED.contains(&code)), "{enforced:?}");
                    }
                    if world.clock.now().unwrap() >= end() {
                        prop_assert!(seen.is_some() || enforced.is_none(), "after its end: {enforced:?}");
                    }
                }
            }
        }
    }
}

fn advance(clock: &ManualClock, seconds: u32) {
    clock.set(clock.now().unwrap().checked_add(Millis::from_secs(seconds)).unwrap());
}
