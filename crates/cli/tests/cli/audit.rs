use crate::bench::Bench;

fn decision(seq: u64, agent: &str, code: Option<&str>) -> String {
    let verdict = match code {
        Some(code) => format!("\"verdict\":\"reject\",\"code\":\"{code}\""),
        None => "\"verdict\":\"accept\"".to_owned(),
    };
    format!(
        "{{\"seq\":{seq},\"type\":\"decision\",\"time\":{},\"session\":\"s\",\"agent\":\"{agent}\",\
         \"principal\":\"p\",\"call_id\":\"c{seq}\",\"tool\":{{\"server\":\"desk\",\"name\":\"search\"}},\
         {verdict},\"registry_version\":1}}\n",
        1_700_000_000_000 + seq
    )
}

fn record() -> String {
    [
        decision(1, "a", None),
        decision(2, "a", Some("UNDISCLOSED_TOOL")),
        decision(3, "a", Some("APPROVAL_REQUIRED")),
        decision(4, "a", None),
        decision(5, "b", Some("ARGS_SCHEMA")),
    ]
    .concat()
}

#[test]
fn a_whole_record_verifies_and_a_gap_is_refused() {
    let bench = Bench::new();
    bench.write("r", record());
    let report = bench.run("audit verify r --json").value();
    assert_eq!(report["summary"]["records"], 5);
    assert!(bench.ok("audit verify r").starts_with("5 entries"));
    bench.write("gap", [decision(1, "a", None), decision(3, "a", None)].concat());
    bench.fails("audit verify gap", 3, "AUDIT_CORRUPT");
    bench.write("torn", record().trim_end());
    bench.fails("audit verify torn", 3, "AUDIT_TORN");
    bench.write("noise", "hello\n");
    bench.fails("audit verify noise", 3, "AUDIT_CORRUPT");
    bench.fails("audit verify missing", 1, "AUDIT_UNAVAILABLE");
    bench.fails("audit verify .", 1, "AUDIT_UNAVAILABLE");
}

#[test]
fn show_prints_entries_as_text_and_as_they_are() {
    let bench = Bench::new();
    bench.write("r", record());
    assert_eq!(bench.ok("audit show r").lines().count(), 5);
    assert_eq!(bench.ok("audit show r --json"), record());
    assert_eq!(bench.ok("audit show r --agent b").lines().count(), 1);
    assert_eq!(bench.ok("audit show r --verdict accept").lines().count(), 2);
    assert_eq!(bench.ok("audit show r --session other"), "");
    bench.fails("audit show missing", 1, "AUDIT_UNAVAILABLE");
}

#[test]
fn stats_count_by_agent_and_leave_waiting_calls_out_of_the_rate() {
    let bench = Bench::new();
    bench.write("r", record());
    let report = bench.run("stats r --json").value();
    let a = &report["agents"]["a"];
    assert_eq!((a["accepted"].as_u64(), a["rejected"].as_u64()), (Some(2), Some(2)));
    assert_eq!(a["undisclosed_attempts"], 1);
    assert_eq!(a["rejected_by_code"]["APPROVAL_REQUIRED"], 1);
    assert!((a["acceptance_rate"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(report["agents"]["b"]["acceptance_rate"].as_f64(), Some(0.0));
    assert_eq!(report["total"]["accepted"], 2);
    let table = bench.ok("stats r");
    assert!(table.contains("66.7%") && table.contains("UNDISCLOSED_TOOL 1"), "{table}");
    bench.write("empty", "");
    assert_eq!(bench.run("stats empty --json").value()["total"]["acceptance_rate"], serde_json::Value::Null);
    bench.fails("stats missing", 1, "AUDIT_UNAVAILABLE");
    bench.write("noise", "hello\n");
    bench.fails("stats noise", 1, "AUDIT_CORRUPT");
}
