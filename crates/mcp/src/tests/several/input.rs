//! Requests for input behind several servers, of which one is of the client's era.

use serde_json::{Value, json};

use super::hall::{Answers, Hall, answer_to, server, settings};
use crate::Era;

fn form() -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": "Who?", "requestedSchema": {} } })
}

fn accepted() -> Value {
    json!({ "action": "accept", "content": { "name": "Ann" } })
}

fn content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" })
}

/// A server of the stateless era whose tool asks for a form.
fn stateless_server() -> Answers {
    let tool = json!({ "name": "read", "inputSchema": { "type": "object" } });
    Box::new(move |asked| match asked["method"].as_str() {
        Some("server/discover") => {
            let hello = json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "resultType": "complete" });
            vec![answer_to(asked, hello)]
        }
        Some("tools/list") => {
            vec![answer_to(asked, json!({ "tools": [tool], "resultType": "complete" }))]
        }
        Some("tools/call") if asked["params"]["requestState"] == "mine" => {
            let name = asked["params"]["inputResponses"]["who"]["content"]["name"].as_str().unwrap();
            vec![answer_to(asked, content(name))]
        }
        Some("tools/call") => {
            let asks = json!({ "who": form() });
            let asking =
                json!({ "resultType": "input_required", "inputRequests": asks, "requestState": "mine" });
            vec![answer_to(asked, asking)]
        }
        _ => Vec::new(),
    })
}

/// A server of the handshake era whose tool asks for a form.
fn handshake_server() -> Answers {
    let mut usual = server("files", &["read"]);
    let mut call = Value::Null;
    Box::new(move |line| {
        if line["method"] == "tools/call" {
            call = line.clone();
            let mut asked = form();
            asked["jsonrpc"] = json!("2.0");
            asked["id"] = json!(7);
            return vec![asked.to_string()];
        }
        if line["id"] == 7 {
            return vec![answer_to(&call, content(line["result"]["content"]["name"].as_str().unwrap()))];
        }
        usual(line)
    })
}

/// A hall with a server of each era, which may ask for forms.
fn hall() -> Hall {
    let asking = |name| settings(name).allow_server_method("elicitation/create").unwrap();
    Hall::with([
        (asking("files"), handshake_server()),
        (asking("web").server_era(Era::Stateless), stateless_server()),
    ])
}

#[test]
fn a_handshake_client_is_asked_for_servers_of_both_eras() {
    let mut hall = hall();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "c", "version": "1" } });
    hall.ask("hello", "initialize", &params);
    hall.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for (id, name) in [(1, "files__read"), (2, "web__read")] {
        let params = json!({ "name": name });
        hall.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        let asked = hall.client_got();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        hall.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": accepted() }));
        let done = hall.client_got();
        assert_eq!(
            (&done["id"], &done["result"]["content"][0]["text"]),
            (&json!(id), &json!("Ann")),
            "{done}"
        );
    }
}

#[test]
fn a_stateless_client_is_asked_for_servers_of_both_eras() {
    let mut hall = hall();
    for (id, name) in [(1, "files__read"), (3, "web__read")] {
        let call = |id: u64, mut params: Value| {
            params["name"] = json!(name);
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        hall.send(&call(id, json!({})));
        let asked = hall.client_got();
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let state = &asked["result"]["requestState"];
        hall.send(&call(id + 1, json!({ "inputResponses": { key: accepted() }, "requestState": state })));
        let done = hall.client_got();
        assert_eq!(
            (&done["id"], &done["result"]["content"][0]["text"]),
            (&json!(id + 1), &json!("Ann")),
            "{done}"
        );
    }
}
