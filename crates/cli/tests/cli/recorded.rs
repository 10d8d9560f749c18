use serde_json::json;

use crate::bench::{RECORD, RECORD_OPTIONS};
use crate::desk;
#[cfg(unix)]
use crate::mcp::{Client, gateway};

const CHECK: &str = "check --registry reg.json --trust-root root.json --agent support-bot";

#[test]
fn named_argument_values_are_recorded() {
    let bench = desk::open();
    let line = json!({"call_id": "c1", "tool": "search", "args": {"query": "refunds \u{202e}"}}).to_string();
    let with = |options: &str| bench.feed(&format!("{CHECK} {RECORD_OPTIONS} {options}"), &line);
    assert_eq!(with("--record-argument desk:search=/query --record-argument desk:search=").code, 0);
    let (entries, values) = (bench.entries(), |value: &str| json!({"pointer": "", "value": value}));
    let decision = entries.iter().find(|entry| entry["type"] == "decision").unwrap();
    let all = values("{\"query\":\"refunds \\u{202e}\"}");
    let query = json!({"pointer": "/query", "value": "\"refunds \\u{202e}\""});
    assert_eq!(decision["values"], json!([query, all]));
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(" accept; /query=\"refunds \\u202e\"; ={\"query\":"), "{shown}");
    bench.verified();
    assert_eq!(with("").code, 0);
    assert_eq!(bench.entries().iter().filter(|entry| entry.get("values").is_some()).count(), 1);
}

#[test]
fn invalid_record_argument_stops_the_start() {
    let bench = desk::open();
    let before = bench.snapshot();
    let fails = |options: &str, exit, code: &str| {
        let run = bench.run(&format!("{CHECK} {options}"));
        assert!(run.code == exit && run.err.starts_with(&format!("error {code}: ")), "{options}: {run:?}");
        assert_eq!(bench.snapshot(), before, "{options}");
        run.err
    };
    let on_record = |argument: &str| format!("{RECORD_OPTIONS} --record-argument {argument}");
    let unknown = fails(&on_record("desk:invented=/x"), 1, "RECORDED_FIELD_TOOL");
    assert!(unknown.contains("`desk:invented`"), "{unknown}");
    for bad in ["search=/query", "desk:search", "desk:search=query", "desk:search=/~2", "desk:=/x"] {
        fails(&on_record(bad), 2, "USAGE");
    }
    fails(&on_record("desk:search=/query --record-argument desk:search=/query"), 2, "USAGE");
    fails("--record-argument desk:search=/query", 2, "USAGE");
}

#[cfg(unix)]
#[test]
fn configuration_selects_recorded_values_by_tool() {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    let arguments = |table: &str| {
        let table = format!("{RECORD}[record.arguments]\n{table}\n[server]");
        let (before, after) = config.split_once("[record]").unwrap();
        bench.write("gateway.toml", format!("{before}{table}{}", after.split_once("[server]").unwrap().1));
    };
    for (table, code) in [
        ("\"desk:invented\" = [\"/x\"]", "RECORDED_FIELD_TOOL"),
        ("\"desk:refund\" = [\"x\"]", "CONFIG_MALFORMED"),
        ("\"desk:refund\" = [\"/x\", \"/x\"]", "CONFIG_MALFORMED"),
        ("\"desk:refund\" = []", "CONFIG_MALFORMED"),
        ("\"refund\" = [\"/x\"]", "CONFIG_MALFORMED"),
        ("\"desk:refund\" = \"/x\"", "CONFIG_MALFORMED"),
    ] {
        arguments(table);
        let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
        assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{table}: {run:?}");
        assert!(!bench.path("log").exists(), "{table}");
    }
    arguments("\"desk:refund\" = [\"/id\"]\n\"desk:wipe\" = [\"/everything\"]");
    let mut client = Client::start(&bench);
    client.call("refund", json!({"id": 7, "note": "private"}));
    client.call("search", json!({"query": "private"}));
    client.end();
    let entries = bench.entries();
    let values: Vec<_> = entries.iter().filter_map(|entry| entry.get("values")).collect();
    assert_eq!(values, [&json!([{"pointer": "/id", "value": "7"}])]);
    assert!(!bench.run("audit show log --json").out.contains("private"));
}
