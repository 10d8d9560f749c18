//! Recovery from a log that no gateway opens.

use serde_json::{Value, json};

use crate::audit_log::{FIRST, decide, log};
use crate::bench::{Bench, RECORD_OPTIONS as LOG, Run};
use crate::desk::open;

/// Flips one bit of an entry in the middle of the log.
fn damage(bench: &Bench) {
    let mut bytes = std::fs::read(bench.path(FIRST)).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let at = text.find("{\"seq\":3,").unwrap() + 60;
    bytes[at] ^= 1;
    bench.write(FIRST, bytes);
}

#[test]
fn a_start_that_fails_names_the_way_on() {
    let bench = open();
    log(&bench, "a", 2);
    let good = bench.read(FIRST);
    damage(&bench);
    let first_start = decide(&bench, "b", 1, "");
    bench.write(FIRST, good.lines().take(5).map(|line| format!("{line}\n")).collect::<String>());
    let second_start = decide(&bench, "b", 1, "");
    for (run, code) in [(first_start, "AUDIT_CORRUPT"), (second_start, "AUDIT_ROLLED_BACK")] {
        assert!(run.err.starts_with(&format!("error {code}: `log`: ")), "{run:?}");
        for way in ["`countersign audit retire`", "another origin", "docs/runbook.md"] {
            assert!(run.err.contains(way), "{way}: {run:?}");
        }
    }
}

const RETIRE: &str = "audit retire log --key log.key --origin example.com/next";

/// Runs a session that records under another origin.
fn next_session(bench: &Bench, key: &str) -> Run {
    let options = LOG.replace("example.com/log", "example.com/next").replace("log.key", key);
    let call = json!({"call_id": "n", "tool": "search", "args": {}});
    let check = "check --registry reg.json --trust-root root.json --agent support-bot";
    bench.feed(&format!("{check} {options}"), &format!("{call}\n"))
}

fn next_key(bench: &Bench, key: &str) -> String {
    let shown = bench.run(&format!("keys show {key} --origin example.com/next --json")).value();
    shown["verifier_key"].as_str().unwrap().to_owned()
}

#[test]
fn damaged_log_is_retired_for_another_one() {
    let bench = open();
    log(&bench, "a", 2);
    damage(&bench);
    let damaged = bench.read(FIRST);
    let done = bench.run(&format!("{RETIRE} --json")).value();
    let retired = done["retired"].as_str().unwrap();
    assert!(retired.starts_with("log.retired-"), "{done}");
    assert_eq!(bench.read(&format!("{retired}/000000000001.jsonl")), damaged);
    let of_log: &Value = &done["note"]["logs"][0];
    assert_eq!((&of_log["origin"], &of_log["code"]), (&json!("example.com/log"), &json!("AUDIT_CORRUPT")));
    assert!(of_log["latest"].as_str().unwrap().starts_with("example.com/log\n7\n"), "{of_log}");

    // The next session starts after the entry that names the note.
    let run = next_session(&bench, "log.key");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let first = &bench.entries()[0];
    assert_eq!(
        (&first["seq"], &first["type"], &first["previous"], &first["closing"]),
        (&json!(1), &json!("began"), &json!("example.com/log"), &done["closing"])
    );
    let key = next_key(&bench, "log.key");
    assert_eq!(done["next"], key);
    let told = bench.ok(&format!("audit verify log --key {key} --state log.state"));
    assert!(told.starts_with("5 entries of example.com/next verified"), "{told}");
    // A session under the old origin does not start over either.
    let run = decide(&bench, "b", 1, "");
    assert!(run.code == 1 && run.err.starts_with("error AUDIT_"), "{run:?}");
}

#[test]
fn closing_note_verifies_until_a_file_changes() {
    let bench = open();
    log(&bench, "a", 2);
    damage(&bench);
    let done = bench.run(&format!("{RETIRE} --json")).value();
    let retired = done["retired"].as_str().unwrap();
    let verify = format!("audit verify-closing {retired} --key log.vkey");
    let told = bench.ok(&verify);
    assert!(
        told.contains("example.com/log: verifies up to ") && told.contains(", then AUDIT_CORRUPT"),
        "{told}"
    );
    bench.fails(&format!("audit verify {retired} --key log.vkey"), 3, "AUDIT_CORRUPT");
    bench.fails(
        &format!("audit verify-closing {retired} --key {}", next_key(&bench, "log.key")),
        3,
        "AUDIT_SIGNATURE",
    );
    let name = format!("{retired}/000000000001.jsonl");
    bench.write(&name, bench.read(&name).replacen("\"a2\"", "\"a3\"", 1));
    bench.fails(&verify, 3, "AUDIT_CORRUPT");
    bench.fails("audit verify-closing log --key log.vkey", 1, "AUDIT_UNAVAILABLE");
}

#[test]
fn refused_retirement_changes_nothing() {
    let bench = open();
    log(&bench, "a", 2);
    let retire = |key: &str, origin: &str| format!("audit retire log --key {key} --origin {origin}");
    bench.fails(&retire("log.key", "example.com/log"), 1, "RETIRE_ORIGIN");
    bench.fails(&retire("log.key", "example.com/log/7"), 1, "RETIRE_ORIGIN");
    bench.ok("keys generate --kind log --origin example.com/log --out other.key");
    bench.fails(&retire("other.key", "example.com/next"), 3, "AUDIT_SIGNATURE");
    bench.fails(&retire("gate.key", "example.com/next"), 1, "KEY_FILE_KIND");
    bench.fails(&retire("log.key", "two+words"), 2, "USAGE");
    bench.fails(
        "audit retire none --key log.key --origin example.com/next --no-state",
        1,
        "AUDIT_UNAVAILABLE",
    );
    let rotate = "audit rotate-key log --key log.key --new-key";
    bench.fails(&format!("{rotate} log.key --origin example.com/next"), 2, "USAGE");
    bench.fails(&format!("{rotate} other.key --origin example.com/log"), 1, "RETIRE_ORIGIN");
    let held = std::fs::File::open(bench.path("log/lock")).unwrap();
    held.lock().unwrap();
    bench.fails(RETIRE, 1, "AUDIT_LOCKED");
    bench.fails(&format!("{rotate} other.key --origin example.com/next"), 1, "AUDIT_LOCKED");
    drop(held);
    damage(&bench);
    bench.fails(&format!("{rotate} other.key --origin example.com/next"), 3, "AUDIT_CORRUPT");
}

#[test]
fn rotated_key_signs_a_log_of_its_own() {
    let bench = open();
    log(&bench, "a", 2);
    bench.ok("keys generate --kind log --origin example.com/next --out next.key");
    let done = bench
        .run("audit rotate-key log --key log.key --new-key next.key --origin example.com/next --json")
        .value();
    let retired = done["retired"].as_str().unwrap();
    let told = bench.ok(&format!("audit verify {retired} --key log.vkey --state log.state --complete"));
    assert!(told.starts_with("7 entries of example.com/log verified"), "{told}");
    bench.ok(&format!("audit verify-closing {retired} --key log.vkey"));
    assert_eq!(done["next"], next_key(&bench, "next.key"));
    let run = next_session(&bench, "next.key");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    bench.ok(&format!("audit verify log --key {} --state log.state", next_key(&bench, "next.key")));
}

#[test]
fn interrupted_rename_is_finished() {
    let bench = open();
    log(&bench, "a", 2);
    damage(&bench);
    let done = bench.run(&format!("{RETIRE} --json")).value();
    // State after a kill that followed the rename.
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    let state = bench.read("log.state");
    let mut state: Value = serde_json::from_str(&state).unwrap();
    state["logs"].as_array_mut().unwrap().pop();
    bench.write("log.state", state.to_string());
    let again = bench.run(&format!("{RETIRE} --json")).value();
    assert_eq!(again, done);
    assert_eq!(bench.entries().len(), 1);
    assert_eq!(bench.run(&format!("{RETIRE} --json")).value(), done);
    assert_eq!(bench.entries().len(), 1);
}

/// Removes the next log from the state, as if the process had been killed before it saved that log.
fn forget_next(bench: &Bench) {
    let mut state: Value = serde_json::from_str(&bench.read("log.state")).unwrap();
    let logs = state["logs"].as_array_mut().unwrap();
    logs.retain(|log| log["origin"] != "example.com/next");
    bench.write("log.state", state.to_string());
}

#[test]
fn retirement_that_its_state_missed_is_finished() {
    let rotate = "audit rotate-key log --key log.key --new-key next.key --origin example.com/next";
    for verb in [RETIRE, rotate] {
        let bench = open();
        log(&bench, "a", 2);
        bench.ok("keys generate --kind log --origin example.com/next --out next.key");
        bench.write("record.state", r#"{"format":"countersign-record-state-1","logs":[]}"#);
        let done = bench.run(&format!("{verb} --json")).value();
        let head = format!("{}\n", bench.read(FIRST).lines().next().unwrap());
        bench.write(FIRST, head);
        forget_next(&bench);
        assert_eq!(bench.run(&format!("{verb} --json")).value(), done);
        assert_eq!(bench.entries()[0]["type"], "began");
        assert!(bench.read("log.state").contains("example.com/next"));
    }
}

#[test]
fn two_states_of_a_log_are_named() {
    let bench = open();
    log(&bench, "a", 2);
    bench.write("record.state", bench.read("log.state"));
    bench.mode("record.state", 0o600);
    let run = bench.run(RETIRE);
    assert!(run.code == 1 && run.err.starts_with("error AUDIT_STATE: `log`: two states beside "), "{run:?}");
    for state in ["log.state`", "record.state`", "(--state)"] {
        assert!(run.err.contains(state), "{state}: {run:?}");
    }
    let told = bench.ok(&format!("{RETIRE} --state record.state"));
    assert!(told.contains("\nits state is kept in `record.state`\n"), "{told}");
}

#[test]
fn file_without_a_sum_is_named() {
    let bench = open();
    log(&bench, "a", 2);
    std::fs::create_dir(bench.path("log/more")).unwrap();
    let done = bench.run(&format!("{RETIRE} --json")).value();
    assert_eq!(done["no_sum"], json!(["more"]));
    let verify = format!("audit verify-closing {} --key log.vkey", done["retired"].as_str().unwrap());
    let told = bench.ok(&verify);
    assert!(told.contains("\nno sum, since ") && told.contains(": more\n"), "{told}");
    assert_eq!(bench.run(&format!("{verify} --json")).value()["no_sum"], json!(["more"]));
    bench.write(&format!("{}/a\nb", done["retired"].as_str().unwrap()), "x");
    bench.fails(&verify, 3, "AUDIT_CORRUPT");
}

#[test]
fn log_is_retired_from_within_its_folder() {
    let bench = open();
    log(&bench, "a", 2);
    let retire = "audit retire . --key ../log.key --origin example.com/next --json";
    let done = bench.within("log", retire).value();
    let retired = done["retired"].as_str().unwrap();
    bench.ok(&format!("audit verify-closing {retired} --key log.vkey"));
    assert_eq!(bench.entries().len(), 1);
    // The working folder moved with the log.
    let folder = std::path::Path::new(retired).file_name().unwrap().to_str().unwrap();
    for retire in [retire.to_owned(), format!("{retire} --state ../log.state")] {
        let run = bench.within(folder, &retire);
        assert!(run.code == 1 && run.out.contains("\"AUDIT_CLOSED\""), "{run:?}");
    }
    bench.ok(&format!("audit verify-closing {folder} --key log.vkey"));
}
