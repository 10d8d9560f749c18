use crate::bench::Bench;
use countersign_audit_log::{AuditSink as _, CallRecord, Log, LogOptions, Record, RecordedTool, Verdict};
use countersign_core::{AgentId, Principal, SessionId, Timestamp};
use countersign_keys::SigningKey;
use countersign_keys::note::KeyName;

/// When the first decision is made: 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000;

/// Writes the log in `log`.
pub(crate) fn log(bench: &Bench) -> Log {
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    Log::open(bench.path("log"), options).unwrap()
}

/// A decision on a call of `search`: refused with this code, or without one accepted.
pub(crate) fn decision(millis: u64, agent: &str, code: Option<&str>) -> Record {
    let mut call = CallRecord::new(
        Timestamp::from_millis(millis).unwrap(),
        SessionId::new("s").unwrap(),
        AgentId::new(agent).unwrap(),
        Principal::new("p").unwrap(),
        "c",
        RecordedTool::new("desk", "search"),
        if code.is_none() { Verdict::Accept } else { Verdict::Reject },
        1,
    );
    call.code = code.map(Into::into);
    Record::Decision(call)
}

/// The log in `log`, with one decision for each agent and code, a millisecond after each other.
pub(crate) fn record(bench: &Bench, decisions: &[(&str, Option<&str>)]) {
    let log = log(bench);
    for (at, (agent, code)) in (START..).zip(decisions) {
        log.record(&decision(at, agent, *code)).unwrap();
    }
}

pub(crate) const FIVE: [(&str, Option<&str>); 5] = [
    ("a", None),
    ("a", Some("UNDISCLOSED_TOOL")),
    ("a", Some("APPROVAL_REQUIRED")),
    ("a", None),
    ("b", Some("ARGS_SCHEMA")),
];

#[test]
fn show_prints_entries_as_text_and_as_they_are() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    let show = |options: &str| bench.run(&format!("audit show log {options}")).out;
    assert_eq!(show("").lines().count(), 5);
    let as_they_are: String = bench
        .read("log/000000000001.jsonl")
        .split_inclusive('\n')
        .filter(|line| line.starts_with("{\"seq\":"))
        .collect();
    assert_eq!(show("--json"), as_they_are);
    assert_eq!(show("--agent b").lines().count(), 1);
    assert_eq!(show("--verdict accept").lines().count(), 2);
    assert_eq!(show("--session other"), "");
    bench.fails("audit show missing", 1, "AUDIT_UNAVAILABLE");
}
