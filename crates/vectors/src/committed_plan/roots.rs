//! Calls and amendments of a plan of which only the root and the header are known.
//!
//! A run states after each event its result and the state of the cursor: the root of the running plan, the last step
//! that ran on this machine, and the breach that halted the plan.

use super::headers::{header_text, told};
use super::*;

/// One event and the state of the cursor after it.
pub(super) type Event = Value;

/// Builder of the events of one run.
pub(super) struct Run {
    pub(super) root: PlanRoot,
    halted: Value,
    events: Vec<Event>,
    last: &'static str,
}

impl Run {
    pub(super) fn new() -> Self {
        Self { root: *plan_of(steps()).root(), halted: Value::Null, events: Vec::new(), last: "ok" }
    }

    fn then(mut self, mut event: Event, expect: &'static str, reason: Option<&str>, position: u64) -> Self {
        event["expect"] = expect.into();
        if let Some(reason) = reason {
            event["reason"] = reason.into();
        }
        event["then"] = json!({ "root": self.root, "position": position, "halted": self.halted });
        self.events.push(event);
        self.last = expect;
        self
    }

    pub(super) fn ok(self, event: Event, position: u64) -> Self {
        self.then(event, "ok", None, position)
    }

    /// A refusal that does not halt the plan.
    pub(super) fn refused(
        self,
        event: Event,
        code: &'static str,
        reason: Option<&str>,
        position: u64,
    ) -> Self {
        self.then(event, code, reason, position)
    }

    /// A refusal that halts the plan.
    pub(super) fn halts(mut self, event: Event, code: &'static str, reason: &str, position: u64) -> Self {
        self.halted = json!({ "code": code, "reason": reason });
        self.then(event, code, Some(reason), position)
    }

    /// The host halts the plan.
    pub(super) fn host_halts(mut self, position: u64) -> Self {
        self.halted = json!({ "code": "PLAN_HALTED", "reason": "by-host" });
        self.ok(host_halt(), position)
    }

    /// A call that is checked and accepted.
    pub(super) fn runs(self, at: u64, made: (&str, &str), before: u64) -> Self {
        self.ok(check(at, made), before).ok(json!({ "do": "accept" }), at)
    }

    /// An amendment that is checked and accepted.
    pub(super) fn amended(mut self, new: &CommittedPlan, before: u64) -> Self {
        self = self.ok(check_amendment(new, &context()), before);
        self.root = *new.root();
        self.ok(json!({ "do": "accept_amendment", "approved": new.root() }), 0)
    }

    pub(super) fn case(self, about: &str) -> Value {
        let plan = plan_of(steps());
        json!({
            "description": about, "kind": "root-run", "root": plan.root(), "header_proof": header_text(&plan),
            "context": told(&context()), "allowed": allowed(), "events": self.events, "expect": self.last,
        })
    }
}

pub(super) fn host_halt() -> Event {
    json!({ "do": "halt", "by": "by-host" })
}

/// A call with the proof of a step of the plan.
pub(super) fn check(at: u64, made: (&str, &str)) -> Event {
    check_of(&plan_of(steps()), at, made)
}

pub(super) fn check_of(plan: &CommittedPlan, at: u64, made: (&str, &str)) -> Event {
    let mut event = call(made);
    event["do"] = "check".into();
    event["registry_version"] = 7.into();
    event["proof"] = value_of(&plan.prove_step(at).unwrap());
    event
}

pub(super) fn value_of(proof: &StepProof) -> Value {
    serde_json::from_str(&proof.to_json()).unwrap()
}

pub(super) fn with(mut event: Event, name: &str, value: impl Into<Value>) -> Event {
    event[name] = value.into();
    event
}

pub(super) fn without(mut event: Event, name: &str) -> Event {
    event.as_object_mut().unwrap().remove(name);
    event
}

pub(super) fn check_amendment(new: &CommittedPlan, context: &PlanContext) -> Event {
    let proof = header_text(new);
    json!({ "do": "check_amendment", "root": new.root(), "header_proof": proof, "context": told(context) })
}

/// An amendment of one step.
pub(super) fn amendment(context: PlanContext, root: &PlanRoot, position: u64) -> CommittedPlan {
    let steps = vec![step("send", r#"{"to":"desk@example.com"}"#)];
    Plan::new(context, steps).unwrap().amending(*root, position).commit(&Anything).unwrap()
}

/// A run refused before its first event.
fn start(about: &str, expect: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut case = Run::new().case(about);
    case["expect"] = expect.into();
    change(&mut case);
    case
}

/// A run of another plan than the default one.
pub(super) fn of_plan(mut case: Value, plan: &CommittedPlan) -> Value {
    case["root"] = json!(plan.root());
    case["header_proof"] = header_text(plan).into();
    case
}

const AMENDED: (&str, &str) = ("send", r#"{"to":"desk@example.com"}"#);

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    let plan = plan_of(steps());
    let new = amendment(context(), plan.root(), 3);
    let run = || Run::new().runs(1, SEARCH, 0);
    vec![
        ("root_started", Run::new().case("nothing has run yet")),
        (
            "root_run",
            run().runs(2, REFUND, 1).runs(2, REFUND, 2).runs(3, SEND, 2).case("each step as often as it may"),
        ),
        ("root_gap", run().runs(3, SEND, 1).case("a step may have run on another machine")),
        (
            "root_step_named",
            Run::new()
                .ok(with(check(1, SEARCH), "step", 1), 0)
                .ok(json!({ "do": "accept" }), 1)
                .case("a call that names its step beside the proof"),
        ),
        (
            "root_given_back",
            Run::new()
                .ok(check(1, SEARCH), 0)
                .ok(json!({ "do": "give_back" }), 0)
                .runs(1, SEARCH, 0)
                .case("a call that a later check refused does not count"),
        ),
        (
            "root_busy",
            Run::new()
                .ok(check(1, SEARCH), 0)
                .refused(check(2, REFUND), "PLAN_OUT_OF_ORDER", Some("busy"), 0)
                .ok(json!({ "do": "accept" }), 1)
                .runs(2, REFUND, 1)
                .case("two calls at a time: the second is refused and halts nothing"),
        ),
        (
            "root_other_registry",
            run()
                .refused(
                    with(check(2, REFUND), "registry_version", 8),
                    "PLAN_REQUIRED",
                    Some("other-registry"),
                    1,
                )
                .runs(2, REFUND, 1)
                .case("a call under another registry is refused and halts nothing"),
        ),
        (
            "root_amended",
            Run::new()
                .runs(2, REFUND, 0)
                .amended(&new, 2)
                .ok(check_of(&new, 1, AMENDED), 0)
                .ok(json!({ "do": "accept" }), 1)
                .case("an amendment after a step that may have run elsewhere"),
        ),
        (
            "root_amendment_given_back",
            run()
                .ok(check_amendment(&amendment(context(), plan.root(), 1), &context()), 1)
                .refused(check(2, REFUND), "PLAN_OUT_OF_ORDER", Some("busy"), 1)
                .ok(json!({ "do": "give_back_amendment" }), 1)
                .runs(2, REFUND, 1)
                .case("an amendment that a later check refused changes nothing"),
        ),
        ("root_amended_under_a_later_registry", {
            let later = other_context(b"goal", "s-1", 8);
            let newer = amendment(later.clone(), plan.root(), 1);
            let mut run = run().ok(check_amendment(&newer, &later), 1);
            run.root = *newer.root();
            run.ok(json!({ "do": "accept_amendment", "approved": newer.root() }), 0)
                .ok(with(check_of(&newer, 1, AMENDED), "registry_version", 8), 0)
                .ok(json!({ "do": "accept" }), 1)
                .case("an amendment under a later registry, whose calls are decided under that one")
        }),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    [starts(), root_refusals::calls(), root_refusals::amendments()].concat()
}

fn starts() -> Vec<(&'static str, Value)> {
    let told_by = |goal: &[u8], id: &str, version| told(&other_context(goal, id, version));
    let context_of =
        |about: &str, expect: &str, context: Value| start(about, expect, |case| case["context"] = context);
    vec![
        (
            "root_start_other_session",
            context_of("a plan of another session", "PLAN_OTHER_SESSION", told_by(b"goal", "s-2", 7)),
        ),
        (
            "root_start_other_goal",
            context_of("a plan for another goal", "PLAN_OTHER_GOAL", told_by(b"other", "s-1", 7)),
        ),
        (
            "root_start_other_registry",
            context_of("a plan under another registry", "PLAN_OTHER_REGISTRY", told_by(b"goal", "s-1", 8)),
        ),
        (
            "root_start_all_other",
            context_of(
                "of several differences the session comes first",
                "PLAN_OTHER_SESSION",
                told_by(b"other", "s-2", 8),
            ),
        ),
        (
            "root_start_by_an_amendment",
            of_plan(
                start("an amendment where no plan runs", "PLAN_AMENDMENT_LINK", |_| {}),
                &amendment(context(), plan_of(steps()).root(), 0),
            ),
        ),
        (
            "root_start_unproved",
            start("a header of another plan", "PLAN_HEADER_UNPROVED", |case| {
                case["header_proof"] = header_text(&plan_of(steps()[..2].to_vec())).into();
            }),
        ),
    ]
}
