use countersign_committed_plan::{CommittedPlan, Plan, PlanRoot};
use countersign_core::ImpactClass;
use countersign_tool_gate::{ApprovalRequest, PlanSettings, RejectionCode, StartPlanError};

use super::context::RunContext;
use super::running::Running;
use crate::approver::Approval;
use crate::error::RunError;
use crate::event::{PlanApproval, RunEvent};
use crate::inspect::{Halt, Inspection};
use crate::started::PlanWatch;

/// A committed plan that waits for its inspectors and its approver.
pub(crate) struct Proposed<'r> {
    context: RunContext<'r>,
    plan: Plan,
    committed: CommittedPlan,
    goal: Box<str>,
    /// The impact of each step, in order.
    impacts: Vec<ImpactClass>,
    inspected: bool,
}

impl<'r> Proposed<'r> {
    pub(super) fn new(
        context: RunContext<'r>,
        plan: Plan,
        committed: CommittedPlan,
        goal: &str,
        impacts: Vec<ImpactClass>,
    ) -> Self {
        Self { context, plan, committed, goal: goal.into(), impacts, inspected: false }
    }

    pub(super) const fn root(&self) -> &PlanRoot {
        self.committed.root()
    }

    pub(crate) fn inspection(&self) -> Inspection<'_> {
        Inspection { goal: &self.goal, plan: &self.committed, impacts: &self.impacts }
    }

    /// Takes one inspector's verdict. The first that does not pass the plan ends the run.
    pub(crate) fn inspected(
        mut self: Box<Self>,
        inspector: &str,
        word: Result<(), Halt>,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<Box<Self>, RunError> {
        word.map_err(|halt| RunError::Inspection { inspector: inspector.into(), halt })?;
        tell(&RunEvent::Inspected { inspector });
        self.inspected = true;
        Ok(self)
    }

    /// Builds the request to the approver, once the plan was inspected.
    pub(crate) fn approval_request(&self) -> Result<ApprovalRequest, RunError> {
        self.require_inspected()?;
        Ok(self.context.gate.plan_approval_request(&self.plan)?)
    }

    /// Returns the approver's token for the request, if there is one. The gate records a denial before the run ends.
    pub(crate) fn answered(
        &self,
        asked: &ApprovalRequest,
        answer: Approval,
    ) -> Result<Option<String>, RunError> {
        let person = match answer {
            Approval::Token(token) => return Ok(Some(token)),
            Approval::Abstain => return Ok(None),
            Approval::Deny => None,
            Approval::DenyBy(person) => Some(person),
        };
        let refused = self.context.gate.refuse_plan(asked, person.as_deref());
        let is_denied = matches!(refused, StartPlanError::Refused(RejectionCode::ApprovalDenied));
        Err(if is_denied { RunError::Denied } else { refused.into() })
    }

    /// Starts the plan, with the approver's token if there is one.
    pub(crate) fn start(
        self,
        token: Option<String>,
        watch: &mut PlanWatch<'r>,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<Running<'r>, RunError> {
        self.require_inspected()?;
        let settings = PlanSettings::new(self.plan);
        let (settings, approval) = match token {
            Some(token) => (settings.approval(&token), PlanApproval::Spent),
            None => (settings, PlanApproval::None),
        };
        let started = watch.start(self.committed, settings)?;
        tell(&RunEvent::Started { root: *started.root(), approval });
        Ok(Running::new(self.context, started, self.goal))
    }

    fn require_inspected(&self) -> Result<(), RunError> {
        if self.inspected { Ok(()) } else { Err(RunError::Uninspected) }
    }
}
