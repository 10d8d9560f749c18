use serde_json::{Value, json};

use super::desk::{Desk, Setup, call_in_flight, definitions};
use crate::Era;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

fn supported() -> Value {
    json!(["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"])
}

/// A desk for clients of the handshake era alone.
fn of_one_era() -> Desk {
    let setup = Setup::default();
    let settings = setup.settings.clone().client_era(Era::Handshake);
    Desk::before_the_handshake(Setup { settings, ..setup })
}

fn modern(id: &str, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({ VERSION: "2026-07-28", "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

#[test]
fn a_modern_request_is_refused_with_the_supported_versions() {
    for mut desk in [Desk::open(), of_one_era()] {
        let call = json!({ "name": "search", "arguments": { "q": "x" } });
        for (method, params) in [("tools/call", &call), ("tools/list", &json!({})), ("ping", &json!({}))] {
            desk.send(&modern(method, method, params));
            let error = desk.client_got()["error"].clone();
            assert_eq!(error["code"], -32022, "{error}");
            let data = json!({ "code": "PROTOCOL_ERA", "requested": "2026-07-28", "supported": supported() });
            assert_eq!(error["data"], data);
        }
        desk.nothing_reached_the_server();
        assert_eq!(desk.record(), ["PROTOCOL_ERA"; 3], "no call of the agent");
    }
}

#[test]
fn any_metadata_of_the_stateless_era_makes_a_request_modern() {
    let mut desk = Desk::open();
    let long = "9".repeat(65);
    for (meta, requested) in [
        (json!({ VERSION: "1900-01-01" }), "1900-01-01"),
        (json!({ VERSION: "2025-11-25" }), "2025-11-25"),
        (json!({ VERSION: 7 }), "unknown"),
        (json!({ VERSION: long }), "unknown"),
        (json!({ "io.modelcontextprotocol/clientCapabilities": {} }), "unknown"),
        (json!({ "io.modelcontextprotocol/logLevel": "debug" }), "unknown"),
    ] {
        desk.call_with(1, "search", &json!({ "q": "x" }), &meta);
        let error = desk.client_got()["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["requested"]),
            (&json!(-32022), &json!(requested)),
            "{meta}"
        );
    }
    desk.nothing_reached_the_server();
}

#[test]
fn discover_is_no_method_so_that_clients_fall_back() {
    let mut desk = of_one_era();
    desk.send(&modern("probe", "server/discover", &json!({})));
    let error = desk.client_got()["error"].clone();
    assert_eq!(error["code"], -32601, "{error}");
    let data = json!({ "code": "PROTOCOL_ERA", "requested": "2026-07-28", "supported": supported() });
    assert_eq!(error["data"], data);
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), [""; 0], "a probe is no refusal");
}

#[test]
fn input_responses_are_no_conduct_of_the_agent() {
    let mut desk = Desk::open();
    for (member, value) in [("inputResponses", json!({ "a": {} })), ("requestState", json!("s"))] {
        let mut params = json!({ "name": "search", "arguments": { "q": "x" } });
        params[member] = value;
        let call = json!({ "jsonrpc": "2.0", "id": member, "method": "tools/call", "params": params });
        desk.send(&call.to_string());
        assert_eq!(desk.error(&json!(member)), (-32022, "PROTOCOL_ERA".into()));
    }
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["PROTOCOL_ERA"; 2]);
}

#[test]
fn a_modern_notification_is_dropped() {
    let mut desk = Desk::open();
    let params = json!({ "requestId": 1, "_meta": { VERSION: "2026-07-28" } });
    desk.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string(),
    );
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["PROTOCOL_ERA"]);
}

#[test]
fn a_call_that_is_answered_by_a_question_is_unknown() {
    for result in [
        json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "roots/list" } } }),
        json!({ "inputRequests": {}, "content": [] }),
        json!({ "requestState": "s", "content": [] }),
        json!({ "resultType": "task", "taskId": "t", "status": "working" }),
        json!({ "resultType": null, "content": [] }),
        json!({ "task": { "taskId": "t", "status": "working" } }),
        json!({ "taskId": "t", "content": [] }),
        json!({ "content": [], "_meta": { "io.modelcontextprotocol/related-task": { "taskId": "t" } } }),
    ] {
        let mut desk = Desk::open();
        let id = call_in_flight(&mut desk);
        desk.answer(&id, &result);
        assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ANSWER".into()), "{result}");
        desk.nothing_reached_the_client();
        assert_eq!(desk.sorted_record(), ["ACCEPT", "SERVER_ANSWER", "Unknown"], "{result}");
    }
}

#[test]
fn result_of_type_complete_passes() {
    let mut desk = Desk::open();
    let id = call_in_flight(&mut desk);
    let result = json!({ "content": [], "resultType": "complete", "structuredContent": { "task": 1 } });
    desk.answer(&id, &result);
    assert_eq!(desk.client_got()["result"], result);
    assert_eq!(desk.record(), ["ACCEPT", "Returned"]);
}

#[test]
fn a_tool_list_that_asks_for_input_is_no_list() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#);
    let id = desk.server_got()["id"].clone();
    desk.answer(&id, &json!({ "tools": definitions(), "resultType": "input_required", "inputRequests": {} }));
    assert_eq!(desk.error(&json!("list")), (-32603, "SERVER_ANSWER".into()));
    assert_eq!(desk.record(), ["SERVER_ANSWER"]);
}

#[test]
fn address_error_passes_only_where_a_server_may_ask() {
    let error = |id: &Value| {
        let data = json!({ "elicitations": [{ "mode": "url", "url": "https://evil.example" }] });
        let error = json!({ "code": -32042, "message": "sign in", "data": data });
        json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
    };
    let mut desk = Desk::open();
    let id = call_in_flight(&mut desk);
    desk.serve(&error(&id));
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ANSWER".into()));
    assert_eq!(desk.sorted_record(), ["ACCEPT", "SERVER_ANSWER", "Unknown"]);

    let setup = Setup::default().patient();
    let settings = setup.settings.clone().allow_server_method("elicitation/create").unwrap();
    let mut desk = Desk::with(Setup { settings, ..setup });
    let id = call_in_flight(&mut desk);
    desk.serve(&error(&id));
    assert_eq!(desk.client_got()["error"]["code"], -32042);
}
