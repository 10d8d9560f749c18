//! Committed plans: plans, runs of plans, proofs of steps, headers, and roots that are sealed for a session.

mod breaches;
mod headers;
mod plans;
mod root_refusals;
mod roots;
mod seals;

use std::collections::BTreeMap;

use countersign_committed_plan::*;
use countersign_core::{Digest, SessionId, ToolId};
use countersign_test_vectors::numbered;
use serde_json::{Value, json};

/// A contract that allows everything. A contract is no part of a plan.
struct Anything;

impl PlanContract for Anything {
    fn discloses(&self, _: &ToolId) -> bool {
        true
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}

const SEARCH: (&str, &str) = ("search", r#"{"limit":10.0,"query":"ticket 7"}"#);
const REFUND: (&str, &str) = ("refund", r#"{"amount":1e1,"note":"sorry","to":{"iban":"NO93","name":"bob"}}"#);
const SEND: (&str, &str) = ("send", r#"{"body":"done","to":"bob@example.com"}"#);

fn session(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn context() -> PlanContext {
    other_context(b"goal", "s-1", 7)
}

fn other_context(goal: &[u8], id: &str, version: u64) -> PlanContext {
    PlanContext::new(Digest::of(goal), session(id), version).unwrap()
}

fn step(name: &str, args: &str) -> Step {
    Step::new(ToolId::new("desk", name).unwrap(), args.as_bytes(), &[]).unwrap()
}

fn plan_of(steps: Vec<Step>) -> CommittedPlan {
    Plan::new(context(), steps).unwrap().commit(&Anything).unwrap()
}

/// The steps of a plan, as its proofs have them.
fn steps_of(plan: &CommittedPlan) -> Vec<Value> {
    (1..=plan.header().steps())
        .map(|at| roots::value_of(&plan.prove_step(at).unwrap())["step"].clone())
        .collect()
}

/// The leaf of a step, by the recipe `plan-step-1`.
fn leaf(step: &Value, index: u64, steps: u64) -> String {
    json!({ "index": index, "recipe": "plan-step-1", "step": step, "steps": steps }).to_string()
}

/// Search for a ticket, refund it in up to two calls, send a message.
fn steps() -> Vec<Step> {
    vec![
        step("search", r#"{"query":"ticket 7","limit":10}"#),
        step("refund", r#"{"amount":10,"to":{"name":"bob","iban":"NO93"},"note":"<DYNAMIC>"}"#)
            .calls(2)
            .unwrap(),
        step("send", r#"{"to":"bob@example.com","body":"<DYNAMIC>"}"#).describe("say so").unwrap(),
    ]
}

fn allowed() -> Value {
    json!({ "search": ["/query"], "refund": ["/note"], "send": ["/body"] })
}

fn call((name, args): (&str, &str)) -> Value {
    json!({ "tool": { "server": "desk", "name": name }, "args": args })
}

fn calls(calls: &[(&str, &str)]) -> Value {
    calls.iter().copied().map(call).collect()
}

pub(crate) fn files() -> BTreeMap<String, String> {
    let accepted =
        [plans::accepted(), headers::accepted(), roots::accepted(), seals::accepted(), breaches::accepted()];
    let refused =
        [plans::rejected(), headers::rejected(), roots::rejected(), seals::rejected(), breaches::rejected()];
    let mut made = numbered("accept", accepted.concat());
    made.extend(numbered("reject", refused.concat()));
    made
}
