//! Checks each step of a plan against the contract and the registry.

use countersign_committed_plan::{CommitError, CommittedPlan, OpenPlace, Plan, PlanContract, Step};
use countersign_core::ToolId;
use countersign_registry::{ApprovalRule, ArgPlace, RegistryView, SessionContract, ToolRules};

/// Checks a plan against the limits of a session, and commits it. A host that shows the plan to an approver can call
/// this; a gate repeats it when the plan is started.
///
/// Only arguments that the registry lists as a tool's data arguments may be open. All others are fixed, and must match
/// the tool's schema and constraints.
///
/// # Errors
/// [`CommitError`] at the first step that is not allowed.
pub fn commit_plan(
    plan: Plan,
    contract: &SessionContract,
    view: &RegistryView,
) -> Result<CommittedPlan, CommitError> {
    plan.commit(&Allowed { contract, view })
}

/// Returns the approval that the calls of a planned step need under the rules of its tool. Its open arguments are
/// unknown.
#[must_use]
pub fn step_approval(rules: &ToolRules, step: &Step) -> ApprovalRule {
    let entry = rules.entry();
    open_places(step).map_or_else(|| entry.approval(), |open| entry.approval_of(step.args(), &open))
}

fn open_places(step: &Step) -> Option<Vec<ArgPlace>> {
    step.open().iter().map(|place| ArgPlace::new(place.as_str()).ok()).collect()
}

/// The limits that the contract and the present registry set for a plan.
pub(crate) struct Allowed<'a> {
    pub(crate) contract: &'a SessionContract,
    pub(crate) view: &'a RegistryView,
}

impl Allowed<'_> {
    fn rules(&self, tool: &ToolId) -> Option<&ToolRules> {
        self.contract.disclosed(self.view, tool)
    }
}

impl PlanContract for Allowed<'_> {
    fn discloses(&self, tool: &ToolId) -> bool {
        self.rules(tool).is_some()
    }

    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool {
        let (Some(rules), Ok(place)) = (self.rules(tool), ArgPlace::new(place.as_str())) else {
            return false;
        };
        rules.entry().data_args().iter().any(|data| data.covers(&place))
    }

    fn fits(&self, step: &Step) -> bool {
        let (Some(rules), Some(open)) = (self.rules(step.tool()), open_places(step)) else {
            return false;
        };
        rules.check_planned_args(step.args(), &open).is_ok()
    }
}
