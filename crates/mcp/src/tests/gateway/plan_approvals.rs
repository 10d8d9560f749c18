use std::sync::Arc;

use countersign_approval_token::{PendingApprovals as _, PendingState};
use countersign_audit_log::{Record, StandingChange, StandingRecord};
use countersign_core::{CallId, Millis};
use countersign_tool_gate::{CallStats, MemoryQuarantines, Quarantines};
use serde_json::{Value, json};

use super::desk::{Desk, NOW, Setup, definitions, signed, time};
use super::plans::{committed, planned, run, search, submit};
use crate::PlanApprovals;

/// The approval id in the client's next refusal.
fn asked(desk: &Desk) -> String {
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision["retry"], "after_approval", "{line}");
    let id = decision["approval_id"].as_str().unwrap().to_owned();
    assert!(line["result"]["content"][0]["text"].as_str().unwrap().contains(id.split_at(4).0), "{line}");
    id
}

fn with_a_refund(amount: u32) -> Value {
    json!([search("a"), { "tool": "refund", "args": { "ticket": 7, "amount": amount } }, search("b")])
}

#[test]
fn plan_is_approved_once_as_a_whole() {
    let mut desk = planned();
    submit(&mut desk, 1, &with_a_refund(10));
    desk.list(&definitions());
    let id = asked(&desk);
    // A retry before the answer has the same approval id; another plan has another one.
    submit(&mut desk, 2, &with_a_refund(10));
    assert_eq!(asked(&desk), id);
    submit(&mut desk, 3, &with_a_refund(10_000));
    assert_ne!(asked(&desk), id);
    assert_eq!(desk.gate.plan_root(), None);
    desk.approve(&id);
    submit(&mut desk, 4, &with_a_refund(10_000));
    assert_ne!(asked(&desk), id);
    submit(&mut desk, 5, &with_a_refund(10));
    assert_eq!(committed(&desk, 5, 3), id, "what was approved is the root");
    run(&mut desk, 6, "search", &json!({ "q": "a" }));
    run(&mut desk, 7, "refund", &json!({ "amount": 10, "ticket": 7 }));
    run(&mut desk, 8, "search", &json!({ "q": "b" }));
    let waiting = desk.pending.list(time(NOW)).unwrap();
    assert_eq!(waiting.len(), 1, "the one of the other plan");
    let (_, state) = desk.pending.get(&CallId::new(&id).unwrap()).unwrap().unwrap();
    assert!(matches!(state, PendingState::Used), "{state:?}");
    // A session has one plan: no one is asked about a second.
    submit(&mut desk, 9, &with_a_refund(12));
    assert_eq!(desk.refusal().1, "PLAN_STARTED");
    assert_eq!(desk.pending.list(time(NOW)).unwrap().len(), 1);
    let required = desk.record().into_iter().filter(|code| code == "APPROVAL_REQUIRED").count();
    assert_eq!(required, 4, "each refusal is on record once");
}

#[test]
fn operator_can_require_approval_of_every_plan() {
    let mut desk = Desk::with(Setup::default().patient().plans(PlanApprovals::Always));
    submit(&mut desk, 1, &json!([search("a")]));
    desk.list(&definitions());
    let id = asked(&desk);
    desk.approve(&id);
    submit(&mut desk, 2, &json!([search("a")]));
    committed(&desk, 2, 1);
}

#[test]
fn submission_during_a_plan_amends_it() {
    let mut desk = planned();
    submit(&mut desk, 1, &json!([search("a"), search("b")]));
    desk.list(&definitions());
    let first = committed(&desk, 1, 2);
    run(&mut desk, 2, "search", &json!({ "q": "a" }));
    // The same steps again are not a retry: they would replace the remaining steps.
    submit(&mut desk, 3, &json!([search("a"), search("b")]));
    let same = asked(&desk);
    assert_ne!(same, first);
    submit(&mut desk, 4, &json!([search("c")]));
    let id = asked(&desk);
    desk.approve(&id);
    submit(&mut desk, 5, &json!([search("c")]));
    assert_eq!(committed(&desk, 5, 1), id);
    assert_eq!(desk.gate.plan_root().unwrap().to_string(), id);
    run(&mut desk, 6, "search", &json!({ "q": "c" }));
    desk.call(7, "search", &json!({ "q": "b" }));
    assert_eq!(desk.refusal().1, "PLAN_EXHAUSTED");
    let (waiting, _) = desk.pending.get(&CallId::new(&id).unwrap()).unwrap().unwrap();
    let amends = format!(r#""amends":{{"position":1,"root":"{first}"}}"#);
    assert!(waiting.args().contains(&amends), "the approver sees what it amends: {}", waiting.args());
}

#[test]
fn an_approved_amendment_is_of_the_place_where_the_plan_stood() {
    let mut desk = planned();
    submit(&mut desk, 1, &json!([search("a"), search("b")]));
    desk.list(&definitions());
    committed(&desk, 1, 2);
    submit(&mut desk, 2, &json!([search("c")]));
    let id = asked(&desk);
    desk.approve(&id);
    run(&mut desk, 3, "search", &json!({ "q": "a" }));
    submit(&mut desk, 4, &json!([search("c")]));
    assert_ne!(asked(&desk), id, "after one more step it is another amendment");
    run(&mut desk, 5, "search", &json!({ "q": "b" }));
}

#[test]
fn amendment_continues_a_plan_after_a_reload() {
    let mut desk = planned();
    submit(&mut desk, 1, &json!([search("a"), search("b")]));
    desk.list(&definitions());
    committed(&desk, 1, 2);
    run(&mut desk, 2, "search", &json!({ "q": "a" }));
    desk.registry.reload(signed(2).as_bytes(), time(NOW)).unwrap();
    desk.call(3, "search", &json!({ "q": "b" }));
    assert_eq!(desk.refusal().1, "PLAN_REQUIRED");
    submit(&mut desk, 4, &json!([search("b")]));
    let id = asked(&desk);
    desk.approve(&id);
    submit(&mut desk, 5, &json!([search("b")]));
    committed(&desk, 5, 1);
    run(&mut desk, 6, "search", &json!({ "q": "b" }));
}

#[test]
fn registry_reload_voids_the_approval_of_a_plan() {
    let mut desk = planned();
    submit(&mut desk, 1, &with_a_refund(10));
    desk.list(&definitions());
    let id = asked(&desk);
    desk.approve(&id);
    desk.registry.reload(signed(2).as_bytes(), time(NOW)).unwrap();
    submit(&mut desk, 2, &with_a_refund(10));
    assert_ne!(asked(&desk), id);
    assert_eq!(desk.gate.plan_root(), None);
}

#[test]
fn changed_tool_voids_the_approval_of_a_plan() {
    let mut desk = planned();
    submit(&mut desk, 1, &with_a_refund(10));
    desk.list(&definitions());
    let id = asked(&desk);
    desk.approve(&id);
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    desk.client_got();
    let mut changed = definitions();
    changed[1]["description"] = json!("Pays back, and tells everybody.");
    submit(&mut desk, 2, &with_a_refund(10));
    desk.list(&changed);
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED", "{line}");
    assert_eq!(desk.gate.plan_root(), None);
}

#[test]
fn denied_or_expired_plan_is_not_asked_about_again() {
    let mut desk = planned();
    let unlock = |line: &Value| line["result"]["_meta"]["dev.countersign/decision"]["unlock"].clone();
    submit(&mut desk, 1, &with_a_refund(10));
    desk.list(&definitions());
    let denied = asked(&desk);
    desk.deny(&denied);
    submit(&mut desk, 2, &with_a_refund(10));
    let (line, code) = desk.refusal();
    assert_eq!(
        (code.as_str(), unlock(&line)),
        ("APPROVAL_DENIED", json!("a plan that was not asked about before"))
    );
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["retry"], "never");
    let Some((_, Record::Decision(entry))) = desk.sink.latest().pop() else { panic!("a decision") };
    assert_eq!(
        (entry.denied_by, entry.plan.map(|root| root.to_string())),
        (Some("olga".into()), Some(denied))
    );
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"].get("approval_id"), None);
    submit(&mut desk, 3, &with_a_refund(11));
    let late = asked(&desk);
    desk.approve(&late);
    desk.clock.advance(Millis::from_secs(61)).unwrap();
    submit(&mut desk, 4, &with_a_refund(11));
    let (line, _) = desk.refusal();
    assert_eq!(unlock(&line), "a plan that was not asked about before");
    assert_eq!(desk.gate.plan_root(), None);
}

#[test]
fn plan_approval_overrides_the_denial_of_a_step() {
    let mut desk = planned();
    desk.call(1, "refund", &json!({ "amount": 10, "ticket": 7 }));
    desk.list(&definitions());
    desk.deny(&asked(&desk));
    desk.call(2, "refund", &json!({ "amount": 10, "ticket": 7 }));
    assert_eq!(desk.refusal().1, "APPROVAL_DENIED");
    submit(&mut desk, 3, &with_a_refund(10));
    desk.approve(&asked(&desk));
    submit(&mut desk, 4, &with_a_refund(10));
    committed(&desk, 4, 3);
    run(&mut desk, 5, "search", &json!({ "q": "a" }));
    run(&mut desk, 6, "refund", &json!({ "amount": 10, "ticket": 7 }));
}

#[test]
fn plan_beyond_the_approval_limit_is_refused() {
    let mut desk = planned();
    submit(&mut desk, 1, &with_a_refund(1));
    desk.list(&definitions());
    asked(&desk);
    // Fills the store of questions up to its limit.
    let refused = (2..200).find_map(|at: u32| {
        submit(&mut desk, at.into(), &with_a_refund(at));
        let (line, code) = desk.refusal();
        (code == "APPROVALS_FULL").then_some(line)
    });
    let line = refused.unwrap();
    let record = line["result"]["_meta"]["dev.countersign/decision"]["record"].as_u64();
    assert!(record.is_some(), "{line}");
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"].get("approval_id"), None);
}

#[test]
fn step_that_needs_approval_is_asked_about_in_turn() {
    let mut desk = Desk::with(Setup { plan: Some(with_a_refund(10)), ..Setup::default().patient() });
    desk.call(1, "search", &json!({ "q": "a" }));
    desk.list(&definitions());
    desk.run_call();
    desk.client_got();
    // The plan that the session started with has no approval.
    desk.call(2, "refund", &json!({ "ticket": 7, "amount": 10 }));
    let id = asked(&desk);
    desk.approve(&id);
    run(&mut desk, 3, "refund", &json!({ "ticket": 7, "amount": 10 }));
    run(&mut desk, 4, "search", &json!({ "q": "b" }));
}

#[test]
fn plan_past_its_goal_or_session_is_not_asked_about() {
    let refused = |desk: &mut Desk, code: &str| {
        submit(desk, 1, &with_a_refund(10));
        assert_eq!(desk.refusal().1, code);
        assert_eq!(desk.record().last().unwrap(), code);
        assert!(desk.pending.list(time(NOW)).unwrap().is_empty());
    };
    let mut desk = planned();
    desk.clock.advance(Millis::from_secs(600)).unwrap();
    refused(&mut desk, "ASK_EXPIRED");
    let mut desk = planned();
    desk.end_session();
    refused(&mut desk, "CONTRACT_EXPIRED");
}

#[test]
fn plan_of_a_quarantined_agent_is_not_asked_about() {
    let store = Arc::new(MemoryQuarantines::new());
    let stats = CallStats::new().kept_in(Arc::clone(&store) as Arc<dyn Quarantines>);
    let setup = Setup { stats, ..Setup::default().patient().plans(PlanApprovals::Always) };
    let mut desk = Desk::with(setup);
    // Like a change by another process, which the gateway learns only from the store.
    let agent = desk.gate.contract().agent().clone();
    let stands = |standing| {
        store.change(&StandingRecord::new(time(NOW), agent.clone(), standing, "olga")).unwrap();
    };
    stands(StandingChange::Quarantined);
    submit(&mut desk, 1, &json!([search("a"), search("b")]));
    desk.list(&definitions());
    assert_eq!(desk.refusal().1, "AGENT_QUARANTINED");
    stands(StandingChange::Lifted);
    submit(&mut desk, 2, &json!([search("a"), search("b")]));
    desk.approve(&asked(&desk));
    submit(&mut desk, 3, &json!([search("a"), search("b")]));
    committed(&desk, 3, 2);
    stands(StandingChange::Quarantined);
    submit(&mut desk, 4, &json!([search("c")]));
    assert_eq!(desk.refusal().1, "AGENT_QUARANTINED");
    assert!(desk.pending.list(time(NOW)).unwrap().is_empty());
    // Each refusal is recorded once, after its cause.
    let told = desk.sink.latest().into_iter().filter_map(|(_, record)| match record {
        Record::Standing(change) => Some(format!("{:?} by {}", change.standing, change.by)),
        Record::Decision(call) => Some(call.code.map_or("ACCEPT".into(), |code| code.as_str().to_owned())),
        Record::Session(_) | Record::Outcome(_) | Record::Gateway(_) | Record::Recovered(_) | _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "Quarantined by olga",
            "AGENT_QUARANTINED",
            "Lifted by olga",
            "APPROVAL_REQUIRED",
            "ACCEPT",
            "Quarantined by olga",
            "AGENT_QUARANTINED"
        ]
    );
}
