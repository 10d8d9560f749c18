//! `check` with a plan that the session must follow.

use serde_json::{Value, json};

use crate::bench::{Bench, Run};
use crate::desk;

const CHECK: &str =
    "check --registry reg.json --trust-root root.json --agent support-bot --goal Help --session s-1";

fn planned() -> Bench {
    let bench = desk::open();
    let step = |tool: &str, args: Value| json!({"tool": tool, "args": args});
    let steps = json!([
        step("desk:search", json!({"query": "a"})),
        step("desk:refund", json!({"id": 7})),
        step("desk:list", json!({})),
    ]);
    bench.write("plan.json", steps.to_string());
    bench
}

fn line(id: &str, tool: &str, args: &Value, step: Option<&Value>) -> Value {
    let mut line = json!({"call_id": id, "server": "desk", "tool": tool, "args": args});
    if let Some(step) = step {
        line["plan_step"] = step.clone();
    }
    line
}

fn search() -> Value {
    line("c1", "search", &json!({"query": "a"}), None)
}

/// Returns the code of each decision, or `-`, and the exit code.
fn decide(bench: &Bench, options: &str, lines: &[Value]) -> (Vec<String>, i32) {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let record = if options.contains("--record ") { "" } else { "--no-record" };
    let Run { code, out, err } = bench.feed(&format!("{CHECK} --json {record} {options}"), &input);
    // Standard error explains a bad line to the operator.
    assert!(err.lines().all(|line| line.starts_with("c1: the plan_step is not ")), "{err}");
    let decisions = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    (decisions.map(|decision| decision["code"].as_str().unwrap_or("-").to_owned()).collect(), code)
}

#[test]
fn calls_are_held_to_the_plan() {
    let bench = planned();
    let list = line("c2", "list", &json!({}), None);
    let (codes, exit) = decide(&bench, "--plan plan.json", &[search(), list.clone(), search()]);
    assert_eq!((codes, exit), (vec!["-".into(), "PLAN_OUT_OF_ORDER".into(), "PLAN_HALTED".into()], 3));
    let outlives = "--plan plan.json --on-breach refuse --breaches 2";
    let (codes, _) = decide(&bench, outlives, &[list.clone(), search(), list, search()]);
    assert_eq!(codes, ["PLAN_OUT_OF_ORDER", "-", "PLAN_OUT_OF_ORDER", "PLAN_HALTED"]);
}

#[test]
fn line_names_its_plan_step() {
    let bench = planned();
    let at = |step: Value| line("c1", "search", &json!({"query": "a"}), Some(&step));
    let options = "--plan plan.json";
    assert_eq!(decide(&bench, options, &[at(json!(1))]).0, ["-"]);
    assert_eq!(decide(&bench, options, &[at(json!(2))]).0, ["PLAN_OUT_OF_ORDER"]);
    for wrong in [json!("1"), json!(-1), json!(1.5), Value::Null] {
        assert_eq!(decide(&bench, options, &[at(wrong)]).0, ["MALFORMED_CALL"]);
    }
    assert_eq!(
        decide(&bench, "--record log --record-key log.key --record-origin example.com/log", &[at(json!(1))])
            .0,
        ["PLAN_REQUIRED"]
    );
}

#[test]
fn approval_of_the_plan_covers_its_steps() {
    let bench = planned();
    let refund = line("c2", "refund", &json!({"id": 7}), None);
    let lines = [search(), refund];
    let with_key = "--plan plan.json --approval-key gate.key";
    assert_eq!(decide(&bench, with_key, &lines).0, ["-", "APPROVAL_REQUIRED"]);
    let session = CHECK.trim_start_matches("check ");
    bench.ok(&format!("plan commit plan.json {session} --out whole.json"));
    let root: Value = bench.run("plan show whole.json --json").value();
    let goal = bench.run("ask pin --session s-1 --ttl 1h --goal Help --json").value();
    let (root, goal) = (root["root"].as_str().unwrap(), goal["digest"].as_str().unwrap());
    let token = bench.run(&format!(
        "token mint --key-file gate.key --server countersign --tool submit_plan --args whole.json --call-id {root} \
         --plan {root} --ask {goal} --principal local --agent support-bot --session s-1 --audience check \
         --registry-version 1 --ttl 5m"
    ));
    bench.write("plan.token", token.done());
    let approved = "--plan whole.json --plan-approval plan.token --approval-key gate.key";
    assert_eq!(decide(&bench, approved, &lines), (vec!["-".into(), "-".into()], 0));
    // The approval is good for one start.
    let again = bench.feed(&format!("{CHECK} --no-record {approved}"), "");
    assert!(again.code == 3 && again.err.starts_with("error APPROVAL_SPENT: "), "{again:?}");
}

#[test]
fn plan_that_may_not_start_ends_the_check() {
    let bench = planned();
    let fails = |options: &str, exit: i32, code: &str| {
        let run = bench.feed(&format!("{CHECK} --no-record {options}"), "");
        assert_eq!((run.code, run.out.as_str()), (exit, ""), "{options}: {run:?}");
        assert!(run.err.starts_with(&format!("error {code}: ")), "{options}: {run:?}");
    };
    bench.write("foreign.json", json!([{"tool": "desk:delete", "args": {}}]).to_string());
    fails("--plan foreign.json", 3, "PLAN_TOOL_UNDISCLOSED");
    fails("--plan none.json", 1, "FILE_MISSING");
    fails("--on-breach refuse", 2, "USAGE");
    fails("--plan plan.json --breaches 2", 1, "CONFIG_CONFLICT");
    fails("--plan plan.json --plan-approval t", 2, "USAGE");
}
