use std::collections::BTreeSet;

use crate::bench::Bench;
use countersign_audit_log::{
    AuditSink as _, CallRecord, Escaped, Log, LogOptions, Record, RecordedTool, Verdict,
};
use countersign_core::{AgentId, Principal, SessionId, Timestamp};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;
use serde_json::{Value, json};

/// Time of the first decision: 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000;

/// Opens the log in `log` for writing.
pub(crate) fn log(bench: &Bench) -> Log {
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    Log::open(bench.path("log"), options).unwrap()
}

/// Returns a decision on a call of `search`: refused with `code`, or accepted without one.
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

/// Writes one decision for each agent and code to the log in `log`, one millisecond apart.
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

/// Returns one record of each kind, with every member that it can have.
fn full() -> Vec<Value> {
    let digest = "1a".repeat(32);
    vec![
        json!({"type": "session", "time": 1, "session": "s1", "agent": "a", "ancestors": ["planner", "writer"],
               "principal": "p", "registry_version": 1, "tools": [{"server": "desk", "name": "search"}],
               "narrowed": true, "ask": digest, "expires": 1, "observe_until": 1, "code": "X", "spent_store": "store1", "profile": "pic-0.9",
               "renewed": true, "dev": true,
               "claims": {"digest": digest, "differing": ["role", "model"], "omitted": 1}}),
        json!({"type": "decision", "time": 1, "session": "s1", "agent": "a", "principal": "p", "call_id": "c1",
               "request_id": "r1", "trace": "t1", "tool": {"server": "desk", "name": "search"},
               "definition": digest, "args": digest, "args_recipe": "jcs-1",
               "values": [{"pointer": "/x", "value": "1"}], "impact": "read", "verdict": "reject", "code": "X",
               "observed": ["X"],
               "reason": "why", "registry_version": 1, "ask": digest, "ask_restated": digest, "plan": digest,
               "plan_step": 1, "about_plan": true, "approval": "k1", "approver": "ada", "grant_use": 1, "denied_by": "olga",
               "edited_from": digest, "waits": true,
               "co_approvals": [{"approval": "k2", "approver": "bob"}],
               "proposal": {"profile": "strict", "digest": digest, "intent": digest, "impact": "read", "omitted": 1,
                            "evidence": [{"id": "e1", "kind": "sig", "digest": digest, "key": "k1",
                                          "endorsement": digest, "endorsement_use": 1}]}}),
        json!({"type": "outcome", "time": 1, "session": "s1", "call_id": "c1", "decision": 1,
               "outcome": "returned", "duration_ms": 1, "code": "X", "by": "recovery"}),
        json!({"type": "gateway", "time": 1, "session": "s1", "direction": "to_server", "method": "m1",
               "code": "X", "reason": "why"}),
        json!({"type": "recovered", "time": 1, "bytes": 1, "digest": digest, "file": "cut-7"}),
        json!({"type": "standing", "time": 1, "agent": "a", "standing": "quarantined", "by": "ada",
               "reason": "why"}),
        json!({"type": "answer", "time": 1, "session": "s1", "agent": "a", "call_id": "c1",
               "tool": {"server": "desk", "name": "refund"}, "args": digest, "plan": digest, "verdict": "approved",
               "approver": "ada", "reason": "why", "approval": "k1", "expires": 1, "uses": 2, "conditions": "[]",
               "edited_to": digest,
               "attestation": digest, "key": "finance"}),
        json!({"type": "refused", "time": 1, "session": "s1", "agent": "a", "number": 1, "from": 1, "to": 1,
               "rows": [{"code": "X", "tool": {"server": "desk", "name": "refund"}, "direction": "to_server",
                         "about_plan": true, "count": 1}],
               "made_up": 1, "names": ["desk:drop", "desk:wipe"]}),
        json!({"type": "signal", "time": 1, "session": "s1", "agent": "a", "signal": "asked", "count": 1,
               "within_ms": 1}),
        json!({"type": "server", "time": 1, "session": "s1", "server": "desk", "name": "n1", "version": "v1",
               "instructions": "passed"}),
        json!({"type": "end", "time": 1, "session": "s1", "agent": "a", "reason": "client"}),
        json!({"type": "gap", "time": 1, "from": 1, "to": 1, "reason": "AUDIT_WRITE",
               "answers": [{"code": "X", "count": 1}], "approvals": ["k1", "k2"], "omitted": 1}),
    ]
}

/// Returns another valid value for the same member.
fn other(value: &Value) -> Value {
    match value {
        Value::Bool(is) => json!(!is),
        Value::Number(number) => json!(number.as_u64().unwrap() + 1),
        Value::Array(all) => json!(all[1..]),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), other(value))).collect(),
        Value::String(text) => json!(match text.as_str() {
            "reject" => "accept",
            "returned" => "failed",
            "to_server" => "to_client",
            "quarantined" => "lifted",
            "sig" => "hash",
            "approved" => "denied",
            "asked" => "undisclosed",
            "passed" => "dropped",
            "client" => "server",
            // `recovery` is the only author.
            "recovery" => return Value::Null,
            text if text.len() == 64 => return json!("2b".repeat(32)),
            text => return json!(format!("{text}x")),
        }),
        Value::Null => panic!("nothing is there"),
    }
}

/// Returns the value at a dotted path in a record; in a list, the value in its first item.
fn at<'v>(record: &'v mut Value, path: &str) -> &'v mut Value {
    path.split('.').fold(record, |value, name| {
        let value = if value.is_array() { &mut value[0] } else { value };
        &mut value[name]
    })
}

/// Returns every member that a kind of record can have, as its parser reports them. Nested members are dotted.
fn members(record: &Value, inside: &str) -> BTreeSet<String> {
    let mut asked = record.clone();
    let place = if inside.is_empty() { &mut asked } else { at(&mut asked, inside) };
    let unknown = if inside.is_empty() { json!({"type": record["type"], "?": 0}) } else { json!({"?": 0}) };
    *place = if place.is_array() { json!([unknown]) } else { unknown };
    let error = serde_json::from_value::<Record>(asked).unwrap_err().to_string();
    let (_, names) = error.split_once("unknown field `?`, expected ").expect(&error);
    let names = names.split('`').skip(1).step_by(2);
    let dotted =
        names.map(|name| if inside.is_empty() { name.to_owned() } else { format!("{inside}.{name}") });
    dotted
        .flat_map(|name| {
            let value = at(&mut record.clone(), &name).take();
            // A tool counts as one member.
            let has_parts =
                !["tool", "tools"].contains(&name.as_str()) && (value.is_object() || value[0].is_object());
            if has_parts { members(record, &name) } else { [name].into() }
        })
        .collect()
}

#[test]
fn record_member_is_in_its_line_or_documented_as_json_only() {
    let page = include_str!("../../../../docs/record.md");
    let bench = Bench::new();
    let log = log(&bench);
    let mut changed = Vec::new();
    for record in full() {
        let kind = record["type"].as_str().unwrap();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}`"))).expect(kind);
        let names = |column: usize| -> BTreeSet<_> {
            row.split('|').nth(column).unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let (in_line, in_json) = (names(2), names(3));
        let mut all = members(&record, "");
        assert!(all.remove("time") && in_line.is_disjoint(&in_json), "{kind}");
        assert_eq!(&in_line | &in_json, all, "{kind}");
        for name in all {
            // A refused session and an accepted one disclose different members.
            for code in [Some("X"), None]
                .into_iter()
                .filter(|code| code.is_some() || kind == "session" && name != "code")
            {
                let mut before = record.clone();
                if code.is_none() {
                    before.as_object_mut().unwrap().remove("code");
                }
                let mut after = before.clone();
                let value = at(&mut after, &name);
                *value = other(value);
                for value in [before, after] {
                    log.record(&serde_json::from_value(value).unwrap()).unwrap();
                }
                changed.push((format!("{kind}.{name}"), in_line.contains(&name)));
            }
        }
    }
    drop(log);
    let lines = bench.run("audit show log").out;
    let lines: Vec<_> = lines.lines().map(|line| line.trim_start().split_once(' ').unwrap().1).collect();
    assert_eq!(lines.len(), 2 * changed.len());
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for (pair, (name, _)) in lines.chunks(2).zip(&changed) {
        if pair[0] != pair[1] {
            told.insert(name);
        }
    }
    let documented = changed.iter().filter(|(_, in_line)| *in_line).map(|(name, _)| name.as_str());
    assert_eq!(told, documented.collect());
}

#[test]
fn session_line_names_its_ancestors() {
    let bench = Bench::new();
    let mut record = full().swap_remove(0);
    record.as_object_mut().unwrap().remove("code");
    record["ancestors"] = json!(["planner", "night shift > b"]);
    record["claims"]["differing"] = json!(["role\u{202e}", "x\", \"y"].map(Escaped::<128>::new));
    log(&bench).record(&serde_json::from_value(record).unwrap()).unwrap();
    let expected = concat!(
        r#"session  a for p under registry 1: renewed with 1 tools (narrowed) until 1970-01-01T00:00:00.001Z, observed until 1970-01-01T00:00:00.001Z, under a registry that no operator signed; session s1, "#,
        r#"led to by planner > "night shift > b"; spent store store1; proposals by profile pic-0.9; claimed otherwise: "role\u{202e}", "x\u0022, \u0022y", 1 more"#
    );
    for verb in ["show", "tail"] {
        let shown = bench.run(&format!("audit {verb} log")).out;
        assert!(shown.ends_with(&format!(" {expected}\n")), "{verb}: {shown}");
    }
}

#[test]
fn no_call_can_look_like_another_one_that_was_accepted() {
    let bench = Bench::new();
    let mut record = full().swap_remove(1);
    for name in [
        "plan_step",
        "about_plan",
        "approver",
        "co_approvals",
        "grant_use",
        "edited_from",
        "waits",
        "denied_by",
        "proposal",
        "trace",
        "values",
    ] {
        record.as_object_mut().unwrap().remove(name);
    }
    record["call_id"] = json!("accept");
    record["tool"] = json!({"server": "desk:search accept", "name": "y          accept"});
    // The gate writes such a reason: the JSON Pointer has names that the agent chose.
    let reason = |key: &str| json!(Escaped::<512>::new(&format!("`/{key}` does not fit the schema")));
    let blanks = " ".repeat(150);
    let keys = [
        "x` does not fit the schema's `type` (olga) (approved by ada); trace t1".to_owned(),
        format!("x{blanks}     2 1970-01-01T00:00:00.001Z decision a c2 desk:search accept"),
        r#"x\" (approved by ada)"#.to_owned(),
    ];
    let log = log(&bench);
    for key in &keys {
        record["reason"] = reason(key);
        log.record(&serde_json::from_value(record.clone()).unwrap()).unwrap();
    }
    for kind in [3, 5] {
        let mut other = full().swap_remove(kind);
        other["reason"] = reason(&keys[2]);
        log.record(&serde_json::from_value(other).unwrap()).unwrap();
    }
    drop(log);
    let shown = bench.run("audit show log").out;
    let start = r#"decision a "accept" "desk:search accept":"y        \u0020\u0020accept" reject X (observed, without X): "#;
    let spelled = format!("{}{}", " ".repeat(8), r"\u0020".repeat(147));
    let expected = [
        format!(
            r#"{start}"`/x` does not fit the schema's `type` (olga) (approved by ada); trace t1` does not fit the schema""#
        ),
        format!(
            r#"{start}"`/x{spelled}2 1970-01-01T00:00:00.001Z decision a c2 desk:search accept` does not fit the schema""#
        ),
        format!(r#"{start}"`/x\\\u0022 (approved by ada)` does not fit the schema""#),
        r#"gateway  to the server: m1 X: "`/x\\\u0022 (approved by ada)` does not fit the schema""#
            .to_owned(),
        r#"standing a put into quarantine by ada: "`/x\\\u0022 (approved by ada)` does not fit the schema""#
            .to_owned(),
    ];
    let lines = shown.lines().map(|line| line.split_once("001Z ").unwrap().1);
    assert_eq!(lines.collect::<Vec<_>>(), expected, "{shown}");
}

#[test]
fn no_id_ends_early_and_goes_on_as_something_else() {
    let bench = Bench::new();
    let id = r#"x\", led to by "admin"#;
    let mut all = full();
    for (record, names) in
        all.iter_mut().zip([&["session", "agent", "principal"][..], &["agent", "approver"]])
    {
        for name in names {
            record[*name] = json!(id);
        }
    }
    all[0]["ancestors"] = json!([id, "planner"]);
    all[1]["co_approvals"][0]["approver"] = json!(id);
    all[5]["agent"] = json!(id);
    all[5]["by"] = json!(Escaped::<256>::new(id));
    let log = log(&bench);
    for at in [0, 1, 5] {
        log.record(&serde_json::from_value(all[at].clone()).unwrap()).unwrap();
    }
    drop(log);
    let shown = bench.run("audit show log").out;
    let lines: Vec<_> = shown.lines().collect();
    let once = r#""x\\\u0022, led to by \u0022admin""#;
    assert!(lines[0].contains(&format!(" session  {once} for {once} under registry 1: ")), "{shown}");
    assert!(lines[0].contains(&format!("; session {once}, led to by {once} > planner; ")), "{shown}");
    assert!(lines[1].contains(&format!(" decision {once} c1 ")), "{shown}");
    assert!(lines[1].contains(&format!(" (approved by {once}, {once})")), "{shown}");
    assert!(lines[2].contains(&format!(" standing {once} put into quarantine by {once}")), "{shown}");
}

#[test]
fn run_of_spaces_in_a_value_is_escaped() {
    let bench = Bench::new();
    let mut record = full().swap_remove(1);
    record["values"][0]["value"] = json!(format!("\"x{}y\"", " ".repeat(10)));
    log(&bench).record(&serde_json::from_value(record).unwrap()).unwrap();
    let shown = bench.run("audit show log").out;
    assert!(shown.ends_with("; /x=\"x        \\u0020\\u0020y\"\n"), "{shown}");
}

/// Runs with a standard output whose reader has closed it already.
fn unread(bench: &Bench, line: &str) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    let output = command.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), err.lines().filter(|line| !line.starts_with("note: ")).collect())
}

#[test]
fn closed_pipe_fails_only_verifying_verbs() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    let shown =
        ["audit show log", "audit tail log", "audit tail log --follow", "stats log", "stats log --by tool"];
    let proved = ["audit verify log --key log.vkey", "audit checkpoint log --key log.vkey"];
    let key = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    bench.write("log.vkey", Log::open(bench.path("other"), key).unwrap().key().to_string());
    for rows in [0, 300] {
        record(&bench, &vec![("c", None); rows]);
        for line in shown {
            for line in [line.to_owned(), format!("{line} --json")] {
                assert_eq!(unread(&bench, &line), (Some(0), String::new()), "{line}");
            }
        }
        for line in proved {
            let (code, err) = unread(&bench, line);
            assert!(code == Some(1) && err.starts_with("error OUTPUT_CLOSED: "), "{line}: {err}");
        }
    }
    // A corrupt log is still reported.
    bench.write("log/000000000001.jsonl", "garbage\n");
    for line in ["audit show log --json", "stats log"] {
        let (code, err) = unread(&bench, line);
        assert!(code == Some(1) && err.contains("AUDIT_CORRUPT"), "{line}: {err}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_fails_a_verb_that_only_shows() {
    let bench = Bench::new();
    record(&bench, &FIVE);
    for line in ["audit show log", "audit tail log", "stats log"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
        let output = command.stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && err.contains("error OUTPUT_CLOSED: "), "{line}: {err}");
    }
}
