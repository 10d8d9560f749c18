//! Step 5: is the stated goal the pinned one, and the pin alive?

use countersign_core::Timestamp;
use countersign_pinned_ask::{AskDrift, PinnedAsk};
use countersign_registry::{AskRule, ToolRules};

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::findings::Findings;
use crate::rejection::Refusal;

/// Asks whether the goal that the call restates is the pinned one, and whether one has to be restated.
pub(crate) fn pinned_goal(
    pin: Option<&PinnedAsk>,
    call: &ToolCall<'_>,
    rules: &ToolRules,
    now: Timestamp,
    findings: &mut Findings,
) -> Result<(), Refusal> {
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
    asked_goal(rules, goal)
}

/// Which goals there are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// The call restates the pinned one.
    Same,
    /// One is pinned, and the call restates none.
    Pinned,
    /// The call restates one, and none is pinned.
    Restated,
    Neither,
}

pub(crate) fn asked_goal(rules: &ToolRules, goal: Goal) -> Result<(), Refusal> {
    let required = |reason| Err(Refusal::new(RejectionCode::AskRequired, reason));
    let is_asked_for = rules.entry().ask() == AskRule::Required;
    match goal {
        Goal::Pinned if is_asked_for => required("the call does not restate the goal"),
        Goal::Neither if is_asked_for => required("no goal is pinned"),
        Goal::Restated => required("no goal is pinned"),
        Goal::Same | Goal::Pinned | Goal::Neither => Ok(()),
    }
}

fn ask_refusal(error: &AskDrift, findings: &mut Findings) -> Refusal {
    findings.ask_restated = error.restated();
    let code = match error.code() {
        "ASK_DRIFT" => RejectionCode::AskDrift,
        _ => RejectionCode::AskExpired,
    };
    Refusal::new(code, error.to_string())
}
