//! A plan with several approvals: the run requests all of them before the first step.

#![cfg(unix)]

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, Run};
use crate::plan_approvals::{config, wire};
use crate::plan_run::{calls, ends, mail, open, run, search};

fn wire_to(who: &str) -> Value {
    json!({"tool": "desk:wire", "args": {"to": who}})
}

/// Returns the commands that a run printed for the approver.
fn commands(out: &str) -> Vec<&str> {
    out.lines().filter_map(|line| line.strip_prefix("to approve: countersign ")).collect()
}

/// Runs the plan under the gateway's configuration.
fn configured(bench: &Bench, steps: &Value, fill: &str, more: &str) -> Run {
    bench.write("steps.json", steps.to_string());
    bench.write("fill.json", fill);
    let line = "plan run steps.json --config gateway.toml --fill fill.json";
    bench.run(&format!("{line} {more} -- sh server.sh"))
}

/// Returns a token for each call of a plan of wires to ada, minted with the gateway's key.
fn minted(bench: &Bench, steps: &Value, fill: &str) -> Vec<String> {
    bench.write("fill.json", fill);
    for call in 1..=12 {
        bench.write(&format!("args-{call}.json"), r#"{"to":"ada"}"#);
    }
    let gate = "--approval-key gate.key --run s1 --audience desk --principal alice --fill fill.json";
    let asked = run(bench, steps, &gate.split(' ').collect::<Vec<_>>());
    ends(&asked, 3, "APPROVAL_REQUIRED");
    commands(&asked.out).into_iter().map(|command| bench.ok(command).trim().to_owned()).collect()
}

#[test]
fn no_step_runs_before_every_approval_is_given() {
    let bench = open();
    config(&bench);
    let steps = json!([wire_to("bob"), mail(), search("x"), wire_to("ada")]);
    let run = || configured(&bench, &steps, r#"{"2":{"body":"hello"}}"#, "--session s1");
    let asked = run();
    ends(&asked, 3, "APPROVAL_REQUIRED");
    assert!(asked.err.contains("the plan, step 1 (desk:wire), step 4 (desk:wire) must"), "{asked:?}");
    let commands = commands(&asked.out);
    assert_eq!(commands.len(), 3, "{asked:?}");
    for command in &commands[..2] {
        bench.ok(&format!("{command} --yes"));
    }
    let again = run();
    ends(&again, 3, "APPROVAL_REQUIRED");
    assert!(again.err.contains("error APPROVAL_REQUIRED: step 4 (desk:wire) must"), "{again:?}");
    assert!(calls(&bench).is_empty());
    bench.ok(&format!("{} --yes", commands[2]));
    assert_eq!(run().code, 0);
    let made: Vec<_> = calls(&bench);
    assert_eq!(made.len(), 4, "{made:?}");
    assert_eq!((&made[0], &made[3]), (&json!({"to": "bob"}), &json!({"to": "ada"})));
    ends(&run(), 3, "PENDING_CONFLICT");
    assert_eq!(calls(&bench).len(), 4, "no approval counts twice");
    bench.verified();
}

#[test]
fn denial_of_a_later_step_stops_the_whole_run() {
    let bench = open();
    config(&bench);
    let steps = json!([wire_to("bob"), wire_to("ada")]);
    let run = || configured(&bench, &steps, "{}", "--session s1");
    let asked = run();
    let [bob, ada] = commands(&asked.out)[..] else { panic!("{asked:?}") };
    bench.ok(&format!("{bob} --yes"));
    bench.ok(&format!("{ada} --deny --by olga"));
    let refused = run();
    ends(&refused, 3, "APPROVAL_DENIED");
    assert!(refused.err.contains("step 2 (desk:wire) was denied by olga"), "{refused:?}");
    assert!(calls(&bench).is_empty());
    let entry = bench.entries().into_iter().find(|entry| entry["code"] == "APPROVAL_DENIED").unwrap();
    let id = entry["call_id"].as_str().unwrap();
    assert_eq!(id, format!("{}/step-2", entry["plan"].as_str().unwrap()));
    assert_eq!((&entry["tool"]["name"], &entry["denied_by"]), (&json!("wire"), &json!("olga")));
    assert_eq!(entry["about_plan"], true, "no call was made");
}

#[test]
fn repeated_act_needs_a_token_for_each_further_call() {
    let mut twice = wire();
    twice["max_calls"] = json!(2);
    for (steps, fill, second) in
        [(json!([wire(), search("x"), wire()]), "{}", 3), (json!([twice]), r#"{"1":[{},{}]}"#, 1)]
    {
        let bench = open();
        config(&bench);
        let run = |more: &str| configured(&bench, &steps, fill, &format!("--session s1 {more}"));
        let refused = run("");
        ends(&refused, 1, "PLAN_SAME_ACT");
        assert!(refused.out.is_empty() && refused.err.contains("--step-approval"), "{refused:?}");
        let tokens = minted(&bench, &steps, fill);
        let token = format!("--step-approval {second}={}", tokens[1]);
        let asked = run(&token);
        ends(&asked, 3, "APPROVAL_REQUIRED");
        assert!(asked.err.contains("step 1 (desk:wire) must"), "{asked:?}");
        bench.ok(&format!("{} --yes", commands(&asked.out)[0]));
        // An approval of one of the calls does not count for the other, though the calls are equal.
        let other = run(&format!("--step-approval 1={}", tokens[0]));
        ends(&other, 3, "APPROVAL_REQUIRED");
        assert!(calls(&bench).is_empty());
        let ran = run(&token);
        assert_eq!((ran.code, calls(&bench).len()), (0, steps.as_array().unwrap().len().max(2)), "{ran:?}");
    }
}

#[test]
fn a_step_has_as_many_tokens_as_calls_and_each_goes_to_its_own() {
    let bench = open();
    let mut often = wire();
    often["max_calls"] = json!(12);
    let (steps, fill) = (json!([often]), format!(r#"{{"1":[{}]}}"#, ["{}"; 12].join(",")));
    let mut tokens = minted(&bench, &steps, &fill);
    assert_eq!(tokens.len(), 12);
    tokens.reverse();
    let gate = "--approval-key gate.key --run s1 --audience desk --principal alice --fill fill.json";
    let tokens: Vec<_> = tokens.iter().map(|token| format!("1={token}")).collect();
    let with = |tokens: &[String]| {
        let tokens = tokens.iter().flat_map(|token| ["--step-approval", token]);
        run(&bench, &steps, &gate.split(' ').chain(tokens).collect::<Vec<_>>())
    };
    let asked = with(&tokens[1..]);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    assert!(asked.err.contains(": call 12 of step 1 (desk:wire) must"), "{asked:?}");
    assert_eq!((commands(&asked.out).len(), calls(&bench).len()), (1, 0), "{asked:?}");
    assert_eq!(with(&tokens).code, 0);
    assert_eq!(calls(&bench).len(), 12);
    ends(&with(&tokens), 3, "APPROVAL_SPENT");
    assert_eq!(calls(&bench).len(), 12, "what was used already is found out before the first call");
}

#[test]
fn unusable_token_is_not_recorded_against_the_agent() {
    let bench = open();
    config(&bench);
    for (steps, given) in [
        (json!([wire()]), "--step-approval 1=cs1.a.b"),
        (json!([search("x")]), "--step-approval 1=cs1.a.b"),
        (json!([search("x"), wire()]), "--step-approval 1=cs1.a.b"),
    ] {
        ends(&configured(&bench, &steps, "{}", &format!("--session s1 {given}")), 3, "APPROVAL_INVALID");
    }
    assert!(bench.entries().iter().all(|entry| entry["type"] == "session" || entry["type"] == "end"));
    assert!(calls(&bench).is_empty());
}

#[test]
fn unnamed_session_files_no_question() {
    let bench = open();
    config(&bench);
    let refused = configured(&bench, &json!([wire()]), "{}", "");
    ends(&refused, 1, "PLAN_SESSION_UNNAMED");
    assert!(refused.err.contains("--session"), "{refused:?}");
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    assert_eq!(configured(&bench, &json!([search("x")]), "{}", "").code, 0);
}

#[test]
fn invalid_plan_token_is_refused_before_any_question() {
    let bench = open();
    config(&bench);
    let steps = json!([mail(), wire()]);
    let more = "--session s1 --approval cs1.a.b";
    ends(&configured(&bench, &steps, r#"{"1":{"body":"hello"}}"#, more), 3, "APPROVAL_INVALID");
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    assert!(bench.entries().iter().any(|it| it["code"] == "APPROVAL_INVALID" && it["about_plan"] == true));
}

#[test]
fn denial_given_while_the_questions_print_is_recorded() {
    let bench = open();
    config(&bench);
    let mut first = mail();
    first["args"]["body"] = json!("x".repeat(300_000));
    let steps = json!([first, wire()]);
    let asked = configured(&bench, &steps, "{}", "--session s1");
    let [_, wire] = commands(&asked.out)[..] else { panic!("{asked:?}") };
    let line = "plan run steps.json --config gateway.toml --session s1 -- sh server.sh";
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The run has started to print the first question, which is longer than a pipe's buffer.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    bench.ok(&format!("{wire} --deny --by olga"));
    let ran = child.wait_with_output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(3) && told.starts_with("error APPROVAL_DENIED: step 2 "), "{told}");
    let entries = bench.entries();
    let entry = entries.iter().find(|entry| entry["code"] == "APPROVAL_DENIED").unwrap();
    assert_eq!((&entry["tool"]["name"], &entry["denied_by"]), (&json!("wire"), &json!("olga")));
}

#[test]
fn changed_tool_in_mid_plan_is_asked_about_again() {
    let bench = open();
    config(&bench);
    let mut registry: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    registry["version"] = json!(2);
    for tool in registry["tools"].as_array_mut().unwrap() {
        tool.as_object_mut().unwrap().remove("definition");
    }
    bench.write("draft.json", registry.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json --force");
    let steps = json!([search("changes the wire"), wire()]);
    let run = || configured(&bench, &steps, "{}", "--session s1");
    let asked = run();
    bench.ok(&format!("{} --yes", commands(&asked.out)[0]));
    let refused = run();
    ends(&refused, 3, "APPROVAL_REQUIRED");
    assert_eq!(calls(&bench), [search("changes the wire")["args"].clone()]);
    let codes: Vec<_> = bench.entries().into_iter().filter_map(|entry| entry.get("code").cloned()).collect();
    assert_eq!(codes, ["APPROVAL_REQUIRED", "PLAN_HALTED"], "{codes:?}");
}

#[test]
fn questions_beyond_the_limit_are_asked_later() {
    let bench = open();
    config(&bench);
    let steps: Value = (0..66).map(|who| wire_to(&format!("ada{who}"))).collect();
    let asked = configured(&bench, &steps, "{}", "--session s1");
    assert_eq!((asked.code, commands(&asked.out).len()), (3, 64), "{}", asked.err);
    let mut told = asked.err.lines();
    assert!(told.next().unwrap().starts_with("note: too many pending approvals"), "{}", asked.err);
    assert!(told.next().unwrap().starts_with("error APPROVAL_REQUIRED: step 1 "), "{}", asked.err);
}
