//! Questions that the client shows as forms (MCP 2025-11-25, *Elicitation*).

use countersign_core::Millis;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};

/// A desk that holds calls and whose client has these capabilities.
fn client_with(capabilities: Value) -> Desk {
    let setup = Setup::default().patient();
    let settings = setup.settings.clone().hold(Millis::from_secs(60)).unwrap();
    Desk::with(Setup { settings, capabilities, ..setup })
}

/// Makes a call that waits, and returns the request for a form.
fn asked(desk: &mut Desk, id: u64) -> Value {
    desk.call(id, "refund", &json!({ "ticket": id }));
    if id == 1 {
        desk.list(&definitions());
    }
    let form = desk.client_got();
    assert_eq!(form["method"], "elicitation/create", "{form}");
    form
}

fn reply(desk: &mut Desk, form: &Value, result: &Value) {
    desk.send(&json!({ "jsonrpc": "2.0", "id": form["id"], "result": result }).to_string());
}

fn accept(approve: bool) -> Value {
    json!({ "action": "accept", "content": { "approve": approve } })
}

#[test]
fn form_that_approves_runs_the_call_once() {
    let mut desk = client_with(json!({ "elicitation": {} }));
    let form = asked(&mut desk, 1);
    assert_eq!(form["params"]["message"], "May refund run?");
    let schema = &form["params"]["requestedSchema"];
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["approve"])));
    desk.nothing_reached_the_server();
    reply(&mut desk, &form, &accept(true));
    assert_eq!(desk.ran(), 1);
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED", "ACCEPT", "Returned"]);
    // A second answer to the form is no answer to the next question.
    let next = asked(&mut desk, 2);
    reply(&mut desk, &form, &accept(true));
    desk.nothing_reached_the_server();
    assert_ne!(next["id"], form["id"]);
}

#[test]
fn form_that_denies_refuses_the_call_with_its_reason() {
    for result in [
        json!({ "action": "accept", "content": { "approve": false, "reason": "ask finance first" } }),
        json!({ "action": "decline", "content": { "approve": true, "reason": "ask finance first" } }),
    ] {
        let mut desk = client_with(json!({ "elicitation": { "form": {} } }));
        let form = asked(&mut desk, 1);
        reply(&mut desk, &form, &result);
        let (line, code) = desk.refusal();
        assert_eq!((line["id"].as_u64(), code.as_str()), (Some(1), "APPROVAL_DENIED"));
        assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["reason"], "ask finance first");
        desk.nothing_reached_the_server();
    }
}

#[test]
fn form_without_an_answer_leaves_the_question_open() {
    for result in [
        json!({ "action": "cancel" }),
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": { "approve": "true" } }),
        json!({ "action": "Accept", "content": { "approve": true } }),
        json!({ "content": { "approve": true } }),
        json!([]),
    ] {
        let mut desk = client_with(json!({ "elicitation": {} }));
        let form = asked(&mut desk, 1);
        reply(&mut desk, &form, &result);
        // The first reply counts.
        reply(&mut desk, &form, &accept(true));
        desk.nothing_reached_the_server();
        desk.approve("call-1");
        assert_eq!(desk.ran(), 1);
    }
}

#[test]
fn form_that_fails_leaves_the_question_open() {
    let mut desk = client_with(json!({ "elicitation": {} }));
    let form = asked(&mut desk, 1);
    let error = json!({ "code": -32601, "message": "no" });
    desk.send(&json!({ "jsonrpc": "2.0", "id": form["id"], "error": error }).to_string());
    desk.nothing_reached_the_server();
    desk.deny("call-1");
    assert_eq!(desk.refusal().1, "APPROVAL_DENIED");
}

#[test]
fn answer_elsewhere_withdraws_the_form() {
    let mut desk = client_with(json!({ "elicitation": {} }));
    let form = asked(&mut desk, 1);
    desk.deny("call-1");
    let withdrawn = desk.client_got();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], form["id"]);
    assert_eq!(desk.refusal().1, "APPROVAL_DENIED");
    // A late answer counts for nothing and is no fault.
    reply(&mut desk, &form, &accept(true));
    desk.nothing_reached_the_server();
    desk.nothing_reached_the_client();
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED", "APPROVAL_DENIED"]);
}

#[test]
fn cancelled_call_withdraws_its_form() {
    let mut desk = client_with(json!({ "elicitation": {} }));
    let form = asked(&mut desk, 1);
    let params = json!({ "requestId": 1 });
    desk.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string(),
    );
    assert_eq!(desk.client_got()["params"]["requestId"], form["id"]);
    reply(&mut desk, &form, &accept(true));
    desk.nothing_reached_the_server();
}

#[test]
fn equal_held_calls_share_a_form() {
    let mut desk = client_with(json!({ "elicitation": {} }));
    let form = asked(&mut desk, 1);
    desk.call(2, "refund", &json!({ "ticket": 1 }));
    desk.nothing_reached_the_client();
    reply(&mut desk, &form, &accept(true));
    let args = &desk.run_call()["params"]["arguments"];
    assert_eq!(args, &json!({ "ticket": 1 }));
    // The other call asks anew: a form counts for one call.
    let (first, second) = (desk.client_got(), desk.client_got());
    let (ran, asks) = if first.get("result").is_some() { (first, second) } else { (second, first) };
    assert_eq!(ran["result"]["content"][0]["text"], "done");
    assert_eq!(asks["method"], "elicitation/create");
    assert_ne!(asks["id"], form["id"]);
}

#[test]
fn client_without_the_capability_is_shown_no_form() {
    for capabilities in [
        json!({ "roots": {} }),
        json!({ "elicitation": { "url": {} } }),
        json!({ "elicitation": true }),
        json!({ "elicitation": { "form": true } }),
    ] {
        let mut desk = client_with(capabilities);
        desk.call(1, "refund", &json!({}));
        desk.list(&definitions());
        desk.questions.recv().unwrap();
        desk.approve("call-1");
        assert_eq!(desk.ran(), 1);
    }
}

#[test]
fn server_cannot_answer_the_form_of_the_gateway() {
    let mut desk = client_with(json!({ "elicitation": {} }));
    let form = asked(&mut desk, 1);
    desk.serve(&json!({ "jsonrpc": "2.0", "id": form["id"], "result": accept(true) }).to_string());
    desk.nothing_reached_the_server();
    assert_eq!(desk.gate.counts().accepted(), 0);
}
