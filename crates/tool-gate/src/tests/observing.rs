use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, Record};
use countersign_core::{Clock, ClockError, Principal, Timestamp};
use proptest::prelude::*;

#[test]
fn a_name_that_is_disclosed_is_left_to_the_call_itself() {
    let world = World::new();
    let gate = world.gate();
    for raw in [
        r#"{"name":"search","arguments":{"query":"a"}}"#,
        r#"{"name":"search","arguments":"{\"query\":"}"#,
        r#"{"name":"search"}"#,
        r#"{"type":"tool_use","id":"t1","name":"search","input":{"n":123456789012345678901234567890}}"#,
        r#"{"id":"t1","type":"function","function":{"name":"search","arguments":"{}"}}"#,
        r#"{"type":"function_call","call_id":"t1","name":"search","arguments":"{}"}"#,
        r#"{"name":"s\u0065arch","arguments":{}}"#,
        r#"{"name":"twin","arguments":{}}"#,
    ] {
        assert!(matches!(gate.observe(raw.as_bytes()), Observed::Disclosed), "{raw}");
    }
    let deep =
        format!(r#"{{"function":{{"name":"search","arguments":{}{}}}}}"#, "[".repeat(32), "]".repeat(32));
    assert!(matches!(gate.observe(deep.as_bytes()), Observed::Disclosed), "as deep as arguments may be");
    assert_eq!((gate.counts().total(), gate.call_log().len()), (0, 0));
}

#[test]
fn name_the_framework_would_refuse_is_recorded() {
    let world = World::new();
    let gate = world.gate();
    for (n, (raw, id)) in [
        (r#"{"name":"delete_all","arguments":{}}"#, "?"),
        (r#"{"type":"tool_use","id":"t1","name":"delete_all","input":{}}"#, "t1"),
        (r#"{"id":"t2","type":"function","function":{"name":"delete_all","arguments":"{}"}}"#, "t2"),
        (r#"{"type":"function_call","call_id":"t3","name":"delete_all","arguments":"{}"}"#, "t3"),
        (r#"{"id":7,"name":"delete_all"}"#, "?"),
    ]
    .into_iter()
    .enumerate()
    {
        let Observed::Undisclosed(no) = gate.observe(raw.as_bytes()) else { panic!("{raw}") };
        assert_eq!((no.code(), no.call_id()), (UndisclosedTool, id));
        let record = gate.call_log().last().cloned().unwrap();
        assert_eq!((record.tool.server.as_str(), record.tool.name.as_str()), ("?", "delete_all"));
        assert_eq!(record.reason.unwrap().as_str(), "observed before dispatch");
        assert_eq!((record.call_id.as_str(), record.args), (id, None));
        assert!(no.sequence().is_some());
        assert_eq!(gate.attempted_undisclosed().count(), n as u64 + 1);
    }
    assert_eq!(gate.attempted_undisclosed().recent().last().unwrap(), "?:delete_all");
    assert_eq!(gate.stats().unknown_tools().rejected_with(UndisclosedTool), 5);
    assert_eq!(gate.acceptance_rate(Window::All), Some(0.0), "it does not flatter the agent any more");
}

#[test]
fn garbage_is_a_malformed_call() {
    let world = World::new();
    let gate = world.gate();
    let deep = format!(r#"{{"name":"search","arguments":{}{}}}"#, "[".repeat(60), "]".repeat(60));
    let large = format!(r#"{{"name":"search","arguments":"{}"}}"#, "x".repeat(3 << 20));
    let all = [
        "",
        "delete_all",
        "{",
        "[]",
        "null",
        r#""search""#,
        "{}",
        r#"{"name":7}"#,
        r#"{"name":null,"arguments":{}}"#,
        r#"{"function":"search"}"#,
        r#"{"function":{"arguments":{}}}"#,
        r#"{"function":{"name":"search"},"name":"delete_all"}"#,
        r#"{"function":null,"name":"search"}"#,
        r#"{"name":"search","name":"delete_all"}"#,
        r#"{"name":"search","n\u0061me":"delete_all"}"#,
        r#"{"name":"search","arguments":{},"input":{}}"#,
        r#"{"name":"search"} {"name":"delete_all"}"#,
        r#"{"name":"\ud800"}"#,
        "\u{feff}{\"name\":\"search\"}",
        &deep,
        &large,
    ];
    for raw in all {
        let Observed::Malformed(no) = gate.observe(raw.as_bytes()) else { panic!("{raw:.80}") };
        assert_eq!(no.code(), MalformedCall);
        let record = gate.call_log().last().cloned().unwrap();
        assert!(record.reason.unwrap().as_str().starts_with("observed before dispatch: "));
    }
    assert!(matches!(gate.observe(b"{\"name\":\"\xff\"}"), Observed::Malformed(_)));
    assert_eq!(gate.counts().rejected_with(MalformedCall), all.len() as u64 + 1);
    assert_eq!(gate.attempted_undisclosed().count(), 0);
}

#[test]
fn observed_name_cannot_break_or_overfill_a_record() {
    let world = World::new();
    let gate = world.gate();
    let long = "x".repeat(10_000);
    for name in ["a\\nb\\u001b[2J\\u202e\\u0000", "", " search", "desk:search", "SEARCH", &long] {
        let raw = format!(r#"{{"name":"{name}","arguments":{{"secret":"hunter2"}}}}"#);
        assert!(matches!(gate.observe(raw.as_bytes()), Observed::Undisclosed(_)), "{name:.40}");
        let line = serde_json::to_string(gate.call_log().last().unwrap()).unwrap();
        assert!(line.is_ascii() || line.contains('\u{2026}'), "{line}");
        assert!(line.len() < 1_000 && !line.contains("hunter2") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn observed_calls_feed_the_alarm() {
    let world = World::new();
    let gate = world.gate();
    let agent = gate.contract().agent().clone();
    for _ in 0..9 {
        assert_eq!(gate.stats().alarm_state(&agent), AlarmState::Steady);
        let _ = gate.observe(br#"{"name":"delete_all"}"#);
    }
    assert_eq!(gate.stats().alarm_state(&agent), AlarmState::Raised);
}

#[derive(Debug)]
struct FullDisk;

impl AuditSink for FullDisk {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if matches!(record, Record::Session(_)) { Ok(1) } else { Err(AuditError::Poisoned) }
    }
}

#[test]
fn unrecorded_observation_counts_as_the_hosts_fault() {
    let world = World::new();
    let gate = world.builder_with(Arc::new(FullDisk)).open().unwrap();
    for _ in 0..20 {
        let Observed::Undisclosed(no) = gate.observe(br#"{"name":"delete_all"}"#) else { panic!() };
        assert_eq!((no.code(), no.sequence()), (AuditUnavailable, None));
    }
    let shown = gate.stats().snapshot();
    assert_eq!(shown.overall.rejected_by_code(), [(AuditUnavailable, 20)]);
    assert_eq!(shown.agents[0].alarm, AlarmState::Steady, "an outage quarantines nobody");
}

/// Returns the time once, when the gate opens, then panics.
#[derive(Debug)]
struct PanickingClock(AtomicBool);

impl Clock for PanickingClock {
    fn now(&self) -> Result<Timestamp, ClockError> {
        assert!(self.0.swap(false, Ordering::SeqCst), "no time");
        Ok(start())
    }
}

#[test]
fn a_clock_that_panics_loses_nothing_that_is_observed() {
    let world = World::new();
    let clock = Arc::new(PanickingClock(AtomicBool::new(true)));
    let principal = Principal::new("ada@example.com").unwrap();
    let sink = Arc::clone(&world.sink) as Arc<dyn AuditSink>;
    let registry = Arc::clone(&world.registry);
    let gate =
        ToolGate::builder(registry, world.contract("session-1"), principal, clock, sink).open().unwrap();
    let Observed::Undisclosed(no) = gate.observe(br#"{"name":"delete_all"}"#) else { panic!() };
    assert_eq!((no.code(), no.sequence().is_some()), (UndisclosedTool, true));
    assert!(matches!(gate.observe(b"{"), Observed::Malformed(_)));
    assert_eq!(gate.refuse_malformed("c", "no call").code(), MalformedCall);
    assert_eq!((gate.counts().total(), gate.call_log().len()), (3, 3));
    assert!(gate.call_log().iter().all(|record| record.time == start()), "the last time that was told");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn observed_call_is_counted_once_unless_disclosed(
        raw in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            r#"\{("id":"[a-z]?",)?"(name|function|input)":("(search|none)"|\{"name":"(search|none)"\}|7)\}"#
                .prop_map(String::into_bytes),
        ],
    ) {
        static GATE: LazyLock<ToolGate> = LazyLock::new(|| World::new().gate());
        let before = GATE.counts().total();
        let Observed::Disclosed = GATE.observe(&raw) else {
            prop_assert_eq!(GATE.counts().total(), before + 1);
            return Ok(());
        };
        prop_assert_eq!(GATE.counts().total(), before);
    }
}
