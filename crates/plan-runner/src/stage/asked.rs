use countersign_committed_plan::Plan;
use countersign_registry::RegistryView;
use countersign_tool_gate::{StartPlanError, commit_plan};

use super::context::RunContext;
use super::proposed::Proposed;
use crate::error::RunError;
use crate::event::RunEvent;
use crate::model::PlanRequest;
use crate::plan_text::PlanText;
use crate::task::{OfferedTool, offered};

/// Waits for the planner's text.
pub(crate) struct Asked<'r> {
    context: RunContext<'r>,
    tools: Vec<OfferedTool>,
}

/// Kind of a planner's text.
pub(crate) enum Planned<'r> {
    /// The answer itself.
    Answer(String),
    /// A plan that was committed.
    Plan(Box<Proposed<'r>>),
}

impl<'r> Asked<'r> {
    pub(crate) fn new(context: RunContext<'r>) -> Self {
        Self { context, tools: offered(context.gate) }
    }

    pub(crate) fn request(&self) -> PlanRequest<'_> {
        PlanRequest { task: self.context.task, tools: &self.tools }
    }

    /// Reads the text. A plan must be for the pinned goal and allowed by the contract; otherwise the run ends.
    pub(crate) fn planned(
        self,
        text: String,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<Planned<'r>, RunError> {
        let Some(written) = PlanText::parse(&text, self.context.limits)? else {
            tell(&RunEvent::Answered);
            return Ok(Planned::Answer(text));
        };
        self.verify_goal(written.goal())?;
        tell(&RunEvent::Planned { steps: written.steps().len() });
        let gate = self.context.gate;
        let steps = written.to_steps(&gate.contract())?;
        let plan = Plan::new(gate.plan_context()?, steps).map_err(StartPlanError::from)?;
        let proposed = self.commit(plan, &written, &gate.registry().view())?;
        tell(&RunEvent::Committed { root: *proposed.root() });
        Ok(Planned::Plan(Box::new(proposed)))
    }

    fn verify_goal(&self, goal: &str) -> Result<(), RunError> {
        let gate = self.context.gate;
        let now = self.context.clock.now().map_err(|_| RunError::Clock)?;
        let pin = gate.pinned_ask().ok_or(StartPlanError::NoGoal)?;
        pin.verify(goal, gate.contract().session(), now).map_err(RunError::Goal)
    }

    /// Commits the plan as the gate does. The gate commits it again when the plan is started.
    fn commit(&self, plan: Plan, written: &PlanText, view: &RegistryView) -> Result<Proposed<'r>, RunError> {
        let contract = self.context.gate.contract();
        let committed = commit_plan(plan.clone(), &contract, view).map_err(StartPlanError::from)?;
        let rules = committed.steps().iter().filter_map(|step| contract.disclosed(view, step.tool()));
        let impacts = rules.map(|rules| rules.entry().impact()).collect();
        Ok(Proposed::new(self.context, plan, committed, written.goal(), impacts))
    }
}
