use serde_json::{Value, json};

use crate::audit_log::FIRST;
use crate::bench::{Bench, RECORD_OPTIONS, Run};
use crate::desk::{draft, open, sign};

const SIMULATE: &str = "simulate log --trust-root root.json";

/// Runs a session of six calls, two of which are accepted. Records all arguments of searches.
fn decide(bench: &Bench, agent: &str) {
    let call =
        |id: u32, tool: &str, args: Value| json!({"call_id": format!("c{id}"), "tool": tool, "args": args});
    let calls = [
        call(1, "search", json!({"query": "T-1"})),
        call(2, "search", json!({"query": "T-2", "amount": 1})),
        call(3, "search", json!({"other": 1})),
        call(4, "refund", json!({"amount": 49})),
        call(5, "delete_all", json!({})),
        call(6, "wipe\u{1b}[2J", json!({})),
    ];
    let input: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let check = format!("check --registry reg.json --trust-root root.json --agent {agent} {RECORD_OPTIONS}");
    let run = bench.feed(&format!("{check} --record-argument desk:search="), &input);
    assert_eq!((run.code, run.err.as_str()), (3, ""), "{run:?}");
}

/// Signs version 2 of the desk's registry with a change.
fn next(bench: &Bench, change: impl FnOnce(&mut Value)) {
    let mut value = draft();
    value["version"] = json!(2);
    change(&mut value);
    sign(bench, &value, "next.json");
}

fn simulated(bench: &Bench, more: &str) -> Value {
    let run = bench.run(&format!("{SIMULATE} --key log.vkey --json {more}"));
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    run.value()
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn under_the_registry_that_was_in_force_nothing_changes() {
    let bench = open();
    decide(&bench, "support-bot");
    let told = simulated(&bench, "--registry reg.json");
    assert_eq!(
        (&told["verified"], &told["changed"], &told["changes"]),
        (&json!(true), &json!(0), &json!([]))
    );
    assert_eq!((&told["undetermined"], &told["total"]["undetermined"]), (&json!(0), &json!({})));
    assert_eq!(told["registry"]["version"], 1);
    // The record has no arguments of the refund, and the sixth decision has no call.
    assert_eq!(told["total"]["same"], 4);
    assert_eq!(told["total"]["carried"], json!({"arguments": 1, "call": 1}));
    let text = bench.ok(&format!("{SIMULATE} --key log.vkey --registry reg.json"));
    assert!(text.ends_with("\ncarried, by facts that were not recorded: arguments 1, call 1\n"), "{text}");
}

#[test]
fn simulated_changes_are_counted_by_agent_and_tool() {
    let bench = open();
    decide(&bench, "support-bot");
    decide(&bench, "reader");
    next(&bench, |value| {
        value["tools"][0]["args_schema"]["properties"] = json!({"query": {"type": "string"}, "other": {}});
        value["tools"][1]["approval"] = json!("not_required");
    });
    let told = simulated(&bench, "--registry next.json --was reg.json --agent support-bot");
    assert_eq!(told["was"][0]["version"], 1);
    let rows = told["rows"].as_array().unwrap();
    let tools: Vec<_> =
        rows.iter().map(|row| (row["agent"].as_str().unwrap(), row["tool"].as_str().unwrap())).collect();
    assert_eq!(tools, ["(unknown)", "desk:refund", "desk:search"].map(|tool| ("support-bot", tool)));
    let search = &rows[2]["counts"];
    assert_eq!((&search["same"], &search["accepted_to_refused"]), (&json!(1), &json!({"ARGS_SCHEMA": 1})));
    // The third call was refused before its goal was checked.
    assert_eq!(search["undetermined"], json!({"goal": 1}));
    assert_eq!(rows[1]["counts"]["refused_to_accepted"], json!({"APPROVAL_REQUIRED": 1}));
    assert_eq!(rows[0]["counts"]["carried"], json!({"call": 1}), "the made-up names have one row");
    assert_eq!(told["changed"], 2);
    let first = &told["changes"][0];
    assert_eq!((&first["seq"], &first["tool"]), (&json!(4), &json!("desk:search")), "{first}");
    assert_eq!((&first["recorded"], &first["now"]), (&json!("ACCEPTED"), &json!("ARGS_SCHEMA")), "{first}");
    assert_eq!(first.get("carried"), None);
    assert!(first["time"].is_u64(), "as the record has it");
    assert_eq!(told["changes"][1]["carried"], "arguments", "of the refund");

    let text =
        bench.ok(&format!("{SIMULATE} --registry next.json --was reg.json --key log.vkey --changes 1"));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "simulated under registry version 2");
    let row = lines.iter().find(|line| line.starts_with("support-bot  desk:search ")).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>().join(" "),
        "support-bot desk:search 1 0 1 1 ACCEPTED -> ARGS_SCHEMA 1"
    );
    assert!(lines.iter().any(|line| line.starts_with("reader  desk:search ")), "{text}");
    let shown: Vec<_> = lines.iter().filter(|line| line.contains("session")).collect();
    assert!(shown.len() <= 1 && text.ends_with("and 2 more\n"), "{text}");
    assert!(text.contains("  desk:search  ACCEPTED -> ARGS_SCHEMA\n") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(
        text,
        bench.ok(&format!("{SIMULATE} --registry next.json --was reg.json --key log.vkey --changes 1"))
    );
}

#[test]
fn fail_on_change_sets_the_exit_code() {
    let bench = open();
    decide(&bench, "support-bot");
    let run = |registry: &str| {
        bench.run(&format!("{SIMULATE} --registry {registry} --key log.vkey --fail-on-change"))
    };
    assert_eq!(run("reg.json").code, 0);
    next(&bench, |value| value["agents"][0]["tools"] = json!([{"server": "desk", "name": "refund"}]));
    let Run { code, out, err } = run("next.json");
    assert_eq!((code, err.as_str()), (3, ""));
    assert!(out.contains("ACCEPTED -> UNDISCLOSED_TOOL 2"), "{out}");
}

#[test]
fn missing_former_registry_leaves_answers_undetermined() {
    let bench = open();
    decide(&bench, "support-bot");
    next(&bench, |value| value["tools"][3]["impact"] = json!("write"));
    let told = simulated(&bench, "--registry next.json");
    assert_eq!(
        (&told["undetermined"], &told["total"]["undetermined"]),
        (&json!(1), &json!({"arguments": 1}))
    );
    assert_eq!(simulated(&bench, "--registry next.json --was reg.json")["total"]["undetermined"], json!({}));
    let text = bench.ok(&format!("{SIMULATE} --registry next.json --key log.vkey"));
    assert!(
        text.contains("undetermined, by facts that were not recorded: arguments 1\nwith --was, "),
        "{text}"
    );
    let hosts = "--registry next.json --was reg.json --host-checks";
    assert_eq!(simulated(&bench, hosts)["total"]["undetermined"], json!({}));
}

#[test]
fn simulation_of_a_tampered_log_is_refused() {
    let bench = open();
    decide(&bench, "support-bot");
    bench.write("kept", bench.ok("audit checkpoint log --key log.vkey"));
    let good = bench.read(FIRST);
    bench.write(FIRST, good.replace("\"c2\"", "\"c9\""));
    let command = format!("{SIMULATE} --registry reg.json");
    bench.fails(&format!("{command} --key log.vkey"), 3, "AUDIT_CORRUPT");
    let run = bench.run(&format!("{command} --json"));
    assert!(run.code == 0 && run.err.starts_with("note: log not verified; "), "{run:?}");
    assert_eq!(json(&run)["verified"], false);
    // The checkpoints do not cover entries that follow the last one.
    bench.write(FIRST, &good);
    decide(&bench, "reader");
    let whole = bench.read(FIRST);
    let (signed, behind) = whole.split_at(good.len());
    let line = behind.lines().find(|line| line.contains("\"decision\"")).unwrap();
    let before = behind.lines().take_while(|line| !line.contains("\"decision\""));
    let before = before.filter(|line| line.starts_with("{\"seq\"")).map(|line| format!("{line}\n"));
    bench.write(FIRST, format!("{signed}{}{line}\n", before.collect::<String>()));
    let total = |more: &str| {
        let run = bench.run(&format!("{command} --json {more}"));
        assert_eq!(run.code, 0, "{run:?}");
        json(&run)["total"]["same"].clone()
    };
    assert_eq!(total(""), 5);
    assert_eq!(total("--key log.vkey --checkpoint kept"), 4);
    bench.fails(&format!("{command} --checkpoint kept"), 2, "USAGE");
    bench.fails("simulate none --trust-root root.json --registry reg.json", 1, "AUDIT_UNAVAILABLE");
}

#[test]
fn a_registry_has_to_be_signed_and_may_have_expired() {
    let bench = open();
    decide(&bench, "support-bot");
    bench.ok("registry sign draft.json --key op.key --ttl 1ms --out short.json");
    bench.fails(&format!("{SIMULATE} --registry draft.json"), 3, "REGISTRY_ENVELOPE");
    bench.fails(&format!("{SIMULATE} --registry short.json --was reg.json"), 2, "USAGE");
    let mut value = draft();
    value["version"] = json!(3);
    bench.write("draft.json", value.to_string());
    bench.ok("registry sign draft.json --key op.key --ttl 1ms --out short.json --force");
    assert_eq!(simulated(&bench, "--registry short.json --was reg.json")["changed"], 0);
    bench.ok("keys generate --kind ed25519 --out other.key --public-out other.pub");
    bench.ok("registry sign draft.json --key other.key --ttl 30d --out other.json");
    bench.fails(&format!("{SIMULATE} --registry other.json"), 3, "REGISTRY_SIGNATURES");
    bench.fails(&format!("{SIMULATE} --registry reg.json --was other.json"), 3, "REGISTRY_SIGNATURES");
}

#[test]
fn simulate_refuses_an_unverified_registry_like_verify() {
    let bench = open();
    decide(&bench, "support-bot");
    let good = bench.read("reg.json");
    let envelope: Value = serde_json::from_str(&good).unwrap();
    let with = |payload: &str| {
        let mut other = envelope.clone();
        other["payload"] = json!(payload);
        other.to_string()
    };
    // The verb reports that the registry is not validly signed, whatever else is wrong with it.
    for (name, text) in [
        ("empty.json", String::new()),
        ("noise.json", "hello".to_owned()),
        ("other-payload.json", with("e30=")),
        ("no-registry.json", with("aGVsbG8=")),
    ] {
        bench.write(name, text);
        let verified = bench.run(&format!("registry verify {name} --trust-root root.json"));
        assert_eq!(verified.code, 3, "{verified:?}");
        for registries in [format!("--registry {name}"), format!("--registry reg.json --was {name}")] {
            let run = bench.run(&format!("{SIMULATE} {registries}"));
            assert_eq!((run.code, run.out.as_str(), run.err), (3, "", verified.err.clone()), "{name}");
        }
    }
    // An unreadable registry is an error (exit 1), not a refusal (exit 3).
    bench.fails(&format!("{SIMULATE} --registry none.json"), 1, "FILE_MISSING");
    bench.fails(&format!("{SIMULATE} --registry log"), 1, "FILE_UNREADABLE");
    bench.fails("simulate log --trust-root none.json --registry reg.json", 1, "FILE_MISSING");
}

#[test]
fn fail_on_undetermined_is_separate_from_changes() {
    let bench = open();
    decide(&bench, "support-bot");
    decide(&bench, "reader");
    let code = |registries: &str, more: &str| {
        bench.run(&format!("{SIMULATE} --registry {registries} --key log.vkey {more}")).code
    };
    let (change, undetermined) = ("--fail-on-change", "--fail-on-undetermined");
    let both = format!("{change} {undetermined}");
    // Without the former registry, the answer to one call is undetermined; no answer changes.
    next(&bench, |value| value["tools"][3]["impact"] = json!("write"));
    for (more, expected) in [("", 0), (change, 0), (undetermined, 3), (&both, 3)] {
        assert_eq!(code("next.json", more), expected, "undetermined, {more}");
        assert_eq!(code("next.json --was reg.json", more), 0, "all told, {more}");
    }
    assert_eq!(code("next.json --agent reader", &both), 0, "the calls of others are not counted");
    next(&bench, |value| value["agents"][0]["tools"] = json!([{"server": "desk", "name": "refund"}]));
    for (more, expected) in [("", 0), (change, 3), (undetermined, 0), (&both, 3)] {
        assert_eq!(code("next.json --was reg.json", more), expected, "changed, {more}");
    }
}

#[test]
fn simulation_without_calls_is_an_error() {
    let bench = open();
    let run = |more: &str| bench.run(&format!("{SIMULATE} --registry reg.json --key log.vkey {more}"));
    let none = |more: &str, what: &str| {
        for asked in ["", "--fail-on-change", "--fail-on-undetermined", "--json"] {
            let Run { code, out, err } = run(&format!("{more} {asked}"));
            let told = format!("{out}{err}");
            assert!(
                code == 1 && told.contains("NO_CALLS_ON_RECORD") && told.contains(what),
                "{asked}: {told}"
            );
            assert!(!told.contains("simulated under") && !told.contains("\"total\""), "{asked}: {told}");
        }
    };
    let check = "check --registry reg.json --trust-root root.json --agent support-bot";
    let empty = bench.feed(&format!("{check} {RECORD_OPTIONS}"), "");
    assert_eq!(empty.code, 0, "{empty:?}");
    none("", "no call is recorded");
    decide(&bench, "support-bot");
    none("--agent suport-bot", "no call of agent `suport-bot` is recorded");
    none("--agent reader", "no call of agent `reader` is recorded");
    assert_eq!(run("--agent support-bot").code, 0);
}

#[test]
fn no_name_in_a_change_can_look_like_another_change() {
    let bench = open();
    let mut registry = draft();
    registry["agents"][1]["agent"] = json!(r#"reader\"  desk:search"#);
    sign(&bench, &registry, "reg.json");
    let line = "check --registry reg.json --trust-root root.json";
    let mut args: Vec<_> = line.split_whitespace().chain(RECORD_OPTIONS.split_whitespace()).collect();
    let session = r#"s\"  a  desk:refund  ACCEPTED -> ACCEPTED"#;
    args.extend(["--agent", r#"reader\"  desk:search"#, "--session", session]);
    let call = json!({"call_id": "c", "tool": "search", "args": {}}).to_string();
    let run = bench.run_args(&args, &call);
    assert_eq!(run.code, 0, "{run:?}");
    registry["version"] = json!(2);
    registry["agents"][1]["tools"] = json!([{"server": "desk", "name": "refund"}]);
    sign(&bench, &registry, "next.json");
    let text = bench.ok(&format!("{SIMULATE} --registry next.json --key log.vkey"));
    let change = text.lines().last().unwrap();
    let expected = concat!(
        r#"  "s\\\u0022  a  desk:refund  ACCEPTED -> ACCEPTED"  "reader\\\u0022  desk:search"  desk:search  "#,
        "ACCEPTED -> UNDISCLOSED_TOOL"
    );
    assert!(change.ends_with(expected), "{change}");
    assert!(text.contains("\n\"reader\\\\\\u0022  desk:search\"  desk:search "), "{text}");
}

#[test]
fn a_tool_has_one_form_in_the_rows_and_in_the_changes() {
    let bench = open();
    let mut registry = draft();
    registry["tools"][0]["name"] = json!("accept");
    registry["agents"][0]["tools"] = json!([{"server": "desk", "name": "accept"}]);
    registry["agents"][1]["tools"] = json!([{"server": "desk", "name": "accept"}]);
    sign(&bench, &registry, "reg.json");
    let check = "check --registry reg.json --trust-root root.json --agent reader";
    let call = json!({"call_id": "c", "tool": "accept", "args": {}}).to_string();
    let run = bench.feed(&format!("{check} {RECORD_OPTIONS}"), &call);
    assert_eq!(run.code, 0, "{run:?}");
    registry["version"] = json!(2);
    registry["agents"][1]["tools"] = json!([{"server": "desk", "name": "refund"}]);
    sign(&bench, &registry, "next.json");
    let text = bench.ok(&format!("{SIMULATE} --registry next.json --key log.vkey"));
    assert!(
        text.contains("\nreader  desk:\"accept\" ") && text.contains("  reader  desk:\"accept\"  ACC"),
        "{text}"
    );
    let told = simulated(&bench, "--registry next.json");
    assert_eq!(
        (&told["rows"][0]["tool"], &told["changes"][0]["tool"]),
        (&json!("desk:accept"), &json!("desk:accept"))
    );
}

#[test]
fn agent_name_cannot_fake_an_overflow_row() {
    let bench = open();
    let mut registry = draft();
    registry["agents"][1]["agent"] = json!("(others)");
    sign(&bench, &registry, "reg.json");
    let call = |tool: &str| json!({"call_id": "c", "tool": tool, "args": {}});
    let input = format!("{}\n{}\n", call("search"), call("(unknown)"));
    let line = "check --registry reg.json --trust-root root.json --agent (others)";
    let run = bench.feed(&format!("{line} {RECORD_OPTIONS}"), &input);
    assert_eq!(run.code, 3, "{run:?}");
    let told = simulated(&bench, "--registry reg.json");
    let members = ["agent", "tool", "server", "name"];
    let row = |row: &Value| members.map(|member| row[member].clone());
    let rows: Vec<_> = told["rows"].as_array().unwrap().iter().map(row).collect();
    let search = ["(others)", "desk:search", "desk", "search"].map(|text| json!(text));
    assert_eq!(rows, [[json!("(others)"), json!("(unknown)"), Value::Null, Value::Null], search]);
}
