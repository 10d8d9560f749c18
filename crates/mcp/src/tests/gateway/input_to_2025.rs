//! Requests for input of a server of the stateless era, towards a client of the handshake era.

use countersign_core::Millis;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};
use crate::{Era, GatewayEnd};

/// A desk whose server may ask for forms and roots, and whose client has these capabilities.
fn desk_with(capabilities: &Value) -> Desk {
    let mut setup = Setup::default().patient();
    let settings =
        setup.settings.server_era(Era::Stateless).allow_server_method("elicitation/create").unwrap();
    setup.settings = settings.allow_server_method("roots/list").unwrap();
    let mut desk = Desk::before_the_handshake(setup);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "c", "version": "1" } });
    desk.send(&json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params }).to_string());
    let asked = desk.server_got();
    let hello = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } });
    desk.answer(&asked["id"], &hello);
    assert_eq!(desk.client_got()["id"], "i");
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(desk.server_got()["method"], "subscriptions/listen");
    desk.send(r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#);
    let list = desk.wire_id();
    desk.answer(&list, &json!({ "tools": definitions(), "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], "l");
    desk
}

fn desk() -> Desk {
    desk_with(&json!({ "elicitation": {}, "roots": {} }))
}

fn asking(requests: &Value) -> Value {
    json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "the server's" })
}

fn form() -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": "Who?", "requestedSchema": {} } })
}

fn both() -> Value {
    json!({ "dirs": { "method": "roots/list" }, "who": form() })
}

/// Sends a request through, so that nothing else can be on its way to the server.
fn nothing_reached_the_server(desk: &mut Desk) {
    desk.send(r#"{"jsonrpc":"2.0","id":"n","method":"tools/list"}"#);
    let next = desk.server_got();
    assert_eq!(next["method"], "tools/list", "{next}");
    desk.answer(&next["id"], &json!({ "tools": [], "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], "n");
}

/// Makes a call that the server answers so. Returns the call as the server got it.
fn call(desk: &mut Desk, answer: &Value) -> Value {
    desk.call(1, "search", &json!({ "q": "x" }));
    let call = desk.server_got();
    desk.answer(&call["id"], answer);
    call
}

fn respond(desk: &mut Desk, id: &Value, result: &Value) {
    desk.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
}

#[test]
fn the_call_goes_again_with_what_its_client_answers() {
    let mut desk = desk();
    let first = call(&mut desk, &asking(&both()));
    let (dirs, who) = (desk.client_got(), desk.client_got());
    assert_eq!((&dirs["method"], &who["method"]), (&json!("roots/list"), &json!("elicitation/create")));
    assert_eq!(who["params"], form()["params"]);
    respond(&mut desk, &who["id"], &json!({ "action": "accept", "content": { "n": 1.5 } }));
    nothing_reached_the_server(&mut desk);
    respond(&mut desk, &dirs["id"], &json!({ "roots": [] }));
    let second = desk.server_got();
    let responses =
        json!({ "dirs": { "roots": [] }, "who": { "action": "accept", "content": { "n": 1.5 } } });
    assert_eq!(second["params"]["inputResponses"], responses);
    assert_eq!(second["params"]["requestState"], "the server's");
    for name in ["name", "arguments", "_meta"] {
        assert_eq!(second["params"][name], first["params"][name]);
    }
    desk.answer(&second["id"], &json!({ "content": [], "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], 1);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown", "ACCEPT", "Returned"]);
    desk.call(1, "search", &json!({ "q": "x" }));
    let free = desk.server_got();
    assert_eq!(free["params"]["requestState"], Value::Null, "the input was for one call");
}

#[test]
fn what_the_client_did_not_declare_is_not_asked() {
    let url =
        json!({ "method": "elicitation/create", "params": { "mode": "url", "url": "https://a.example" } });
    let sampling = json!({ "method": "sampling/createMessage", "params": {} });
    for asked in [url, sampling, json!({ "method": "tools/call" }), json!({})] {
        let mut desk = desk();
        call(&mut desk, &asking(&json!({ "who": form(), "other": asked })));
        assert_eq!(desk.error(&json!(1)), (-32_603, "SERVER_ANSWER".into()));
        assert_eq!(desk.sorted_record(), ["ACCEPT", "SERVER_ANSWER", "Unknown"]);
    }
    let mut desk = desk_with(&json!({}));
    call(&mut desk, &asking(&json!({ "who": form() })));
    assert_eq!(desk.error(&json!(1)), (-32_603, "SERVER_ANSWER".into()));
}

#[test]
fn an_error_of_the_client_ends_its_call() {
    let mut desk = desk();
    call(&mut desk, &asking(&both()));
    let (dirs, who) = (desk.client_got(), desk.client_got());
    let error = json!({ "jsonrpc": "2.0", "id": dirs["id"], "error": { "code": -1, "message": "no" } });
    desk.send(&error.to_string());
    let withdrawn = desk.client_got();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &who["id"])
    );
    assert_eq!(desk.error(&json!(1)), (-32_603, "INPUT_REFUSED".into()));
    respond(&mut desk, &who["id"], &json!({ "action": "accept" }));
    nothing_reached_the_server(&mut desk);
    assert_eq!(desk.sorted_record(), ["ACCEPT", "INPUT_REFUSED", "Unknown"]);
}

#[test]
fn a_cancelled_call_withdraws_what_was_asked() {
    let mut desk = desk();
    call(&mut desk, &asking(&json!({ "who": form() })));
    let who = desk.client_got();
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(desk.client_got()["params"]["requestId"], who["id"]);
    respond(&mut desk, &who["id"], &json!({ "action": "accept" }));
    nothing_reached_the_server(&mut desk);
}

#[test]
fn the_id_of_a_call_that_waits_for_input_is_in_use() {
    let mut desk = desk();
    call(&mut desk, &asking(&json!({ "who": form() })));
    let who = desk.client_got();
    desk.call(1, "search", &json!({ "q": "y" }));
    nothing_reached_the_server(&mut desk);
    respond(&mut desk, &who["id"], &json!({ "action": "decline" }));
    let again = desk.server_got();
    assert_eq!(again["params"]["arguments"], json!({ "q": "x" }));
    desk.answer(&again["id"], &json!({ "content": [] }));
    assert_eq!(desk.client_got()["result"]["content"], json!([]));
    assert_eq!(desk.client_got()["result"]["isError"], true);
}

#[test]
fn a_server_that_only_wants_a_retry_gets_sixteen() {
    let mut desk = desk();
    call(&mut desk, &json!({ "resultType": "input_required", "requestState": "later" }));
    for _ in 0..16 {
        let again = desk.server_got();
        assert_eq!(again["params"]["requestState"], "later");
        desk.answer(&again["id"], &json!({ "resultType": "input_required", "requestState": "later" }));
    }
    assert_eq!(desk.error(&json!(1)), (-32_603, "SERVER_ANSWER".into()));
}

#[test]
fn input_that_comes_too_late_counts_no_longer() {
    let mut desk = desk();
    call(&mut desk, &asking(&json!({ "who": form() })));
    let who = desk.client_got();
    desk.wait(Millis::from_secs(601));
    assert_eq!(desk.client_got()["params"]["requestId"], who["id"]);
    assert_eq!(desk.error(&json!(1)), (-32_602, "INPUT_STATE_EXPIRED".into()));
    respond(&mut desk, &who["id"], &json!({ "action": "accept" }));
    nothing_reached_the_server(&mut desk);
}

#[test]
fn the_end_of_the_client_ends_the_wait_for_input() {
    let mut desk = desk();
    call(&mut desk, &asking(&json!({ "who": form() })));
    desk.client_got();
    desk.close_client();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
}
