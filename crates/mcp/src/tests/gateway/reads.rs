//! Reads of resources, prompts and completions, as the registry lists them.

use countersign_core::Millis;
use countersign_testing::TestTool;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, initialize};

fn object(required: &str, properties: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": [required], "properties": properties })
}

/// The manuals and one note, which needs an approval; one prompt; no completion.
fn entries() -> Vec<TestTool> {
    vec![
        TestTool::read("resources/read/manuals")
            .args_schema(&object("uri", &json!({ "uri": { "type": "string" } })))
            .constraint(json!({ "kind": "uri_within", "at": "/uri", "roots": ["file:///manuals/"] })),
        TestTool::read("resources/read/note")
            .args_schema(&object("uri", &json!({ "uri": { "enum": ["note://today"] } })))
            .member("approval", "required"),
        TestTool::read("prompts/get").args_schema(&json!({
            "type": "object", "additionalProperties": false, "required": ["name", "arguments"],
            "properties": { "name": { "enum": ["summary"] }, "arguments": { "type": "object", "required": ["of"] } },
        })),
    ]
}

fn desk() -> Desk {
    Desk::with(Setup { reads: entries(), ..Setup::default().patient() })
}

fn send(desk: &mut Desk, id: &str, method: &str, params: &Value) {
    desk.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
}

/// The client's next refusal of a read.
fn refusal(desk: &Desk) -> Value {
    let error = desk.client_got()["error"].clone();
    assert_eq!(error["code"], 403, "{error}");
    let code = error["data"]["code"].as_str().unwrap();
    assert!(error["message"].as_str().unwrap().contains(code), "{error}");
    error["data"].clone()
}

#[test]
fn a_listed_read_is_decided_recorded_and_passed_on() {
    let mut desk = desk();
    let params = json!({ "uri": "file:///manuals/a%20b.md", "_meta": { "progressToken": 7, "__pic": {} } });
    send(&mut desk, "r", "resources/read", &params);
    let read = desk.server_line();
    let (id, rest) = read.split_once(',').unwrap();
    assert_eq!(
        rest,
        concat!(
            r#""jsonrpc":"2.0","method":"resources/read","params":"#,
            r#"{"_meta":{"progressToken":7},"uri":"file:///manuals/a%20b.md"}}"#
        ),
        "the list of tools is not asked for"
    );
    let result =
        r#"{ "result":{"contents":[{"uri":"x","text":"π \u00e9 1e2"}],"x":1.50}, "id":1,"jsonrpc":"2.0"}"#;
    desk.serve(&result.replace(r#""id":1"#, id.trim_start_matches('{')));
    assert_eq!(desk.client_line(), result.replace(r#""id":1"#, r#""id":"r""#));
    send(&mut desk, "p", "prompts/get", &json!({ "name": "summary", "arguments": { "of": "7" } }));
    let prompt = desk.server_got();
    assert_eq!(prompt["params"], json!({ "name": "summary", "arguments": { "of": "7" } }));
    desk.serve(
        &json!({ "jsonrpc": "2.0", "id": prompt["id"], "error": { "code": -1, "message": "no" } })
            .to_string(),
    );
    assert_eq!(desk.client_got()["error"]["code"], -1);
    assert_eq!(desk.record(), ["ACCEPT", "Returned", "ACCEPT", "Failed"]);
}

#[test]
fn a_read_beyond_the_entries_is_refused() {
    let mut desk = desk();
    for uri in
        ["file:///etc/passwd", "file:///manuals/../etc/passwd", "file:///manuals/%2e%2e/x", "note://other"]
    {
        send(&mut desk, "r", "resources/read", &json!({ "uri": uri }));
        let refused = refusal(&desk);
        assert_eq!(refused["code"], "ARGS_CONSTRAINT", "{uri}");
        assert!(!refused.to_string().contains("etc"), "{refused}");
    }
    send(&mut desk, "p", "prompts/get", &json!({ "name": "other" }));
    assert_eq!(refusal(&desk)["code"], "ARGS_SCHEMA");
    send(&mut desk, "c", "completion/complete", &json!({ "ref": {}, "argument": {} }));
    assert_eq!(desk.error(&json!("c")), (-32601, "METHOD_NOT_ALLOWED".into()));
    desk.nothing_reached_the_server();
    assert_eq!(desk.gate.counts().rejected(), 5);
}

#[test]
fn a_read_with_other_params_is_refused() {
    let mut desk = desk();
    for params in [
        json!({}),
        json!({ "uri": 7 }),
        json!({ "uri": null }),
        json!({ "URI": "file:///manuals/a" }),
        json!({ "uri": "file:///manuals/a", "Uri": "file:///etc/passwd" }),
        json!({ "uri": "file:///manuals/a", "task": {} }),
        json!({ "uri": "file:///manuals/a", "_meta": { "dev.countersign/ask": 7 } }),
    ] {
        send(&mut desk, "r", "resources/read", &params);
        assert_eq!(desk.error(&json!("r")), (-32602, "BAD_PARAMS".into()), "{params}");
    }
    send(&mut desk, "p", "prompts/get", &json!({ "name": "summary", "arguments": "x" }));
    assert_eq!(desk.error(&json!("p")), (-32602, "BAD_PARAMS".into()));
    desk.nothing_reached_the_server();
}

#[test]
fn lists_show_what_the_session_can_read() {
    let mut desk = desk();
    let shown = |desk: &mut Desk, method: &str, result: &Value| {
        send(desk, "l", method, &json!({}));
        let asked = desk.server_got();
        assert_eq!(asked["method"], method);
        desk.answer(&asked["id"], result);
        desk.client_got()["result"].clone()
    };
    let uris = ["file:///manuals/a", "file:///etc/passwd", "note://today", "note://other"];
    let mut all: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": "n" })).collect();
    all.extend([json!({ "name": "none" }), json!(7)]);
    let list = json!({ "resources": all, "nextCursor": "2", "Resources": [] });
    let kept = json!({ "resources": [all[0], all[2]], "nextCursor": "2", "cacheScope": "private" });
    assert_eq!(shown(&mut desk, "resources/list", &list), kept);
    let templates = ["file:///manuals/{name}", "file:///{path}", "file:///manuals/../{name}"];
    let list = json!({ "resourceTemplates": templates.map(|it| json!({ "uriTemplate": it })) });
    let kept = json!([{ "uriTemplate": templates[0] }]);
    assert_eq!(shown(&mut desk, "resources/templates/list", &list)["resourceTemplates"], kept);
    let list = json!({ "prompts": [{ "name": "summary" }, { "name": "other" }] });
    assert_eq!(shown(&mut desk, "prompts/list", &list)["prompts"], json!([{ "name": "summary" }]));
    send(&mut desk, "bad", "prompts/list", &json!({}));
    let id = desk.wire_id();
    desk.answer(&id, &json!({ "prompts": {} }));
    assert_eq!(desk.error(&json!("bad")), (-32603, "SERVER_ANSWER".into()));
    desk.wait(Millis::from_secs(3_600));
    send(&mut desk, "late", "prompts/list", &json!({}));
    let id = desk.wire_id();
    desk.answer(&id, &list);
    assert_eq!(desk.client_got()["method"], "notifications/tools/list_changed");
    assert_eq!(desk.client_got()["result"]["prompts"], json!([]), "the session is over");
}

#[test]
fn only_capabilities_of_listed_reads_are_advertised() {
    let offered = json!({
        "tools": {}, "prompts": { "listChanged": true }, "resources": { "subscribe": true }, "completions": {},
    });
    let answered = |reads| {
        let mut desk = Desk::before_the_handshake(Setup { reads, ..Setup::default() });
        desk.send(&initialize("i"));
        let asked = desk.server_got();
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": {} });
        desk.answer(&asked["id"], &hello);
        desk.client_got()["result"]["capabilities"].clone()
    };
    assert_eq!(answered(Vec::new()), json!({ "tools": {} }));
    let expected = json!({ "tools": {}, "prompts": { "listChanged": true }, "resources": {} });
    assert_eq!(answered(entries()), expected);
}

#[test]
fn a_session_without_entries_has_no_reads() {
    let mut desk = Desk::open();
    for method in
        ["resources/read", "resources/list", "resources/templates/list", "prompts/get", "prompts/list"]
    {
        send(&mut desk, "r", method, &json!({ "uri": "file:///manuals/a", "name": "summary" }));
        assert_eq!(desk.error(&json!("r")), (-32601, "METHOD_NOT_ALLOWED".into()), "{method}");
    }
    desk.nothing_reached_the_server();
}

#[test]
fn a_read_can_need_an_approval() {
    let mut desk = desk();
    let read = json!({ "uri": "note://today" });
    send(&mut desk, "1", "resources/read", &read);
    let refused = refusal(&desk);
    assert_eq!(
        (&refused["code"], &refused["retry"]),
        (&json!("APPROVAL_REQUIRED"), &json!("after_approval"))
    );
    desk.approve(refused["approval_id"].as_str().unwrap());
    send(&mut desk, "2", "resources/read", &read);
    let asked = desk.server_got();
    assert_eq!((&asked["method"], &asked["params"]), (&json!("resources/read"), &read));
    desk.answer(&asked["id"], &json!({ "contents": [] }));
    assert_eq!(desk.client_got()["result"], json!({ "contents": [] }));
    send(&mut desk, "3", "resources/read", &read);
    assert_eq!(refusal(&desk)["code"], "APPROVAL_REQUIRED");
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED", "ACCEPT", "Returned", "APPROVAL_REQUIRED"]);
}

#[test]
fn a_tool_with_the_name_of_a_read_is_neither_shown_nor_called() {
    let mut desk = desk();
    let tools = ["prompts/get", "resources/read/manuals", "resources/reader"];
    desk.call(1, "prompts/get", &json!({ "name": "summary" }));
    assert_eq!(desk.refusal().1, "UNDISCLOSED_TOOL");
    send(&mut desk, "l", "tools/list", &json!({}));
    let id = desk.wire_id();
    desk.answer(&id, &json!({ "tools": tools.map(|name| json!({ "name": name, "inputSchema": {} })) }));
    assert_eq!(desk.client_got()["result"]["tools"], json!([]));
    assert_eq!(desk.sorted_record(), ["TOOL_NAME_RESERVED", "TOOL_NAME_RESERVED", "UNDISCLOSED_TOOL"]);
}

#[test]
fn a_cancelled_read_has_an_unknown_outcome() {
    let mut desk = desk();
    send(&mut desk, "r", "resources/read", &json!({ "uri": "file:///manuals/a" }));
    let id = desk.wire_id();
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r"}}"#);
    assert_eq!(desk.server_got()["params"]["requestId"], id);
    desk.answer(&id, &json!({ "contents": [] }));
    desk.nothing_reached_the_client();
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn a_read_of_the_stateless_era_gets_that_eras_members() {
    let mut desk = Desk::before_the_handshake(Setup { reads: entries(), ..Setup::default().patient() });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    send(&mut desk, "r", "resources/read", &json!({ "uri": "file:///manuals/a", "_meta": meta }));
    let asked = desk.server_got();
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": { "resources": {} }, "serverInfo": {} });
    desk.answer(&asked["id"], &hello);
    assert_eq!(desk.server_got()["method"], "notifications/initialized");
    let read = desk.server_got();
    assert_eq!(read["params"], json!({ "uri": "file:///manuals/a", "_meta": {} }));
    desk.answer(&read["id"], &json!({ "contents": [] }));
    let result = desk.client_got()["result"].clone();
    assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &json!(0)));
    send(&mut desk, "b", "resources/read", &json!({ "uri": "file:///etc/passwd", "_meta": meta }));
    assert_eq!(refusal(&desk)["code"], "ARGS_CONSTRAINT");
}
