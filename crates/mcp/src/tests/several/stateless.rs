//! Clients of the stateless era.

use serde_json::{Value, json};

use super::hall::{Hall, answer_to, server};

fn request(id: &str, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn hall() -> Hall {
    Hall::before_the_handshake(server("files", &["read"]), server("web", &["read"]))
}

#[test]
fn a_stateless_client_discovers_lists_and_calls() {
    let mut hall = hall();
    hall.send(&request("d", "server/discover", &json!({})));
    let found = hall.client_got();
    let info = &found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
    assert_eq!((&found["id"], info), (&json!("d"), &json!("countersign")), "{found}");
    hall.send(&request("l", "tools/list", &json!({})));
    let list = hall.client_got();
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!((&list["result"]["resultType"], &list["result"]["ttlMs"]), (&json!("complete"), &json!(0)));
    hall.send(&request("c", "tools/call", &json!({ "name": "web__read" })));
    assert_eq!(hall.client_got()["result"]["content"][0]["text"], "web ran read");
}

#[test]
fn a_stateless_client_may_call_at_once() {
    let mut hall = hall();
    hall.send(&request("c", "tools/call", &json!({ "name": "files__read" })));
    assert_eq!(hall.client_got()["result"]["content"][0]["text"], "files ran read");
}

#[test]
fn one_stream_has_the_changes_of_all_servers() {
    let changes = |name: &'static str| {
        let mut usual = server(name, &["read"]);
        Box::new(move |asked: &Value| {
            if asked["method"] == "initialize" {
                let hello = json!({
                    "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": name, "version": "1" },
                });
                return vec![answer_to(asked, hello)];
            }
            usual(asked)
        })
    };
    let mut hall = Hall::before_the_handshake(changes("files"), changes("web"));
    hall.send(&request(
        "s",
        "subscriptions/listen",
        &json!({ "notifications": { "toolsListChanged": true } }),
    ));
    assert_eq!(hall.client_got()["method"], "notifications/subscriptions/acknowledged");
    // Both servers have shaken hands once the call has its answer.
    for (id, name) in [("a", "files__read"), ("b", "web__read")] {
        hall.send(&request(id, "tools/call", &json!({ "name": name })));
        assert_eq!(hall.client_got()["id"], id);
    }
    for at in [0, 1] {
        hall.serve(at, &json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
        let changed = hall.client_got();
        assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s", "{changed}");
    }
    hall.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": "s", "_meta": request("", "", &json!({}))["params"]["_meta"] },
    }));
    hall.send(&request("c", "tools/call", &json!({ "name": "files__read" })));
    assert_eq!(hall.client_got()["id"], "c");
}
