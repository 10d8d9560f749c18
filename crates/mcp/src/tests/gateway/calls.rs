use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use countersign_audit_log::Record;
use countersign_tool_gate::RejectionCode;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::desk::{Desk, GOAL, Setup, definitions};

#[test]
fn result_of_an_accepted_call_passes_byte_for_byte() {
    let mut desk = Desk::open();
    desk.send(
        r#"{"method":"tools/call","params":{"arguments":{"q":"x","n":1.50},"name":"search","_meta":{"progressToken":"p1"}},"jsonrpc":"2.0","id":1}"#,
    );
    desk.list(&definitions());
    let call = desk.server_line();
    let (wire, params) = call.split_once(',').unwrap();
    assert_eq!(
        params,
        concat!(
            r#""jsonrpc":"2.0","method":"tools/call","params":"#,
            r#"{"_meta":{"progressToken":"p1"},"arguments":{"n":1.5,"q":"x"},"name":"search"}}"#
        )
    );
    let result = r#"{ "result":{"content":[{"text":"π \u00e9 1e2","type":"text"}],"x":9007199254740993}, "id":1,"jsonrpc":"2.0" }"#;
    desk.serve(&result.replace(r#""id":1"#, wire.trim_start_matches('{')));
    assert_eq!(desk.client_line(), result);
    assert_eq!(desk.record(), ["ACCEPT", "Returned"]);
}

#[test]
fn undisclosed_tool_is_refused_like_a_missing_one() {
    let mut desk = Desk::open();
    let mut texts = Vec::new();
    for name in ["delete_ticket", "drop_tables", "search ", "SEARCH", "desk:search", ""] {
        desk.call(1, name, &json!({}));
        let (line, code) = desk.refusal();
        assert_eq!(line["id"], 1);
        if code == "UNDISCLOSED_TOOL" {
            texts.push(line["result"]["content"].clone());
        } else {
            assert_eq!(code, "MALFORMED_CALL", "{name}");
        }
    }
    assert!(texts.len() >= 3 && texts.iter().all(|text| text == &texts[0]), "{texts:?}");
    desk.nothing_reached_the_server();
    assert_eq!(desk.gate.counts().rejected(), 6);
}

#[test]
fn invented_tools_never_reach_the_server() {
    let mut desk = Desk::open();
    for number in 0..50 {
        desk.call(number, &format!("tool_{number}"), &json!({ "q": "x" }));
        let (line, code) = desk.refusal();
        assert_eq!((line["id"].as_i64(), code.as_str()), (Some(number), "UNDISCLOSED_TOOL"));
    }
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["UNDISCLOSED_TOOL"; 50]);
    assert_eq!(desk.gate.attempted_undisclosed().count(), 50);
}

#[test]
fn refused_arguments_are_not_echoed() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": 7, "secret": "hunter2" }));
    desk.list(&definitions());
    let (line, code) = desk.refusal();
    assert_eq!(code, "ARGS_SCHEMA");
    assert!(!line.to_string().contains("hunter2") && !line.to_string().contains("secret"), "{line}");
    // The message may nest deeper than arguments; the gate still applies its own limit to the arguments.
    let deep = format!("{}1{}", "[".repeat(33), "]".repeat(33));
    let params = format!(r#"{{"name":"search","arguments":{{"q":"x","deep":{deep}}}}}"#);
    desk.send(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#));
    assert_eq!(desk.refusal().1, "LIMIT_EXCEEDED");
    desk.nothing_reached_the_server();
}

#[test]
fn a_call_without_arguments_is_a_call_with_none() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"summarize"}}"#);
    desk.list(&definitions());
    let call = desk.run_call();
    assert_eq!(call["params"], json!({ "name": "summarize", "arguments": {} }));
    assert_eq!(desk.client_got()["id"], "a");
}

#[test]
fn goal_is_stripped_before_the_server() {
    let mut desk = Desk::open();
    let call = |id: u64, meta: &serde_json::Value| {
        let params = json!({ "name": "send_email", "arguments": {}, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    };
    desk.send(&call(1, &json!({})));
    desk.list(&definitions());
    assert_eq!(desk.refusal().1, "ASK_REQUIRED");
    desk.send(&call(2, &json!({ "dev.countersign/ask": "Mail all tickets to eve." })));
    assert_eq!(desk.refusal().1, "ASK_DRIFT");
    desk.send(&call(
        3,
        &json!({ "dev.countersign/ask": GOAL, "dev.countersign/other": 1, "progressToken": 5 }),
    ));
    let sent = desk.run_call();
    assert_eq!(sent["params"]["_meta"], json!({ "progressToken": 5 }));
    assert_eq!(desk.client_got()["id"], 3);
    desk.send(&call(4, &json!({ "dev.countersign/ask": GOAL })));
    assert_eq!(desk.run_call()["params"].get("_meta"), None);
    assert_eq!(desk.client_got()["id"], 4);
}

#[test]
fn tool_or_protocol_error_passes_unchanged() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let failed =
        |id: &Value| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"isError":true,"content":[]}}}}"#);
    let wire = desk.wire_id();
    desk.serve(&failed(&wire));
    assert_eq!(desk.client_line(), failed(&json!(1)));
    desk.call(2, "search", &json!({ "q": "x" }));
    let error = |id: &Value| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no","data":{{"k":[1]}}}}}}"#
        )
    };
    let wire = desk.wire_id();
    desk.serve(&error(&wire));
    assert_eq!(desk.client_line(), error(&json!(2)));
    assert_eq!(desk.record(), ["ACCEPT", "Failed", "ACCEPT", "Failed"]);
}

#[test]
fn a_revoked_agent_is_refused_at_the_next_call() {
    let mut desk = Desk::open();
    desk.call(1, "summarize", &json!({}));
    desk.list(&definitions());
    desk.run_call();
    desk.client_got();
    desk.registry.revoke(desk.gate.contract().agent());
    desk.call(2, "summarize", &json!({}));
    assert_eq!(desk.refusal().1, "AGENT_REVOKED");
    desk.send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    desk.list(&definitions());
    assert_eq!(desk.client_got()["result"]["tools"], json!([]));
}

#[test]
fn the_registry_can_be_loaded_again_before_each_call() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let before_call = Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let mut desk = Desk::with(Setup { before_call, ..Setup::default().patient() });
    for id in 1..=3 {
        desk.call(id, "made_up", &json!({}));
        desk.refusal();
    }
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

/// Opens a desk whose server has listed its tools. Returns the names of the threads that decide later calls, and the lock
/// that they take before.
fn deciding_threads(waits_for_disk: bool) -> (Desk, Receiver<String>, Arc<Mutex<()>>) {
    let (sender, threads) = channel();
    let hold = Arc::new(Mutex::new(()));
    let held = Arc::clone(&hold);
    let before_call = Box::new(move || {
        sender.send(thread::current().name().unwrap_or_default().to_owned()).unwrap();
        drop(held.lock());
    });
    let mut desk = Desk::with(Setup { before_call, waits_for_disk, ..Setup::default().patient() });
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.ran();
    while threads.try_recv().is_ok() {}
    (desk, threads, hold)
}

#[test]
fn call_that_waits_for_nothing_is_decided_by_its_reader() {
    let (mut desk, threads, _) = deciding_threads(false);
    let deciding = || threads.try_iter().collect::<Vec<_>>();
    // The thread that decided the first call may still be about to wait for the next one.
    let by_reader = (100..200).any(|id| {
        desk.call(id, "search", &json!({ "q": "x" }));
        assert_eq!(desk.ran(), id);
        deciding() == ["countersign-client-in"]
    });
    assert!(by_reader);
    desk.call(3, "refund", &json!({ "amount": 10, "ticket": 7 }));
    assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
    assert_eq!(deciding(), ["countersign-calls"]);
    desk.call(4, "delete_ticket", &json!({}));
    assert_eq!(desk.refusal().1, "UNDISCLOSED_TOOL");
    assert_eq!(deciding(), ["countersign-calls"]);
    desk.call(5, "search", &json!({ "q": "x", "__pic": {} }));
    assert_eq!(desk.ran(), 5);
    assert_eq!(deciding(), ["countersign-calls"], "evidence can take long");
}

#[test]
fn call_that_can_wait_for_a_disk_is_not_decided_by_its_reader() {
    let (mut desk, threads, _) = deciding_threads(true);
    desk.call(2, "search", &json!({ "q": "x" }));
    assert_eq!(desk.ran(), 2);
    assert_eq!(threads.try_iter().next().as_deref(), Some("countersign-calls"));
}

#[test]
fn call_does_not_overtake_one_that_is_being_decided() {
    let (mut desk, threads, hold) = deciding_threads(false);
    let held = hold.lock();
    desk.call(2, "refund", &json!({ "amount": 10, "ticket": 7 }));
    assert_eq!(threads.recv().unwrap(), "countersign-calls");
    desk.call(3, "search", &json!({ "q": "x" }));
    desk.send(r#"{"jsonrpc":"2.0","id":4,"method":"resources/list"}"#);
    assert_eq!(desk.error(&json!(4)).1, "METHOD_NOT_ALLOWED", "the client is still read");
    assert!(threads.try_recv().is_err(), "the second call waits");
    drop(held);
    assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
    assert_eq!(desk.ran(), 3);
    assert_eq!(threads.try_iter().next().as_deref(), Some("countersign-calls"));
}

#[test]
fn host_failure_refuses_the_call_as_internal() {
    let setup = Setup { new_call_id: Some(Box::new(|| Err(crate::CallIdError::new()))), ..Setup::default() };
    let mut desk = Desk::with(setup);
    desk.call(1, "made_up", &json!({}));
    assert_eq!(desk.error(&json!(1)), (-32603, "INTERNAL".into()));
    desk.nothing_reached_the_server();

    let mut desk =
        Desk::with(Setup { before_call: Box::new(|| panic!("the host's fault")), ..Setup::default() });
    desk.call(1, "search", &json!({ "q": "x" }));
    assert_eq!(desk.error(&json!(1)), (-32603, "INTERNAL".into()));
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["INTERNAL"]);
}

#[test]
fn a_clock_that_fails_refuses_the_call() {
    let mut desk = Desk::open();
    desk.clock.break_down();
    desk.call(1, "made_up", &json!({}));
    assert_eq!(desk.refusal().1, "INTERNAL");
    desk.send(r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#);
    assert_eq!(desk.error(&json!(2)), (-32601, "METHOD_NOT_ALLOWED".into()));
}

#[test]
fn a_cancelled_call_is_unknown_and_its_late_answer_is_dropped() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let call = desk.wire_id();
    let cancelled = |id: &Value| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"bored","requestId":{id}}}}}"#
        )
    };
    desk.send(&cancelled(&json!(1)));
    assert_eq!(desk.server_line(), cancelled(&call));
    desk.answer(&call, &json!({ "content": [] }));
    desk.nothing_reached_the_client();
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn call_cancelled_before_its_decision_is_never_sent() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    let asked = desk.server_got();
    assert_eq!(asked["method"], "tools/list");
    desk.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    desk.nothing_reached_the_server();
    desk.answer(&asked["id"], &json!({ "tools": definitions() }));
    desk.call(2, "summarize", &json!({}));
    assert_eq!(desk.ran(), 2);
}

#[test]
fn other_messages_pass_while_a_call_waits_for_the_list_of_tools() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    let asked = desk.server_got();
    // The server asks for the client's roots before it lists its tools.
    desk.serve(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    assert_eq!(desk.client_got()["method"], "roots/list");
    desk.send(r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#);
    assert_eq!(desk.server_got()["result"], json!({ "roots": [] }));
    desk.answer(&asked["id"], &json!({ "tools": definitions() }));
    assert_eq!(desk.ran(), 1);
}

#[test]
fn more_calls_than_may_be_outstanding_are_refused() {
    let limits = |limits: crate::GatewayLimits| limits.outstanding(2).unwrap();
    let mut desk = Desk::with(Setup::default().patient().limits(limits));
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.server_got();
    desk.call(2, "search", &json!({ "q": "x" }));
    assert_eq!(desk.error(&json!(2)), (429, "TOO_MANY_REQUESTS".into()));
    assert_eq!(desk.record(), ["TOO_MANY_REQUESTS"]);
}

#[test]
fn silent_server_raises_no_alarm() {
    let limits = |limits: crate::GatewayLimits| limits.outstanding(1).unwrap();
    let mut desk = Desk::with(Setup::default().patient().limits(limits));
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.server_got();
    for id in 2..202 {
        desk.call(id, "search", &json!({ "q": "x" }));
        assert_eq!(desk.error(&json!(id)), (429, "TOO_MANY_REQUESTS".into()));
    }
    let stats = desk.gate.stats().snapshot();
    assert_eq!((stats.agents[0].alarm_level, stats.agents[0].alarm_raised), (0.0, None));
    assert_eq!(desk.gate.counts().rejected_with(RejectionCode::TooManyRequests), 200);
}

#[test]
fn a_session_that_is_over_refuses_every_call() {
    let mut desk = Desk::open();
    desk.end_session();
    desk.call(1, "made_up", &json!({}));
    let (line, code) = desk.refusal();
    assert_eq!(code, "CONTRACT_EXPIRED");
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with(" Start this server again in the MCP client to open a new session."), "{text}");
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["retry"], "never");
}

#[test]
fn invalid_trace_is_forwarded_but_not_recorded() {
    let mut desk = Desk::open();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let given =
        [json!(trace), json!(trace.to_uppercase()), json!(7), json!(null), json!("x".repeat(100_000))];
    for (id, trace) in (1..).zip(&given) {
        let meta = json!({ "traceparent": trace, "tracestate": "a=b" });
        desk.call_with(id, "search", &json!({ "q": "x" }), &meta);
        if id == 1 {
            desk.list(&definitions());
        }
        assert_eq!(desk.run_call()["params"]["_meta"], meta);
    }
    let traces = desk.sink.latest().into_iter().filter_map(|(_, record)| {
        let Record::Decision(call) = record else { return None };
        Some(call.trace.map(|trace| trace.as_str().to_owned()))
    });
    assert_eq!(traces.collect::<Vec<_>>(), [Some(trace.to_owned()), None, None, None, None]);
}
