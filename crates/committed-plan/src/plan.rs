use countersign_canonical_json::{Recipe, read};
use countersign_core::ToolId;

use crate::commit::CommittedPlan;
use crate::error::{CommitError, PlanError, PlanProblem};
use crate::header::{Amends, PlanContext, PlanHeader, read_header};
use crate::limits::{MAX_STEPS, PlanLimits};
use crate::open::OpenPlace;
use crate::root::PlanRoot;
use crate::step::{Step, read_steps};

/// An unchecked plan: its header and its steps in order.
///
/// ```
/// use countersign_committed_plan::{Plan, PlanLimits};
/// let json = br#"{
///   "recipe": "plan-1",
///   "goal": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
///   "session": "s-1",
///   "registry_version": 7,
///   "steps": [
///     { "tool": { "server": "web", "name": "search" }, "args": { "query": "weather in Oslo" } },
///     { "tool": { "server": "mail", "name": "send" }, "args": { "to": "bob@example.com" }, "dynamic": ["/body"] }
///   ]
/// }"#;
/// let plan = Plan::from_json(json, &PlanLimits::default())?;
/// assert_eq!(plan.steps().len(), 2);
/// assert_eq!(Plan::from_json(plan.to_json().as_bytes(), &PlanLimits::default())?, plan);
/// # Ok::<(), countersign_committed_plan::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    header: PlanHeader,
    steps: Vec<Step>,
}

impl Plan {
    /// Creates a plan.
    ///
    /// # Errors
    /// [`PlanError`] for no steps, or more than 1,048,576.
    pub fn new(context: PlanContext, steps: Vec<Step>) -> Result<Self, PlanError> {
        if steps.is_empty() {
            return Err(PlanProblem::Empty.into());
        }
        if steps.len() > MAX_STEPS {
            return Err(PlanProblem::Limit.into());
        }
        Ok(Self { header: PlanHeader::new(context, None, steps.len() as u64), steps })
    }

    /// Makes the plan an amendment of the plan with that root, of which `position` steps have run.
    #[must_use]
    pub fn amending(self, root: PlanRoot, position: u64) -> Self {
        Self { header: self.header.amending(Amends::new(root, position)), ..self }
    }

    /// Parses a plan from strict JSON without unknown or repeated members.
    ///
    /// # Errors
    /// [`PlanError`] with the index of the faulty step, if the problem is in one step.
    pub fn from_json(json: &[u8], limits: &PlanLimits) -> Result<Self, PlanError> {
        let canonical = read(json, Recipe::Jcs1, limits.json()).map_err(PlanProblem::from)?;
        let value = canonical.value();
        let list = value.get("steps").ok_or(PlanProblem::Shape)?;
        let header = read_header(value, list.len() as u64)?;
        Ok(Self { header, steps: read_steps(&canonical, list, limits)? })
    }

    /// Writes the plan's canonical JSON, with each step in the committed form.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = self.header.opened();
        let mut before = '[';
        for step in &self.steps {
            text.push(before);
            step.write(&mut text);
            before = ',';
        }
        text.push_str("]}");
        text
    }

    /// Checks the plan against the operator's rules and commits it.
    ///
    /// # Errors
    /// [`CommitError`] at the first refused step: its tool is not disclosed, an open argument is not data, or its fixed
    /// arguments do not fit.
    pub fn commit(self, contract: &dyn PlanContract) -> Result<CommittedPlan, CommitError> {
        self.steps.iter().zip(1..).try_for_each(|(step, at)| allowed(step, at, contract))?;
        Ok(CommittedPlan::new(self.header, self.steps))
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

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
pub(crate) fn discloses(step: &Step, at: u64, contract: &dyn PlanContract) -> Result<(), CommitError> {
    if contract.discloses(step.tool()) { Ok(()) } else { Err(CommitError::Undisclosed { step: at }) }
}

pub(crate) fn allowed(step: &Step, at: u64, contract: &dyn PlanContract) -> Result<(), CommitError> {
    discloses(step, at, contract)?;
    if !step.open().iter().all(|place| contract.is_data(step.tool(), place)) {
        return Err(CommitError::ControlOpen { step: at });
    }
    if contract.fits(step) { Ok(()) } else { Err(CommitError::Args { step: at }) }
}
