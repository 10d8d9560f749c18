//! Several processes that record into one folder, each into its own log.

#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, gateway};

/// Starts this many clients, each with its own gateway.
fn clients(bench: &Bench, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::start(bench)).collect()
}

fn verify(bench: &Bench) -> Value {
    bench.run("audit verify log --key log.vkey --json").value()
}

/// Returns the names of the logs in the order of `audit verify`.
fn names(report: &Value) -> Vec<&str> {
    report["logs"].as_array().unwrap().iter().map(|log| log["log"].as_str().unwrap()).collect()
}

#[test]
fn five_processes_of_one_configuration_leave_logs_that_verify() {
    let bench = gateway();
    let mut all = clients(&bench, 5);
    for _ in 0..3 {
        for client in &mut all {
            let ran = client.call("search", json!({"query": "x"}));
            assert_eq!(ran["content"][0]["text"], "done", "{ran}");
        }
    }
    // Verifies while the logs are written and afterwards.
    assert_eq!(names(&verify(&bench)), [".", "1", "2", "3", "4"]);
    for client in all {
        assert_eq!(client.end(), (0, String::new()));
    }
    let report = verify(&bench);
    let logs = report["logs"].as_array().unwrap();
    for log in logs {
        // The session's start and end, its server, and a decision and an outcome for each of three calls.
        assert_eq!((&log["records"], &log["tail_bytes"]), (&json!(9), &json!(0)), "{log}");
    }
    let origins: Vec<_> = logs.iter().map(|log| log["origin"].as_str().unwrap()).collect();
    assert_eq!(origins[0], "example.com/log");
    assert_eq!(origins[4], "example.com/log/4");
    assert_eq!(report["summary"]["origin"], "example.com/log");
    let text = bench.ok("audit verify log --key log.vkey");
    assert!(text.ends_with("5 logs verified\n"), "{text}");
    let stats = bench.run("stats log --json").value();
    assert_eq!((&stats["total"]["accepted"], &stats["agents"]["bot"]["accepted"]), (&json!(15), &json!(15)));
    // The next processes reuse the numbers.
    let (first, second) = (Client::start(&bench), Client::start(&bench));
    drop((first.end(), second.end()));
    assert_eq!(names(&verify(&bench)), [".", "1", "2", "3", "4"]);
}

#[test]
fn entries_of_several_logs_are_merged_by_time() {
    let bench = gateway();
    let mut both = clients(&bench, 2);
    for at in [0, 1, 0, 1] {
        both[at].call("search", json!({}));
    }
    both.into_iter().for_each(|client| drop(client.end()));
    let entries = bench.entries();
    let times: Vec<_> = entries.iter().map(|entry| entry["time"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let decisions = entries.iter().filter(|entry| entry["type"] == "decision");
    let logs: Vec<_> = decisions.map(|entry| (entry["log"].clone(), entry["seq"].clone())).collect();
    let at = |log: &str, seq: u64| (json!(log), json!(seq));
    assert_eq!(logs, [at(".", 3), at("1", 3), at(".", 5), at("1", 5)]);
    for verb in ["show log", "tail log -n 100"] {
        let shown = bench.run(&format!("audit {verb}")).out;
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), entries.len(), "{shown}");
        assert!(lines.iter().all(|line| line.starts_with(".   ") || line.starts_with("1   ")), "{shown}");
    }
    assert_eq!(bench.run("audit tail log -n 1 --json").out.lines().count(), 1);
    // A single log is shown as before.
    let one = bench.run("audit show log/1 --json").out;
    assert!(one.lines().count() == 7 && one.starts_with("{\"seq\":1,"), "{one}");
    assert_eq!(bench.run("stats log/1 --json").value()["total"]["accepted"], 2);
}

#[test]
fn a_numbered_log_is_verified_alone_by_its_folders_key() {
    let bench = gateway();
    clients(&bench, 2).into_iter().for_each(|client| drop(client.end()));
    let told = bench.run("audit verify log/1 --key log.vkey --json").value();
    assert_eq!((&told["summary"]["origin"], told.get("logs")), (&json!("example.com/log/1"), None));
    bench.write("receipt", bench.ok("audit receipt log/1 --key log.vkey --seq 1"));
    let shown = bench.ok("audit verify-receipt receipt --key log.vkey");
    assert!(shown.starts_with("entry 1 of example.com/log/1, "), "{shown}");
}

#[test]
fn one_damaged_log_fails_the_verification_of_all() {
    let bench = gateway();
    clients(&bench, 3).into_iter().for_each(|client| drop(client.end()));
    let segment = "log/2/000000000001.jsonl";
    bench.write(segment, bench.read(segment).replace("alice", "malice"));
    let run = bench.run("audit verify log --key log.vkey");
    assert_eq!((run.code, run.out.as_str()), (3, ""), "{run:?}");
    assert!(run.err.starts_with("error AUDIT_CORRUPT: `log/2`: "), "{run:?}");
    bench.ok("audit verify log/1 --key log.vkey");
}

#[test]
fn a_log_of_which_a_checkpoint_was_kept_must_be_there() {
    let bench = gateway();
    clients(&bench, 2).into_iter().for_each(|client| drop(client.end()));
    bench.write("kept", bench.ok("audit checkpoint log/1 --key log.vkey"));
    let told = bench.run("audit verify log --key log.vkey --checkpoint kept --json").value();
    let kept: Vec<_> =
        told["logs"].as_array().unwrap().iter().map(|log| log["kept_elsewhere"].clone()).collect();
    assert_eq!(kept, [json!(0), json!(1)]);
    std::fs::remove_dir_all(bench.path("log/1")).unwrap();
    bench.fails("audit verify log --key log.vkey --checkpoint kept", 3, "AUDIT_MISSING");
    bench.ok("audit verify log --key log.vkey");
}

#[test]
fn a_folder_whose_own_log_is_gone_does_not_verify() {
    let bench = gateway();
    clients(&bench, 2).into_iter().for_each(|client| drop(client.end()));
    std::fs::remove_file(bench.path("log/000000000001.jsonl")).unwrap();
    bench.fails("audit verify log --key log.vkey", 3, "AUDIT_MISSING");
    let shown = bench.run("audit show log");
    assert!(shown.err.starts_with("warning AUDIT_MISSING: log: "), "{shown:?}");
    bench.ok("audit verify log/1 --key log.vkey");
}

#[test]
fn a_link_is_no_numbered_log() {
    let bench = gateway();
    let first = Client::start(&bench);
    std::fs::create_dir(bench.path("elsewhere")).unwrap();
    bench.write("elsewhere/notes", "mine");
    std::os::unix::fs::symlink(bench.path("elsewhere"), bench.path("log/1")).unwrap();
    let second = bench.run("mcp run --config gateway.toml -- false");
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains("AUDIT_UNAVAILABLE"), "{second:?}");
    assert_eq!(first.end(), (0, String::new()));
    assert_eq!(bench.read("elsewhere/notes"), "mine");
    let verified = bench.run("audit verify log --key log.vkey");
    assert!(verified.code == 1 && verified.err.contains("is a link"), "{verified:?}");
}

#[test]
fn a_simulation_reads_every_log_of_a_folder() {
    let bench = gateway();
    let mut both = clients(&bench, 2);
    both.iter_mut().for_each(|client| drop(client.call("search", json!({}))));
    both.into_iter().for_each(|client| drop(client.end()));
    let simulate = "simulate log --registry reg.json --trust-root root.json --was reg.json --json";
    for (key, verified) in [("", false), ("--key log.vkey", true)] {
        let run = bench.run(&format!("{simulate} {key}"));
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, &told["verified"]), (0, &json!(verified)), "{run:?}");
        assert_eq!(told["rows"][0]["counts"]["carried"]["arguments"], 2, "{told}");
    }
    let segment = "log/1/000000000001.jsonl";
    bench.write(segment, bench.read(segment).replace("alice", "malice"));
    bench.fails(&format!("{} --key log.vkey", simulate.replace(" --json", "")), 3, "AUDIT_CORRUPT");
}
