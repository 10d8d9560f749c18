//! The record's state: a log that does not continue from its state is not opened.

use serde_json::{Value, json};

use crate::audit_log::{FIRST, copy, decide};
use crate::bench::{Bench, RECORD_OPTIONS as LOG, Run};
use crate::desk::open;

/// Runs a command and returns all of standard error with it.
fn loud(bench: &Bench, line: &str) -> Run {
    bench.run_loud(&line.split_whitespace().collect::<Vec<_>>(), "")
}

fn check(bench: &Bench, more: &str) -> Run {
    let line = "check --registry reg.json --trust-root root.json --agent support-bot";
    loud(bench, &format!("{line} {LOG} {more}"))
}

fn state(bench: &Bench) -> Value {
    serde_json::from_str(&bench.read("log.state")).unwrap()
}

#[test]
fn a_begun_log_is_announced_once() {
    let bench = open();
    let run = check(&bench, "");
    let state = bench.path("log.state").canonicalize().unwrap();
    let line = format!("log `log` (example.com/log) begun, its state is kept in `{}`\n", state.display());
    assert_eq!((run.code, run.err), (0, line));
    assert_eq!((check(&bench, "").code, check(&bench, "").err), (0, String::new()));
    std::fs::remove_file(state).unwrap();
    let run = check(&bench, "");
    let line = "log `log` (example.com/log) adopted without a state, at 6 entries, its state is kept in `";
    assert!(run.code == 0 && run.err.starts_with(line), "{run:?}");
}

#[test]
fn the_state_names_the_last_entry_at_the_end() {
    let bench = open();
    decide(&bench, "a", 2, "");
    let log = state(&bench)["logs"][0].clone();
    assert_eq!(
        (&log["origin"], &log["first"], &log["size"]),
        (&json!("example.com/log"), &json!(1), &json!(7))
    );
    assert!(log["checkpoint"].as_str().unwrap().starts_with("example.com/log\n7\n"), "{log}");
}

#[test]
fn a_verb_does_not_begin_over_a_log_that_changed() {
    let bench = open();
    decide(&bench, "a", 2, "");
    copy(&bench.path("log"), &bench.path("older"));
    decide(&bench, "b", 2, "");
    copy(&bench.path("log"), &bench.path("whole"));
    type Attack = fn(&Bench);
    let attacks: [(&str, Attack); 5] = [
        ("AUDIT_MISSING", |_| {}),
        ("AUDIT_MISSING", |bench| std::fs::create_dir(bench.path("log")).unwrap()),
        ("AUDIT_ROLLED_BACK", |bench| copy(&bench.path("older"), &bench.path("log"))),
        ("AUDIT_ROLLED_BACK", |bench| {
            copy(&bench.path("whole"), &bench.path("log"));
            bench.write(FIRST, "");
        }),
        ("AUDIT_FORK", |bench| {
            let aside = bench.read("log.state");
            std::fs::remove_file(bench.path("log.state")).unwrap();
            decide(bench, "c", 9, "");
            bench.write("log.state", aside);
        }),
    ];
    for (code, attack) in attacks {
        std::fs::remove_dir_all(bench.path("log")).unwrap();
        attack(&bench);
        let before = bench.snapshot();
        let run = check(&bench, "");
        assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{run:?}");
        assert!(run.err.contains("log.state") && run.err.contains("another origin"), "{run:?}");
        assert_eq!(bench.snapshot(), before, "{code}");
        bench.fails("audit verify log --key log.vkey --state log.state", 3, code);
        if !bench.path("log").exists() {
            std::fs::create_dir(bench.path("log")).unwrap();
        }
    }
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    bench.fails("audit verify log --key log.vkey --state log.state", 3, "AUDIT_MISSING");
    copy(&bench.path("whole"), &bench.path("log"));
    assert_eq!(check(&bench, "").code, 0);
    let text = bench.ok("audit verify log --key log.vkey --state log.state");
    assert!(text.contains("goes on from its state `log.state`, at 16 entries"), "{text}");
}

#[test]
fn a_state_of_other_logs_does_not_verify_this_one() {
    let bench = open();
    decide(&bench, "a", 1, "--record-state one.state");
    assert!(!bench.path("log.state").exists());
    bench.ok("audit verify log --key log.vkey --state one.state");
    bench.fails("audit verify log --key log.vkey --state none.state", 1, "FILE_MISSING");
    let text = bench.read("one.state");
    bench.write("one.state", text.replace("\"origin\":\"example.com/log\"", "\"origin\":\"example.com/b\""));
    bench.fails("audit verify log --key log.vkey --state one.state", 3, "AUDIT_STATE");
}

#[test]
fn a_start_in_vain_leaves_no_state() {
    let bench = open();
    let run = decide(&bench, "a", 1, "--approval-key gate.key --spent .");
    assert!(run.code == 1 && run.err.starts_with("error STORE_NOT_A_FILE"), "{run:?}");
    assert!(!bench.path("log").exists() && !bench.path("log.state").exists());
    assert!(!bench.path("log.state.lock").exists());
}

#[cfg(unix)]
mod gateway {
    use serde_json::json;

    use super::loud;
    use crate::mcp::{Client, gateway};

    #[test]
    fn a_gateway_does_not_begin_over_a_deleted_log() {
        let bench = gateway();
        let all = [Client::start(&bench), Client::start(&bench)];
        all.into_iter().for_each(|client| drop(client.end()));
        bench.ok("audit verify log --key log.vkey --state record.state");
        let one = bench.read("record.state");
        assert!(one.contains("example.com/log/1"), "{one}");
        // Deletes a numbered log, and then the whole folder.
        for gone in ["log/1", "log"] {
            std::fs::remove_dir_all(bench.path(gone)).unwrap();
            let run = bench.run("audit verify log --key log.vkey --state record.state");
            assert!(run.code == 3 && run.err.contains("error AUDIT_MISSING: `log/1`: "), "{run:?}");
        }
        let before = bench.snapshot();
        let run = loud(&bench, "mcp run --config gateway.toml -- false");
        assert!(run.code == 1 && run.err.starts_with("error AUDIT_MISSING: "), "{run:?}");
        assert_eq!(bench.snapshot(), before);
    }

    #[test]
    fn a_killed_gateway_goes_on_from_its_state() {
        let bench = gateway();
        for _ in 0..4 {
            let mut client = Client::start(&bench);
            client.call("search", json!({}));
            client.kill();
            bench.ok("audit verify log --key log.vkey --state record.state");
        }
        assert_eq!(Client::start(&bench).end(), (0, String::new()));
    }
}

#[test]
fn adopted_log_names_the_state_of_other_writers() {
    let bench = open();
    assert_eq!(check(&bench, "--record-state record.state").code, 0);
    let run = check(&bench, "");
    let other = bench.path("record.state").canonicalize().unwrap();
    let named = format!("; `{}` contains the log, too: give all its writers one state", other.display());
    assert!(run.code == 0 && run.err.contains(" adopted without a state, at 2 entries"), "{run:?}");
    assert!(run.err.contains(&named) && run.err.contains("/log.state`;"), "{run:?}");
    assert_eq!(check(&bench, "").err, "");
}
