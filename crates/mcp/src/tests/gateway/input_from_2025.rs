//! Requests for input of a server of the handshake era, towards a client of the stateless era.

use countersign_core::Millis;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};
use crate::GatewayEnd;

fn request(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A desk whose server may ask for forms.
fn desk() -> Desk {
    let mut setup = Setup::default().patient();
    setup.settings = setup.settings.allow_server_method("elicitation/create").unwrap();
    let mut desk = Desk::before_the_handshake(setup);
    desk.send(&request(0, "tools/list", json!({})));
    let asked = desk.server_got();
    assert_eq!(asked["params"]["capabilities"], json!({ "elicitation": {} }), "what the server may use");
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": {} });
    desk.answer(&asked["id"], &hello);
    assert_eq!(desk.server_got()["method"], "notifications/initialized");
    desk.list(&definitions());
    assert_eq!(desk.client_got()["id"], 0);
    desk
}

fn search(id: u64, query: &str, more: &Value) -> String {
    let mut params = json!({ "name": "search", "arguments": { "q": query } });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    request(id, "tools/call", params)
}

/// Makes a call. Returns its id at the server.
fn call(desk: &mut Desk, id: u64) -> Value {
    desk.send(&search(id, "x", &json!({})));
    desk.wire_id()
}

fn form(id: u64) -> String {
    let params = json!({ "message": "Who?", "requestedSchema": {} });
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params }).to_string()
}

/// Takes the question in place of the result of this request. Returns the state.
fn asked(desk: &Desk, id: u64) -> String {
    let result = desk.client_got();
    assert_eq!(
        (&result["id"], &result["result"]["resultType"]),
        (&json!(id), &json!("input_required")),
        "{result}"
    );
    let question =
        json!({ "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": {} } });
    assert_eq!(result["result"]["inputRequests"], json!({ "request": question }));
    result["result"]["requestState"].as_str().unwrap().to_owned()
}

fn input(state: &str, name: &str) -> Value {
    json!({ "inputResponses": { "request": { "action": "accept", "content": { "name": name } } }, "requestState": state })
}

fn got_input(desk: &Desk, id: u64, name: &str) {
    let answer =
        json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept", "content": { "name": name } } });
    assert_eq!(desk.server_got(), answer);
}

#[test]
fn a_retry_brings_the_input_and_takes_the_result() {
    let mut desk = desk();
    let wire = call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    desk.send(&search(2, "x", &input(&state, "Ann")));
    got_input(&desk, 7, "Ann");
    desk.answer(&wire, &json!({ "content": [{ "type": "text", "text": "hi" }] }));
    let result = desk.client_got();
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert_eq!(result["result"]["content"][0]["text"], "hi");
    assert_eq!(desk.record(), ["ACCEPT", "Returned"], "one call");
    desk.send(&search(3, "x", &input(&state, "Bob")));
    assert_eq!(desk.error(&json!(3)), (-32_602, "INPUT_STATE_USED".into()));
}

#[test]
fn a_result_that_comes_first_waits_for_the_retry() {
    let mut desk = desk();
    let wire = call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    desk.answer(&wire, &json!({ "content": [] }));
    desk.nothing_reached_the_client();
    assert_eq!(desk.record(), ["ACCEPT", "Returned"]);
    desk.send(&search(2, "x", &input(&state, "Ann")));
    assert_eq!(desk.client_got()["id"], 2);
}

#[test]
fn what_no_request_can_carry_is_refused() {
    let mut desk = desk();
    let refused = |desk: &mut Desk, line: &str| {
        desk.serve(line);
        let answer = desk.server_got();
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    };
    refused(&mut desk, &form(7));
    desk.send(&request(1, "tools/list", json!({})));
    let list = desk.wire_id();
    refused(&mut desk, &form(8));
    desk.answer(&list, &json!({ "tools": definitions() }));
    assert_eq!(desk.client_got()["id"], 1);
    call(&mut desk, 2);
    refused(&mut desk, r#"{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}"#);
    refused(&mut desk, r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#);
    let url =
        json!({ "jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": { "mode": "url" } });
    refused(&mut desk, &url.to_string());
    desk.serve(&form(9));
    asked(&desk, 2);
}

#[test]
fn the_oldest_request_carries_the_question() {
    let mut desk = desk();
    let (first, second) = (call(&mut desk, 2), call(&mut desk, 1));
    desk.serve(&form(7));
    let state = asked(&desk, 2);
    desk.answer(&second, &json!({ "content": [2] }));
    assert_eq!(desk.client_got()["id"], 1);
    desk.send(&search(3, "x", &input(&state, "Ann")));
    got_input(&desk, 7, "Ann");
    desk.answer(&first, &json!({ "content": [1] }));
    let result = desk.client_got();
    assert_eq!((&result["id"], &result["result"]["content"]), (&json!(3), &json!([1])));
}

#[test]
fn a_second_question_waits_for_the_retry() {
    let mut desk = desk();
    let wire = call(&mut desk, 1);
    for id in [7, 8, 9] {
        desk.serve(&form(id));
    }
    let state = asked(&desk, 1);
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}"#);
    desk.nothing_reached_the_client();
    desk.send(&search(2, "x", &input(&state, "Ann")));
    got_input(&desk, 7, "Ann");
    let state = asked(&desk, 2);
    desk.send(&search(3, "x", &input(&state, "Bob")));
    got_input(&desk, 9, "Bob");
    desk.answer(&wire, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 3);
}

#[test]
fn a_question_behind_an_answered_request_goes_to_another() {
    let mut desk = desk();
    let first = call(&mut desk, 1);
    for id in [7, 8] {
        desk.serve(&form(id));
    }
    let state = asked(&desk, 1);
    desk.answer(&first, &json!({ "content": [] }));
    desk.nothing_reached_the_client();
    let second = call(&mut desk, 2);
    desk.send(&search(3, "x", &input(&state, "Ann")));
    got_input(&desk, 7, "Ann");
    assert_eq!(desk.client_got()["id"], 3);
    let state = asked(&desk, 2);
    desk.send(&search(4, "x", &input(&state, "Bob")));
    got_input(&desk, 8, "Bob");
    desk.answer(&second, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 4);

    let third = call(&mut desk, 5);
    for id in [9, 10] {
        desk.serve(&form(id));
    }
    let state = asked(&desk, 5);
    desk.answer(&third, &json!({ "content": [] }));
    desk.nothing_reached_the_client();
    desk.send(&search(6, "x", &input(&state, "Cat")));
    got_input(&desk, 9, "Cat");
    assert_eq!(desk.client_got()["id"], 6);
    assert_eq!(desk.server_got()["error"]["code"], -32601, "no request is left to carry it");
}

#[test]
fn a_withdrawn_question_gets_no_answer() {
    let mut desk = desk();
    let wire = call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    desk.nothing_reached_the_client();
    desk.send(&search(2, "x", &input(&state, "Ann")));
    desk.send(&request(3, "tools/list", json!({})));
    assert_eq!(desk.server_got()["method"], "tools/list");
    desk.answer(&wire, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 2);
}

#[test]
fn a_state_fits_its_own_request_and_needs_an_answer() {
    let mut desk = desk();
    call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    desk.send(&search(2, "y", &input(&state, "Ann")));
    assert_eq!(desk.error(&json!(2)), (-32_602, "INPUT_STATE_MISMATCH".into()));
    desk.send(&search(3, "x", &input("0123456789abcdef0123456789abcdef", "Ann")));
    assert_eq!(desk.error(&json!(3)), (-32_602, "INPUT_STATE_UNKNOWN".into()));
    desk.send(&search(4, "x", &json!({ "requestState": state })));
    assert_eq!(desk.refusal().1, "MALFORMED_CALL");
    desk.send(&search(5, "x", &input(&state, "Ann")));
    got_input(&desk, 7, "Ann");
}

#[test]
fn a_question_without_a_retry_ends_for_the_server() {
    let mut desk = desk();
    let wire = call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    desk.wait(Millis::from_secs(601));
    let ended = desk.server_got();
    assert_eq!((&ended["id"], &ended["error"]["data"]["code"]), (&json!(7), &json!("INPUT_STATE_EXPIRED")));
    desk.send(&search(2, "x", &input(&state, "Ann")));
    assert_eq!(desk.error(&json!(2)), (-32_602, "INPUT_STATE_EXPIRED".into()));
    desk.answer(&wire, &json!({ "content": [] }));
    desk.nothing_reached_the_client();
    assert_eq!(desk.sorted_record(), ["ACCEPT", "INPUT_STATE_EXPIRED", "INPUT_STATE_EXPIRED", "Returned"]);
}

#[test]
fn a_question_shows_none_of_the_gateways_own_members() {
    let mut desk = desk();
    call(&mut desk, 1);
    let params = json!({ "message": "m", "requestedSchema": {}, "_meta": { "dev.countersign/decision": { "code": "ACCEPT" } } });
    desk.serve(
        &json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params }).to_string(),
    );
    let line = desk.client_line();
    assert!(line.contains("input_required") && !line.contains("dev.countersign"), "{line}");
}

#[test]
fn a_retry_under_an_id_in_use_leaves_its_state() {
    let mut desk = desk();
    call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    let other = call(&mut desk, 2);
    desk.send(&search(2, "x", &input(&state, "Ann")));
    // A later call that arrived shows that the retry was read.
    call(&mut desk, 4);
    desk.answer(&other, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["result"]["content"], json!([]));
    assert_eq!(desk.client_got()["result"]["isError"], true);
    desk.send(&search(3, "x", &input(&state, "Ann")));
    got_input(&desk, 7, "Ann");
}

#[test]
fn the_end_of_the_server_ends_a_suspended_request() {
    let mut desk = desk();
    call(&mut desk, 1);
    desk.serve(&form(7));
    let state = asked(&desk, 1);
    desk.close_server();
    desk.send(&search(2, "x", &input(&state, "Ann")));
    desk.ended();
    assert_eq!(desk.sorted_record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn the_end_of_the_client_waits_for_no_suspended_request() {
    let mut desk = desk();
    call(&mut desk, 1);
    desk.serve(&form(7));
    asked(&desk, 1);
    desk.close_client();
    desk.server_sees_the_end();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
    assert_eq!(desk.sorted_record(), ["ACCEPT", "Unknown"]);
}
