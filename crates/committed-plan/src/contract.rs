use countersign_core::ToolId;

use crate::error::CommitError;
use crate::place::OpenPlace;
use crate::step::Step;

/// Says what the operator allows a plan to hold. It is asked about every step before a plan is committed.
///
/// Answers come from what the operator signed, and never from the plan or from whoever made it.
pub trait PlanContract {
    /// Says whether the tool is disclosed to the session.
    fn discloses(&self, tool: &ToolId) -> bool;

    /// Says whether an argument of the tool is data, so that a plan may leave it open. A destination never is: a URL, a
    /// path, a recipient.
    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool;

    /// Says whether what the step fixes of its arguments fits the tool's schema and constraints. What stands in the places
    /// that are left open ([`Step::open`]) is not a value yet and does not count.
    fn fits(&self, step: &Step) -> bool;
}

/// Asks about one step, which is the plan's `at`-th.
pub(crate) fn allowed(step: &Step, at: u64, contract: &dyn PlanContract) -> Result<(), CommitError> {
    if !contract.discloses(step.tool()) {
        return Err(CommitError::Undisclosed { step: at });
    }
    if !step.open().iter().all(|place| contract.is_data(step.tool(), place)) {
        return Err(CommitError::ControlOpen { step: at });
    }
    if contract.fits(step) { Ok(()) } else { Err(CommitError::Args { step: at }) }
}
