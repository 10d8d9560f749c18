//! Messages of Streamable HTTP: what a post becomes, and where a line of the gateway goes.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{PostedHeaders, PostedMessage, ReturnPlace, ReturnedLine, cancel_line};

const MOST: usize = 1 << 20;

fn posted(body: &Value) -> PostedMessage {
    PostedMessage::read(body.to_string().as_bytes(), MOST).unwrap()
}

fn line(posted: &PostedMessage, own: &str) -> Value {
    serde_json::from_slice(&posted.line(own)).unwrap()
}

fn returned(line: &Value) -> ReturnedLine {
    ReturnedLine::read(line.to_string().into_bytes())
}

fn call(id: u64, meta: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "search", "arguments": {"id": 1}, "_meta": meta}})
}

fn stateless() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "mine",
    })
}

#[test]
fn a_request_gets_an_id_and_a_token_of_the_session() {
    let posted = posted(&call(7, &stateless()));
    assert_eq!((posted.called_tool(), posted.lists_tools()), (Some("search"), false));
    assert_eq!((posted.id().as_deref(), posted.progress_token()), (Some("7"), Some("\"mine\"")));
    assert!(posted.is_stateless() && !posted.is_initialize());
    let line = line(&posted, "post-1");
    assert_eq!(
        (&line["id"], &line["params"]["_meta"]["progressToken"]),
        (&json!("post-1"), &json!("post-1"))
    );
    assert_eq!(line["params"]["arguments"], json!({"id": 1}));
}

#[test]
fn rules_for_headers_of_arguments_are_checked() {
    let is_valid = |properties: Value, more: Value| {
        let schema = json!({"type": "object", "properties": properties, "allOf": more});
        let tools =
            json!({"jsonrpc": "2.0", "id": "l", "result": {"tools": [{"name": "t", "inputSchema": schema}]}});
        returned(&tools).header_params().pop().unwrap().1.is_valid()
    };
    let of = |kind: &str, header: &Value| json!({"type": kind, "x-mcp-header": header});
    for kind in ["string", "integer", "boolean"] {
        assert!(
            is_valid(json!({"a": of(kind, &json!("Region")), "b": {"type": "number"}}), json!([])),
            "{kind}"
        );
    }
    assert!(is_valid(
        json!({"a": {"type": "object", "properties": {"b": of("string", &json!("B"))}}}),
        json!([])
    ));
    for kind in ["number", "object", "array", "null"] {
        assert!(!is_valid(json!({"a": of(kind, &json!("Region"))}), json!([])), "{kind}");
    }
    for header in
        [json!(""), json!("a b"), json!("a:"), json!("a\nb"), json!("\u{e9}"), json!(1), Value::Null]
    {
        assert!(!is_valid(json!({"a": of("string", &header)}), json!([])), "{header}");
    }
    let twice = json!({"a": of("string", &json!("Region")), "b": of("string", &json!("REGION"))});
    assert!(!is_valid(twice, json!([])));
    let elsewhere = json!([{"properties": {"a": of("string", &json!("Region"))}}]);
    assert!(!is_valid(json!({}), elsewhere), "only `properties` lead to it");
}

#[test]
fn tools_with_invalid_headers_are_cut_out() {
    let tool = |name: &str, header: &str| {
        let property = json!({"type": "string", "x-mcp-header": header});
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"a": property}}})
    };
    let plain = json!({"name": "plain", "inputSchema": {"type": "object"}});
    let tools = json!([tool("bad", "a b"), tool("good", "Region"), plain, tool("worse", "")]);
    let mut list = returned(&json!({"jsonrpc": "2.0", "id": "l", "result": {"tools": tools}}));
    assert_eq!(list.cut_invalid_tools(), 2);
    let line: Value = serde_json::from_slice(&list.into_bytes()).unwrap();
    assert_eq!(line["result"]["tools"], json!([tool("good", "Region"), plain]));
}

#[test]
fn a_cancellation_names_the_sessions_id() {
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7, "reason": "x"}});
    let posted = posted(&cancel);
    assert_eq!((posted.cancels(), posted.id()), (Some("7"), None));
    assert_eq!(line(&posted, "post-1")["params"], json!({"requestId": "post-1", "reason": "x"}));
    let own: Value = serde_json::from_slice(&cancel_line("post-1")).unwrap();
    assert_eq!(own["params"], json!({"requestId": "post-1"}));
}

#[test]
fn other_messages_pass_as_they_are() {
    for message in [
        json!({"jsonrpc": "2.0", "id": 3, "result": {"roots": []}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 3, "progress": 1}}),
    ] {
        let posted = posted(&message);
        assert_eq!(line(&posted, "post-1"), message);
        assert!(!posted.is_stateless());
    }
}

#[test]
fn an_unreadable_body_stays_unreadable_as_a_line() {
    for (body, id) in [
        ("{", json!(null)),
        ("[]", json!(null)),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"a\nb\"}}", json!(5)),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"x\",\"method\":\"y\"}", json!(5)),
        ("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"x\",\n\"more\":1}", json!(5)),
    ] {
        let unreadable = PostedMessage::read(body.as_bytes(), MOST).unwrap_err();
        let error: Value = serde_json::from_str(&unreadable.error).unwrap();
        assert!(error["error"]["code"].as_i64().is_some() && error["id"] == id, "{error}");
        assert!(!unreadable.line.contains(&b'\n'));
        PostedMessage::read(&unreadable.line, MOST).unwrap_err();
    }
    PostedMessage::read(&vec![b' '; MOST + 1], MOST).unwrap_err();
}

#[test]
fn a_header_that_differs_from_the_body_is_refused() {
    let headers = |version, method, name| {
        let mut headers = PostedHeaders::default();
        (headers.version, headers.method, headers.name) = (version, method, name);
        headers
    };
    let (version, method, name) = (Some("2026-07-28"), Some("tools/call"), Some("search"));
    let posted = posted(&call(7, &stateless()));
    posted.check_headers(headers(version, method, name)).unwrap();
    for (wrong, header) in [
        (headers(None, method, name), "MCP-Protocol-Version"),
        (headers(Some("2025-11-25"), method, name), "MCP-Protocol-Version"),
        (headers(version, Some("tools/list"), name), "Mcp-Method"),
        (headers(version, None, name), "Mcp-Method"),
        (headers(version, method, Some("Search")), "Mcp-Name"),
        (headers(version, method, None), "Mcp-Name"),
    ] {
        let error: Value = serde_json::from_str(&posted.check_headers(wrong).unwrap_err()).unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-32_020)), "{error}");
        assert_eq!(error["error"]["data"], json!({"code": "HEADER_MISMATCH", "header": header}));
    }
}

#[test]
fn a_request_without_its_metadata_has_invalid_params() {
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"});
    let version = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    for body in [bare, call(1, &version)] {
        let posted = posted(&body);
        assert!(posted.is_stateless());
        let error = posted.check_headers(PostedHeaders::default()).unwrap_err();
        assert_eq!(serde_json::from_str::<Value>(&error).unwrap()["error"]["code"], json!(-32_602));
    }
}

#[test]
fn headers_repeat_the_arguments_that_the_schema_marks() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "Never"}},
    }});
    let tools = json!([{"name": "search", "inputSchema": schema}, {"name": "plain"}]);
    let listed =
        returned(&json!({"jsonrpc": "2.0", "id": "post-1", "result": {"tools": tools}})).header_params();
    let [(tool, params)] = &*listed else { panic!("{listed:?}") };
    assert_eq!(tool, "search");
    let arguments = |arguments: Value| {
        let mut call = call(1, &stateless());
        call["params"]["arguments"] = arguments;
        posted(&call)
    };
    let full = arguments(json!({"region": "us west", "deep": {"count": 42}, "dry": true, "list": ["x"]}));
    let check = |posted: &PostedMessage, headers: &[(&str, Option<&str>)]| {
        let header = |name: &str| {
            let found = headers.iter().find(|(header, _)| *header == name);
            found.map(|(_, value)| value.map(ToOwned::to_owned))
        };
        posted.check_params(params, header).is_ok()
    };
    let good = [("Region", Some("us west")), ("Count", Some("42.0")), ("Dry", Some("true"))];
    assert!(check(&full, &good));
    for (at, wrong) in [(0, Some("us")), (0, None), (1, Some("43")), (1, Some("inf")), (2, Some("TRUE"))] {
        let mut headers = good;
        headers[at].1 = wrong;
        assert!(!check(&full, &headers), "{headers:?}");
    }
    assert!(!check(&full, &good[..2]), "a header is missing");
    let null = arguments(json!({"region": null}));
    assert!(check(&null, &[]) && !check(&null, &good[..1]), "a header without a value is refused");
}

#[test]
fn a_line_goes_to_the_response_that_it_belongs_to() {
    let notification =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let subscribed = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": "post-2"}});
    for (line, place) in [
        (json!({"jsonrpc": "2.0", "id": "post-1", "result": {}}), ReturnPlace::Answer("post-1".into())),
        (
            notification("notifications/progress", json!({"progressToken": "post-3", "progress": 1})),
            ReturnPlace::Request("post-3".into()),
        ),
        (notification("notifications/tools/list_changed", subscribed), ReturnPlace::Request("post-2".into())),
        (notification("notifications/tools/list_changed", json!({})), ReturnPlace::Session),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}),
            ReturnPlace::Session,
        ),
        (json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}), ReturnPlace::Nowhere),
        (json!({"jsonrpc": "2.0", "id": 5, "result": {}}), ReturnPlace::Nowhere),
        (json!(17), ReturnPlace::Nowhere),
    ] {
        assert_eq!(*returned(&line).place(), place, "{line}");
    }
}

#[test]
fn the_client_gets_its_own_id_and_token() {
    let client = |line: &Value, id: &str, token: Option<&str>| -> Value {
        serde_json::from_slice(&returned(line).for_client(id, token)).unwrap()
    };
    let answer = json!({"jsonrpc": "2.0", "id": "post-1", "result": {"id": "post-1"}});
    assert_eq!(client(&answer, "7", None), json!({"jsonrpc": "2.0", "id": 7, "result": {"id": "post-1"}}));
    let progress =
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "post-1"}});
    assert_eq!(client(&progress, "7", Some("\"t\""))["params"]["progressToken"], json!("t"));
    let meta = json!({"io.modelcontextprotocol/subscriptionId": "post-1"});
    let changed =
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}});
    let named = &client(&changed, "7", None)["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*named, json!(7));
}

#[test]
fn errors_of_the_stateless_era_have_a_status() {
    for (code, status) in [(-32_601, 404), (-32_020, 400), (-32_022, 400), (-32_603, 200), (429, 200)] {
        let error = json!({"jsonrpc": "2.0", "id": "post-1", "error": {"code": code, "message": "x"}});
        assert_eq!(returned(&error).status(), status, "{code}");
    }
    let hello = returned(&json!({"jsonrpc": "2.0", "id": "a", "result": {"protocolVersion": "2025-11-25"}}));
    assert_eq!((hello.status(), hello.version()), (200, Some("2025-11-25")));
}

proptest! {
    #[test]
    fn an_answer_is_changed_in_its_id_alone(body in r#"[ \t]{0,3}"\PC{0,40}|1\.0|1e2|-0"#, id in 0_u64..9) {
        let text = format!(r#"{{ "result" : {{"x": {}, "n":1.00}}, "jsonrpc":"2.0","id":"post-4"}}"#, json!(body));
        let line = ReturnedLine::read(text.clone().into_bytes());
        let expected = text.replace("\"id\":\"post-4\"", &format!("\"id\":{id}"));
        prop_assert_eq!(line.for_client(&id.to_string(), None), expected.into_bytes());
    }

    #[test]
    fn no_body_makes_the_reader_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(unreadable) = PostedMessage::read(&body, MOST) {
            prop_assert!(!unreadable.line.contains(&b'\n'));
        }
        let line = ReturnedLine::read(body);
        let _ = line.for_client("1", None);
    }
}
