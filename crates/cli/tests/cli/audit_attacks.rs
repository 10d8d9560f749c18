//! Attacks on a log by anyone who can write to its folder or its disk, against the binary that writes and verifies it.

use countersign_audit_log::read_log;
use serde_json::{Value, json};

use crate::audit_log::{FIRST, copy, decide, log};
use crate::bench::{Bench, RECORD_OPTIONS};
use crate::desk::open;

/// Verbs that verify the whole log before they print anything.
const VERIFYING: [&str; 5] =
    ["verify log", "checkpoint log", "prove log --seq 1", "receipt log --seq 1", "export log --tiles out"];

/// Lines of the first segment, each with its newline.
fn lines(bench: &Bench) -> Vec<String> {
    bench.read(FIRST).split_inclusive('\n').map(str::to_owned).collect()
}

fn is_entry(line: &str) -> bool {
    line.starts_with("{\"seq\":")
}

/// Indexes of the lines that are entries.
fn entries(lines: &[String]) -> Vec<usize> {
    (0..lines.len()).filter(|at| is_entry(&lines[*at])).collect()
}

/// Checks that every verb refuses these lines, and that no session continues them.
fn refused(bench: &Bench, what: &str, lines: &[String]) {
    let good = bench.read(FIRST);
    bench.write(FIRST, lines.concat());
    for verb in VERIFYING {
        let run = bench.run(&format!("audit {verb} --key log.vkey"));
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{what}, {verb}: {run:?}");
        assert!(run.err.starts_with("error AUDIT_"), "{what}, {verb}: {run:?}");
    }
    assert!(!bench.path("out").exists(), "{what}");
    let run = decide(bench, "more", 1, "");
    assert_eq!(run.code, 1, "{what}: {run:?}");
    assert_eq!(bench.read(FIRST), lines.concat(), "{what}: nothing was written");
    bench.write(FIRST, good);
}

#[test]
fn tampered_log_is_refused_by_every_verb() {
    let bench = open();
    log(&bench, "a", 3);
    let good = lines(&bench);
    let at = entries(&good);
    assert_eq!(at.len(), 9);
    let (second, third) = (at[1], at[2]);

    let mut changed = good.clone();
    changed[second] = changed[second].replace("\"verdict\":\"accept\"", "\"verdict\":\"reject\"");
    refused(&bench, "byte changed", &changed);
    let mut removed = good.clone();
    removed.remove(second);
    refused(&bench, "record removed", &removed);
    let mut added = good.clone();
    added.insert(third, good[second].clone());
    refused(&bench, "record added", &added);
    let mut reordered = good.clone();
    reordered.swap(second, third);
    refused(&bench, "reordered", &reordered);
    // A careful attacker also renumbers the entries that follow.
    let mut renumbered = removed.clone();
    for at in entries(&renumbered).into_iter().skip(1) {
        let line: Value = serde_json::from_str(&renumbered[at]).unwrap();
        let seq = line["seq"].as_u64().unwrap();
        renumbered[at] =
            renumbered[at].replacen(&format!("\"seq\":{seq},"), &format!("\"seq\":{},", seq - 1), 1);
    }
    refused(&bench, "record removed and the others renumbered", &renumbered);
    assert_eq!(bench.verified()["records"], 9);
}

#[test]
fn cut_tail_is_found_by_a_kept_checkpoint() {
    let bench = open();
    log(&bench, "a", 3);
    bench.write("kept.note", bench.ok("audit checkpoint log --key log.vkey"));
    let good = lines(&bench);
    for kept in 1..good.len() {
        bench.write(FIRST, good[..kept].concat());
        let run = bench.run("audit verify log --key log.vkey --checkpoint kept.note");
        assert_eq!(run.code, 3, "{kept}: {run:?}");
        assert!(run.err.starts_with("error AUDIT_"), "{kept}: {run:?}");
    }
    bench.write(FIRST, good.concat());
    bench.ok("audit verify log --key log.vkey --checkpoint kept.note");
}

#[test]
fn fork_is_found_by_a_kept_checkpoint_of_either_head() {
    let bench = open();
    log(&bench, "a", 1);
    copy(&bench.path("log"), &bench.path("other"));
    for (name, id) in [("one", "b"), ("two", "c")] {
        log(&bench, id, 1);
        bench.write(&format!("{name}.note"), bench.ok("audit checkpoint log --key log.vkey"));
        std::fs::rename(bench.path("log"), bench.path(name)).unwrap();
        copy(&bench.path("other"), &bench.path("log"));
        bench.forget_log_state();
    }
    for (log, own, other) in [("one", "one.note", "two.note"), ("two", "two.note", "one.note")] {
        bench.ok(&format!("audit verify {log} --key log.vkey --checkpoint {own}"));
        bench.fails(&format!("audit verify {log} --key log.vkey --checkpoint {other}"), 3, "AUDIT_FORK");
    }
}

#[test]
fn torn_last_record_is_cut_by_the_next_session() {
    let bench = open();
    log(&bench, "a", 1);
    let whole = bench.read(FIRST);
    log(&bench, "b", 1);
    let good = bench.read(FIRST);
    for kept in [1, 20, 100] {
        bench.write(FIRST, &good[..whole.len() + kept]);
        let told = bench.verified();
        assert_eq!((&told["records"], &told["tail_bytes"]), (&json!(5), &json!(kept)));
        // why: a crash leaves the state behind the log, and here it would be ahead.
        bench.forget_log_state();
        let run = decide(&bench, "c", 1, "");
        let cut = format!(" {kept} bytes after the last checkpoint were cut");
        assert!(run.err.starts_with("warning AUDIT_RECOVERED: ") && run.err.contains(&cut), "{run:?}");
        assert_eq!(bench.read("log/cut-6"), good[whole.len()..][..kept]);
        let read: Vec<_> = read_log(bench.path("log")).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(read.len(), 11, "five, the one of the cut, and five");
        let cut = serde_json::to_value(read[5].record()).unwrap();
        assert_eq!((&cut["type"], &cut["file"]), (&json!("recovered"), &json!("cut-6")), "{cut}");
        assert!(bench.read(FIRST).starts_with(&whole));
        assert_eq!(bench.verified()["tail_bytes"], 0);
    }
}

#[test]
fn hostile_tool_name_is_shown_escaped_on_one_line() {
    let bench = open();
    let call = json!({"call_id": "c", "tool": "sea\nrch\u{1b}[31m\u{202e}", "args": {}});
    let check = "check --registry reg.json --trust-root root.json --agent support-bot";
    let run = bench.feed(&format!("{check} {RECORD_OPTIONS}"), &format!("{call}\n"));
    assert_eq!(run.code, 3, "{run:?}");
    let told = bench.verified();
    assert_eq!(told["records"], entries(&lines(&bench)).len(), "one line each");
    let shown = bench.run("audit show log").out;
    assert!(shown.lines().count() == 3 && !shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

/// A file size limit stands in for a full disk: writes succeed up to the limit and fail beyond it.
#[cfg(unix)]
#[test]
fn full_disk_mid_record_loses_nothing_acknowledged() {
    let bench = open();
    let call = |at: u64| json!({"call_id": format!("c{at}"), "tool": "search", "args": {"id": at}});
    let input: String = (1..=40).map(|at| format!("{}\n", call(at))).collect();
    bench.write("calls", &input);
    let binary = env!("CARGO_BIN_EXE_countersign");
    let check = "check --registry reg.json --trust-root root.json --agent support-bot --json";
    // why: the shell leaves SIGXFSZ as it is, so the binary itself must survive it.
    let line = format!("ulimit -f 9; exec {binary} {check} {RECORD_OPTIONS} < calls");
    let full = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(bench.folder())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8(full.stdout).unwrap();
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let accepted: Vec<&str> = answers
        .iter()
        .filter(|answer| answer["decision"] == "accept")
        .map(|answer| answer["call_id"].as_str().unwrap())
        .collect();
    assert!(!accepted.is_empty() && accepted.len() < 40, "{out}");
    assert!(out.contains("AUDIT_UNAVAILABLE"), "{out}");
    let err = String::from_utf8(full.stderr).unwrap();
    assert!(
        ["AUDIT_WRITE", "AUDIT_RECOVERED", "AUDIT_RESUMED"].iter().all(|code| err.contains(code)),
        "{err}"
    );

    let kept = |bench: &Bench| -> Vec<Value> {
        let entries = read_log(bench.path("log")).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| serde_json::to_value(entry.record()).unwrap()).collect()
    };
    bench.verified();
    let ids: Vec<Value> = kept(&bench)
        .into_iter()
        .filter(|entry| entry["type"] == "decision")
        .map(|entry| entry["call_id"].clone())
        .collect();
    assert!(accepted.iter().all(|id| ids.contains(&json!(id))), "{accepted:?} {ids:?}");
    // The log continues once there is room again.
    log(&bench, "later", 1);
    let told = bench.verified();
    assert_eq!(told["tail_bytes"], 0);
    assert!(kept(&bench).iter().any(|entry| entry["call_id"] == "later1"));
}
