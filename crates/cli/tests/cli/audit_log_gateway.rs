#![cfg(unix)]

use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use countersign_audit_log::{AuditSink as _, Direction, Durability, GatewayRecord, Log, LogOptions, Record};
use countersign_core::Timestamp;
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;
use serde_json::json;

use crate::bench::{Bench, RECORD as LOG, RECORD_OPTIONS, lines_of};
use crate::mcp::{Client, gateway};
use crate::plan_run;

/// Adds this record configuration to `gateway.toml`.
fn record(bench: &Bench, part: &str) {
    let config = bench.read("gateway.toml");
    let (before, rest) = config.split_once("[record]").unwrap();
    let (_, after) = rest.split_once("[server]").unwrap();
    bench.write("gateway.toml", format!("{before}{part}\n[server]{after}"));
}

/// Reader of a growing log. Ends with the test.
pub(crate) struct Follow {
    pub(crate) child: Child,
    pub(crate) from: Receiver<String>,
}

impl Follow {
    pub(crate) fn start(bench: &Bench, line: &str) -> Self {
        let mut child = bench
            .command(&line.split_whitespace().collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let from = lines_of(child.stdout.take().unwrap());
        Self { child, from }
    }

    pub(crate) fn next(&self) -> String {
        self.from.recv_timeout(Duration::from_secs(30)).expect("an entry")
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_that_a_gateway_is_writing_can_be_read_and_verified() {
    let bench = gateway();
    record(&bench, &format!("{LOG}durability = \"every\""));
    let mut client = Client::start(&bench);
    client.call("search", json!({"query": "x"}));
    let before = bench.verified()["records"].as_u64().unwrap();
    assert!(before >= 3, "{before}");
    let follow = Follow::start(&bench, "audit tail log -n 1 --follow --json");
    assert!(follow.next().contains(&format!("{{\"seq\":{before},")));
    bench.write("kept", bench.ok("audit checkpoint log --key log.vkey"));
    let receipt = bench.ok(&format!("audit receipt log --key log.vkey --seq {before}"));
    bench.write("receipt", receipt);
    bench.ok("audit verify-receipt receipt --key log.vkey");

    client.call("wipe", json!({}));
    let next = follow.next();
    assert!(next.contains(&format!("{{\"seq\":{},", before + 1)) && next.contains("wipe"), "{next}");
    assert_eq!(client.end(), (0, String::new()));
    let told = bench.run("audit verify log --key log.vkey --checkpoint kept --json").value();
    assert!(told["summary"]["records"].as_u64().unwrap() > before);
    assert_eq!((&told["summary"]["tail_bytes"], &told["summary"]["kept_elsewhere"]), (&json!(0), &json!(1)));
    // The next run continues from the kept checkpoint.
    record(&bench, &format!("{LOG}checkpoint_file = \"kept\""));
    assert_eq!(Client::start(&bench).end().0, 0);
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    let lost = || bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(lost().code == 1 && lost().err.starts_with("error AUDIT_MISSING: "), "{:?}", lost());
    // Without the state, the checkpoint reveals the loss.
    std::fs::remove_file(bench.path("record.state")).unwrap();
    assert!(lost().code == 1 && lost().err.starts_with("error AUDIT_ROLLED_BACK: "), "{:?}", lost());
}

#[test]
fn incomplete_record_configuration_is_refused() {
    let bench = gateway();
    let fails = |part: &str, code: &str| {
        record(&bench, part);
        let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
        assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{part}: {run:?}");
        assert!(!bench.path("log").exists(), "{part}");
    };
    fails("[record]", "CONFIG_MALFORMED");
    fails("[record]\nfile = \"log\"", "CONFIG_MALFORMED");
    for needed in ["folder", "key_file", "origin"] {
        let rest: Vec<_> = LOG.lines().filter(|line| !line.starts_with(needed)).collect();
        assert_eq!(rest.len(), 3);
        fails(&rest.join("\n"), "CONFIG_MALFORMED");
    }
    fails(&LOG.replace("example.com/log", "two words"), "CONFIG_MALFORMED");
    fails(&format!("{LOG}durability = \"never\""), "CONFIG_MALFORMED");
    for segment in ["65535", "1073741825", "\"64 MiB\"", "-1"] {
        fails(&format!("{LOG}segment = {segment}"), "CONFIG_MALFORMED");
    }
    for rate in ["{ burst = 0, per_second = 1 }", "{ burst = 10001, per_second = 1 }", "{ burst = 9 }", "9"] {
        fails(&format!("{LOG}refused_calls = {rate}"), "CONFIG_MALFORMED");
        fails(&format!("{LOG}refused_messages = {rate}"), "CONFIG_MALFORMED");
    }
    fails(&LOG.replace("log.key", "op.key"), "KEY_FILE_KIND");
    fails(&format!("{LOG}checkpoint_file = \"none\""), "FILE_MISSING");
}

#[test]
fn configured_rates_sum_a_gateways_refusals() {
    let bench = gateway();
    let rate = "{ burst = 1, per_second = 1 }";
    record(&bench, &format!("{LOG}refused_calls = {rate}\nrefused_messages = {rate}"));
    let mut client = Client::start(&bench);
    for _ in 0..50 {
        client.call("wipe", json!({}));
        client.ask("made/up", json!({}));
    }
    assert_eq!(client.end().0, 0);
    bench.verified();
    let of =
        |kind: &str| bench.entries().into_iter().filter(|entry| entry["type"] == kind).collect::<Vec<_>>();
    let total = |sums: &[serde_json::Value]| -> u64 {
        sums.iter()
            .flat_map(|sum| sum["rows"].as_array().unwrap())
            .map(|row| row["count"].as_u64().unwrap())
            .sum()
    };
    let (calls, messages): (Vec<_>, Vec<_>) =
        of("refused").into_iter().partition(|sum| sum["agent"] == "bot");
    assert_eq!(total(&calls) + of("decision").len() as u64, 50);
    assert_eq!(total(&messages) + of("gateway").len() as u64, 50);
    let stats = bench.run("stats log --json").value();
    assert_eq!((&stats["total"]["rejected"], &stats["gateway_refusals"]), (&json!(50), &json!(50)));
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(" refused  "), "{shown}");
}

#[test]
fn record_table_in_the_help_is_accepted() {
    let bench = gateway();
    let help = bench.ok("mcp run --help");
    let part = help.split("[record]\n").nth(1).unwrap().split("  [limits]").next().unwrap();
    let hinted = part.replace("log.key.json", "log.key").replace("# checkpoint_file", "checkpoint_file");
    assert_ne!(hinted, part);
    assert_eq!(Client::start(&bench).end().0, 0);
    bench.write("kept.note", bench.ok("audit checkpoint log --key log.vkey"));
    record(&bench, &format!("[record]\n{hinted}"));
    assert_eq!(Client::start(&bench).end().0, 0);
    bench.ok("audit verify log --key log.vkey --checkpoint kept.note");
}

#[test]
fn receipt_of_a_plan_step_names_its_plan() {
    let bench = plan_run::open();
    bench.write("steps.json", json!({"steps": [plan_run::search("x"), plan_run::search("y")]}).to_string());
    let log = format!("{RECORD_OPTIONS} --record-durability system");
    let run = |session: &str| {
        bench.run(&format!("plan run {session} {log} --session s1 steps.json -- sh server.sh"))
    };
    let ran = run("--registry reg.json --trust-root root.json --agent bot --goal Help");
    assert_eq!(ran.code, 0, "{ran:?}");
    let root = ran.out.split_whitespace().nth(1).unwrap();
    assert_eq!(bench.verified()["tail_bytes"], 0);
    let steps = bench.entries();
    let second = steps.iter().find(|record| record["plan_step"] == 2).unwrap();
    let receipt = bench.ok(&format!("audit receipt log --key log.vkey --seq {}", second["seq"]));
    bench.write("receipt", receipt);
    let shown = bench.ok("audit verify-receipt receipt --key log.vkey");
    assert!(
        shown.contains("(step 2 of the plan) accept") && shown.contains(&format!("plan       {root}")),
        "{shown}"
    );
    bench.write("gateway.toml", "");
    let both = run("--config gateway.toml");
    assert!(both.code == 2 && both.err.starts_with("error USAGE: "), "{both:?}");
}

#[test]
fn uncheckpointed_tail_is_cut_by_the_next_writer() {
    let bench = gateway();
    assert_eq!(Client::start(&bench).end().0, 0);
    let first = "log/000000000001.jsonl";
    let good = bench.read(first);
    let told = || bench.verified();
    let before = told();
    let records = before["records"].as_u64().unwrap();
    let late = "\"type\":\"gateway\",\"time\":0,\"direction\":\"to_server\",\"code\":\"LATE\"}";
    let behind = format!("{{\"seq\":{},{late}\n{{\"seq\":", records + 1);
    bench.write(first, format!("{good}{behind}"));
    let bytes = behind.len();
    assert_eq!((&told()["records"], &told()["root"]), (&before["records"], &before["root"]));
    assert!(bench.ok("audit verify log --key log.vkey").contains(&format!("{bytes} bytes after the last")));
    bench.ok("audit prove log --key log.vkey --seq 1");
    bench.ok("audit receipt log --key log.vkey --seq 1");
    bench.ok("audit export log --key log.vkey --tiles out");
    let next = records + 1;
    bench.fails(&format!("audit receipt log --key log.vkey --seq {next}"), 1, "AUDIT_NO_SUCH_SIZE");
    for verb in ["show", "tail"] {
        assert!(
            bench.run(&format!("audit {verb} log")).out.ends_with(" gateway  to the server: LATE\n"),
            "{verb}"
        );
    }
    assert_eq!(Client::start(&bench).end().0, 0);
    let shown = bench.run("audit show log").out;
    let cut = shown.lines().nth(usize::try_from(records).unwrap()).unwrap();
    assert!(cut.contains(&format!(" recovered {bytes} bytes were cut, sha-256 ")), "{shown}");
    assert!(!shown.contains("LATE"), "{shown}");
    bench.ok("audit verify log --key log.vkey");
}

/// Returns a log with short segments. No gateway in a test writes enough to fill normal ones.
fn short_segments(bench: &Bench) -> Log {
    let origin = KeyName::new("example.com/log").unwrap();
    Log::open(bench.path("log"), LogOptions::new(origin, SigningKey::from_seed([7; 32])).segment_bytes(600))
        .unwrap()
}

fn write(log: &Log, code: &str) -> u64 {
    log.record(&Record::Gateway(GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, code))).unwrap()
}

#[test]
fn the_tail_follows_a_log_from_one_segment_into_the_next() {
    let bench = Bench::new();
    let log = short_segments(&bench);
    for at in 1..=20 {
        write(&log, &format!("BEFORE_{at}"));
    }
    let segments = || std::fs::read_dir(bench.path("log")).unwrap().count() - 1;
    let before = segments();
    assert!(before > 5, "{before}");
    let shown = bench.run("audit tail log -n 12");
    assert_eq!(shown.out.lines().count(), 12, "{shown:?}");
    assert!(shown.out.lines().next().unwrap().contains("BEFORE_9") && shown.out.ends_with("BEFORE_20\n"));
    assert_eq!(bench.run("audit tail log -n 100").out, bench.run("audit show log").out);
    let follow = Follow::start(&bench, "audit tail log -n 1 --follow");
    assert!(follow.next().contains("BEFORE_20"));
    for at in 21..=40 {
        assert_eq!(write(&log, "MALFORMED_CALL\u{1b}[2J"), at);
        let next = follow.next();
        assert!(next.trim_start().starts_with(&format!("{at} ")), "{next}");
        assert!(next.contains("MALFORMED_CALL\\u{1b}[2J"), "hidden characters are spelled out: {next}");
    }
    assert!(segments() > before);
    let key = log.key().to_string();
    drop(log);
    let told = bench.run(&format!("audit verify log --key {key} --json")).value();
    assert_eq!((&told["summary"]["records"], &told["summary"]["segments"]), (&json!(40), &json!(segments())));
    let shown = bench.run("audit show log");
    assert_eq!(shown.out.lines().count(), 40);
    let proof = bench.ok(&format!("audit prove log --key {key} --seq 33"));
    bench.feed("merkle verify-inclusion", &proof).done();
}

#[test]
fn archived_entries_are_reported_as_not_here() {
    let bench = Bench::new();
    let log = short_segments(&bench);
    for _ in 0..20 {
        write(&log, "MALFORMED_CALL");
    }
    let verify = format!("audit verify log --key {}", log.key());
    drop(log);
    bench.ok(&format!("{verify} --complete"));
    std::fs::remove_file(bench.path("log/000000000001.jsonl")).unwrap();
    let summary = bench.run(&format!("{verify} --json")).value()["summary"].clone();
    let first = summary["first_here"].as_u64().unwrap();
    let entries = json!({"first": first, "last": 20, "missing": first - 1, "unsigned": 0});
    assert_eq!((summary["entries"].clone(), first > 2), (entries, true));
    let text = bench.ok(&verify);
    let line = format!("entries {first} to 20 verified, 1 to {} are not here: example.com/log, ", first - 1);
    assert!(text.starts_with(&line), "{text}");
    bench.fails(&format!("{verify} --complete"), 3, "AUDIT_INCOMPLETE");
}

#[test]
fn unsigned_entries_are_not_reported_as_verified() {
    let bench = Bench::new();
    let origin = KeyName::new("example.com/log").unwrap();
    let options = LogOptions::new(origin, SigningKey::from_seed([7; 32])).durability(Durability::System);
    let log = Log::open(bench.path("log"), options).unwrap();
    for _ in 0..3 {
        write(&log, "MALFORMED_CALL");
    }
    let verify = format!("audit verify log --key {}", log.key());
    let summary = bench.run(&format!("{verify} --json")).value()["summary"].clone();
    assert_eq!(summary["entries"], json!({"first": null, "last": null, "missing": 0, "unsigned": 3}));
    let text = bench.ok(&verify);
    assert!(text.starts_with("no entry of example.com/log verified, "), "{text}");
    assert!(text.contains("\nentries 1 to 3: not verified, since no checkpoint speaks for them\n"), "{text}");
    bench.fails(&format!("{verify} --complete"), 3, "AUDIT_INCOMPLETE");
    drop(log);
    bench.ok(&format!("{verify} --complete"));
}

#[test]
fn archived_entries_are_reported_by_verbs_that_need_them() {
    let bench = crate::desk::open();
    let log = short_segments(&bench);
    bench.write("first", log.last_checkpoint());
    for _ in 0..10 {
        write(&log, "MALFORMED_CALL");
    }
    let key = log.key().to_string();
    drop(log);
    std::fs::remove_file(bench.path("log/000000000001.jsonl")).unwrap();
    let told = bench.run(&format!("audit verify log --key {key} --json")).value();
    assert!(told["summary"]["first_here"].as_u64().unwrap() > 1, "{told}");
    let proof = bench.ok(&format!("audit prove log --seq 10 --key {key}"));
    bench.feed("merkle verify-inclusion", &proof).done();
    bench.ok(&format!("audit receipt log --seq 10 --key {key} -o receipt"));
    bench.ok(&format!("audit verify-receipt receipt --key {key}"));
    for verb in ["prove log --seq 1", "receipt log --seq 1", "export log --tiles out"] {
        bench.fails(&format!("audit {verb} --key {key}"), 1, "AUDIT_ARCHIVED");
    }
    bench.fails(&format!("audit verify log --key {key} --checkpoint first"), 1, "AUDIT_ARCHIVED");
    let simulate = "simulate log --registry reg.json --trust-root root.json";
    bench.fails(&format!("{simulate} --key {key}"), 1, "AUDIT_ARCHIVED");
    // Without a key nothing is verified, and the remaining entries are read. None of them is a call.
    bench.fails(simulate, 1, "NO_CALLS_ON_RECORD");
    let middle = bench.run("audit tail log -n 100");
    assert!(middle.code == 0 && middle.out.lines().count() < 10, "{middle:?}");
}

#[test]
fn entries_are_found_by_side_files() {
    let bench = crate::desk::open();
    let run = crate::audit_log::decide(&bench, "a", 700, "--record-durability system");
    assert_eq!(run.code, 3, "{run:?}");
    let receipt = "audit receipt log --key log.vkey";
    let (one, two) =
        (bench.ok(&format!("{receipt} --call-id a7")), bench.ok(&format!("{receipt} --call-id a600")));
    assert_eq!(bench.ok(&format!("{receipt} --call-id a7 --call-id a600")), format!("{one}{two}"));
    let run = bench.run(&format!("{receipt} --call-id a7 --call-id none"));
    assert!(run.code == 1 && run.err.contains("AUDIT_NO_SUCH_CALL: `none`: "), "{run:?}");
    let side = bench.path("log/000000000001.side");
    let bytes = std::fs::read(&side).unwrap();
    std::fs::remove_file(&side).unwrap();
    let told = "side file `log/000000000001.side` rebuilt\n";
    let run = bench.run(&format!("{receipt} --call-id a600"));
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, two.as_str(), told));
    assert!(std::fs::read(&side).unwrap() == bytes);
    let shown = bench.run("audit show log").out;
    let last = |n: usize| {
        shown.lines().rev().take(n).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    };
    for lines in [1, 300, 1_000] {
        assert_eq!(bench.run(&format!("audit tail log -n {lines}")).out.trim_end(), last(lines));
    }
    let first = bench.run("audit tail log -n 2 --verdict reject").out;
    let _ = std::fs::write(&side, vec![0xff; bytes.len()]);
    assert_eq!(bench.run("audit tail log -n 300").out.trim_end(), last(300));
    assert_eq!(bench.run("audit tail log -n 2 --verdict reject").out, first);
    assert_eq!(bench.run(&format!("{receipt} --call-id a7")).out, one);
}
