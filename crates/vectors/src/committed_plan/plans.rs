//! Committed plans, runs of plans, and proofs of single steps.

use super::*;

fn plan_text(steps: &[Step]) -> String {
    Plan::new(context(), steps.to_vec()).unwrap().to_json()
}

/// A plan to commit.
fn plan(about: &str, expect: &str, text: &str) -> Value {
    json!({ "description": about, "kind": "plan", "plan": text, "allowed": allowed(), "expect": expect })
}

/// A plan to commit and run, call by call.
fn run_of(about: &str, expect: &str, made: &[(&str, &str)]) -> Value {
    let mut case = plan(about, expect, &plan_text(&steps()));
    case["kind"] = "run".into();
    case["calls"] = calls(made);
    case
}

/// A step proved by the root, and a call of it.
fn proof(about: &str, expect: &str, change: impl FnOnce(&mut Value)) -> Value {
    let plan = plan_of(steps());
    let proof: Value = serde_json::from_str(&plan.prove_step(3).unwrap().to_json()).unwrap();
    let mut case = json!({
        "description": about, "kind": "proof", "root": plan.root(), "proof": proof,
        "calls": calls(&[SEND]), "expect": expect,
    });
    change(&mut case);
    case
}

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    let with_root = |mut case: Value| {
        let plan = case["plan"].as_str().unwrap();
        let plan =
            Plan::from_json(plan.as_bytes(), &PlanLimits::default()).unwrap().commit(&Anything).unwrap();
        let steps = plan.header().steps();
        let leaves: Vec<String> = std::iter::once(plan.header().to_json())
            .chain(steps_of(&plan).iter().zip(1..).map(|(step, at)| leaf(step, at, steps)))
            .collect();
        case["leaves"] = leaves.into();
        case["root"] = json!(plan.root());
        case
    };
    let spelled = plan_text(&steps())
        .replace(r#""note":"<DYNAMIC>","#, "")
        .replace(r#""max_calls":2"#, r#""max_calls":2.0,"dynamic":["/note"]"#)
        .replace(r#""amount":10"#, r#""amount":1e1"#);
    let amends = Plan::new(context(), steps()).unwrap().amending(*plan_of(steps()).root(), 1).to_json();
    vec![
        (
            "plan",
            with_root(plan("three steps, two of them with something left open", "ok", &plan_text(&steps()))),
        ),
        (
            "plan_other_spelling",
            with_root(plan("the same plan in another spelling has the same root", "ok", &spelled)),
        ),
        ("amendment", with_root(plan("an amendment after the first step", "ok", &amends))),
        ("run", run_of("each step once", "ok", &[SEARCH, REFUND, SEND])),
        (
            "run_with_repeated_step",
            run_of("the second step as often as it may", "ok", &[SEARCH, REFUND, REFUND, SEND]),
        ),
        ("proof", proof("the last step, proved by the root", "ok", |_| {})),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    let good = plan_text(&steps());
    let text = |about: &str, code: &str, from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        plan(about, code, &good.replacen(from, to, 1))
    };
    let extra = r#"{"body":"done","cc":"eve@example.com","to":"bob@example.com"}"#;
    let other = r#"{"body":"done","to":"eve@example.com"}"#;
    vec![
        (
            "unknown_member",
            text("a member that plans do not have", "PLAN_SHAPE", "{\"goal\"", "{\"approved\":true,\"goal\""),
        ),
        (
            "repeated_member",
            text(
                "the session twice, once behind an escape",
                "PLAN_JSON",
                "\"session\"",
                "\"s\\u0065ssion\":\"s-2\",\"session\"",
            ),
        ),
        ("other_recipe", text("another recipe", "PLAN_RECIPE", "plan-1", "plan-0")),
        ("goal_upper_case", text("the goal is no digest", "PLAN_ID", "\"goal\":\"", "\"goal\":\"A")),
        (
            "version_above_2_53",
            text(
                "a registry version that JSON does not tell",
                "PLAN_REGISTRY_VERSION",
                "_version\":7",
                "_version\":9007199254740992",
            ),
        ),
        ("no_steps", plan("no steps", "PLAN_EMPTY", &format!("{}[]}}", &good[..good.find("[{").unwrap()]))),
        (
            "args_array",
            text("arguments that are a list", "PLAN_ARGS", "{\"limit\":10,\"query\":\"ticket 7\"}", "[]"),
        ),
        (
            "args_inexact",
            text(
                "a number that a double does not hold",
                "PLAN_JSON",
                "\"limit\":10",
                "\"limit\":9007199254740993",
            ),
        ),
        (
            "open_and_fixed",
            text(
                "an argument that is fixed and open",
                "PLAN_FIXED_AND_OPEN",
                "\"max_calls\":2",
                "\"max_calls\":2,\"dynamic\":[\"/to\"]",
            ),
        ),
        (
            "open_everything",
            text(
                "all arguments left open",
                "PLAN_OPEN_PLACE",
                "\"max_calls\":2",
                "\"max_calls\":2,\"dynamic\":[\"\"]",
            ),
        ),
        (
            "open_twice",
            text(
                "one place left open twice",
                "PLAN_OPEN_PLACE",
                "\"max_calls\":2",
                "\"max_calls\":2,\"dynamic\":[\"/x\",\"/x\"]",
            ),
        ),
        (
            "open_within_open",
            text(
                "a place within an open one",
                "PLAN_OPEN_PLACE",
                "\"max_calls\":2",
                "\"max_calls\":2,\"dynamic\":[\"/note/x\"]",
            ),
        ),
        (
            "open_list_element",
            text(
                "an element that the list does not have",
                "PLAN_OPEN_PLACE",
                "\"limit\":10,\"query\":\"ticket 7\"},",
                "\"limit\":[]},\"dynamic\":[\"/limit/0\"],",
            ),
        ),
        (
            "hidden_in_description",
            text("a description that hides a character", "PLAN_DESCRIPTION", "say so", "say\\u202eso"),
        ),
        (
            "no_calls",
            text("a step that may not be called", "PLAN_MAX_CALLS", "\"max_calls\":2", "\"max_calls\":0"),
        ),
        (
            "undisclosed_tool",
            text("a tool that is not disclosed", "PLAN_TOOL_UNDISCLOSED", "\"search\"", "\"erase\""),
        ),
        (
            "other_server",
            text("a tool of that name at another server", "PLAN_TOOL_UNDISCLOSED", "\"desk\"", "\"desk_\""),
        ),
        (
            "recipient_left_open",
            text("a recipient left open", "PLAN_CONTROL_OPEN", "bob@example.com", "<DYNAMIC>"),
        ),
        ("other_session", text("a plan for another session", "PLAN_OTHER_SESSION", "s-1", "s-2")),
        (
            "other_goal",
            text(
                "a plan for another goal",
                "PLAN_OTHER_GOAL",
                &Digest::of(b"goal").to_string(),
                &Digest::of(b"other").to_string(),
            ),
        ),
        (
            "other_registry",
            text("a plan under another registry", "PLAN_OTHER_REGISTRY", "_version\":7", "_version\":8"),
        ),
        (
            "amendment_of_nothing",
            text(
                "an amendment where no plan runs",
                "PLAN_AMENDMENT_LINK",
                "{\"goal\"",
                &format!("{{\"amends\":{{\"position\":0,\"root\":\"{}\"}},\"goal\"", Digest::of(b"")),
            ),
        ),
        ("skipped", run_of("the second step first", "PLAN_OUT_OF_ORDER", &[REFUND])),
        ("swapped", run_of("the third step before the second", "PLAN_OUT_OF_ORDER", &[SEARCH, SEND])),
        (
            "behind",
            run_of("the second step after the third", "PLAN_OUT_OF_ORDER", &[SEARCH, REFUND, SEND, REFUND]),
        ),
        ("repeated", run_of("the first step twice", "PLAN_EXHAUSTED", &[SEARCH, SEARCH])),
        (
            "repeated_beyond_count",
            run_of("the second step three times", "PLAN_EXHAUSTED", &[SEARCH, REFUND, REFUND, REFUND]),
        ),
        (
            "after_the_end",
            run_of("a call after the last step", "PLAN_EXHAUSTED", &[SEARCH, REFUND, SEND, ("search", "{}")]),
        ),
        (
            "inserted",
            run_of("a call that is in the plan nowhere", "PLAN_STEP_MISMATCH", &[SEARCH, ("send", other)]),
        ),
        (
            "fixed_changed",
            run_of("another recipient", "PLAN_STEP_MISMATCH", &[SEARCH, REFUND, ("send", other)]),
        ),
        (
            "added_argument",
            run_of(
                "an argument beside the open one",
                "PLAN_STEP_MISMATCH",
                &[SEARCH, REFUND, ("send", extra)],
            ),
        ),
        (
            "missing_argument",
            run_of(
                "the open argument left out",
                "PLAN_STEP_MISMATCH",
                &[SEARCH, REFUND, ("send", r#"{"to":"bob@example.com"}"#)],
            ),
        ),
        (
            "not_filled_in",
            run_of(
                "the open argument not filled in",
                "PLAN_STEP_MISMATCH",
                &[SEARCH, REFUND, ("send", r#"{"body":"<DYNAMIC>","to":"bob@example.com"}"#)],
            ),
        ),
        ("unfinished", run_of("a plan that stops before its end", "PLAN_INCOMPLETE", &[SEARCH, REFUND])),
        (
            "proof_other_step",
            proof("another step", "PLAN_STEP_MISMATCH", |case| {
                case["proof"]["step"]["args"]["to"] = "eve@example.com".into()
            }),
        ),
        (
            "proof_more_calls",
            proof("more calls than were committed", "PLAN_STEP_MISMATCH", |case| {
                case["proof"]["step"]["max_calls"] = 2.into()
            }),
        ),
        (
            "proof_other_index",
            proof("another index", "PLAN_STEP_MISMATCH", |case| case["proof"]["index"] = 2.into()),
        ),
        (
            "proof_other_count",
            proof("another number of steps", "PLAN_STEP_MISMATCH", |case| case["proof"]["steps"] = 4.into()),
        ),
        (
            "proof_too_short",
            proof("a hash left out", "PLAN_STEP_MISMATCH", |case| {
                drop(case["proof"]["path"].as_array_mut().unwrap().pop())
            }),
        ),
        (
            "proof_too_long",
            proof("a hash too many", "PLAN_STEP_MISMATCH", |case| {
                let root = case["root"].clone();
                case["proof"]["path"].as_array_mut().unwrap().push(root);
            }),
        ),
        (
            "proof_other_root",
            proof("the root of another plan", "PLAN_STEP_MISMATCH", |case| {
                case["root"] = json!(plan_of(steps()[..2].to_vec()).root())
            }),
        ),
        (
            "proof_of_header",
            proof("the header as a step", "PLAN_SHAPE", |case| case["proof"]["index"] = 0.into()),
        ),
        (
            "proof_index_above_size",
            proof("an index beyond the end", "PLAN_SHAPE", |case| case["proof"]["index"] = 4.into()),
        ),
        (
            "proof_other_call",
            proof("a call that is not the step's", "PLAN_STEP_MISMATCH", |case| {
                case["calls"] = calls(&[("send", extra)])
            }),
        ),
        ("args_unfit", {
            let about = "fixed arguments that the operator does not take";
            let mut case = plan(about, "PLAN_ARGS_SCHEMA", &good);
            case["unfit"] = json!(["send"]);
            case
        }),
    ]
}
