use std::io::{self, Read};
use std::sync::mpsc::channel;
use std::time::Duration;

use countersign_audit_log::{EndReason, Record};
use countersign_core::CallId;
use parking_lot::Mutex;
use serde_json::json;

use super::desk::{Desk, Setup, definitions};
use super::plans::{planned, submit};
use crate::GatewayEnd;

#[test]
fn server_death_fails_every_outstanding_request() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    desk.server_got();
    desk.close_server();
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ENDED".into()));
    assert_eq!(desk.error(&json!(2)), (-32603, "SERVER_ENDED".into()));
    assert_eq!(desk.ended(), GatewayEnd::ServerEnded);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
    // Later requests get the same answer.
    desk.send(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert_eq!(desk.error(&json!(3)), (-32603, "SERVER_ENDED".into()));
    desk.call(4, "search", &json!({ "q": "x" }));
    assert_eq!(desk.error(&json!(4)), (-32603, "SERVER_ENDED".into()));
}

/// The last record, which must be the session's end.
fn end_on_record(desk: &Desk) -> EndReason {
    let records = desk.sink.latest();
    let ends = records.iter().filter(|(_, record)| matches!(record, Record::End(_))).count();
    let Some((_, Record::End(end))) = records.last() else { panic!("{records:?}") };
    assert_eq!(ends, 1);
    end.reason
}

#[test]
fn session_end_is_recorded_behind_outcomes_and_sums() {
    type Way = (fn(&mut Desk), EndReason);
    let ways: [Way; 3] = [
        (|desk| desk.close_client(), EndReason::Client),
        (|desk| desk.close_server(), EndReason::Server),
        (|desk| desk.stop.stop(Duration::from_millis(50)), EndReason::Signal),
    ];
    for (end, reason) in ways {
        let mut desk = Desk::open();
        desk.call(1, "search", &json!({ "q": "x" }));
        desk.list(&definitions());
        desk.server_got();
        for _ in 0..100 {
            desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/made_up"}"#);
        }
        desk.nothing_reached_the_client();
        end(&mut desk);
        desk.ended();
        assert_eq!(end_on_record(&desk), reason);
        let is_sum = |(_, record): &(u64, Record)| matches!(record, Record::Refused(_));
        assert!(
            desk.record().contains(&"Unknown".into()) && desk.sink.latest().iter().any(is_sum),
            "{reason:?}"
        );
    }
}

#[test]
fn a_client_that_ends_because_the_server_did_ended_second() {
    for _ in 0..30 {
        let mut desk = Desk::open();
        desk.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
        desk.server_got();
        desk.close_server();
        assert_eq!(desk.error(&json!(2)), (-32603, "SERVER_ENDED".into()));
        desk.close_client();
        assert_eq!(desk.ended(), GatewayEnd::ServerEnded);
    }
}

#[test]
fn server_death_cancels_an_undecided_call() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.server_got();
    desk.close_server();
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ENDED".into()));
    assert_eq!(desk.ended(), GatewayEnd::ServerEnded);
    assert!(!desk.record().contains(&"ACCEPT".into()));
}

#[test]
fn call_decided_during_server_death_is_recorded() {
    let ((deciding, begun), (go_on, told)) = (channel(), channel());
    let told = Mutex::new(told);
    let mut desk = Desk::with(Setup {
        new_call_id: Some(Box::new(move || {
            let _ = deciding.send(());
            let _ = told.lock().recv_timeout(Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(100));
            Ok(CallId::new("call-1").unwrap())
        })),
        ..Setup::default()
    });
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    begun.recv_timeout(Duration::from_secs(20)).unwrap();
    desk.close_server();
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ENDED".into()));
    go_on.send(()).unwrap();
    assert_eq!(desk.ended(), GatewayEnd::ServerEnded);
    assert_eq!(desk.record(), ["ACCEPT", "NotRun"]);
}

#[test]
fn message_cut_by_server_death_is_not_forwarded() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    desk.server_got();
    desk.serve_bytes(br#"{"jsonrpc":"2.0","id":1,"resu"#);
    desk.close_server();
    assert_eq!(desk.error(&json!(1)), (-32603, "SERVER_ENDED".into()));
    assert_eq!(desk.record(), ["JSON_UNEXPECTED_END"]);
}

#[test]
fn last_answers_are_delivered_after_the_client_leaves() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let call = desk.wire_id();
    desk.close_client();
    desk.server_sees_the_end();
    desk.answer(&call, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 1);
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
    assert_eq!(desk.record(), ["ACCEPT", "Returned"]);
}

#[test]
fn slow_outcome_record_does_not_lose_the_last_answer() {
    let outcome_takes = std::time::Duration::from_millis(300);
    let mut desk = Desk::with(Setup { outcome_takes, ..Setup::default() });
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let call = desk.wire_id();
    desk.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    let ping = desk.wire_id();
    desk.close_client();
    desk.server_sees_the_end();
    desk.answer(&ping, &json!({}));
    desk.answer(&call, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 2);
    assert_eq!(desk.client_got()["id"], 1);
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
}

#[test]
fn client_that_writes_all_at_once_gets_every_answer() {
    let lines = concat!(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"summarize\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"made_up\"}}"
    );
    let mut desk = Desk::with(Setup::default());
    desk.send_bytes(lines.as_bytes());
    desk.close_client();
    desk.list(&definitions());
    desk.run_call();
    let mut ids = [desk.client_got(), desk.client_got()].map(|line| line["id"].as_i64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
}

#[test]
fn drain_after_the_client_left_is_limited() {
    let short =
        |limits: crate::GatewayLimits| limits.drain(countersign_core::Millis::new(100).unwrap()).unwrap();
    let mut desk = Desk::with(Setup::default().patient().limits(short));
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.close_client();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn client_that_stops_reading_ends_the_gateway() {
    let (client_in, client) = io::pipe().unwrap();
    let mut desk = Desk::with_client_that_is_deaf(Setup::default(), client_in);
    desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    desk.server_sees_the_end();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
    drop(client);
}

#[test]
fn a_client_that_cannot_be_read_has_left() {
    #[derive(Debug)]
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let mut desk = Desk::with_client(Setup::default(), Broken);
    desk.server_sees_the_end();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
}

#[test]
fn a_stopped_gateway_lets_calls_in_flight_be_answered() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let call = desk.wire_id();
    desk.stop.stop(Duration::from_secs(3_600));
    desk.call(2, "search", &json!({ "q": "y" }));
    assert_eq!(desk.error(&json!(2)), (-32603, "GATEWAY_STOPPED".into()));
    desk.stop.wait_recorded();
    desk.answer(&call, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 1);
    desk.server_sees_the_end();
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
    assert_eq!(desk.record(), ["ACCEPT", "GATEWAY_STOPPED", "Returned"]);
}

#[test]
fn a_stopped_gateway_waits_only_so_long() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.stop.stop(Duration::from_millis(50));
    assert_eq!(desk.error(&json!(1)), (-32603, "GATEWAY_STOPPED".into()));
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn a_gateway_that_is_stopped_twice_waits_no_longer() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.stop.stop(Duration::from_secs(3_600));
    desk.stop.stop(Duration::from_secs(3_600));
    assert_eq!(desk.error(&json!(1)), (-32603, "GATEWAY_STOPPED".into()));
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
}

#[test]
fn a_stop_ends_the_wait_of_a_gateway_whose_client_left() {
    let hour = |limits: crate::GatewayLimits| limits.drain(countersign_core::Millis::from_secs(60)).unwrap();
    let mut desk = Desk::with(Setup::default().patient().limits(hour));
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.close_client();
    desk.server_sees_the_end();
    desk.stop.stop(Duration::from_millis(50));
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn a_call_that_waits_for_its_decision_at_the_stop_is_refused() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    let asked = desk.server_got();
    desk.call(2, "search", &json!({ "q": "y" }));
    // Its answer shows that the calls before it were read.
    desk.send(r#"{"jsonrpc":"2.0","id":3,"method":"resources/list"}"#);
    assert_eq!(desk.error(&json!(3)).0, -32601);
    desk.stop.stop(Duration::from_secs(3_600));
    desk.answer(&asked["id"], &json!({ "tools": definitions() }));
    // The thread that refuses the second call depends on timing.
    let mut refused = [desk.client_got(), desk.client_got()]
        .map(|line| (line["id"].as_i64(), line["error"]["data"]["code"].clone()));
    refused.sort_by_key(|(id, _)| *id);
    assert_eq!(refused, [1, 2].map(|id| (Some(id), json!("GATEWAY_STOPPED"))));
    desk.server_sees_the_end();
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
    assert_eq!(desk.record(), ["METHOD_NOT_ALLOWED", "GATEWAY_STOPPED", "GATEWAY_STOPPED"]);
}

#[test]
fn call_whose_list_never_comes_before_the_stop_is_recorded() {
    let mut desk = Desk::open();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.server_got();
    desk.stop.stop(Duration::from_millis(50));
    assert_eq!(desk.error(&json!(1)), (-32603, "GATEWAY_STOPPED".into()));
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
    assert_eq!(desk.record(), ["GATEWAY_STOPPED"]);
}

#[test]
fn plan_that_waits_for_the_list_at_the_stop_is_refused() {
    let mut desk = planned();
    submit(&mut desk, 1, &json!([{ "tool": "search", "args": { "q": "x" } }]));
    let asked = desk.server_got();
    desk.stop.stop(Duration::from_secs(3_600));
    desk.answer(&asked["id"], &json!({ "tools": definitions() }));
    assert_eq!(desk.error(&json!(1)), (-32603, "GATEWAY_STOPPED".into()));
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
    assert_eq!(desk.record(), ["GATEWAY_STOPPED"]);
}

#[test]
fn outcomes_are_recorded_if_client_then_server_leave() {
    let outcome_takes = Duration::from_millis(100);
    let mut desk = Desk::with(Setup { outcome_takes, ..Setup::default().patient() });
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    for id in [2, 3] {
        desk.call(id, "search", &json!({ "q": "x" }));
        desk.server_got();
    }
    desk.close_client();
    desk.server_sees_the_end();
    desk.close_server();
    assert_eq!(desk.ended(), GatewayEnd::ClientClosed);
    for id in 1..=3 {
        assert_eq!(desk.error(&json!(id)), (-32603, "SERVER_ENDED".into()));
    }
    assert_eq!(desk.record(), ["ACCEPT", "ACCEPT", "ACCEPT", "Unknown", "Unknown", "Unknown"]);
}

const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;

#[test]
fn cancellation_is_recorded_before_the_server_gets_it() {
    let outcome_takes = Duration::from_millis(200);
    let mut desk = Desk::with(Setup { outcome_takes, ..Setup::default().patient() });
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.send(CANCEL);
    assert_eq!(desk.server_got()["method"], "notifications/cancelled");
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn outcome_of_a_call_cancelled_at_the_stop_is_recorded() {
    let outcome_takes = Duration::from_millis(400);
    let mut desk = Desk::with(Setup { outcome_takes, ..Setup::default().patient() });
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.server_got();
    desk.send(CANCEL);
    std::thread::sleep(Duration::from_millis(100));
    desk.stop.stop(Duration::from_secs(3_600));
    assert_eq!(desk.ended(), GatewayEnd::Stopped);
    assert_eq!(desk.record(), ["ACCEPT", "Unknown"]);
}

#[test]
fn the_end_of_the_sessions_time_is_announced_once() {
    let mut desk = Desk::open();
    desk.end_session();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let list = desk.wire_id();
    desk.answer(&list, &json!({ "tools": definitions() }));
    assert_eq!(desk.client_got()["result"]["tools"], json!([]));
    desk.call(2, "search", &json!({ "q": "x" }));
    assert_eq!(desk.refusal().1, "CONTRACT_EXPIRED");
    assert_eq!(desk.record(), ["SESSION_EXPIRED", "CONTRACT_EXPIRED"]);
}
