#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::string_slice,
    reason = "sizes are small, and a value out of range fails the test"
)]

mod allocations;
mod amendments;
mod arguments;
mod attacks;
mod commits;
mod finish;
mod halts;
mod laws;
mod laws_root;
mod on_breach;
mod order;
mod proofs;
mod reading;
mod roots;
mod sealed;
mod vectors;

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{Digest, SessionId, ToolId};

use crate::*;

/// A contract with three tools of one server and the data arguments of each.
pub(crate) struct Desk;

const DATA: [(&str, &str); 4] =
    [("search", "/query"), ("send", "/body"), ("send", "/parts"), ("refund", "/note")];

impl PlanContract for Desk {
    fn discloses(&self, tool: &ToolId) -> bool {
        tool.server().as_str() == "desk" && ["search", "send", "refund"].contains(&tool.name().as_str())
    }

    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool {
        DATA.iter().any(|(name, data)| {
            let below = place.as_str().strip_prefix(data);
            tool.name().as_str() == *name
                && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// An amount is a number.
    fn fits(&self, step: &Step) -> bool {
        step.args().value().get("amount").is_none_or(|amount| amount.as_f64().is_some())
    }
}

/// A contract that allows everything.
pub(crate) struct Anything;

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

fn tool(name: &str) -> ToolId {
    ToolId::new("desk", name).unwrap()
}

fn json(text: &str) -> Canonical {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

fn session(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn context() -> PlanContext {
    context_of(b"goal", "s-1", 7)
}

fn context_of(goal: &[u8], id: &str, version: u64) -> PlanContext {
    PlanContext::new(Digest::of(goal), session(id), version).unwrap()
}

fn step(name: &str, args: &str) -> Step {
    Step::new(tool(name), args.as_bytes(), &[]).unwrap()
}

fn plan_of(steps: Vec<Step>) -> CommittedPlan {
    Plan::new(context(), steps).unwrap().commit(&Desk).unwrap()
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

const SEARCH: (&str, &str) = ("search", r#"{"limit":10.0,"query":"ticket 7"}"#);
const REFUND: (&str, &str) = ("refund", r#"{"amount":1e1,"note":"sorry","to":{"iban":"NO93","name":"bob"}}"#);
const SEND: (&str, &str) = ("send", r#"{"body":"done","to":"bob@example.com"}"#);

fn cursor() -> PlanCursor<String> {
    PlanCursor::start(plan_of(steps()), &context()).unwrap()
}

/// A cursor that has run these calls.
fn cursor_after(calls: &[(&str, &str)]) -> PlanCursor<String> {
    let mut cursor = cursor();
    for call in calls {
        run(&mut cursor, *call).unwrap();
    }
    cursor
}

/// An amendment of the plan with that root after `position` steps.
fn amended(root: &PlanRoot, position: u64, steps: Vec<Step>) -> CommittedPlan {
    Plan::new(context(), steps).unwrap().amending(*root, position).commit(&Desk).unwrap()
}

fn verified(plan: &CommittedPlan) -> VerifiedHeader {
    plan.header_proof().unwrap().verify(plan.root()).unwrap()
}

fn root_cursor(plan: &CommittedPlan) -> RootCursor {
    RootCursor::start(verified(plan), &context()).unwrap()
}

fn check<O>(cursor: &mut PlanCursor<O>, call: (&str, &str)) -> Result<PlannedCall, PlanBreach> {
    cursor.check(&StepCall::new(&tool(call.0), &json(call.1), 7))
}

fn check_at<O>(cursor: &mut PlanCursor<O>, at: u64, call: (&str, &str)) -> Result<PlannedCall, PlanBreach> {
    cursor.check(&StepCall::new(&tool(call.0), &json(call.1), 7).at_step(at))
}

/// Checks, accepts and observes a call.
fn run(cursor: &mut PlanCursor<String>, call: (&str, &str)) -> Result<u64, PlanBreach> {
    let planned = check(cursor, call)?;
    let index = planned.index();
    let accepted = cursor.accept(planned)?;
    cursor.observe(accepted, format!("result of {}", call.0), 100 + index)?;
    Ok(index)
}

/// The code and the reason of a breach.
fn why(breach: PlanBreach) -> (&'static str, &'static str) {
    (breach.code(), breach.reason())
}
