use countersign_core::ToolId;

use crate::error::CommitError;
use crate::place::OpenPlace;
use crate::step::Step;

/// The operator's rules for plans, checked for every step before a plan is committed.
///
/// Implementations answer from data that the operator signed, never from the plan or its author.
pub trait PlanContract {
    /// Returns whether the tool is disclosed to the session.
    fn discloses(&self, tool: &ToolId) -> bool;

    /// Returns whether an argument of the tool is data, so that a plan may leave it open. A destination (a URL, a
    /// path, a recipient) is not data.
    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool;

    /// Returns whether the step's fixed arguments fit the tool's schema and constraints. Open places ([`Step::open`])
    /// have no value yet and are not checked.
    fn fits(&self, step: &Step) -> bool;
}

/// Checks step number `at` against the contract.
pub(crate) fn allowed(step: &Step, at: u64, contract: &dyn PlanContract) -> Result<(), CommitError> {
    if !contract.discloses(step.tool()) {
        return Err(CommitError::Undisclosed { step: at });
    }
    if !step.open().iter().all(|place| contract.is_data(step.tool(), place)) {
        return Err(CommitError::ControlOpen { step: at });
    }
    if contract.fits(step) { Ok(()) } else { Err(CommitError::Args { step: at }) }
}
