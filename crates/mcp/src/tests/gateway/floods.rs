//! Refused messages beyond their rate limit while recording is slow: no message waits for the record.

use std::sync::Arc;
use std::time::Duration;

use countersign_audit_log::{Record, RefusedRecord};
use parking_lot::Mutex;
use serde_json::json;

use super::desk::{Desk, Setup, call_in_flight};

/// A desk whose record of refused messages can be blocked.
fn held(setup: Setup) -> (Desk, Arc<Mutex<()>>) {
    let hold = Arc::new(Mutex::new(()));
    (Desk::with(Setup { hold: Arc::clone(&hold), ..setup }), hold)
}

/// Recorded refused messages after the gateway's end: the number of individual entries, and the sums.
fn recorded(desk: &mut Desk) -> (usize, Vec<RefusedRecord>) {
    desk.close_client();
    desk.close_server();
    desk.ended();
    let records: Vec<_> = desk.sink.latest().into_iter().map(|(_, record)| record).collect();
    let own = records.iter().filter(|record| matches!(record, Record::Gateway(_))).count();
    let sum = |record| if let Record::Refused(sum) = record { Some(sum) } else { None };
    (own, records.into_iter().filter_map(sum).collect())
}

#[test]
fn servers_flood_does_not_hold_up_its_answer() {
    let (mut desk, hold) = held(Setup::default().patient());
    let call = call_in_flight(&mut desk);
    let disk = hold.lock();
    for _ in 0..10_000 {
        desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/made_up"}"#);
    }
    desk.answer(&call, &json!({ "content": [] }));
    assert_eq!(desk.client_got()["id"], 1);
    drop(disk);
    let (own, sums) = recorded(&mut desk);
    assert_eq!(own, 50);
    let [sum] = sums.try_into().unwrap();
    assert_eq!((sum.total(), sum.agent, sum.rows.len(), sum.made_up), (9_950, None, 1, 9_950));
    assert_eq!(
        (sum.rows[0].code.as_str(), sum.names[0].as_str()),
        ("METHOD_NOT_ALLOWED", "notifications/made_up")
    );
    // Each entry followed by a checkpoint.
    let lines =
        desk.sink.latest().into_iter().map(|(_, record)| serde_json::to_string(&record).unwrap().len() + 512);
    assert!(lines.sum::<usize>() < 64 << 10);
}

#[test]
fn refused_requests_are_answered_while_the_record_waits() {
    let (mut desk, hold) = held(Setup::default().patient());
    let disk = hold.lock();
    for id in 0..200 {
        desk.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "made/up" }).to_string());
        assert_eq!(desk.error(&json!(id)), (-32601, "METHOD_NOT_ALLOWED".into()));
    }
    drop(disk);
    let (own, sums) = recorded(&mut desk);
    assert_eq!((own, sums.iter().map(RefusedRecord::total).sum::<u64>()), (50, 150));
}

#[test]
fn refusals_that_wait_at_the_stop_are_in_the_sum() {
    let (mut desk, hold) = held(Setup::default().patient());
    let disk = hold.lock();
    for id in 0..30 {
        desk.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "made/up" }).to_string());
        assert_eq!(desk.error(&json!(id)), (-32601, "METHOD_NOT_ALLOWED".into()));
    }
    desk.stop.stop(Duration::ZERO);
    // Longer than the gateway's end waits for the record.
    std::thread::sleep(Duration::from_millis(600));
    drop(disk);
    // Time for the entry that was being recorded at the end.
    std::thread::sleep(Duration::from_millis(200));
    let (own, sums) = recorded(&mut desk);
    assert!(own < 30, "{own}");
    assert_eq!(own + usize::try_from(sums.iter().map(RefusedRecord::total).sum::<u64>()).unwrap(), 30);
}

#[test]
fn unread_call_is_recorded_before_it_is_answered() {
    let (mut desk, hold) = held(Setup::default().patient());
    let disk = hold.lock();
    desk.send(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}"#);
    desk.nothing_reached_the_server();
    drop(disk);
    let (line, code) = desk.refusal();
    assert_eq!((&line["id"], code.as_str()), (&json!(7), "MALFORMED_CALL"));
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["record"], 3);
}

#[test]
fn due_sum_is_recorded_though_no_message_comes() {
    let mut desk = Desk::open();
    for _ in 0..100 {
        desk.serve(r#"{"jsonrpc":"2.0","method":"notifications/made_up"}"#);
    }
    desk.nothing_reached_the_client();
    desk.clock.advance(countersign_core::Millis::from_secs(10)).unwrap();
    let is_there = || desk.sink.latest().iter().any(|(_, record)| matches!(record, Record::Refused(_)));
    for _ in 0..1_000 {
        if is_there() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the sum is not recorded");
}
