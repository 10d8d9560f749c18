//! Clients of the stateless era.

use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions, initialize};
use crate::Era;

const ERA: &str = "io.modelcontextprotocol/";
const INFO: &str = "io.modelcontextprotocol/serverInfo";

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "roots": {} },
    })
}

fn request(id: impl Into<Value>, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    for (name, value) in meta().as_object().unwrap() {
        params["_meta"][name] = value.clone();
    }
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params }).to_string()
}

fn new_desk() -> Desk {
    Desk::before_the_handshake(Setup::default().patient())
}

fn hello() -> Value {
    json!({
        "protocolVersion": "2025-06-18", "serverInfo": { "name": "desk", "version": "2" },
        "capabilities": { "tools": { "listChanged": true }, "logging": {} },
    })
}

/// Plays the server's part of the handshake, which the gateway begins.
fn greet(desk: &mut Desk) {
    let asked = desk.server_got();
    assert_eq!((&asked["method"], &asked["params"]["capabilities"]), (&json!("initialize"), &json!({})));
    desk.answer(&asked["id"], &hello());
    assert_eq!(desk.server_got()["method"], "notifications/initialized");
}

/// A desk whose client has discovered the server.
fn discovered() -> Desk {
    let mut desk = new_desk();
    desk.send(&request("d", "server/discover", &json!({})));
    greet(&mut desk);
    desk.client_got();
    desk
}

#[test]
fn a_call_comes_first_and_is_answered_in_its_era() {
    let mut desk = new_desk();
    let search = json!({ "name": "search", "arguments": { "q": "x" }, "_meta": { "progressToken": 7 } });
    desk.send(&request(1, "tools/call", &search));
    greet(&mut desk);
    desk.list(&definitions());
    let call = desk.server_got();
    assert_eq!((&call["method"], &call["params"]["name"]), (&json!("tools/call"), &json!("search")));
    assert_eq!(call["params"]["_meta"], json!({ "progressToken": 7 }), "the era's metadata is the gateway's");
    desk.answer(&call["id"], &json!({ "content": [], "structuredContent": { "n": 1.0 } }));
    let result = desk.client_got();
    let info = json!({ "name": "desk", "version": "2" });
    let expected = json!({ "content": [], "structuredContent": { "n": 1.0 }, "resultType": "complete", "_meta": { INFO: info } });
    assert_eq!((&result["id"], &result["result"]), (&json!(1), &expected));
    assert_eq!(desk.record(), ["ACCEPT", "Returned"]);
}

#[test]
fn a_refused_call_is_a_complete_result() {
    let mut desk = discovered();
    desk.send(&request("c", "tools/call", &json!({ "name": "delete_ticket", "arguments": {} })));
    let result = desk.client_got()["result"].clone();
    assert_eq!((&result["isError"], &result["resultType"]), (&json!(true), &json!("complete")));
    assert_eq!(result["_meta"]["dev.countersign/decision"]["code"], "UNDISCLOSED_TOOL");
}

#[test]
fn a_server_is_discovered_through_the_gateway() {
    let mut desk = new_desk();
    desk.send(&request("d", "server/discover", &json!({})));
    greet(&mut desk);
    let result = desk.client_got()["result"].clone();
    let expected = json!({
        "_meta": { INFO: { "name": "desk", "version": "2" } }, "cacheScope": "private",
        "capabilities": { "tools": { "listChanged": true } }, "resultType": "complete", "ttlMs": 0,
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"],
    });
    assert_eq!(result, expected);
    desk.send(&request("again", "server/discover", &json!({})));
    assert_eq!(desk.client_got()["result"], expected, "the server is asked once");
    desk.nothing_reached_the_server();
}

#[test]
fn a_list_may_not_be_kept() {
    let mut desk = discovered();
    desk.send(&request("l", "tools/list", &json!({})));
    desk.list(&definitions());
    let result = desk.client_got()["result"].clone();
    let found = (&result["ttlMs"], &result["cacheScope"], &result["resultType"]);
    assert_eq!(found, (&json!(0), &json!("private"), &json!("complete")));
    assert_eq!(result["tools"].as_array().unwrap().len(), 4, "as the registry has it");
}

#[test]
fn another_revision_is_refused_with_those_that_are_spoken() {
    let mut desk = new_desk();
    for version in ["1900-01-01", "2025-11-25", "2027-01-01"] {
        let mut params = json!({ "_meta": meta() });
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        let line = json!({ "jsonrpc": "2.0", "id": version, "method": "tools/list", "params": params });
        desk.send(&line.to_string());
        let error = desk.client_got()["error"].clone();
        assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!(version)));
        assert_eq!(error["data"]["supported"][0], "2026-07-28");
    }
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["PROTOCOL_ERA"; 3]);
}

#[test]
fn a_fixed_era_of_the_client_takes_no_other() {
    let of = |era| {
        let setup = Setup::default().patient();
        let settings = setup.settings.clone().client_era(era);
        Desk::before_the_handshake(Setup { settings, ..setup })
    };
    let mut desk = of(Era::Handshake);
    desk.send(&request("d", "server/discover", &json!({})));
    assert_eq!(desk.client_got()["error"]["code"], -32601);

    let mut desk = of(Era::Stateless);
    desk.send(&initialize("i"));
    assert_eq!(desk.error(&json!("i")), (-32601, "METHOD_NOT_ALLOWED".into()));
    desk.send(&request("d", "server/discover", &json!({})));
    greet(&mut desk);
    assert_eq!(desk.client_got()["id"], "d");
}

#[test]
fn incomplete_metadata_is_refused() {
    let mut desk = new_desk();
    for name in ["protocolVersion", "clientCapabilities"] {
        let mut params = json!({ "_meta": meta() });
        params["_meta"].as_object_mut().unwrap().remove(&format!("{ERA}{name}"));
        let line = json!({ "jsonrpc": "2.0", "id": name, "method": "tools/list", "params": params });
        desk.send(&line.to_string());
        assert_eq!(desk.error(&json!(name)), (-32602, "BAD_PARAMS".into()));
    }
    desk.nothing_reached_the_server();
}

#[test]
fn removed_methods_are_refused() {
    let mut desk = discovered();
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get"] {
        desk.send(&request(method, method, &json!({})));
        assert_eq!(desk.error(&json!(method)), (-32601, "METHOD_NOT_ALLOWED".into()), "{method}");
    }
    desk.nothing_reached_the_server();
}

#[test]
fn no_call_waits_for_input() {
    let mut desk = discovered();
    for (member, value) in [("inputResponses", json!({ "a": {} })), ("requestState", json!("s"))] {
        let mut params = json!({ "name": "search", "arguments": { "q": "x" } });
        params[member] = value;
        desk.send(&request(member, "tools/call", &params));
        let result = desk.client_got()["result"].clone();
        assert_eq!(result["_meta"]["dev.countersign/decision"]["code"], "MALFORMED_CALL", "{result}");
        assert_eq!(result["resultType"], "complete");
    }
    desk.nothing_reached_the_server();
}

#[test]
fn a_stream_carries_what_its_client_asked_for() {
    let mut desk = discovered();
    let filter = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["a:b"] } });
    desk.send(&request("s1", "subscriptions/listen", &filter));
    let begun = desk.client_got();
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(begun["params"]["_meta"], json!({ "io.modelcontextprotocol/subscriptionId": "s1" }));
    assert_eq!(
        begun["params"]["notifications"],
        json!({ "toolsListChanged": true }),
        "the server has no prompts"
    );
    desk.send(&request(2, "subscriptions/listen", &json!({ "notifications": {} })));
    desk.client_got();
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    desk.serve(changed);
    let line = desk.client_got();
    assert_eq!(line["params"], json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": "s1" } }));
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s1"}}"#);
    desk.send(&request("last", "server/discover", &json!({})));
    desk.client_got();
    desk.serve(changed);
    desk.nothing_reached_the_client();
}

#[test]
fn a_stream_ends_with_a_result() {
    for is_client in [false, true] {
        let mut desk = discovered();
        desk.send(&request("s", "subscriptions/listen", &json!({ "notifications": {} })));
        desk.client_got();
        if is_client {
            desk.close_client();
            desk.server_sees_the_end();
        }
        desk.close_server();
        let last = desk.client_got();
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": "s" });
        assert_eq!(
            (&last["id"], &last["result"]),
            (&json!("s"), &json!({ "_meta": meta, "resultType": "complete" }))
        );
    }
}

#[test]
fn a_stream_s_id_is_in_use() {
    let mut desk = discovered();
    desk.send(&request("s", "subscriptions/listen", &json!({ "notifications": {} })));
    desk.client_got();
    desk.send(&request("s", "tools/list", &json!({})));
    assert_eq!(desk.client_got()["error"]["data"]["code"], "RPC_ID_IN_USE");
    for bad in [json!({}), json!({ "notifications": [] })] {
        desk.send(&request("bad", "subscriptions/listen", &bad));
        assert_eq!(desk.error(&json!("bad")), (-32602, "BAD_PARAMS".into()));
    }
}

#[test]
fn streams_are_bounded() {
    let mut desk = discovered();
    for id in 0..16 {
        desk.send(&request(id, "subscriptions/listen", &json!({ "notifications": {} })));
        assert_eq!(desk.client_got()["method"], "notifications/subscriptions/acknowledged");
    }
    desk.send(&request(16, "subscriptions/listen", &json!({ "notifications": {} })));
    assert_eq!(desk.error(&json!(16)), (429, "TOO_MANY_REQUESTS".into()));
}

#[test]
fn a_client_gets_no_request_and_no_log_message() {
    let mut desk = discovered();
    desk.serve(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    let answer = desk.server_got();
    assert_eq!((&answer["id"], &answer["result"]), (&json!("p"), &json!({})));
    desk.serve(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
    assert_eq!(desk.server_got()["error"]["code"], -32601);
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#);
    desk.nothing_reached_the_client();
}

#[test]
fn a_failed_handshake_is_tried_again() {
    let mut desk = new_desk();
    desk.send(&request(1, "tools/list", &json!({})));
    let asked = desk.server_got();
    desk.serve(
        &json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -1, "message": "no" } }).to_string(),
    );
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ANSWER".into()));
    desk.send(&request(2, "server/discover", &json!({})));
    greet(&mut desk);
    assert_eq!(desk.client_got()["id"], 2);
}

#[test]
fn a_handshake_of_the_client_is_not_disturbed() {
    let mut desk = new_desk();
    desk.send(&initialize("i"));
    let asked = desk.server_got();
    desk.send(&request("m", "tools/list", &json!({})));
    assert_eq!(desk.error(&json!("m")), (-32603, "SERVER_ANSWER".into()));
    desk.answer(&asked["id"], &hello());
    assert_eq!(desk.client_got()["id"], "i");
    desk.serve(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
    assert_eq!(desk.client_got()["method"], "roots/list", "the session is of the handshake era");
}

#[test]
fn an_id_in_use_discovers_nothing() {
    let mut desk = discovered();
    desk.send(&request(1, "tools/list", &json!({})));
    let list = desk.server_got();
    desk.send(&request(1, "server/discover", &json!({})));
    assert_eq!(desk.client_got()["error"]["data"]["code"], "RPC_ID_IN_USE");
    desk.answer(&list["id"], &json!({ "tools": [] }));
    assert_eq!(desk.client_got()["result"]["resultType"], "complete");
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server() {
    let mut desk = discovered();
    desk.send(&request(1, "tools/call", &json!({ "name": "search", "arguments": { "q": "x" } })));
    desk.list(&definitions());
    let call = desk.server_got();
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    let cancelled = desk.server_got();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &call["id"])
    );
}

#[test]
fn messages_of_both_eras_may_follow_each_other() {
    let mut desk = discovered();
    desk.send(r#"{"jsonrpc":"2.0","id":"old","method":"tools/list"}"#);
    desk.list(&definitions());
    let result = desk.client_got()["result"].clone();
    assert_eq!(result.get("resultType"), None, "an answer is of its request's era");
}
