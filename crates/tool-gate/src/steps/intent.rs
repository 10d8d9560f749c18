//! Steps 5 and 6: does the call serve the pinned goal and the committed plan?

use countersign_committed_plan::StepCall;
use countersign_pinned_ask::AskDrift;
use countersign_registry::{AskRule, PlanRule, ToolRules};

use super::{Deciding, ParsedCall};
use crate::code::RejectionCode;
use crate::findings::Findings;
use crate::plan::{AcceptedStep, HeldStep, RunningPlan};
use crate::plan_commit::Allowed;
use crate::rejection::Refusal;
use crate::terms::WithoutPlan;

/// Step 5: is the restated goal the pinned one, and is it restated where the tool's rule requires it?
pub(crate) fn check_goal(deciding: &mut Deciding<'_>, rules: &ToolRules) -> Result<(), Refusal> {
    let Deciding { in_force, call, now, findings, .. } = deciding;
    let (pin, now) = (in_force.ask.as_deref(), *now);
    let stated = match (pin, call.ask) {
        (None, None) => Ok(Goal::Neither),
        (None, Some(_)) => Ok(Goal::Restated),
        // A pin past its time refuses even where no goal is asked for; `verify` looks at the time first.
        (Some(pin), None) => pin.alive(now).map(|()| Goal::Pinned),
        (Some(pin), Some(restated)) => pin.verify(restated, pin.session(), now).map(|()| Goal::Same),
    };
    let goal = stated.map_err(|error| ask_refusal(&error, findings))?;
    if let (Goal::Same, Some(pin)) = (goal, pin) {
        findings.ask_restated = Some(pin.digest());
    }
    check_restated(rules, goal)
}

/// Goals of session and call.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "both have one, or one of them, or neither")]
pub enum Goal {
    /// The call restates the pinned goal.
    Same,
    /// A goal is pinned, and the call restates no goal.
    Pinned,
    /// The call restates a goal, and no goal is pinned.
    Restated,
    /// No goal is pinned, and the call restates none.
    Neither,
}

/// Step 5, once the goals have been compared.
///
/// # Errors
/// [`Refusal`] if the tool's rule requires a goal that is missing, or none is pinned to compare a restated one with.
pub fn check_restated(rules: &ToolRules, goal: Goal) -> Result<(), Refusal> {
    let required = |reason| Err(Refusal::new(RejectionCode::AskRequired, reason));
    let is_required = rules.entry().ask() == AskRule::Required;
    match goal {
        Goal::Pinned if is_required => required("the call does not restate the goal"),
        Goal::Neither if is_required => required("no goal is pinned"),
        Goal::Restated => required("no goal is pinned"),
        Goal::Same | Goal::Pinned | Goal::Neither => Ok(()),
    }
}

fn ask_refusal(error: &AskDrift, findings: &mut Findings) -> Refusal {
    findings.ask_restated = error.restated();
    Refusal::new(error.into(), error.to_string())
}

/// Step 6: is the call the plan's next step? Acquires that step; without a plan, refuses a call that needs one.
pub(crate) fn next_step<'g>(
    deciding: &mut Deciding<'_>,
    plan: Option<&'g RunningPlan>,
    rules: &ToolRules,
    parsed: &ParsedCall,
) -> Result<Option<Box<HeldStep<'g>>>, Refusal> {
    let Deciding { terms, in_force, view, call, findings, .. } = deciding;
    let Some(plan) = plan else {
        let is_free = rules.entry().plan() == PlanRule::NotRequired
            && call.plan_step.is_none()
            && call.plan_proof.is_none();
        return if is_free && terms.without_plan == WithoutPlan::ByRule {
            Ok(None)
        } else {
            Err(Refusal::new(RejectionCode::PlanRequired, "no plan was started"))
        };
    };
    let mut step_call = StepCall::new(rules.entry().tool(), &parsed.args, view.snapshot().version());
    if let Some(index) = call.plan_step {
        step_call = step_call.at_step(index);
    }
    if let Some(read) = &parsed.proof {
        step_call = step_call.proved_by(&read.proof);
    }
    let allowed = Allowed { contract: &in_force.contract, view };
    plan.hold(&step_call, &allowed, findings).map(Box::new).map(Some)
}

/// Asks again at the end: a call outside of a plan is decided while a plan may be started.
pub(crate) fn check_still_free(
    plan: Option<&RunningPlan>,
    step: Option<&HeldStep<'_>>,
) -> Result<(), Refusal> {
    if step.is_some() || plan.is_none() {
        return Ok(());
    }
    Err(Refusal::new(RejectionCode::PlanRequired, "a plan was started meanwhile"))
}

/// Advances the plan by a call whose acceptance is recorded. A call outside of a plan must have come before it.
pub(crate) fn keep_step(
    plan: Option<&RunningPlan>,
    step: Option<Box<HeldStep<'_>>>,
) -> Result<Option<Box<AcceptedStep>>, RejectionCode> {
    check_still_free(plan, step.as_deref()).map_err(|refusal| refusal.code)?;
    step.map(|step| step.keep().map(Box::new)).transpose()
}
