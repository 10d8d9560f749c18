//! Calls that are held until a person has answered.

use std::thread;
use std::time::Duration;

use countersign_approval_token::PendingApprovals as _;
use countersign_core::{CallId, Millis};
use countersign_tool_gate::RejectionCode;
use serde_json::{Value, json};

use super::desk::{Desk, NOW, Setup, definitions, time};
use crate::{GatewayEnd, PlanApprovals};

fn a_minute() -> Setup {
    let setup = Setup::default().patient();
    Setup { settings: setup.settings.clone().hold(Millis::from_secs(60)).unwrap(), ..setup }
}

/// Makes a call with a token for progress, and returns the question in the notification that it waits.
fn waits(desk: &mut Desk, id: u64, args: &Value) -> String {
    desk.call_with(id, "refund", args, &json!({ "progressToken": format!("p{id}") }));
    if id == 1 {
        desk.list(&definitions());
    }
    told(desk, id)
}

fn told(desk: &Desk, id: u64) -> String {
    let line = desk.client_got();
    assert_eq!(line["method"], "notifications/progress", "{line}");
    assert_eq!(line["params"]["progressToken"], format!("p{id}"));
    assert!(line["params"]["progress"].as_f64().unwrap() > 0.0);
    let message = line["params"]["message"].as_str().unwrap();
    let short = message.strip_prefix("waits for approval: ").unwrap();
    let waiting = desk.pending.list(desk.now()).unwrap();
    waiting.iter().rfind(|asked| asked.id().as_str().starts_with(short)).unwrap().id().to_string()
}

#[test]
fn held_call_runs_once_it_is_approved() {
    let mut desk = Desk::with(a_minute());
    let question = waits(&mut desk, 1, &json!({ "ticket": 7 }));
    desk.nothing_reached_the_server();
    desk.approve(&question);
    assert_eq!(desk.ran(), 1);
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED", "ACCEPT", "Returned"]);
    // The approval is used up.
    assert_ne!(waits(&mut desk, 2, &json!({ "ticket": 7 })), question);
}

#[test]
fn held_call_that_is_denied_is_refused_with_the_reason() {
    let mut desk = Desk::with(a_minute());
    let question = CallId::new(&waits(&mut desk, 1, &json!({}))).unwrap();
    let (olga, reason) = ("olga".parse().unwrap(), "ask finance first".parse().unwrap());
    desk.pending.deny_because(&question, &olga, Some(&reason)).unwrap();
    let (line, code) = desk.refusal();
    assert_eq!((line["id"].as_u64(), code.as_str()), (Some(1), "APPROVAL_DENIED"));
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["reason"], "ask finance first");
    desk.nothing_reached_the_server();
}

#[test]
fn held_call_is_refused_with_its_id_at_the_limit() {
    let mut desk = Desk::with(a_minute());
    let question = waits(&mut desk, 1, &json!({}));
    desk.clock.advance(Millis::from_secs(59)).unwrap();
    assert_eq!(told(&desk, 1), question);
    desk.clock.advance(Millis::from_secs(1)).unwrap();
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["approval_id"], question);
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED"]);
    // The question stays open for the next try.
    desk.approve(&question);
    desk.call(2, "refund", &json!({}));
    assert_eq!(desk.ran(), 2);
}

#[test]
fn held_call_of_a_client_without_progress_is_told_nothing() {
    let mut desk = Desk::with(a_minute());
    desk.call(1, "refund", &json!({}));
    desk.list(&definitions());
    while desk.pending.list(time(NOW)).unwrap().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    desk.nothing_reached_the_client();
    desk.approve("call-1");
    assert_eq!(desk.ran(), 1);
}

#[test]
fn cancelled_call_does_not_run_when_it_is_approved_late() {
    let mut desk = Desk::with(a_minute());
    let question = waits(&mut desk, 1, &json!({}));
    let params = json!({ "requestId": 1 });
    desk.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string(),
    );
    desk.nothing_reached_the_server();
    desk.approve(&question);
    thread::sleep(Duration::from_millis(500));
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED"]);
    // The approval waits for the next try.
    desk.call(2, "refund", &json!({}));
    assert_eq!(desk.ran(), 2);
}

#[test]
fn retry_after_a_cancellation_keeps_its_question() {
    let mut desk = Desk::with(a_minute());
    let question = waits(&mut desk, 1, &json!({}));
    let params = json!({ "requestId": 1 });
    desk.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string(),
    );
    assert_eq!(waits(&mut desk, 2, &json!({})), question);
    desk.approve(&question);
    assert_eq!(desk.ran(), 2);
}

#[test]
fn one_approval_runs_one_of_two_equal_held_calls() {
    let mut desk = Desk::with(a_minute());
    let question = waits(&mut desk, 1, &json!({}));
    assert_eq!(waits(&mut desk, 2, &json!({})), question);
    desk.approve(&question);
    desk.run_call();
    let (first, second) = (desk.client_got(), desk.client_got());
    // The other one asks again.
    let (ran, asks) = if first.get("result").is_some() { (first, second) } else { (second, first) };
    assert_eq!(ran["result"]["content"][0]["text"], "done");
    assert_ne!(asks["params"]["message"], format!("waits for approval: {question}"));
    desk.nothing_reached_the_server();
    assert_eq!(desk.gate.counts().accepted(), 1);
}

#[test]
fn other_calls_do_not_wait_for_a_held_one() {
    let mut desk = Desk::with(a_minute());
    waits(&mut desk, 1, &json!({}));
    desk.call(2, "search", &json!({ "q": "x" }));
    assert_eq!(desk.ran(), 2);
}

#[test]
fn end_of_the_client_answers_a_held_call() {
    let mut desk = Desk::with(a_minute());
    waits(&mut desk, 1, &json!({}));
    desk.close_client();
    let (line, code) = desk.refusal();
    assert_eq!((line["id"].as_u64(), code.as_str()), (Some(1), "APPROVAL_REQUIRED"));
    desk.server_sees_the_end();
    desk.close_server();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
}

#[test]
fn end_of_the_server_answers_a_held_call() {
    let mut desk = Desk::with(a_minute());
    waits(&mut desk, 1, &json!({}));
    desk.close_server();
    assert_eq!(desk.client_got()["id"], 1);
    assert_eq!(desk.ended(), GatewayEnd::ServerEnded);
}

#[test]
fn stopped_gateway_answers_a_held_call() {
    let mut desk = Desk::with(a_minute());
    waits(&mut desk, 1, &json!({}));
    desk.stop.stop(Duration::from_secs(5));
    assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
    desk.close_server();
    desk.ended();
}

#[test]
fn change_of_the_registry_asks_a_held_call_again() {
    let mut desk = Desk::with(a_minute());
    let question = waits(&mut desk, 1, &json!({}));
    desk.registry.reload(super::desk::signed(2).as_bytes(), time(NOW)).unwrap();
    desk.approve(&question);
    let again = told(&desk, 1);
    assert_ne!(again, question);
    desk.approve(&again);
    assert_eq!(desk.ran(), 1);
    assert_eq!(desk.gate.counts().rejected_with(RejectionCode::ApprovalRequired), 2);
}

#[test]
fn held_plan_is_committed_once_it_is_approved() {
    let mut desk = Desk::with(a_minute().plans(PlanApprovals::Always));
    let step = json!({ "tool": "search", "args": { "q": "x" } });
    let plan = json!({ "steps": [step] });
    desk.call_with(1, "countersign.submit_plan", &plan, &json!({ "progressToken": "p1" }));
    desk.list(&definitions());
    let question = told(&desk, 1);
    desk.approve(&question);
    assert_eq!(desk.client_got()["result"]["structuredContent"]["steps"], 1);
}
