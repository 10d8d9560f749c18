//! Servers of the stateless era.

use countersign_core::Millis;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions, initialize};
use crate::{Era, GatewayEnd};

const ERA: &str = "io.modelcontextprotocol/";

fn refused(desk: &mut Desk, code: i32) {
    desk.send(&initialize("hello"));
    let asked = desk.server_got();
    assert_eq!(asked["method"], "initialize");
    let error = json!({ "code": code, "message": "no handshake", "data": { "supported": ["2026-07-28"] } });
    desk.serve(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }).to_string());
}

fn discovered() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {}, "logging": {} },
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "desk", "version": "3" } },
        "ttlMs": 0, "cacheScope": "public",
    })
}

/// A desk of the handshake era in front of a server of the stateless one.
fn old_client() -> Desk {
    let mut desk = Desk::before_the_handshake(Setup::default().patient());
    refused(&mut desk, -32601);
    let asked = desk.server_got();
    assert_eq!(asked["method"], "server/discover");
    desk.answer(&asked["id"], &discovered());
    let result = desk.client_got();
    assert_eq!(
        (&result["id"], &result["result"]["protocolVersion"]),
        (&json!("hello"), &json!("2025-11-25"))
    );
    assert_eq!(result["result"]["serverInfo"], json!({ "name": "desk", "version": "3" }));
    assert_eq!(result["result"]["capabilities"], json!({ "tools": {} }));
    let listens = desk.server_got();
    assert_eq!(listens["method"], "subscriptions/listen");
    assert_eq!(listens["params"]["notifications"]["toolsListChanged"], true);
    desk
}

fn has_metadata(request: &Value) {
    let meta = &request["params"]["_meta"];
    assert_eq!(meta[format!("{ERA}protocolVersion")], "2026-07-28", "{request}");
    assert_eq!(meta[format!("{ERA}clientCapabilities")], json!({}), "{request}");
    assert!(meta[format!("{ERA}clientInfo")]["name"].is_string(), "{request}");
}

#[test]
fn a_client_of_the_handshake_era_calls_through() {
    let mut desk = old_client();
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    desk.call(1, "search", &json!({ "q": "x" }));
    let list = desk.server_got();
    assert_eq!(list["method"], "tools/list", "no notification of the handshake comes first");
    has_metadata(&list);
    desk.answer(&list["id"], &json!({ "tools": definitions(), "resultType": "complete" }));
    let call = desk.server_got();
    assert_eq!(call["params"]["name"], "search");
    has_metadata(&call);
    let result = json!({ "content": [], "resultType": "complete" });
    desk.answer(&call["id"], &result);
    assert_eq!(desk.client_got()["result"], result);
    assert_eq!(desk.record(), ["ACCEPT", "Returned"]);
}

#[test]
fn an_open_stream_of_a_server_delays_no_end() {
    // Longer than the tests wait.
    let setup = Setup::default().limits(|limits| limits.drain(Millis::from_secs(600)).unwrap());
    let mut desk = Desk::before_the_handshake(setup);
    refused(&mut desk, -32601);
    let asked = desk.wire_id();
    desk.answer(&asked, &discovered());
    desk.client_got();
    assert_eq!(desk.server_got()["method"], "subscriptions/listen");
    desk.close_client();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
}

#[test]
fn errors_of_the_stateless_era_lead_to_the_question() {
    for code in [-32601, -32602, -32022] {
        let mut desk = Desk::before_the_handshake(Setup::default());
        refused(&mut desk, code);
        let asked = desk.server_got();
        assert_eq!(asked["method"], "server/discover", "{code}");
        has_metadata(&asked);
    }
}

fn of_server_era(era: Era) -> Desk {
    let setup = Setup::default().patient();
    let settings = setup.settings.clone().server_era(era);
    Desk::before_the_handshake(Setup { settings, ..setup })
}

#[test]
fn a_fixed_era_asks_no_other_question() {
    let mut desk = of_server_era(Era::Handshake);
    refused(&mut desk, -32601);
    assert_eq!(desk.client_got()["error"]["message"], "no handshake");

    let mut desk = of_server_era(Era::Stateless);
    desk.send(&initialize("hello"));
    let asked = desk.server_got();
    assert_eq!(asked["method"], "server/discover");
    has_metadata(&asked);
    desk.answer(&asked["id"], &discovered());
    assert_eq!(desk.client_got()["result"]["serverInfo"]["version"], "3");

    let mut desk = of_server_era(Era::Stateless);
    desk.send(&initialize("hello"));
    let asked = desk.server_got();
    desk.serve(
        &json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -32601, "message": "no" } })
            .to_string(),
    );
    assert_eq!(desk.client_got()["error"]["data"]["code"], "PROTOCOL_VERSION");
}

#[test]
fn any_other_refusal_reaches_the_client() {
    let mut desk = Desk::before_the_handshake(Setup::default());
    refused(&mut desk, -32000);
    assert_eq!(desk.client_got()["error"]["message"], "no handshake");
    desk.nothing_reached_the_server();
}

#[test]
fn a_server_of_neither_era_is_refused_as_it_refused() {
    for answer in [
        json!({ "error": { "code": -32601, "message": "what?" } }),
        json!({ "result": { "supportedVersions": ["2031-01-01"], "capabilities": {} } }),
        json!({ "result": { "supportedVersions": "2026-07-28" } }),
        json!({ "result": {} }),
    ] {
        let mut desk = Desk::before_the_handshake(Setup::default());
        refused(&mut desk, -32601);
        let mut line = answer.clone();
        line["id"] = desk.server_got()["id"].clone();
        line["jsonrpc"] = json!("2.0");
        desk.serve(&line.to_string());
        let error = desk.client_got();
        assert_eq!(
            (&error["id"], &error["error"]["message"]),
            (&json!("hello"), &json!("no handshake")),
            "{answer}"
        );
        // The client may try again, and the server is not asked a second time.
        refused(&mut desk, -32601);
        assert_eq!(desk.client_got()["error"]["message"], "no handshake");
    }
}

#[test]
fn notifications_of_the_stream_reach_the_client() {
    let mut desk = old_client();
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": "x" });
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": { "_meta": meta, "notifications": {} } });
    desk.serve(&begun.to_string());
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
    desk.serve(&changed.to_string());
    let line = desk.client_got();
    assert_eq!(
        (&line["method"], &line["params"]["_meta"]),
        (&json!("notifications/tools/list_changed"), &json!({}))
    );
    assert_eq!(desk.record(), [""; 0]);
}

#[test]
fn a_ping_needs_no_server_of_that_era() {
    let mut desk = old_client();
    desk.send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    assert_eq!(desk.client_got()["result"], json!({}));
    desk.send(r#"{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"info"}}"#);
    assert_eq!(desk.error(&json!("l")).0, -32601);
}

#[test]
fn a_request_for_input_is_the_server_s_fault() {
    let mut desk = old_client();
    desk.call(1, "search", &json!({ "q": "x" }));
    let list = desk.server_got();
    desk.answer(&list["id"], &json!({ "tools": definitions(), "resultType": "complete" }));
    let call = desk.server_got();
    let asks = json!({ "resultType": "input_required", "inputRequests": { "a": { "method": "roots/list" } }, "requestState": "s" });
    desk.answer(&call["id"], &asks);
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ANSWER".into()));
    assert_eq!(desk.sorted_record(), ["ACCEPT", "SERVER_ANSWER", "Unknown"]);
}

#[test]
fn both_sides_may_be_of_the_stateless_era() {
    let mut desk = Desk::before_the_handshake(Setup::default().patient());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    desk.send(&list.to_string());
    let asked = desk.server_got();
    let error = json!({ "code": -32602, "message": "no metadata" });
    desk.serve(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }).to_string());
    let asked = desk.server_got();
    desk.answer(&asked["id"], &discovered());
    let mut got = [desk.server_got(), desk.server_got()];
    got.sort_by_key(|line| line["method"].to_string());
    assert_eq!(
        got.each_ref().map(|line| line["method"].as_str().unwrap()),
        ["subscriptions/listen", "tools/list"]
    );
    has_metadata(&got[1]);
    desk.answer(
        &got[1]["id"],
        &json!({ "tools": definitions(), "resultType": "complete", "ttlMs": 5, "cacheScope": "public" }),
    );
    let result = desk.client_got()["result"].clone();
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(5), &json!("private")));
}
