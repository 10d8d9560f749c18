//! State of the drop alarm in the signals store, and the replay after that state.

#![cfg(unix)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use countersign_audit_log::{
    AuditSink as _, CallRecord, Durability, Log, LogOptions, OutcomeKind, OutcomeRecord, Record,
    RecordedTool, Verdict,
};
use countersign_core::{AgentId, Principal, SessionId, Timestamp};
use countersign_keys::file::read_log_key;
use countersign_sqlite::SqliteStore;
use countersign_tlog::note::KeyName;
use serde_json::{Value, json};

use crate::bench::{Bench, Run};
use crate::mcp::{Client, decision, gateway};
use crate::quarantine::signals;

pub(crate) const STORE: &str = "signals.sqlite";
const ORIGIN: &str = "example.com/log";
pub(crate) const QUARANTINED: &str = "warning AGENT_QUARANTINED: agent bot is quarantined\n";

pub(crate) fn quarantining() -> Bench {
    let bench = gateway();
    signals(&bench, &format!("store = \"{STORE}\"\non_drop = \"quarantine\""));
    bench
}

/// Makes the agent call an undisclosed tool `times` times.
pub(crate) fn refused(client: &mut Client, times: u32) {
    for _ in 0..times {
        assert_eq!(decision(&client.call("wipe", json!({})))["code"], "UNDISCLOSED_TOOL");
    }
}

/// Runs one session of `times` refused calls. Returns its standard error.
pub(crate) fn session(bench: &Bench, times: u32) -> String {
    let mut client = Client::start(bench);
    refused(&mut client, times);
    let (code, told) = client.end();
    assert_eq!(code, 0, "{told}");
    told
}

fn store(bench: &Bench) -> SqliteStore {
    SqliteStore::open_existing(bench.path(STORE)).unwrap()
}

fn state_text(bench: &Bench) -> String {
    store(bench).alarm_state(&AgentId::new("bot").unwrap(), ORIGIN).unwrap().unwrap()
}

fn state(bench: &Bench) -> Value {
    serde_json::from_str(&state_text(bench)).unwrap()
}

/// Returns the number of log entries that the state covers.
fn entries_in(state: &Value) -> u64 {
    state["logs"][ORIGIN]["size"].as_u64().unwrap_or_default()
}

fn put(bench: &Bench, text: &str) {
    let before = state_text(bench);
    let bot = AgentId::new("bot").unwrap();
    assert!(store(bench).keep_alarm_state(&bot, ORIGIN, Some(&before), text).unwrap());
}

#[test]
fn alarm_goes_on_from_its_state() {
    let bench = quarantining();
    assert_eq!(session(&bench, 5), "");
    let mut kept = state(&bench);
    assert_eq!(entries_in(&kept), bench.verified()["records"], "all of the log");
    // A score that no entry explains.
    kept["replay"]["alarm"]["score"] = json!(9_000_000);
    put(&bench, &kept.to_string());
    assert_eq!(session(&bench, 1), QUARANTINED);
    assert_eq!(entries_in(&state(&bench)), bench.verified()["records"]);
}

#[test]
fn state_that_does_not_fit_is_replaced_by_all_entries() {
    let bench = quarantining();
    assert_eq!(session(&bench, 5), "");
    let good = state(&bench);
    let size = entries_in(&good);
    let changed = |path: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed.to_string()
    };
    let (rules, malformed, forked) = ("to other rules", "malformed", "does not extend the alarm's state");
    let place = "/logs/example.com~1log";
    for (text, reason) in [
        ("no JSON".to_owned(), malformed),
        (changed("/format", json!("countersign-alarm-2")), malformed),
        (good.to_string().replacen('{', "{\"more\":1,", 1), malformed),
        (changed("/replay/alarm/threshold", json!(9_000_000)), rules),
        (changed("/replay/alarm/score", json!(9_999_999)), rules),
        (changed("/replay/signals/undisclosed/count", json!(7)), rules),
        (changed("/replay/agent", json!("reader")), rules),
        (changed("/replay/latest", json!(1_u64 << 42)), "saved by a clock that was ahead"),
        (changed(&format!("{place}/size"), json!(size - 1)), forked),
        (changed(&format!("{place}/size"), json!(size + 1)), forked),
        (changed(&format!("{place}/root"), json!("00".repeat(32))), forked),
    ] {
        put(&bench, &text);
        let told = session(&bench, 0);
        assert!(told.starts_with("alarm of agent bot replayed from all "), "{text}: {told}");
        assert!(told.contains(reason) && told.lines().count() == 1, "{text}: {told}");
        let kept = state(&bench);
        assert_eq!(kept["replay"]["alarm"], good["replay"]["alarm"], "{text}");
        put(&bench, &good.to_string());
        assert_eq!(session(&bench, 0), "", "{text}");
    }
    assert_eq!(session(&bench, 4), QUARANTINED);
}

#[test]
fn state_is_kept_while_the_gateway_runs() {
    let bench = quarantining();
    let mut client = Client::start(&bench);
    refused(&mut client, 5);
    // The session's entry and its five decisions.
    let is_kept = (0..1_200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        entries_in(&state(&bench)) >= 6
    });
    assert!(is_kept, "{}", state(&bench));
    refused(&mut client, 3);
    client.kill();
    let known: Value = serde_json::from_str(&bench.read("record.state")).unwrap();
    assert!(
        entries_in(&state(&bench)) <= known["logs"][0]["size"].as_u64().unwrap(),
        "no more than is synced"
    );
    assert_eq!(session(&bench, 1), QUARANTINED);
}

#[test]
fn state_of_a_log_that_lost_its_end_is_not_resumed() {
    let bench = quarantining();
    assert_eq!(session(&bench, 2), "");
    let mut copy = Command::new("cp");
    copy.args(["-r", "log", "older"]).current_dir(bench.folder());
    assert!(copy.status().unwrap().success());
    assert_eq!(session(&bench, 3), "");
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    std::fs::rename(bench.path("older"), bench.path("log")).unwrap();
    std::fs::remove_file(bench.path("record.state")).unwrap();
    let told = session(&bench, 6);
    assert!(told.contains("the log does not extend the alarm's state"), "{told}");
    assert!(!told.contains(QUARANTINED), "two of them are left: {told}");
    assert!(session(&bench, 1).ends_with(QUARANTINED));
}

fn copy(bench: &Bench, from: &str, to: &str) {
    let _ = std::fs::remove_dir_all(bench.path(to));
    let mut copy = Command::new("cp");
    copy.args(["-r", from, to]).current_dir(bench.folder());
    assert!(copy.status().unwrap().success());
}

/// Runs two sessions at once. The second, with the log `log/1`, has `times` refused calls.
fn two_sessions(bench: &Bench, times: u32) {
    let (first, mut second) = (Client::start(bench), Client::start(bench));
    refused(&mut second, times);
    drop((second.end(), first.end()));
}

#[test]
fn numbered_log_behind_its_state_stops_the_start() {
    let bench = quarantining();
    // Another log under the same origin.
    two_sessions(&bench, 4);
    two_sessions(&bench, 4);
    copy(&bench, "log/1", "forked");
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    ["record.state", STORE].iter().for_each(|file| std::fs::remove_file(bench.path(file)).unwrap());
    two_sessions(&bench, 1);
    copy(&bench, "log/1", "older");
    two_sessions(&bench, 3);
    copy(&bench, "log/1", "whole");
    let segment = "log/1/000000000001.jsonl";
    let put = |folder: &str| {
        std::fs::remove_dir_all(bench.path("log/1")).unwrap();
        copy(&bench, folder, "log/1");
    };
    let ways: [(&str, &dyn Fn()); 5] = [
        ("AUDIT_MISSING", &|| std::fs::remove_dir_all(bench.path("log/1")).unwrap()),
        ("AUDIT_MISSING", &|| std::fs::remove_file(bench.path(segment)).unwrap()),
        ("AUDIT_MISSING", &|| bench.write(segment, "")),
        ("AUDIT_ROLLED_BACK", &|| put("older")),
        ("AUDIT_FORK", &|| put("forked")),
    ];
    for (code, change) in ways {
        change();
        let before = bench.snapshot();
        let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
        let says = format!("error {code}: `log/1`: ");
        assert!(run.code == 1 && run.err.starts_with(&says), "{code}: {run:?}");
        let names = |files: &[(String, String)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&bench.snapshot()), names(&before), "{code}");
        let _ = std::fs::create_dir(bench.path("log/1"));
        put("whole");
    }
    assert_eq!(session(&bench, 0), "");
}

const NUMBERED: &str = "log/1/000000000001.jsonl";

#[test]
fn damage_in_a_numbered_log_stops_the_replay() {
    let bench = quarantining();
    two_sessions(&bench, 3);
    ["record.state", STORE].iter().for_each(|file| std::fs::remove_file(bench.path(file)).unwrap());
    let text = bench.read(NUMBERED);
    assert!(text.contains("{\"seq\":3,"), "{text}");
    bench.write(NUMBERED, text.replacen("{\"seq\":3,", "{\"sex\":3,", 1));
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code != 0 && run.err.contains("AUDIT_CORRUPT: `log/1"), "{run:?}");
}

#[test]
fn damage_behind_the_state_of_a_numbered_log_stops_the_start() {
    let bench = quarantining();
    let (first, mut second) = (Client::start(&bench), Client::start(&bench));
    let earlier = bench.read("record.state");
    refused(&mut second, 3);
    drop((second.end(), first.end()));
    // As if its process had been killed before it saved the state of its log.
    bench.write("record.state", earlier);
    let text = bench.read(NUMBERED);
    bench.write(NUMBERED, text.replacen("UNDISCLOSED_TOOL", "UNDISCLOSED_TOOK", 1));
    let starts = || bench.run("mcp run --config gateway.toml -- sh server.sh");
    let is_refused = |run: &Run| run.code != 0 && run.err.contains("AUDIT_CORRUPT: `log/1");
    let run = starts();
    assert!(is_refused(&run), "{run:?}");
    std::fs::remove_file(bench.path(STORE)).unwrap();
    let run = starts();
    assert!(is_refused(&run), "{run:?}");
    bench.write(NUMBERED, text);
    let told = session(&bench, 0);
    assert!(told.starts_with("alarm of agent bot replayed from all "), "{told}");
}

#[test]
fn unsigned_entries_of_a_numbered_log_do_not_count() {
    let bench = quarantining();
    two_sessions(&bench, 8);
    let text = bench.read(NUMBERED);
    let seq = |line: &str| serde_json::from_str::<Value>(line).ok().and_then(|line| line["seq"].as_u64());
    let last = text.lines().filter_map(seq).max().unwrap();
    let refused = text.lines().rfind(|line| line.contains("UNDISCLOSED_TOOL")).unwrap();
    let (_, rest) = refused.split_once(',').unwrap();
    bench.write(NUMBERED, format!("{text}{{\"seq\":{},{rest}\n", last + 1));
    assert_eq!(session(&bench, 0), "");
    assert_eq!(session(&bench, 1), QUARANTINED);
}

#[test]
fn missing_log_that_the_alarm_state_covers_is_reported() {
    let bench = quarantining();
    two_sessions(&bench, 4);
    std::fs::remove_dir_all(bench.path("log/1")).unwrap();
    std::fs::remove_file(bench.path("record.state")).unwrap();
    for _ in 0..2 {
        let told = session(&bench, 0);
        assert!(told.contains("warning AUDIT_MISSING: log example.com/log/1 is missing: "), "{told}");
    }
}

#[test]
fn state_of_a_log_that_was_begun_anew_is_reported() {
    let bench = quarantining();
    assert_eq!(session(&bench, 4), "");
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    std::fs::remove_file(bench.path("record.state")).unwrap();
    let told = session(&bench, 0);
    assert!(
        told.contains("replayed from all 0 entries of the record: `log`: the log does not extend"),
        "{told}"
    );
}

#[test]
fn alarm_state_advances_beside_a_log_that_lags() {
    let bench = quarantining();
    let (mut first, mut second) = (Client::start(&bench), Client::start(&bench));
    let earlier = bench.read("record.state");
    assert!(earlier.contains("example.com/log/1"), "{earlier}");
    refused(&mut second, 2);
    assert_eq!(second.end().0, 0);
    // As if the second process had saved its place in the record later than the alarm's state.
    bench.write("record.state", earlier);
    refused(&mut first, 3);
    assert_eq!(first.end(), (0, String::new()));
    let kept = state(&bench);
    assert_eq!(json!(entries_in(&kept)), bench.verified()["records"], "{kept}");
    assert_eq!(session(&bench, 4), QUARANTINED);
}

#[test]
fn unusable_alarm_state_is_replaced_while_the_gateway_runs() {
    let bench = quarantining();
    assert_eq!(session(&bench, 2), "");
    let mut client = Client::start(&bench);
    put(&bench, "no JSON");
    refused(&mut client, 3);
    assert_eq!(client.end(), (0, String::new()));
    assert_eq!(json!(entries_in(&state(&bench))), bench.verified()["records"]);
    assert_eq!(session(&bench, 4), QUARANTINED);
}

#[test]
fn each_configuration_of_an_agent_has_its_alarm_state() {
    let bench = quarantining();
    let one = bench.read("gateway.toml");
    let other = one.replace("on_drop = ", "decisions = 20000\non_drop = ");
    assert_ne!(one, other);
    assert_eq!(session(&bench, 2), "");
    bench.write("gateway.toml", &other);
    let told = session(&bench, 1);
    assert!(told.contains("replayed from all ") && told.contains("to other rules"), "{told}");
    for config in [&one, &other, &one, &other] {
        bench.write("gateway.toml", config);
        assert_eq!(session(&bench, 1), "");
    }
    bench.write("gateway.toml", &one);
    assert_eq!(session(&bench, 2), QUARANTINED);
}

/// Run it on an idle machine: `cargo test --release -p countersign-cli --test cli million -- --ignored`, or with a release
/// binary in `COUNTERSIGN_BIN`.
#[test]
#[ignore = "takes a minute, and is to be run in release"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn gateway_answers_soon_over_a_million_records() {
    let bench = quarantining();
    write_million(&bench);
    // The first start replays every entry and saves the state.
    let (code, told) = start(&bench).end();
    assert!(code == 0 && told.contains("replayed from all 1000000 entries"), "{told}");
    let mut millis = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let client = start(&bench);
        millis.push(begin.elapsed().as_millis());
        assert_eq!(client.end().0, 0);
    }
    eprintln!("first answers after {millis:?} ms");
    assert!(millis.iter().min().is_some_and(|least| *least < 250), "{millis:?}");
}

fn start(bench: &Bench) -> Client {
    let binary = std::env::var_os("COUNTERSIGN_BIN");
    let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_countersign").into()));
    let line = "mcp run --config gateway.toml -- sh server.sh";
    command.args(line.split(' ')).current_dir(bench.folder());
    Client::start_command(command)
}

fn write_million(bench: &Bench) {
    let key = read_log_key(Path::new(&bench.path("log.key"))).unwrap();
    let options = LogOptions::new(KeyName::new(ORIGIN).unwrap(), key).state(bench.path("record.state"));
    let log = Log::open(bench.path("log"), options.durability(Durability::System)).unwrap();
    let session = SessionId::new("earlier").unwrap();
    // why: each call has an outcome, so the start has none to record.
    for at in 0..500_000 {
        let (agent, principal) = (AgentId::new("bot").unwrap(), Principal::new("alice").unwrap());
        let (time, tool) = (Timestamp::from_millis(at).unwrap(), RecordedTool::new("desk", "search"));
        let (id, session) = (format!("call-{at}"), session.clone());
        let call = CallRecord::new(time, session.clone(), agent, principal, &id, tool, Verdict::Accept, 1);
        let decision = log.record(&Record::Decision(call)).unwrap();
        let outcome = OutcomeRecord::new(time, session, &id, decision, OutcomeKind::Returned);
        log.record(&Record::Outcome(outcome)).unwrap();
    }
    log.close().unwrap();
}
