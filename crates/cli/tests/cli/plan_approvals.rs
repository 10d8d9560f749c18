#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::plan_run::{calls, ends, mail, open, run, search};

/// The command that a run has printed for the approver, to be run as it is.
fn approve_with(bench: &Bench, out: &str) -> String {
    let (_, command) = out.split_once("\nto approve: countersign ").unwrap();
    bench.ok(command.lines().next().unwrap())
}

/// Runs the command that a run has printed for the approver, with the answer behind it.
fn answer(bench: &Bench, out: &str, how: &str) {
    let (_, command) = out.split_once("\nto approve: countersign ").unwrap();
    bench.ok(&format!("{} {how}", command.trim_end()));
}

/// A gateway's configuration for the same desk.
fn config(bench: &Bench) {
    bench.write(
        "gateway.toml",
        "[registry]\nfile = \"reg.json\"\ntrust_root = \"root.json\"\nstate = \"mark.json\"\n\
         [session]\nagent = \"bot\"\nprincipal = \"alice\"\ngoal = \"Help alice\"\n\
         [approval]\nkey_file = \"gate.key\"\nstore = \"approvals.sqlite\"\n\
         [record]\nfolder = \"log\"\nkey_file = \"log.key\"\norigin = \"example.com/log\"\n\
         [server]\nname = \"desk\"\n",
    );
}

#[test]
fn a_plan_is_approved_as_a_whole_and_once() {
    let bench = open();
    bench.write("fill.json", r#"{"2":{"body":"hello"}}"#);
    let steps = json!([search("x"), mail()]);
    let fill = ["--fill", "fill.json"];
    ends(&run(&bench, &steps, &fill), 3, "APPROVAL_REQUIRED");
    let key = [&fill[..], &["--approval-key", "gate.key"]].concat();
    let asked = run(&bench, &steps, &key);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    assert!(asked.out.contains("(args.json being the arguments above)"), "{asked:?}");
    // What is shown is what has to be approved.
    let (_, args) = asked.out.split_once("arguments        (sha-256 ").unwrap();
    let args = &args[args.find('{').unwrap()..args.find("\nto approve").unwrap()];
    bench.write("args.json", args);
    let token = approve_with(&bench, &asked.out);
    assert_eq!(calls(&bench), Vec::<Value>::new(), "nothing runs before the plan is approved");
    let approved = [&key[..], &["--approval", token.trim()]].concat();
    // An approval of this plan is none of another, nor of this one in another session.
    ends(&run(&bench, &json!([search("y"), mail()]), &approved), 3, "APPROVAL_INVALID");
    let ran = run(&bench, &steps, &approved);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.lines().next().unwrap().ends_with(", approved as a whole"), "{ran:?}");
    assert_eq!(calls(&bench)[1], json!({"to": "ada", "body": "hello"}));
    ends(&run(&bench, &steps, &approved), 3, "APPROVAL_SPENT");
    assert_eq!(calls(&bench).len(), 2);
    // The record names the approver at the step that needed it.
    let entries = bench.entries();
    assert!(entries.iter().any(|line| line["plan_step"] == 2 && line["approver"] == "operator"));
}

#[test]
fn the_plan_as_it_is_committed_is_approved_from_its_file() {
    let bench = open();
    bench.write("fill.json", r#"{"1":{"body":"hello"}}"#);
    bench.write("steps.json", json!([mail()]).to_string());
    let session = "--registry reg.json --trust-root root.json --agent bot --goal Help";
    bench.ok(&format!("plan commit steps.json {session} --out plan.json"));
    let line = format!("plan run plan.json {session} --fill fill.json --approval-key gate.key");
    let asked = bench.run(&format!("{line} -- sh server.sh"));
    ends(&asked, 3, "APPROVAL_REQUIRED");
    let token = approve_with(&bench, &asked.out);
    let told = bench.run(&format!("{line} --json --approval {} -- sh server.sh", token.trim())).done();
    assert!(told.contains("\"approved\":true"), "{told}");
    // A program gets the same facts, and the command as words.
    let asked = bench.run(&format!("{line} --json -- sh server.sh"));
    let first: Value = serde_json::from_str(asked.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["approval_request"]["tool"], "submit_plan");
    assert_eq!(first["approve_with"][2], "mint");
    let last: Value = serde_json::from_str(asked.out.lines().last().unwrap()).unwrap();
    assert_eq!((asked.code, &last["error"]["code"]), (3, &json!("APPROVAL_REQUIRED")));
}

#[test]
fn a_call_that_needs_an_approval_of_its_own_is_not_covered_by_the_plans() {
    let bench = open();
    let steps = json!([{"tool": "desk:wire", "args": {"to": "ada"}}]);
    let key = ["--approval-key", "gate.key"];
    let asked = run(&bench, &steps, &key);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    assert!(asked.err.contains("step 1 (desk:wire)"), "{asked:?}");
    bench.write("args.json", r#"{"to":"ada"}"#);
    let token = format!("1={}", approve_with(&bench, &asked.out).trim());
    let other = token.replacen("1=", "2=", 1);
    let nowhere = [&key[..], &["--step-approval", "9=cs1.a.b"]].concat();
    ends(&run(&bench, &steps, &nowhere), 1, "PLAN_NO_SUCH_STEP");
    let two = json!([steps[0], search("x")]);
    ends(&run(&bench, &two, &[&key[..], &["--step-approval", &other]].concat()), 3, "APPROVAL_REQUIRED");
    let given = [&key[..], &["--step-approval", &token]].concat();
    let ran = run(&bench, &steps, &given);
    assert_eq!(ran.code, 0, "{ran:?}");
    ends(&run(&bench, &steps, &given), 3, "APPROVAL_SPENT");
    assert_eq!(calls(&bench), [json!({"to": "ada"})]);
}

#[test]
fn with_a_configuration_the_question_is_filed_and_its_answer_found() {
    let bench = open();
    config(&bench);
    bench.write("fill.json", r#"{"2":{"body":"hello"}}"#);
    bench.write(
        "steps.json",
        json!([search("x"), mail(), {"tool": "desk:wire", "args": {"to": "ada"}}]).to_string(),
    );
    let line = "plan run steps.json --config gateway.toml --session s1 --fill fill.json -- sh server.sh";
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    ends(&bench.run(line), 3, "APPROVAL_REQUIRED");
    let waiting = bench.run("approve list --config gateway.toml --json").value();
    assert_eq!(waiting["pending"].as_array().unwrap().len(), 1, "asked twice, filed once: {waiting}");
    answer(&bench, &asked.out, "--yes");
    // The plan is approved now, and its third step asks for one of its own.
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    assert!(asked.err.contains("step 3 (desk:wire)"), "{asked:?}");
    assert_eq!(calls(&bench).len(), 2);
    // The plan's approval is used up, and its id is that of the question that was answered.
    ends(&bench.run(line), 3, "PENDING_CONFLICT");
    assert_eq!(calls(&bench).len(), 2);
}

#[test]
fn a_single_call_that_was_approved_in_the_store_runs() {
    let bench = open();
    config(&bench);
    bench.write("steps.json", json!([{"tool": "desk:wire", "args": {"to": "ada"}}]).to_string());
    let line = "plan run steps.json --config gateway.toml --session s1 -- sh server.sh";
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    answer(&bench, &asked.out, "--yes");
    let ran = bench.run(line);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(calls(&bench), [json!({"to": "ada"})]);
    assert_ne!(bench.run(line).code, 0, "an approval is used once");
    assert_eq!(calls(&bench).len(), 1);
}

#[test]
fn a_single_call_that_was_denied_in_the_store_is_refused_and_nobody_is_asked_again() {
    let bench = open();
    config(&bench);
    bench.write("steps.json", json!([{"tool": "desk:wire", "args": {"to": "ada"}}]).to_string());
    let line = "plan run steps.json --config gateway.toml --session s1 -- sh server.sh";
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    answer(&bench, &asked.out, "--deny --by olga");
    for _ in 0..2 {
        let denied = bench.run(line);
        ends(&denied, 3, "APPROVAL_DENIED");
        assert!(!denied.out.contains("to approve"), "{denied:?}");
    }
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    assert!(calls(&bench).is_empty());
}

#[test]
fn a_plan_that_was_denied_in_the_store_is_refused_and_nobody_is_asked_again() {
    let bench = open();
    config(&bench);
    bench.write("fill.json", r#"{"1":{"body":"hello"}}"#);
    bench.write("steps.json", json!([mail()]).to_string());
    let line = "plan run steps.json --config gateway.toml --session s1 --fill fill.json -- sh server.sh";
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    answer(&bench, &asked.out, "--deny");
    ends(&bench.run(line), 3, "APPROVAL_DENIED");
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    assert!(calls(&bench).is_empty());
}
