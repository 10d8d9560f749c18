use std::io::Read as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};

/// Sends invalid lines, and checks the answer to each, its record, and that none reaches the server.
fn refused(cases: &[(&str, Value, i64, &str, &str)]) {
    let mut desk = Desk::open();
    for (line, id, rpc, code, recorded) in cases {
        desk.send(line);
        assert_eq!(desk.error(id), (*rpc, (*code).into()), "{line}");
        assert_eq!(desk.record().last().unwrap(), recorded, "{line}");
    }
    assert_eq!(desk.record().len(), cases.len());
    desk.nothing_reached_the_server();
}

/// Sends invalid calls, and checks that each is answered with a result and recorded as a call.
fn refused_calls(lines: &[String], code: &str) {
    let mut desk = Desk::open();
    for line in lines {
        desk.send(line);
        let (answer, answered) = desk.refusal();
        assert_eq!((&answer["id"], answered.as_str()), (&json!(7), code), "{line}");
        let decision = &answer["result"]["_meta"]["dev.countersign/decision"];
        assert!(decision["record"].is_u64(), "{line}");
        assert_eq!(desk.record().last().unwrap(), code, "{line}");
    }
    assert_eq!(desk.gate.counts().rejected(), u64::try_from(lines.len()).unwrap());
    desk.nothing_reached_the_server();
}

#[test]
fn a_malformed_tools_call_never_reaches_the_server() {
    let bad = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call"{params}}}"#);
    let lines = [
        bad(""),
        bad(r#","params":{}"#),
        bad(r#","params":{"arguments":{"q":"x"}}"#),
        bad(r#","params":{"name":7,"arguments":{}}"#),
        bad(r#","params":{"name":null}"#),
        bad(r#","params":{"name":["search"]}"#),
        bad(r#","params":{"name":"search","arguments":[]}"#),
        bad(r#","params":{"name":"search","arguments":["x"]}"#),
        bad(r#","params":{"name":"search","arguments":"{}"}"#),
        bad(r#","params":{"name":"search","arguments":null}"#),
        bad(r#","params":{"name":"search","arguments":{},"task":{"ttl":1}}"#),
        bad(r#","params":{"name":"search","NAME":"delete_ticket"}"#),
        bad(r#","params":{"name":"search","_meta":"x"}"#),
        bad(r#","params":{"name":"search","_meta":{"dev.countersign/ask":["x"]}}"#),
        bad(r#","params":[]"#),
        bad(r#","params":null"#),
        bad(r#","params":"search""#),
        bad(r#","params":{"name":"search"},"extra":1"#),
    ];
    refused_calls(&lines, "MALFORMED_CALL");
}

#[test]
fn malformed_call_is_answered_under_its_id() {
    let call = |args: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"search","arguments":{args}}}}}"#
        )
    };
    let lines = [
        call(r#"{"q":"a","q":"b"}"#),
        call(r#"{"q":"a","\u0071":"b"}"#),
        call(r#"{"q":"\ud800"}"#),
        call(r#"{"n":9007199254740993}"#),
    ];
    refused_calls(&lines, "MALFORMED_CALL");
    let long = call(&format!(r#"{{"q":"{}"}}"#, "x".repeat(4 << 20)));
    let late = format!(r#"{{"params":"{}","method":"tools\/call","id":7}}"#, "x".repeat(4 << 20));
    let deep = call(&format!("{}{}", "[".repeat(60), "]".repeat(60)));
    refused_calls(&[deep, long, late], "LIMIT_EXCEEDED");
}

#[test]
fn the_record_names_the_fault_of_a_call() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"n":9007199254740993}}}"#);
    desk.refusal();
    assert_eq!(desk.reasons(), ["the message is not strict JSON (JSON_INEXACT_NUMBER)"]);
}

#[test]
fn a_long_line_that_is_no_call_is_an_error_under_its_id() {
    let mut desk = Desk::open();
    let pad = "x".repeat(4 << 20);
    desk.send(&format!(r#"{{"jsonrpc":"2.0","method":"ping","params":{{"pad":"{pad}"}},"id":7}}"#));
    assert_eq!(desk.error(&json!(7)), (-32600, "LINE_TOO_LONG".into()));
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["LINE_TOO_LONG"]);
}

#[test]
fn unknown_methods_are_refused_unless_they_are_listed() {
    let mut cases = Vec::new();
    let methods = [
        "resources/list",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "tasks/result",
        "tools/Call",
        "x",
        "",
    ];
    let lines =
        methods.map(|method| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#));
    for line in &lines {
        cases.push((line.as_str(), json!(1), -32601, "METHOD_NOT_ALLOWED", "METHOD_NOT_ALLOWED"));
    }
    refused(&cases);

    let setup = Setup::default();
    let settings = setup.settings.clone().allow_client_method("resources/read").unwrap();
    let mut desk = Desk::with(Setup { settings, ..setup });
    desk.send(r#"{"id":1,"jsonrpc":"2.0","method":"resources/read","params":{"uri":"x:y"}}"#);
    let sent = desk.server_got();
    assert_eq!((&sent["method"], &sent["params"]), (&json!("resources/read"), &json!({ "uri": "x:y" })));
}

#[test]
fn a_notification_that_is_a_call_is_recorded_and_dropped() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search","arguments":{"q":"x"}}}"#);
    desk.send(r#"{"jsonrpc":"2.0","method":"tools/list"}"#);
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/made_up"}"#);
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#);
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["MALFORMED_CALL", "REQUEST_WITHOUT_ID", "METHOD_NOT_ALLOWED", "BAD_PARAMS"]);
    assert_eq!(desk.gate.counts().rejected(), 1);
}

#[test]
fn an_id_that_is_null_fractional_or_structured_is_refused() {
    let call = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"search","arguments":{{"q":"x"}}}}}}"#
        )
    };
    let lines = ["null", "1.5", "true", "[1]", "{}"].map(call);
    let cases: Vec<_> =
        lines.iter().map(|line| (line.as_str(), Value::Null, -32600, "RPC_ID", "MALFORMED_CALL")).collect();
    refused(&cases);
}

#[test]
fn refusal_under_an_id_in_use_waits_for_its_answer() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let call = desk.wire_id();
    desk.call(1, "search", &json!({ "q": "y" }));
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#);
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(desk.error(&Value::Null), (-32600, "RPC_ID_IN_USE".into()));
    // No other refusal is sent under that id either.
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"made/up"}"#);
    assert_eq!(desk.error(&Value::Null), (-32601, "METHOD_NOT_ALLOWED".into()));
    desk.nothing_reached_the_server();
    desk.answer(&call, &json!({ "content": ["first"] }));
    assert_eq!(desk.client_got()["result"]["content"], json!(["first"]));
    // Requests refused meanwhile are answered after it; otherwise the client would match the refusal to the first one.
    for _ in 0..2 {
        let (refusal, code) = desk.refusal();
        assert_eq!((&refusal["id"], code.as_str()), (&json!(1), "MALFORMED_CALL"));
    }
}

#[test]
fn a_call_under_a_cancelled_calls_id_is_answered() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.call(1, "search", &json!({ "q": "y" }));
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(desk.refusal().1, "MALFORMED_CALL");
    desk.call(1, "search", &json!({ "q": "z" }));
    assert_eq!(desk.server_got()["method"], "notifications/cancelled");
    assert_eq!(desk.ran(), 1);
}

#[test]
fn refusals_behind_an_id_are_answered_when_the_server_ends() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.call(1, "search", &json!({ "q": "y" }));
    desk.send(r#"{"jsonrpc":"2.0","id":2,"method":"made/up"}"#);
    assert_eq!(desk.error(&json!(2)).1, "METHOD_NOT_ALLOWED");
    desk.close_server();
    assert_eq!(desk.error(&json!(1)).1, "SERVER_ENDED");
    assert_eq!(desk.refusal().1, "MALFORMED_CALL");
}

#[test]
fn the_gateways_own_question_is_out_of_the_clients_reach() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    let asked = desk.server_got();
    let id = asked["id"].as_str().unwrap();
    desk.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{id}"}}}}"#
    ));
    // A request of that id is the client's own and conflicts with none of the gateway's.
    desk.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#));
    let ping = desk.server_got();
    assert_eq!((&ping["method"], ping["id"] != asked["id"]), (&json!("ping"), true));
    desk.answer(&ping["id"], &json!({}));
    assert_eq!(desk.client_got()["id"], asked["id"]);
    desk.answer(&asked["id"], &json!({ "tools": definitions() }));
    assert_eq!(desk.ran(), 1);
}

#[test]
fn a_batch_is_refused_whole() {
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":"x"}}}"#;
    refused(&[
        (&format!("[{call}]"), Value::Null, -32600, "BATCH", "BATCH"),
        ("[]", Value::Null, -32600, "BATCH", "BATCH"),
    ]);
}

#[test]
fn malformed_message_is_refused() {
    refused(&[
        ("7", Value::Null, -32600, "NOT_AN_OBJECT", "NOT_AN_OBJECT"),
        ("hello", Value::Null, -32700, "JSON_UNEXPECTED_BYTE", "JSON_UNEXPECTED_BYTE"),
        ("{}", Value::Null, -32600, "RPC_VERSION", "RPC_VERSION"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, json!(1), -32600, "RPC_VERSION", "RPC_VERSION"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}"#,
            json!(1),
            -32600,
            "RPC_MEMBER",
            "RPC_MEMBER",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#,
            Value::Null,
            -32700,
            "JSON_TRAILING_DATA",
            "JSON_TRAILING_DATA",
        ),
        ("\u{feff}{}", Value::Null, -32700, "JSON_BOM", "JSON_BOM"),
    ]);
    let mut desk = Desk::open();
    desk.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n");
    assert_eq!(desk.error(&Value::Null), (-32700, "JSON_INVALID_UTF8".into()));
    desk.nothing_reached_the_server();
}

#[test]
fn unexpected_answer_is_dropped_with_a_record() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    desk.send(r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x"}}"#);
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["UNEXPECTED_ANSWER", "UNEXPECTED_ANSWER"]);
}

#[test]
fn a_line_of_100_mib_is_refused_and_the_next_one_is_served() {
    let long = std::io::repeat(b'x').take(100 << 20);
    let ping: &[u8] = b"\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
    let mut desk = Desk::with_client(Setup::default(), long.chain(ping));
    assert_eq!(desk.error(&Value::Null), (-32600, "LINE_TOO_LONG".into()));
    let ping = desk.wire_id();
    desk.answer(&ping, &json!({}));
    assert_eq!(desk.client_got()["id"], 2);
    assert_eq!(desk.record(), ["LINE_TOO_LONG"]);
}

/// Members of a message, valid and invalid, as JSON text.
fn any_member(name: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.8, prop::sample::select(values))
        .prop_map(move |value| value.map(|value| format!("\"{name}\":{value}")))
}

fn any_message() -> impl Strategy<Value = String> {
    let methods = &[
        r#""ping""#,
        r#""tools/call""#,
        r#""tools/list""#,
        r#""resources/read""#,
        r#""notifications/initialized""#,
        "7",
    ];
    let params = &[
        "{}",
        "[]",
        "null",
        r#"{"name":"delete_ticket","arguments":{}}"#,
        r#"{"name":"made_up"}"#,
        r#"{"name":"delete_ticket","name":"search"}"#,
        r#"{"name":"search","arguments":[]}"#,
    ];
    let members = (
        any_member("jsonrpc", &[r#""2.0""#, r#""2.0""#, "2"]),
        any_member("id", &["1", "2", r#""a""#, "null", "1.5", "{}"]),
        any_member("method", methods),
        any_member("params", params),
        prop::option::weighted(
            0.1,
            prop::sample::select(&[r#""result":{}"#, r#""Method":"tools/call""#][..]),
        ),
        prop::sample::select(&["", "", "", "}", "{}", "[", "\r"][..]),
    );
    members.prop_map(|(version, id, method, params, extra, after)| {
        let members = [version, id, method, params, extra.map(Into::into)];
        format!("{{{}}}{after}", members.into_iter().flatten().collect::<Vec<_>>().join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn server_gets_only_canonical_allowed_messages(
        lines in prop::collection::vec(any_message(), 1..20),
    ) {
        let mut desk = Desk::open();
        for line in &lines {
            desk.send(line);
        }
        desk.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        loop {
            let line = desk.server_line();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "notifications/roots/list_changed" {
                break;
            }
            prop_assert_eq!(&message["jsonrpc"], "2.0");
            let method = message["method"].as_str().unwrap();
            prop_assert!(["ping", "tools/list", "notifications/initialized"].contains(&method), "{}", line);
            let canonical = crate::tests::json(&line);
            prop_assert_eq!(canonical.as_str(), line);
        }
    }
}

#[test]
fn blank_lines_and_line_ends_of_both_kinds_do_no_harm() {
    let mut desk = Desk::open();
    desk.send_bytes(b"\n\r\n  \n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n");
    assert_eq!(desk.server_got()["method"], "ping");
    assert!(desk.record().is_empty());
}

#[test]
fn invented_method_name_is_recorded_escaped() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"a\u001b[2J\n\u202e"}"#);
    desk.client_got();
    desk.stop.wait_recorded();
    let records = desk.sink.latest();
    let shown = serde_json::to_string(&records.last().unwrap().1).unwrap();
    assert!(shown.contains("METHOD_NOT_ALLOWED") && shown.contains(r"u{1b}[2J"), "{shown}");
    assert!(!shown.contains('\u{202e}') && !shown.contains(r"\u001b"), "{shown}");
}
