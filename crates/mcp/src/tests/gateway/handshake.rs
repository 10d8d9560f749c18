use std::sync::atomic::Ordering;

use countersign_audit_log::{Instructions, Record, ServerRecord};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, initialize, initialized};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn fresh() -> Desk {
    Desk::before_the_handshake(Setup::default())
}

/// Checks that nothing passes. The client may send a ping at any time, so once it arrives, no earlier message is in transit.
fn nothing_passes(desk: &mut Desk) {
    desk.send(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#);
    assert_eq!(desk.error(&json!("list")), (-32600, "NOT_INITIALIZED".into()));
    desk.call("call", "search", &json!({ "q": "x" }));
    assert_eq!(desk.client_got()["id"], "call");
    desk.send(r#"{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"debug"}}"#);
    assert_eq!(desk.error(&json!("level")), (-32600, "NOT_INITIALIZED".into()));
    desk.send(INITIALIZED);
    desk.nothing_reached_the_server();
}

fn server_answers(desk: &mut Desk, result: &Value) {
    let asked = desk.server_got();
    assert_eq!(asked["method"], "initialize", "{asked}");
    desk.answer(&asked["id"], result);
}

#[test]
fn before_the_handshake_only_ping_passes() {
    let mut desk = fresh();
    nothing_passes(&mut desk);
    let expected = ["NOT_INITIALIZED", "MALFORMED_CALL", "NOT_INITIALIZED", "NOT_INITIALIZED"];
    assert_eq!(desk.record(), expected);
    assert_eq!(desk.reasons(), ["the session is not initialized (NOT_INITIALIZED)"]);
}

#[test]
fn while_the_server_has_not_answered_only_ping_passes() {
    let mut desk = fresh();
    desk.send(&initialize("one"));
    let asked = desk.server_got();
    nothing_passes(&mut desk);
    desk.answer(&asked["id"], &initialized());
    assert_eq!(desk.client_got()["id"], "one");
    desk.send(INITIALIZED);
    assert_eq!(desk.server_line(), INITIALIZED);
}

#[test]
fn after_a_refused_protocol_version_only_ping_passes() {
    let mut desk = fresh();
    desk.send(&initialize("one"));
    server_answers(&mut desk, &json!({ "protocolVersion": "2026-07-28", "capabilities": {} }));
    assert_eq!(desk.error(&json!("one")), (-32603, "PROTOCOL_VERSION".into()));
    nothing_passes(&mut desk);
}

#[test]
fn an_initialize_that_failed_can_be_tried_again() {
    let mut desk = fresh();
    desk.send(&initialize("one"));
    let asked = desk.server_got();
    let error =
        json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -32603, "message": "busy" } });
    desk.serve(&error.to_string());
    assert_eq!(desk.client_got()["error"]["message"], "busy");
    nothing_passes(&mut desk);
    desk.send(&initialize("two"));
    server_answers(
        &mut desk,
        &json!({ "protocolVersion": "2025-11-25", "protocolVersion ": 1, "resultType": 1 }),
    );
    assert_eq!(desk.error(&json!("two")), (-32603, "SERVER_ANSWER".into()));
    nothing_passes(&mut desk);
    desk.send(&initialize("three"));
    server_answers(&mut desk, &initialized());
    assert_eq!(desk.client_got()["id"], "three");
    desk.send(INITIALIZED);
    assert_eq!(desk.server_line(), INITIALIZED);
}

#[test]
fn a_second_initialize_is_refused() {
    let mut desk = fresh();
    desk.send(&initialize("one"));
    let asked = desk.server_got();
    desk.send(&initialize("two"));
    assert_eq!(desk.error(&json!("two")), (-32600, "ALREADY_INITIALIZED".into()));
    desk.answer(&asked["id"], &initialized());
    assert_eq!(desk.client_got()["id"], "one");
    desk.send(&initialize("three"));
    assert_eq!(desk.error(&json!("three")), (-32600, "ALREADY_INITIALIZED".into()));
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["ALREADY_INITIALIZED", "ALREADY_INITIALIZED"]);
}

#[test]
fn before_the_handshake_a_server_may_only_ping_and_log() {
    let mut desk = fresh();
    desk.serve(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    assert_eq!(desk.server_got()["error"]["data"]["code"], "NOT_INITIALIZED");
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y"}}"#);
    desk.serve(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    assert_eq!(desk.client_got()["method"], "ping");
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}"#);
    assert_eq!(desk.client_got()["method"], "notifications/message");
    assert_eq!(desk.record(), ["NOT_INITIALIZED", "NOT_INITIALIZED"]);
}

#[test]
fn capabilities_are_narrowed_both_ways() {
    let narrowed = |settings: crate::GatewaySettings| {
        let mut desk = Desk::before_the_handshake(Setup { settings, ..Setup::default() });
        let mut line: Value = serde_json::from_str(&initialize("one")).unwrap();
        line["params"]["capabilities"] =
            json!({ "roots": {}, "sampling": {}, "elicitation": {}, "experimental": {} });
        desk.send(&line.to_string());
        let asked = desk.server_got();
        let mut result = initialized();
        result["capabilities"] =
            json!({ "tools": {}, "resources": { "subscribe": true }, "prompts": {}, "tasks": {} });
        desk.answer(&asked["id"], &result);
        let answer = desk.client_got()["result"].clone();
        assert_eq!(answer["serverInfo"], result["serverInfo"]);
        (asked["params"]["capabilities"].clone(), answer["capabilities"].clone())
    };
    let settings = Setup::default().settings;
    assert_eq!(narrowed(settings.clone()), (json!({ "roots": {} }), json!({ "tools": {} })));
    let settings = settings.allow_client_method("resources/read").unwrap();
    let settings = settings.allow_server_method("sampling/createMessage").unwrap();
    let wider = (json!({ "roots": {}, "sampling": {} }), json!({ "resources": {}, "tools": {} }));
    assert_eq!(narrowed(settings), wider);
}

/// Records of servers that answered the handshake.
fn servers(desk: &Desk) -> Vec<ServerRecord> {
    let server = |record| if let Record::Server(server) = record { Some(server) } else { None };
    desk.sink.latest().into_iter().filter_map(|(_, record)| server(record)).collect()
}

#[test]
fn server_is_recorded_as_it_describes_itself() {
    let mut desk = fresh();
    desk.send(&initialize("one"));
    let mut result = initialized();
    let name = format!("a\u{202e}{}", "x".repeat(200));
    result["serverInfo"] = json!({ "name": name, "version": "1\n2", "title": "T" });
    result["instructions"] = json!("Be kind.");
    server_answers(&mut desk, &result);
    assert_eq!(desk.client_got()["result"].get("instructions"), None);
    let [server] = servers(&desk).try_into().unwrap();
    assert_eq!(server.server.as_str(), "desk");
    assert_eq!(server.name, Some(name.as_str().into()));
    assert_eq!(server.version.unwrap().as_str(), "1\\u{a}2");
    assert_eq!(server.instructions, Some(Instructions::Dropped));
}

#[test]
fn server_without_readable_info_is_recorded() {
    let mut desk = fresh();
    desk.send(&initialize("one"));
    server_answers(
        &mut desk,
        &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": 1 }),
    );
    assert_eq!(desk.client_got()["id"], "one");
    let [server] = servers(&desk).try_into().unwrap();
    assert_eq!((server.name, server.version, server.instructions), (None, None, None));
}

#[test]
fn handshake_that_cannot_be_recorded_fails() {
    let mut desk = fresh();
    desk.sessions_fail.store(true, Ordering::SeqCst);
    desk.send(&initialize("one"));
    server_answers(&mut desk, &initialized());
    assert_eq!(desk.error(&json!("one")), (-32603, "AUDIT_UNAVAILABLE".into()));
    nothing_passes(&mut desk);
    desk.sessions_fail.store(false, Ordering::SeqCst);
    desk.send(&initialize("two"));
    server_answers(&mut desk, &initialized());
    assert_eq!(desk.client_got()["id"], "two");
    assert_eq!(servers(&desk).len(), 1);
}
