//! Metrics and traces: they match the documentation, and a feature that is configured but not built in stops the start.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::bench::Bench;
use crate::mcp::gateway;

/// Reads a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns the metrics in the table of `docs/metrics.md`, with their types and labels.
fn documented() -> Vec<(String, String, BTreeSet<String>)> {
    let text = file("docs/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `countersign_"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect();
    cells.map(|row| (row[1].trim_matches('`').to_owned(), row[2].to_owned(), ticked(row[4]))).collect()
}

/// Returns the metrics in an expression.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("countersign_")).map(ToOwned::to_owned).collect()
}

/// Collects every expression of the dashboard.
fn expressions(value: &Value, found: &mut Vec<String>) {
    for name in ["expr", "definition"] {
        found.extend(value.get(name).and_then(Value::as_str).map(ToOwned::to_owned));
    }
    let members = value.as_object().into_iter().flat_map(|members| members.values());
    let elements = value.as_array().into_iter().flatten();
    members.chain(elements).for_each(|within| expressions(within, found));
}

/// Adds a part to the gateway's configuration.
fn with(bench: &Bench, part: &str) {
    let config = bench.read("gateway.toml");
    let plain = config.split("\n[metrics]").next().unwrap().split("\n[traces]").next().unwrap();
    bench.write("gateway.toml", format!("{plain}\n{part}\n"));
}

/// Checks that the gateway refuses to start with this part.
fn refused(bench: &Bench, part: &str, code: &str) {
    with(bench, part);
    let before = bench.snapshot();
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{part}: {run:?}");
    assert_eq!(bench.snapshot(), before, "{part}");
}

#[test]
fn dashboard_uses_exactly_the_documented_metrics() {
    let dashboard: Value = serde_json::from_str(&file("dashboards/countersign.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 12, "{found:?}");
    let asked: BTreeSet<String> = found.iter().flat_map(|expression| metrics_in(expression)).collect();
    let known: BTreeSet<String> = documented()
        .into_iter()
        .map(|(name, kind, _)| if kind == "histogram" { format!("{name}_bucket") } else { name })
        .collect();
    assert_eq!(asked, known);
}

#[test]
fn every_label_that_the_dashboard_asks_for_is_one_of_the_metric() {
    let dashboard = file("dashboards/countersign.json");
    let labels: BTreeSet<String> = documented().into_iter().flat_map(|(_, _, labels)| labels).collect();
    let within = dashboard.split("by (").skip(1).map(|rest| rest.split(')').next().unwrap());
    let used: BTreeSet<&str> =
        within.flat_map(|list| list.split(", ")).filter(|label| *label != "le").collect();
    assert!(used.len() > 3 && used.iter().all(|label| labels.contains(*label)), "{used:?} {labels:?}");
}

/// Documented command that builds the binary with both features.
const BUILD: &str = "cargo install --path crates/cli --features prometheus,otel";

#[test]
fn documentation_names_the_build_with_exports() {
    for page in ["docs/metrics.md", "docs/traces.md"] {
        assert!(file(page).contains(BUILD), "{page}");
    }
}

#[test]
#[cfg(not(all(feature = "prometheus", feature = "otel")))]
fn missing_feature_names_the_build() {
    let bench = gateway();
    let missing = if cfg!(feature = "prometheus") { "[traces]" } else { "[metrics]" };
    with(&bench, missing);
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 1 && run.err.trim_end().ends_with(&format!(": {BUILD}")), "{run:?}");
}

#[test]
#[cfg(not(feature = "prometheus"))]
fn metrics_that_were_not_built_in_stop_the_start() {
    let bench = gateway();
    refused(&bench, "[metrics]\nfile = \"x.prom\"", "FEATURE_MISSING");
    refused(&bench, "[metrics]\nwhatever = 1", "FEATURE_MISSING");
}

#[test]
#[cfg(not(feature = "otel"))]
fn traces_that_were_not_built_in_stop_the_start() {
    let bench = gateway();
    refused(&bench, "[traces]\nendpoint = \"http://127.0.0.1:4318/v1/traces\"", "FEATURE_MISSING");
    refused(&bench, "[traces]", "FEATURE_MISSING");
}

#[test]
#[cfg(feature = "prometheus")]
fn metrics_that_make_no_sense_stop_the_start() {
    let bench = gateway();
    let metrics = |lines: &str, code: &str| refused(&bench, &format!("[metrics]\n{lines}"), code);
    metrics("", "CONFIG_CONFLICT");
    metrics("interval = \"1s\"", "CONFIG_CONFLICT");
    metrics("listen = \"127.0.0.1:9464\"", "CONFIG_MALFORMED");
    metrics("file = \"x.prom\"\ninterval = \"999ms\"", "CONFIG_CONFLICT");
    metrics("file = \"x.prom\"\nport = 1", "CONFIG_MALFORMED");
}

#[test]
#[cfg(feature = "prometheus")]
fn a_file_that_cannot_be_written_stops_the_start() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"no/such/folder.prom\"");
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 1 && run.err.starts_with("error FILE_UNWRITABLE: "), "{run:?}");
    assert!(!bench.path("log").exists(), "no session is on record that never was");
}

#[test]
#[cfg(feature = "prometheus")]
fn every_metric_that_the_gate_has_is_documented() {
    let documented: BTreeSet<String> = documented().into_iter().map(|(name, ..)| name).collect();
    // Metrics that the exporter itself adds.
    let own = [
        "countersign_written_seconds",
        "countersign_record_entries",
        "countersign_record_bytes",
        "countersign_record_unsynced_entries",
        "countersign_record_synced_timestamp_seconds",
        "countersign_checkpoint_kept_timestamp_seconds",
        "countersign_checkpoint_cosigned_timestamp_seconds",
    ];
    let names = countersign_tool_gate::METRIC_NAMES.iter().chain(&own);
    let emitted: BTreeSet<String> = names.map(ToString::to_string).collect();
    assert_eq!(documented, emitted);
}

/// The file is written at the start and at the end, so even the shortest session is in it.
#[test]
#[cfg(feature = "prometheus")]
fn metrics_file_has_the_final_counts() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    let mut client = crate::mcp::Client::start(&bench);
    assert!(!bench.read("out.prom").contains("countersign_answers_total{"));
    client.call("search", serde_json::json!({"query": "x"}));
    for name in ["wipe", "made_up", "made_up_too"] {
        client.call(name, serde_json::json!({}));
    }
    assert_eq!(client.end().0, 0);
    let text = bench.read("out.prom");
    let line = |server: &str, tool: &str, code: &str, count: u64| {
        let labels = format!("agent=\"bot\",server=\"{server}\",tool=\"{tool}\",code=\"{code}\"");
        let line = format!("\ncountersign_answers_total{{{labels}}} {count}\n");
        assert!(text.contains(&line), "{line}: {text}");
    };
    line("desk", "search", "ACCEPTED", 1);
    line("desk", "wipe", "UNDISCLOSED_TOOL", 1);
    line("(unknown)", "(unknown)", "UNDISCLOSED_TOOL", 2);
    assert!(text.contains("\ncountersign_answer_duration_seconds_count 4\n"), "{text}");
    assert!(!text.contains("made_up"), "{text}");
}

/// Returns the value of a series in the metrics file.
#[cfg(feature = "prometheus")]
fn value(bench: &Bench, series: &str) -> Option<String> {
    let text = bench.read("out.prom");
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(ToOwned::to_owned))
}

/// Runs a session of some undisclosed calls and one good call, with a metrics file. Returns standard error.
#[cfg(feature = "prometheus")]
fn session(bench: &Bench, undisclosed: usize) -> String {
    let mut client = crate::mcp::Client::start(bench);
    for _ in 0..undisclosed {
        client.call("made_up", serde_json::json!({}));
    }
    client.call("search", serde_json::json!({"query": "x"}));
    let (code, said) = client.end();
    assert_eq!(code, 0, "{said}");
    said
}

#[cfg(feature = "prometheus")]
const ATTEMPTS: &str = "countersign_undisclosed_attempts_total{agent=\"bot\"}";

#[test]
#[cfg(feature = "prometheus")]
fn counters_of_a_file_go_on_from_the_last_session() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    let said = session(&bench, 3) + &session(&bench, 4);
    assert!(!said.contains("METRICS"), "{said}");
    assert_eq!(value(&bench, ATTEMPTS).as_deref(), Some("7"));
    let times = "countersign_answer_duration_seconds";
    assert_eq!(value(&bench, &format!("{times}_count")).as_deref(), Some("9"));
    assert_eq!(value(&bench, &format!("{times}_bucket{{le=\"+Inf\"}}")).as_deref(), Some("9"));
    let sum: f64 = value(&bench, &format!("{times}_sum")).unwrap().parse().unwrap();
    assert!(sum > 0.0, "{sum}");
    assert_eq!(value(&bench, "countersign_outcomes_total{outcome=\"returned\"}").as_deref(), Some("2"));
    let mut client = crate::mcp::Client::start(&bench);
    client.call("made_up", serde_json::json!({}));
    client.end();
    assert_eq!(value(&bench, ATTEMPTS).as_deref(), Some("8"));
    assert_eq!(value(&bench, "countersign_outcomes_total{outcome=\"returned\"}").as_deref(), Some("2"));
}

#[test]
#[cfg(feature = "prometheus")]
fn the_file_begins_with_zeros_for_the_agent() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    let client = crate::mcp::Client::start(&bench);
    assert_eq!(value(&bench, ATTEMPTS).as_deref(), Some("0"));
    let outage = "countersign_unavailable_total{agent=\"bot\",code=\"AUDIT_UNAVAILABLE\"}";
    assert_eq!(value(&bench, outage).as_deref(), Some("0"));
    for gauge in ["session_started_seconds", "written_seconds", "alarm_raised", "agent_quarantined"] {
        assert!(value(&bench, &format!("countersign_{gauge}{{agent=\"bot\"}}")).is_some(), "{gauge}");
    }
    client.end();
}

#[test]
#[cfg(feature = "prometheus")]
fn gauges_leave_the_file_when_the_gateway_ends() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    session(&bench, 1);
    let text = bench.read("out.prom");
    assert!(!text.contains(" gauge\n") && !text.contains("alarm_raised"), "{text}");
    assert!(text.contains("countersign_answers_total{"), "{text}");
}

#[test]
#[cfg(feature = "prometheus")]
fn a_damaged_metrics_file_restarts_the_counters() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    session(&bench, 3);
    let good = bench.read("out.prom");
    let attempts = format!("{ATTEMPTS} 3\n");
    let with_attempts = |line: &str| good.replace(&attempts, line);
    let damaged = [
        good.replace("# EOF\n", ""),
        good.trim_end().to_owned(),
        good[..good.len() / 2].to_owned(),
        with_attempts(&format!("{ATTEMPTS} three\n")),
        with_attempts(&format!("{ATTEMPTS} 3.5\n")),
        with_attempts(&format!("{ATTEMPTS} -3\n")),
        with_attempts(&format!("{ATTEMPTS} 9007199254740993\n")),
        with_attempts(&attempts.repeat(2)),
        with_attempts("countersign_undisclosed_attempts_total{agent=\"bot} 3\n"),
        with_attempts("countersign_undisclosed_attempts_total{agent=\"bot\",pod=\"x\"} 3\n"),
        with_attempts("countersign_undisclosed_attempts_total{agent=\"bot\",of=\"calls\"} 3\n"),
        with_attempts("countersign_undisclosed_attempts_total 3\n"),
        good.replace("undisclosed_attempts_total counter", "undisclosed_attempts_total gauge"),
        with_attempts(&format!(
            "{attempts}# TYPE countersign_alarm_raised counter\ncountersign_alarm_raised 1\n"
        )),
        with_attempts("node_load1 3\n"),
        good.replace("undisclosed_attempts_total", "no_such_total"),
        good.replace("_duration_seconds_count 4", "_duration_seconds_count 5"),
        "x".repeat(9 << 20),
        "node_load1 3\n# EOF\n".to_owned(),
    ];
    for (number, text) in damaged.into_iter().enumerate() {
        assert_ne!(text, good, "{number}");
        bench.write("out.prom", text);
        let said = session(&bench, 1);
        assert!(said.contains("warning METRICS_RESTARTED: "), "{number}: {said}");
        assert_eq!(value(&bench, ATTEMPTS).as_deref(), Some("1"), "{number}");
    }
    bench.write("out.prom", good);
    session(&bench, 1);
    assert_eq!(value(&bench, ATTEMPTS).as_deref(), Some("4"));
}

#[test]
#[cfg(feature = "prometheus")]
fn second_gateway_of_a_metrics_file_is_refused() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    let first = crate::mcp::Client::start(&bench);
    let before = bench.read("out.prom");
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 1 && run.err.starts_with("error METRICS_LOCKED: "), "{run:?}");
    assert_eq!(bench.read("out.prom"), before);
    first.end();
    session(&bench, 1);
}

#[test]
#[cfg(feature = "prometheus")]
fn series_that_the_registry_does_not_know_are_dropped() {
    let bench = gateway();
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1h\"");
    session(&bench, 1);
    let known = "countersign_answers_total{agent=\"bot\",server=\"desk\",tool=\"search\",code=\"ACCEPTED\"}";
    assert_eq!(value(&bench, known).as_deref(), Some("1"));
    let more = [("bot", "gone"), ("search", "gone"), ("desk", "gone"), ("ACCEPTED", "GONE")]
        .map(|(from, to)| format!("{} 7", known.replace(&format!("\"{from}\""), &format!("\"{to}\""))));
    let text =
        bench.read("out.prom").replace(&format!("{known} 1"), &format!("{known} 1\n{}", more.join("\n")));
    bench.write("out.prom", text);
    let said = session(&bench, 1);
    assert!(!said.contains("METRICS"), "{said}");
    assert_eq!(value(&bench, known).as_deref(), Some("2"));
    let text = bench.read("out.prom");
    assert!(!text.contains("gone") && !text.contains("GONE"), "{text}");
}

/// Every metric that a rule queries is documented, and so is every alert.
#[test]
fn the_rules_ask_for_documented_metrics() {
    let rules = file("dashboards/countersign.rules.yml");
    let known: BTreeSet<String> = documented().into_iter().map(|(name, ..)| name).collect();
    let asked = metrics_in(&rules);
    assert!(asked.len() > 4 && asked.is_subset(&known), "{asked:?}");
    let docs = file("docs/metrics.md");
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 4, "{alerts:?}");
    for alert in alerts {
        assert!(docs.contains(&format!("`{alert}`")), "{alert}");
    }
}

/// A missing collector delays no call, and the lost spans are reported.
#[test]
#[cfg(feature = "otel")]
fn lost_spans_are_counted() {
    let bench = gateway();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    with(&bench, &format!("[traces]\nendpoint = \"http://{gone}/v1/traces\""));
    let mut client = crate::mcp::Client::start(&bench);
    for _ in 0..3 {
        let answer = client.call("search", serde_json::json!({"query": "x"}));
        assert!(answer["isError"].is_null(), "{answer}");
    }
    let (code, said) = client.end();
    assert_eq!(code, 0);
    assert!(said.lines().any(|line| line.starts_with("warning TRACES_LOST: 3 spans ")), "{said}");
}

#[test]
#[cfg(feature = "otel")]
fn traces_that_make_no_sense_stop_the_start() {
    let bench = gateway();
    let traces = |lines: &str, code: &str| refused(&bench, &format!("[traces]\n{lines}"), code);
    traces("", "CONFIG_MALFORMED");
    traces("endpoint = \"127.0.0.1:4318\"", "CONFIG_MALFORMED");
    traces("endpoint = \"http://user:secret@127.0.0.1:4318/v1/traces\"", "CONFIG_MALFORMED");
    traces("endpoint = \"http://collector.example/v1/traces\"", "TRACES_PLAIN_HTTP");
    traces("endpoint = \"http://127.0.0.1/v1/traces\"\nprotocol = \"grpc\"", "CONFIG_MALFORMED");
}

/// Returns the value of a gauge for the agent `bot`.
#[cfg(all(unix, feature = "prometheus"))]
fn gauge_of(text: &str, name: &str) -> Option<f64> {
    let series = format!("{name}{{agent=\"bot\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)).map(|value| value.parse().unwrap())
}

#[test]
#[cfg(all(unix, feature = "prometheus"))]
fn record_health_is_in_the_file() {
    use std::time::{Duration, UNIX_EPOCH};

    let bench = gateway();
    crate::mcp::Client::start(&bench).end();
    let note = bench.ok("audit checkpoint log --key log.vkey");
    // A cosignature by an unknown key, with time 1,000,000 seconds after 1970.
    let mut line = [0; 76];
    line[4..12].copy_from_slice(&1_000_000_u64.to_be_bytes());
    let line = <base64ct::Base64 as base64ct::Encoding>::encode_string(&line);
    bench.write("kept.note", format!("{note}\u{2014} witness.example {line}\n"));
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", config.replace("[record]\n", "[record]\ncheckpoint_file = \"kept.note\"\n"));
    with(&bench, "[metrics]\nfile = \"out.prom\"\ninterval = \"1s\"");
    let mut client = crate::mcp::Client::start(&bench);
    client.call("search", serde_json::json!({}));
    std::thread::sleep(Duration::from_secs(3));
    let text = bench.read("out.prom");
    let entries = bench.entries().len();
    let gauge = |name: &str| gauge_of(&text, &format!("countersign_{name}"));
    assert_eq!(gauge("record_entries"), Some(entries as f64), "{text}");
    assert_eq!(gauge("record_bytes"), Some(bench.read("log/000000000001.jsonl").len() as f64));
    assert_eq!(gauge("record_unsynced_entries"), Some(0.0));
    assert_eq!(gauge("checkpoint_cosigned_timestamp_seconds"), Some(1_000_000.0));
    let written = std::fs::metadata(bench.path("out.prom")).unwrap().modified().unwrap();
    let written = written.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for name in ["record_synced_timestamp_seconds", "checkpoint_kept_timestamp_seconds"] {
        assert!(
            gauge(name).is_some_and(|time| (written - 600.0..=written).contains(&time)),
            "{name}: {text}"
        );
    }
    assert!(text.contains("countersign_summed_refusals_total{agent=\"bot\",of=\"calls\"} 0"), "{text}");
    client.end();
    assert_eq!(gauge_of(&bench.read("out.prom"), "countersign_record_entries"), None);
}
