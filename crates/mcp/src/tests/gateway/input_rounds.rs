//! Requests for input in place of a result, between a client and a server of the stateless era.

use countersign_core::Millis;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};
use crate::Era;

/// A desk whose server may ask for forms, and for nothing else.
fn desk() -> Desk {
    let mut setup = Setup::default().patient();
    setup.settings =
        setup.settings.server_era(Era::Stateless).allow_server_method("elicitation/create").unwrap();
    let mut desk = Desk::before_the_handshake(setup);
    desk.send(&request(0, "tools/list", json!({}), &json!({})).to_string());
    let asked = desk.server_got();
    assert_eq!(asked["method"], "server/discover");
    let hello = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } });
    desk.answer(&asked["id"], &hello);
    let mut got = [desk.server_got(), desk.server_got()];
    got.sort_by_key(|line| line["method"].to_string());
    desk.answer(&got[1]["id"], &json!({ "tools": definitions(), "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], 0);
    desk
}

fn request(id: u64, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn search(id: u64, more: &Value) -> Value {
    let mut params = json!({ "name": "search", "arguments": { "q": "x" } });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    request(id, "tools/call", params, &json!({ "elicitation": { "form": {} }, "sampling": {} }))
}

fn form() -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": "Who?", "requestedSchema": {} } })
}

fn asking(requests: &Value) -> Value {
    json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "the server's" })
}

/// Sends the call, and lets the server ask for a form. Returns the client's state.
fn asked(desk: &mut Desk, id: u64) -> String {
    desk.send(&search(id, &json!({})).to_string());
    let call = desk.server_got();
    let meta = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*meta, json!({ "elicitation": { "form": {} } }), "sampling is not allowed");
    desk.answer(&call["id"], &asking(&json!({ "who": form() })));
    let result = desk.client_got();
    assert_eq!((&result["id"], &result["result"]["inputRequests"]["who"]), (&json!(id), &form()));
    let state = result["result"]["requestState"].as_str().unwrap().to_owned();
    assert!(!state.contains("server"), "{state}");
    state
}

fn nothing_reached_the_server(desk: &mut Desk) {
    desk.send(&search(99, &json!({})).to_string());
    let next = desk.server_got();
    assert_eq!(
        (&next["method"], &next["params"]["requestState"]),
        (&json!("tools/call"), &Value::Null),
        "{next}"
    );
}

fn input(state: &str) -> Value {
    json!({ "inputResponses": { "who": { "action": "accept", "content": { "n": 1.5 } } }, "requestState": state })
}

#[test]
fn a_retry_brings_the_input_and_the_servers_own_state() {
    let mut desk = desk();
    let state = asked(&mut desk, 1);
    desk.send(&search(2, &input(&state)).to_string());
    let call = desk.server_got();
    assert_eq!(call["params"]["requestState"], "the server's");
    assert_eq!(call["params"]["inputResponses"], input(&state)["inputResponses"]);
    assert_eq!(call["params"]["arguments"], json!({ "q": "x" }));
    desk.answer(&call["id"], &json!({ "content": [], "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], 2);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown", "ACCEPT", "Returned"]);
}

#[test]
fn a_state_is_refused_with_anything_but_its_own_request() {
    let mut desk = desk();
    let state = asked(&mut desk, 1);
    let other = |desk: &mut Desk, request: Value, code: &str| {
        desk.send(&request.to_string());
        let id = request["id"].clone();
        assert_eq!(desk.error(&id), (-32_602, code.to_owned()));
    };
    let mut changed = search(2, &input(&state));
    changed["params"]["arguments"] = json!({ "q": "y" });
    other(&mut desk, changed, "INPUT_STATE_MISMATCH");
    other(&mut desk, search(3, &input("0123456789abcdef0123456789abcdef")), "INPUT_STATE_UNKNOWN");
    desk.send(&search(4, &input(&state)).to_string());
    let call = desk.server_got();
    other(&mut desk, search(5, &input(&state)), "INPUT_STATE_USED");
    desk.answer(&call["id"], &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 4);
    other(&mut desk, search(6, &input(&state)), "INPUT_STATE_USED");
    nothing_reached_the_server(&mut desk);
    let late = asked(&mut desk, 7);
    desk.wait(Millis::from_secs(601));
    other(&mut desk, search(8, &input(&late)), "INPUT_STATE_EXPIRED");
}

#[test]
fn input_without_a_state_is_a_malformed_call() {
    let mut desk = desk();
    desk.send(&search(1, &json!({ "inputResponses": {} })).to_string());
    assert!(desk.client_got()["result"]["isError"].as_bool().unwrap());
    desk.send(&search(2, &json!({ "inputResponses": [], "requestState": "x" })).to_string());
    assert!(desk.client_got()["result"]["isError"].as_bool().unwrap());
    assert_eq!(desk.record(), ["MALFORMED_CALL", "MALFORMED_CALL"]);
    nothing_reached_the_server(&mut desk);
}

#[test]
fn a_server_asks_only_for_what_is_allowed_and_declared() {
    let sampling = json!({ "method": "sampling/createMessage", "params": { "messages": [] } });
    let url =
        json!({ "method": "elicitation/create", "params": { "mode": "url", "url": "https://x.example" } });
    for result in [
        asking(&json!({ "a": form(), "b": sampling })),
        asking(&json!({ "a": url })),
        asking(&json!({ "a": { "method": "tools/call" } })),
        asking(&json!({ "a": "text" })),
        asking(&json!([form()])),
        json!({ "resultType": "input_required" }),
        json!({ "resultType": "input_required", "requestState": 7 }),
        json!({ "resultType": "input_required", "inputRequests": { "a": form() }, "content": [] }),
        json!({ "resultType": "other", "inputRequests": { "a": form() } }),
        json!({ "inputRequests": { "a": form() } }),
    ] {
        let mut desk = desk();
        desk.send(&search(1, &json!({})).to_string());
        let call = desk.server_got();
        desk.answer(&call["id"], &result);
        assert_eq!(desk.error(&json!(1)), (-32_603, "SERVER_ANSWER".to_owned()), "{result}");
        assert_eq!(desk.sorted_record(), ["ACCEPT", "SERVER_ANSWER", "Unknown"]);
    }
}

#[test]
fn a_refused_retry_leaves_its_state() {
    let mut desk = desk();
    let refund = |id: u64, more: &Value| {
        let mut call = search(id, more);
        call["params"]["name"] = json!("refund");
        call["params"]["arguments"] = json!({});
        call
    };
    let approve = |desk: &mut Desk| {
        let (line, code) = desk.refusal();
        assert_eq!(code, "APPROVAL_REQUIRED");
        let decision = &line["result"]["_meta"]["dev.countersign/decision"];
        desk.approve(decision["approval_id"].as_str().unwrap());
    };
    desk.send(&refund(1, &json!({})).to_string());
    approve(&mut desk);
    desk.send(&refund(2, &json!({})).to_string());
    let call = desk.server_got();
    desk.answer(&call["id"], &asking(&json!({ "who": form() })));
    let state = desk.client_got()["result"]["requestState"].as_str().unwrap().to_owned();
    desk.send(&refund(3, &input(&state)).to_string());
    approve(&mut desk);
    desk.send(&refund(4, &input(&state)).to_string());
    assert_eq!(desk.server_got()["params"]["requestState"], "the server's");
}
