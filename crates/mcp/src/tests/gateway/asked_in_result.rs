//! Approvals that a client of the stateless era is asked for in place of a result.

use countersign_core::Millis;
use countersign_testing::TestTool;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};
use crate::Era;

const APPROVAL: &str = "countersign.approval";

fn request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn refund(id: u64, more: &Value) -> Value {
    let mut params = json!({ "name": "refund", "arguments": { "ticket": 7 } });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    request(id, "tools/call", params)
}

fn setup() -> Setup {
    Setup { capabilities: json!({ "elicitation": {} }), ..Setup::default().patient() }
}

/// A desk with forms, in front of a server of the handshake era that knows its client.
fn desk_with(setup: Setup) -> Desk {
    let mut desk = Desk::before_the_handshake(setup);
    desk.send(&request(0, "tools/list", json!({})).to_string());
    let asked = desk.server_got();
    assert_eq!((&asked["method"], &asked["params"]["capabilities"]), (&json!("initialize"), &json!({})));
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": {} });
    desk.answer(&asked["id"], &hello);
    assert_eq!(desk.server_got()["method"], "notifications/initialized");
    desk.list(&definitions());
    assert_eq!(desk.client_got()["id"], 0);
    desk
}

fn desk() -> Desk {
    desk_with(setup())
}

/// Makes the call, which the client is asked about. Returns the state.
fn asked(desk: &mut Desk, call: &Value) -> String {
    desk.send(&call.to_string());
    let result = desk.client_got();
    assert_eq!(result["id"], call["id"]);
    assert_eq!(result["result"]["resultType"], "input_required", "{result}");
    let form = &result["result"]["inputRequests"][APPROVAL];
    assert_eq!((&form["method"], &form["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
    assert!(form["params"]["requestedSchema"]["properties"]["approve"].is_object(), "{form}");
    result["result"]["requestState"].as_str().unwrap().to_owned()
}

fn answered(state: &str, answer: &Value) -> Value {
    json!({ "inputResponses": { APPROVAL: answer }, "requestState": state })
}

fn approved(state: &str) -> Value {
    answered(state, &json!({ "action": "accept", "content": { "approve": true } }))
}

/// Sends a ping through, so that nothing else can be on its way to the server.
fn nothing_reached_the_server(desk: &mut Desk) {
    desk.send(&request(99, "tools/list", json!({})).to_string());
    let next = desk.server_got();
    assert_eq!(next["method"], "tools/list", "{next}");
    desk.answer(&next["id"], &json!({ "tools": [] }));
    assert_eq!(desk.client_got()["id"], 99);
}

#[test]
fn a_call_runs_once_its_client_has_approved_it() {
    let mut desk = desk();
    let state = asked(&mut desk, &refund(1, &json!({})));
    nothing_reached_the_server(&mut desk);
    desk.send(&refund(2, &approved(&state)).to_string());
    let call = desk.server_got();
    assert_eq!(call["params"], json!({ "_meta": {}, "name": "refund", "arguments": { "ticket": 7 } }));
    desk.answer(&call["id"], &json!({ "content": [] }));
    let result = desk.client_got();
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED", "ACCEPT", "Returned"]);
    let again = asked(&mut desk, &refund(3, &json!({})));
    assert_ne!(again, state, "the approval was for one call");
}

#[test]
fn a_state_counts_once_and_for_its_own_request() {
    let mut desk = desk();
    let state = asked(&mut desk, &refund(1, &json!({})));
    let refused = |desk: &mut Desk, request: Value, code: &str| {
        desk.send(&request.to_string());
        let id = request["id"].clone();
        assert_eq!(desk.error(&id), (-32_602, code.to_owned()));
    };
    let mut other = refund(2, &approved(&state));
    other["params"]["arguments"]["ticket"] = json!(8);
    refused(&mut desk, other, "INPUT_STATE_MISMATCH");
    let mut other = refund(3, &approved(&state));
    other["params"]["name"] = json!("summarize");
    refused(&mut desk, other, "INPUT_STATE_MISMATCH");
    refused(&mut desk, refund(4, &approved("0123456789abcdef0123456789abcdef")), "INPUT_STATE_UNKNOWN");
    desk.send(&refund(5, &approved(&state)).to_string());
    let call = desk.server_got();
    refused(&mut desk, refund(6, &approved(&state)), "INPUT_STATE_USED");
    desk.answer(&call["id"], &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 5);
    let late = asked(&mut desk, &refund(7, &json!({})));
    desk.wait(Millis::from_secs(601));
    refused(&mut desk, refund(8, &approved(&late)), "INPUT_STATE_EXPIRED");
    nothing_reached_the_server(&mut desk);
}

#[test]
fn a_denial_refuses_the_call_with_its_reason() {
    let mut desk = desk();
    let state = asked(&mut desk, &refund(1, &json!({})));
    let denied =
        json!({ "action": "accept", "content": { "approve": false, "reason": "ask finance first" } });
    desk.send(&refund(2, &answered(&state, &denied)).to_string());
    let (line, code) = desk.refusal();
    assert_eq!((&line["id"], code.as_str()), (&json!(2), "APPROVAL_DENIED"));
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["reason"], "ask finance first");
    nothing_reached_the_server(&mut desk);
}

#[test]
fn a_retry_without_an_answer_is_not_asked_again() {
    for answer in [json!({ "action": "cancel" }), json!({ "action": "accept", "content": {} }), json!(7)] {
        let mut desk = desk();
        let state = asked(&mut desk, &refund(1, &json!({})));
        desk.send(&refund(2, &answered(&state, &answer)).to_string());
        let (line, code) = desk.refusal();
        assert_eq!(code, "APPROVAL_REQUIRED", "{answer}");
        let id = line["result"]["_meta"]["dev.countersign/decision"]["approval_id"].as_str().unwrap();
        // The question is still open for an operator.
        desk.approve(id);
        desk.send(&refund(3, &json!({})).to_string());
        assert_eq!(desk.server_got()["method"], "tools/call");
    }
    let mut desk = desk();
    let state = asked(&mut desk, &refund(1, &json!({})));
    desk.send(&refund(2, &json!({ "requestState": state })).to_string());
    assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
}

#[test]
fn an_approval_by_another_answers_the_retry() {
    let mut desk = desk();
    let state = asked(&mut desk, &refund(1, &json!({})));
    let (id, _) = desk.questions.recv().unwrap();
    desk.approve(&id);
    desk.send(&refund(2, &answered(&state, &json!({ "action": "cancel" }))).to_string());
    assert_eq!(desk.server_got()["method"], "tools/call");
}

#[test]
fn a_client_without_forms_is_refused_with_the_id() {
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } }), json!({ "elicitation": true })] {
        let mut desk = desk();
        let mut call = refund(1, &json!({}));
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        desk.send(&call.to_string());
        assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
    }
    let mut desk = desk_with(Setup::default().patient());
    desk.send(&refund(1, &json!({})).to_string());
    assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED", "forms are off");
}

#[test]
fn a_read_can_be_approved_by_its_client() {
    let note = TestTool::read("resources/read").member("approval", "required");
    let mut desk = desk_with(Setup { reads: vec![note], ..setup() });
    let read = |id, more: &Value| {
        let mut params = json!({ "uri": "note://today" });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        request(id, "resources/read", params)
    };
    let state = asked(&mut desk, &read(1, &json!({})));
    desk.send(&read(2, &approved(&state)).to_string());
    let asked = desk.server_got();
    assert_eq!(
        (&asked["method"], &asked["params"]["uri"]),
        (&json!("resources/read"), &json!("note://today"))
    );
}

#[test]
fn input_of_the_server_waits_for_the_approval_of_its_round() {
    let mut setup = setup();
    setup.settings =
        setup.settings.server_era(Era::Stateless).allow_server_method("elicitation/create").unwrap();
    let mut desk = Desk::before_the_handshake(setup);
    desk.send(&request(0, "tools/list", json!({})).to_string());
    let discover = desk.server_got();
    let hello = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } });
    desk.answer(&discover["id"], &hello);
    let mut got = [desk.server_got(), desk.server_got()];
    got.sort_by_key(|line| line["method"].to_string());
    desk.answer(&got[1]["id"], &json!({ "tools": definitions(), "resultType": "complete" }));
    desk.client_got();

    let state = asked(&mut desk, &refund(1, &json!({})));
    desk.send(&refund(2, &approved(&state)).to_string());
    let call = desk.server_got();
    let form =
        json!({ "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": {} } });
    let asks =
        json!({ "resultType": "input_required", "inputRequests": { "who": form }, "requestState": "own" });
    desk.answer(&call["id"], &asks);
    let servers = desk.client_got()["result"]["requestState"].as_str().unwrap().to_owned();

    // The next round needs an approval of its own, for which the server's input waits.
    let input = json!({ "who": { "action": "accept", "content": { "n": 1.5 } } });
    let round = json!({ "inputResponses": input, "requestState": servers });
    let state = asked(&mut desk, &refund(3, &round));
    desk.send(&refund(4, &round).to_string());
    assert_eq!(desk.error(&json!(4)), (-32_602, "INPUT_STATE_USED".to_owned()));
    desk.send(&refund(5, &approved(&state)).to_string());
    let call = desk.server_got();
    assert_eq!(call["params"]["requestState"], "own");
    assert_eq!(call["params"]["inputResponses"], input);
    desk.answer(&call["id"], &json!({ "content": [], "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], 5);
}
