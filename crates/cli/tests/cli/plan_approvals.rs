#![cfg(unix)]

use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, RECORD_OPTIONS};
use crate::plan_run::{calls, ends, mail, open, run, search};

/// Runs the command that a run printed for the approver, and returns its output.
pub(crate) fn approve_with(bench: &Bench, out: &str) -> String {
    let (_, command) = out.split_once("\nto approve: countersign ").unwrap();
    bench.ok(command.lines().next().unwrap())
}

/// Runs the command that a run printed for the approver, with this answer appended.
pub(crate) fn answer(bench: &Bench, out: &str, how: &str) {
    let (_, command) = out.split_once("\nto approve: countersign ").unwrap();
    bench.ok(&format!("{} {how}", command.trim_end()));
}

pub(crate) fn wire() -> Value {
    json!({"tool": "desk:wire", "args": {"to": "ada"}})
}

/// Writes a gateway configuration for the same desk.
pub(crate) fn config(bench: &Bench) {
    bench.write(
        "gateway.toml",
        "[registry]\nfile = \"reg.json\"\ntrust_root = \"root.json\"\nstate = \"mark.json\"\n\
         [session]\nagent = \"bot\"\nprincipal = \"alice\"\ngoal = \"Help\"\n\
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
    // The printed arguments are those that the approval binds.
    let (_, args) = asked.out.split_once("arguments        (sha-256 ").unwrap();
    let args = &args[args.find('{').unwrap()..args.find("\nto approve").unwrap()];
    bench.write("args.json", args);
    let token = approve_with(&bench, &asked.out);
    assert_eq!(calls(&bench), Vec::<Value>::new(), "nothing runs before the plan is approved");
    let approved = [&key[..], &["--approval", token.trim()]].concat();
    // An approval of this plan counts neither for another plan nor in another session.
    ends(&run(&bench, &json!([search("y"), mail()]), &approved), 3, "APPROVAL_INVALID");
    let ran = run(&bench, &steps, &approved);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.lines().next().unwrap().ends_with(", approved as a whole"), "{ran:?}");
    assert_eq!(calls(&bench)[1], json!({"to": "ada", "body": "hello"}));
    ends(&run(&bench, &steps, &approved), 3, "APPROVAL_SPENT");
    assert_eq!(calls(&bench).len(), 2);
    // The record names the approver at the step that needed the approval.
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
    // JSON output has the same facts, and the command as an array of words.
    let asked = bench.run(&format!("{line} --json -- sh server.sh"));
    let first: Value = serde_json::from_str(asked.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["approval_request"]["tool"], "submit_plan");
    assert_eq!(first["approve_with"][2], "mint");
    let last: Value = serde_json::from_str(asked.out.lines().last().unwrap()).unwrap();
    assert_eq!((asked.code, &last["error"]["code"]), (3, &json!("APPROVAL_REQUIRED")));
}

#[test]
fn step_approval_is_not_covered_by_the_plan_approval() {
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
    ends(&run(&bench, &two, &[&key[..], &["--step-approval", &other]].concat()), 3, "APPROVAL_INVALID");
    let given = [&key[..], &["--step-approval", &token]].concat();
    let ran = run(&bench, &steps, &given);
    assert_eq!(ran.code, 0, "{ran:?}");
    ends(&run(&bench, &steps, &given), 3, "APPROVAL_SPENT");
    assert_eq!(calls(&bench), [json!({"to": "ada"})]);
}

#[test]
fn question_filed_in_the_store_finds_its_answer() {
    let bench = open();
    config(&bench);
    bench.write("fill.json", r#"{"2":{"body":"hello"}}"#);
    bench.write("steps.json", json!([search("x"), mail()]).to_string());
    let line = "plan run steps.json --config gateway.toml --session s1 --fill fill.json -- sh server.sh";
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    ends(&bench.run(line), 3, "APPROVAL_REQUIRED");
    let waiting = bench.run("approve list --config gateway.toml --json").value();
    assert_eq!(waiting["pending"].as_array().unwrap().len(), 1, "asked twice, filed once: {waiting}");
    answer(&bench, &asked.out, "--yes");
    assert_eq!(bench.run(line).code, 0);
    assert_eq!(calls(&bench).len(), 2);
    // The approval is used up, and a new request would have the id of the one that was answered.
    ends(&bench.run(line), 3, "PENDING_CONFLICT");
    assert_eq!(calls(&bench).len(), 2);
}

#[test]
fn killed_run_has_spent_its_approval() {
    let bench = open();
    let hangs = bench.read("server.sh").replace("*'\"query\":\"hangs\"'*)", "*'\"to\":\"ada\"'*)");
    bench.write("server.sh", hangs);
    let steps = json!([{"tool": "desk:wire", "args": {"to": "ada"}}]);
    bench.write("args.json", r#"{"to":"ada"}"#);
    let asked = run(&bench, &steps, &["--approval-key", "gate.key"]);
    let token = format!("1={}", approve_with(&bench, &asked.out).trim());
    let line =
        "plan run steps.json --registry reg.json --trust-root root.json --agent bot --goal Help --session s1";
    let line =
        format!("{line} {RECORD_OPTIONS} --approval-key gate.key --step-approval {token} -- sh server.sh");
    let line: Vec<_> = line.split_whitespace().collect();
    let mut killed = bench.command(&line).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while calls(&bench).is_empty() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    ends(&bench.run_args(&line, ""), 3, "APPROVAL_SPENT");
    assert_eq!(calls(&bench).len(), 1, "once, whatever became of it");
    assert!(bench.verified()["records"].as_u64().unwrap() > 0);
    // The call is recorded as accepted, and the next run recorded its outcome as unknown.
    let accepted = bench.entries().into_iter().filter(|it| it["plan_step"] == 1 && it["verdict"] == "accept");
    let accepted: Vec<_> = accepted.map(|it| it["seq"].clone()).collect();
    assert_eq!(accepted.len(), 1);
    let entries = bench.entries();
    let outcome = entries.iter().find(|it| it["type"] == "outcome" && it["decision"] == accepted[0]).unwrap();
    assert_eq!((&outcome["outcome"], &outcome["by"]), (&json!("unknown"), &json!("recovery")));
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
fn denied_call_is_not_asked_about_again() {
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
fn denied_plan_is_not_asked_about_again() {
    let bench = open();
    config(&bench);
    bench.write("fill.json", r#"{"1":{"body":"hello"}}"#);
    bench.write("steps.json", json!([mail()]).to_string());
    let line = "plan run steps.json --config gateway.toml --session s1 --fill fill.json -- sh server.sh";
    let asked = bench.run(line);
    ends(&asked, 3, "APPROVAL_REQUIRED");
    answer(&bench, &asked.out, "--deny --by olga");
    for _ in 0..2 {
        let denied = bench.run(line);
        ends(&denied, 3, "APPROVAL_DENIED");
        assert!(denied.err.contains("the plan was denied by olga") && !denied.out.contains("to approve"));
    }
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    assert!(calls(&bench).is_empty());
    // The record has each denial with its plan and its approver.
    let (_, root) = asked.out.split_once("\ncall-id ").unwrap();
    let root = root.lines().next().unwrap().trim();
    let denials: Vec<_> = bench.entries().into_iter().filter(|it| it["code"] == "APPROVAL_DENIED").collect();
    assert_eq!(denials.len(), 2, "{denials:?}");
    for denial in denials {
        assert_eq!((&denial["plan"], &denial["denied_by"]), (&json!(root), &json!("olga")));
        assert_eq!((&denial["verdict"], &denial["tool"]["name"]), (&json!("reject"), &json!("submit_plan")));
    }
    assert!(bench.run("audit show log").out.contains(r#"APPROVAL_DENIED: "a person refused it" (olga)"#));
}

#[test]
fn two_sessions_over_one_store_are_each_approved_on_their_own() {
    let bench = open();
    config(&bench);
    bench.write("steps.json", json!([{"tool": "desk:wire", "args": {"to": "ada"}}]).to_string());
    let line = |session: &str| {
        format!("plan run steps.json --config gateway.toml --session {session} -- sh server.sh")
    };
    let [first, second] = ["s1", "s2"].map(|session| bench.run(&line(session)));
    ends(&first, 3, "APPROVAL_REQUIRED");
    ends(&second, 3, "APPROVAL_REQUIRED");
    answer(&bench, &second.out, "--yes");
    // The other session's approval does not count. The request is still open and filed once.
    ends(&bench.run(&line("s1")), 3, "APPROVAL_REQUIRED");
    assert_eq!(calls(&bench).len(), 0);
    let waiting = bench.run("approve list --config gateway.toml --json").value();
    assert_eq!(waiting["pending"].as_array().unwrap().len(), 1, "{waiting}");
    assert_eq!(bench.run(&line("s2")).code, 0);
    assert_eq!(calls(&bench).len(), 1);
    answer(&bench, &first.out, "--yes");
    assert_eq!(bench.run(&line("s1")).code, 0);
    // Each session can use its approval only once.
    for session in ["s1", "s2"] {
        ends(&bench.run(&line(session)), 3, "PENDING_CONFLICT");
    }
    assert_eq!(calls(&bench).len(), 2);
}

#[test]
fn step_approval_of_another_session_is_refused() {
    let bench = open();
    let steps = json!([{"tool": "desk:wire", "args": {"to": "ada"}}]);
    bench.write("steps.json", steps.to_string());
    bench.write("args.json", r#"{"to":"ada"}"#);
    let line = |session: &str, more: &str| {
        let keys =
            "--registry reg.json --trust-root root.json --agent bot --goal Help --approval-key gate.key";
        bench.run(&format!("plan run steps.json {keys} --session {session} {more} -- sh server.sh"))
    };
    let token =
        |session: &str| format!("--step-approval 1={}", approve_with(&bench, &line(session, "").out).trim());
    let [first, second] = ["s1", "s2"].map(token);
    ends(&line("s1", &second), 3, "APPROVAL_INVALID");
    assert_eq!(line("s2", &second).code, 0);
    ends(&line("s2", &second), 3, "APPROVAL_SPENT");
    assert_eq!(line("s1", &first).code, 0);
    assert_eq!(calls(&bench).len(), 2);
}
