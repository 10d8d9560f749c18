//! The hook of a host: one event, one decision, and exit 2 for whatever is no acceptance.

#![cfg(unix)]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, RECORD, Run};

/// A host whose agent may read, and run commands that a person approves.
fn host() -> Bench {
    signed(&[])
}

/// As [`host`], with these members in the entry of `Bash`.
fn signed(more: &[(&str, Value)]) -> Bench {
    let bench = Bench::new();
    bench.ok("keys generate --kind ed25519 --out operator.key --public-out operator.pub");
    bench.ok("keys generate --kind hmac --out approval.key");
    bench.ok("keys trust --threshold 1 --out trust-root.json operator.pub");
    bench.log_key();
    let text = bench.ok("registry draft --host claude-code --root /srv/app --tool mcp__desk__pay");
    let mut draft: Value = serde_json::from_str(&text).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap().iter_mut().filter(|tool| tool["name"] == "Bash") {
        for (name, value) in more {
            tool[*name] = value.clone();
        }
    }
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key operator.key --ttl 30d --out registry.json --json");
    bench.write(
        "gateway.toml",
        format!(
            "[registry]\nfile = \"registry.json\"\ntrust_root = \"trust-root.json\"\nstate = \"registry.state\"\n\
             [session]\nagent = \"claude-code\"\nprincipal = \"someone else\"\n\
             [approval]\nkey_file = \"approval.key\"\nstore = \"approvals.sqlite\"\n\
             [server]\nname = \"claude-code\"\n{RECORD}"
        ),
    );
    bench
}

fn event(session: &str, tool: &str, args: &Value) -> String {
    json!({"hook_event_name": "PreToolUse", "session_id": session, "cwd": "/srv/app", "tool_name": tool,
           "tool_input": args, "tool_use_id": "toolu_1"})
    .to_string()
}

/// A question waits for 3 s, and 1.5 s are left for the disk.
const HOOK: &str = "hook --config gateway.toml --host claude-code --host-timeout 9s";

fn ask(bench: &Bench, tool: &str, args: Value) -> Run {
    bench.feed(HOOK, &event("s1", tool, &args))
}

/// As [`ask`], with time for other hooks.
fn ask_slowly(bench: &Bench, tool: &str, args: Value) -> Run {
    bench.feed(&HOOK.replace("9s", "60s"), &event("s1", tool, &args))
}

#[track_caller]
fn refused(run: &Run, code: &str) {
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.starts_with(&format!("countersign refused: {code}: ")), "{run:?}");
    assert_eq!(run.err.lines().count(), 1, "{run:?}");
}

#[track_caller]
fn accepted(run: &Run) {
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""), "{run:?}");
}

fn decisions(bench: &Bench) -> Vec<Value> {
    bench.entries().into_iter().filter(|entry| entry["type"] == "decision").collect()
}

#[test]
fn accepted_call_is_exit_0_and_silence() {
    let bench = host();
    accepted(&bench.run_loud(
        &HOOK.split_whitespace().collect::<Vec<_>>(),
        &event("s1", "Read", &json!({"file_path": "/srv/app/a"})),
    ));
    let entries = bench.entries();
    let session = entries.iter().find(|entry| entry["type"] == "session").unwrap();
    assert_eq!(session["session"], "s1");
    assert_ne!(session["principal"], "someone else");
    assert_eq!(decisions(&bench)[0]["verdict"], "accept");
}

#[test]
fn unlisted_tool_is_refused_with_exit_2() {
    let bench = host();
    refused(&ask(&bench, "mcp__desk__refund", json!({})), "UNDISCLOSED_TOOL");
    assert_eq!(decisions(&bench)[0]["code"], "UNDISCLOSED_TOOL");
}

#[test]
fn a_refusal_shows_no_argument() {
    let bench = host();
    let run = ask(&bench, "Grep", json!({"path": "/etc/secret-place"}));
    refused(&run, "ARGS_CONSTRAINT");
    assert!(!run.err.contains("secret-place"), "{run:?}");
}

#[test]
fn approval_during_the_wait_lets_the_call_run() {
    let bench = host();
    thread::scope(|scope| {
        let waits = scope.spawn(|| ask_slowly(&bench, "Bash", json!({"command": "make"})));
        bench.ok(&format!("approve {} --config gateway.toml --by ada --yes --json", question(&bench)));
        accepted(&waits.join().unwrap());
    });
    // The same call once more is another one.
    refused(&ask(&bench, "Bash", json!({"command": "make"})), "APPROVAL_REQUIRED");
}

#[test]
fn answer_after_the_wait_counts_for_the_next_try() {
    let bench = host();
    let run = ask(&bench, "Bash", json!({"command": "make"}));
    refused(&run, "APPROVAL_REQUIRED");
    let id = question(&bench);
    assert!(run.err.trim_end().ends_with(&format!("(it waits as {id})")), "{run:?}");
    bench.ok(&format!("approve {id} --config gateway.toml --by ada --yes --json"));
    refused(&bench.feed(HOOK, &event("s2", "Bash", &json!({"command": "make"}))), "APPROVAL_REQUIRED");
    accepted(&ask(&bench, "Bash", json!({"command": "make"})));
}

#[test]
fn denial_is_final_over_processes() {
    let bench = host();
    refused(&ask(&bench, "Bash", json!({"command": "rm"})), "APPROVAL_REQUIRED");
    bench.ok(&format!(
        "approve {} --config gateway.toml --by ada --deny --reason no --json",
        question(&bench)
    ));
    for _ in 0..2 {
        let run = ask(&bench, "Bash", json!({"command": "rm"}));
        refused(&run, "APPROVAL_DENIED");
        assert!(run.err.contains("the approver's reason: \"no\""), "{run:?}");
    }
}

/// The short id of the one question that waits, once it does.
fn question(bench: &Bench) -> String {
    for _ in 0..200 {
        let list = bench.run("approve list --config gateway.toml").out;
        let asked = list.lines().find(|line| line.contains("claude-code:"));
        if let Some(id) = asked.and_then(|line| line.split_whitespace().next()) {
            return id.to_owned();
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("no question was asked");
}

#[test]
fn event_that_is_none_is_refused_and_recorded() {
    let bench = host();
    let after = event("s1", "Read", &json!({})).replace("PreToolUse", "PostToolUse");
    for (event, session) in [("", "hook-"), ("{", "hook-"), (after.as_str(), "s1")] {
        refused(&bench.feed(HOOK, event), "MALFORMED_CALL");
        let last = decisions(&bench).pop().unwrap();
        assert_eq!(last["code"], "MALFORMED_CALL");
        assert!(last["session"].as_str().unwrap().starts_with(session), "{last}");
    }
}

#[test]
fn every_failure_is_exit_2_and_one_line() {
    let bench = host();
    let read = event("s1", "Read", &json!({"file_path": "/srv/app/a"}));
    refused(&bench.feed("hook --config missing.toml", &read), "FILE_MISSING");
    assert_eq!(bench.feed("hook --bogus", &read).code, 2);
    assert_eq!(bench.feed("hook --host emacs", &read).code, 2);
    for file in ["gateway.toml", "registry.json", "trust-root.json", "log.key", "approval.key"] {
        let kept = std::fs::read(bench.path(file)).unwrap();
        std::fs::write(bench.path(file), "broken").unwrap();
        let run = bench.feed(HOOK, &read);
        assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (2, "", 1), "{file}: {run:?}");
        assert!(!run.err.contains(file), "{file}: {run:?}");
        std::fs::write(bench.path(file), kept).unwrap();
    }
    accepted(&bench.feed(HOOK, &read));
}

#[test]
fn log_that_was_cut_refuses() {
    let bench = host();
    let read = event("s1", "Read", &json!({"file_path": "/srv/app/a"}));
    accepted(&bench.feed(HOOK, &read));
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    let run = bench.feed(HOOK, &read);
    assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (2, "", 1), "{run:?}");
}

#[test]
fn hook_without_input_ends_within_half_of_the_time_out() {
    let bench = host();
    let mut child = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args("hook --config gateway.toml --host-timeout 1s".split_whitespace())
        .current_dir(bench.folder())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Held open until the process has ended.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{").unwrap();
    let ended = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stdout.is_empty());
    assert!(String::from_utf8(ended.stderr).unwrap().contains("HOOK_TIMEOUT"));
}

#[test]
fn limits_that_no_process_can_keep_are_refused() {
    let bench = signed(&[("limits", json!({"max_calls": 3}))]);
    refused(&ask(&bench, "Read", json!({"file_path": "/srv/app/a"})), "HOOK_LIMITS");
}

#[test]
fn many_hooks_at_once_lose_no_entry() {
    let bench = host();
    thread::scope(|scope| {
        for number in 0..12 {
            let bench = &bench;
            scope.spawn(move || {
                accepted(&ask_slowly(bench, "Read", json!({"file_path": format!("/srv/app/{number}")})))
            });
        }
    });
    assert_eq!(decisions(&bench).len(), 12);
    bench.ok("audit verify log --key log.vkey");
}
