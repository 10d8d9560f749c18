//! Answers to a plan's approval requests: which answer counts, and when.

#![cfg(unix)]

use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, unannounced};
use crate::plan_approvals::{answer, approve_with, config, wire};
use crate::plan_run::{calls, ends, mail, open, run, search};
use crate::quarantine::{signals, standings};

/// Returns a token that the holder of the gate's key mints, without a request in the gateway's store.
fn minted(bench: &Bench, steps: &Value, more: &[&str]) -> String {
    let gate = "--approval-key gate.key --run s1 --audience desk --principal alice";
    let asked = run(bench, steps, &gate.split(' ').chain(more.iter().copied()).collect::<Vec<_>>());
    ends(&asked, 3, "APPROVAL_REQUIRED");
    let (_, args) = asked.out.split_once("arguments        (sha-256 ").unwrap();
    bench.write("args.json", &args[args.find('{').unwrap()..args.find("\nto approve").unwrap()]);
    approve_with(bench, &asked.out).trim().to_owned()
}

#[test]
fn stored_denial_overrides_a_minted_token() {
    for is_denied in [false, true] {
        for (steps, fill, option) in [
            (json!([mail()]), r#"{"1":{"body":"hello"}}"#, "--approval "),
            (json!([wire()]), "{}", "--step-approval 1="),
        ] {
            let bench = open();
            config(&bench);
            bench.ok("store init approvals.sqlite");
            bench.write("fill.json", fill);
            let token = minted(&bench, &steps, &["--fill", "fill.json"]);
            let line = "plan run steps.json --config gateway.toml --session s1 --fill fill.json";
            let asked = bench.run(&format!("{line} -- sh server.sh"));
            ends(&asked, 3, "APPROVAL_REQUIRED");
            if is_denied {
                answer(&bench, &asked.out, "--deny --by olga");
            }
            let given = bench.run(&format!("{line} {option}{token} -- sh server.sh"));
            let denied = bench.entries().into_iter().filter(|it| it["code"] == "APPROVAL_DENIED");
            let by: Vec<_> = denied.map(|it| it["denied_by"].clone()).collect();
            if is_denied {
                ends(&given, 3, "APPROVAL_DENIED");
                assert_eq!((by, calls(&bench).len()), (vec![json!("olga")], 0));
            } else {
                assert_eq!((given.code, by.len(), calls(&bench).len()), (0, 0, 1), "{given:?}");
            }
        }
    }
}

#[test]
fn answer_given_while_the_question_prints_counts() {
    for (said, exit, end) in
        [("--yes", 0, ""), ("--deny --by olga", 3, "APPROVAL_DENIED"), ("", 3, "APPROVAL_REQUIRED")]
    {
        let bench = open();
        config(&bench);
        // why: the question is longer than a pipe's buffer, so the run waits for its reader while it prints.
        bench.write("fill.json", "{}");
        let mut steps = json!([mail()]);
        steps[0]["args"]["body"] = json!("x".repeat(300_000));
        bench.write("steps.json", steps.to_string());
        let line = "plan run steps.json --config gateway.toml --session s1 -- sh server.sh";
        let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = loop {
            let listed = bench.run("approve list --config gateway.toml --json");
            if listed.code == 0
                && let Some(id) = listed.value()["pending"][0]["call_id"].as_str()
            {
                break id.to_owned();
            }
            assert!(child.try_wait().unwrap().is_none(), "it ended before anybody could say anything");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        if said.is_empty() {
            std::fs::rename(bench.path("approvals.sqlite"), bench.path("elsewhere")).unwrap();
        } else {
            bench.ok(&format!("approve {id} --config gateway.toml {said}"));
        }
        let ran = child.wait_with_output().unwrap();
        let err = unannounced(&String::from_utf8(ran.stderr).unwrap());
        assert_eq!(ran.status.code(), Some(exit), "{err}");
        assert!(
            err.starts_with(&if end.is_empty() { String::new() } else { format!("error {end}: ") }),
            "{err}"
        );
        assert_eq!(calls(&bench).len(), usize::from(exit == 0));
    }
}

#[test]
fn quarantined_agent_runs_no_plan() {
    let bench = open();
    config(&bench);
    signals(&bench, "store = \"signals.sqlite\"\non_drop = \"quarantine\"");
    let run = |steps: &Value| {
        bench.write("steps.json", steps.to_string());
        bench.run("plan run steps.json --config gateway.toml --session s1 -- sh server.sh")
    };
    assert_eq!(run(&json!([search("x")])).code, 0);
    bench.ok("quarantine add --store signals.sqlite --agent bot --by ada --reason why");
    for steps in [json!([search("x")]), json!([wire()])] {
        let refused = run(&steps);
        assert_eq!(refused.code, 3, "{refused:?}");
        let mut told = refused.err.lines();
        assert_eq!(told.next(), Some("warning AGENT_QUARANTINED: agent bot is quarantined"));
        assert!(told.next().unwrap().starts_with("error AGENT_QUARANTINED: "), "{refused:?}");
    }
    assert_eq!(calls(&bench).len(), 1, "nothing came to a tool");
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    assert_eq!(standings(&bench)[0], (json!("quarantined"), json!("ada")));
    let refusals = bench.entries().into_iter().filter(|entry| entry["code"] == "AGENT_QUARANTINED");
    assert_eq!(refusals.count(), 2);
    bench.ok("quarantine lift --store signals.sqlite --agent bot --by ada");
    assert_eq!(run(&json!([search("x")])).code, 0);
    bench.verified();
}
