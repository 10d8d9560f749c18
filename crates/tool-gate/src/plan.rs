//! Step 6: is it the committed plan's next step?

use countersign_approval_token::SpentApproval;
use countersign_canonical_json::Canonical;
use countersign_committed_plan::{
    FinishError, PlanBreach, PlanCursor, PlanRoot, PlannedCall, StepCall, StepRun, VerifiedTrace,
};
use countersign_core::{OperatorId, TokenId};
use countersign_registry::{PlanRule, RegistryView, ToolRules};
use parking_lot::Mutex;

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::decide::Refusal;
use crate::facts::Facts;
use crate::gate::{Inner, ToolGate};

/// What a gate without a plan does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutPlan {
    /// Refuses those to tools whose rule asks for a plan.
    ByRule,
    /// Refuses all.
    Refuse,
}

/// Why a gate does not give out the trace of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishPlanError {
    /// The gate has no plan, or has given out its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The plan is not finished, or was halted.
    #[error(transparent)]
    Unfinished(#[from] FinishError),
}

impl FinishPlanError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPlan => "PLAN_NOT_STARTED",
            Self::Unfinished(error) => error.code(),
        }
    }
}

/// Names the approval under which a whole plan runs, which is spent.
#[derive(Debug)]
pub(crate) struct PlanApproval {
    pub(crate) token_id: TokenId,
    pub(crate) approver: OperatorId,
}

impl From<&SpentApproval> for PlanApproval {
    fn from(spent: &SpentApproval) -> Self {
        Self { token_id: spent.token_id().clone(), approver: spent.approver().clone() }
    }
}

/// A plan that the gate holds its calls to. Once a gate has one, it never has none.
#[derive(Debug)]
pub(crate) struct RunningPlan {
    root: PlanRoot,
    approval: Option<PlanApproval>,
    /// Gone once the trace was given out.
    cursor: Mutex<Option<PlanCursor<Vec<u8>>>>,
}

impl RunningPlan {
    pub(crate) const fn new(cursor: PlanCursor<Vec<u8>>, approval: Option<PlanApproval>) -> Self {
        let root = *cursor.plan().root();
        Self { root, approval, cursor: Mutex::new(Some(cursor)) }
    }

    pub(crate) const fn root(&self) -> PlanRoot {
        self.root
    }

    pub(crate) const fn approval(&self) -> Option<&PlanApproval> {
        self.approval.as_ref()
    }

    /// Holds the turn of a call that is the plan's next one. A breach halts the plan here, before any later step is asked.
    fn hold(&self, call: &StepCall<'_>) -> Result<HeldStep<'_>, Refusal> {
        let mut place = self.cursor.lock();
        let Some(cursor) = place.as_mut() else {
            return Err(Refusal::new(RejectionCode::PlanExhausted, "the plan is finished"));
        };
        if let Some(first) = cursor.halted() {
            let reason = format!("the plan was halted: {}", first.reason());
            return Err(Refusal::new(breach_code(&first), reason));
        }
        match cursor.check(call) {
            Ok(planned) => Ok(HeldStep { plan: self, planned: Some(planned) }),
            Err(breach) => Err(Refusal::new(breach_code(&breach), breach.reason())),
        }
    }

    /// Keeps what came of a step for the trace. The cursor knows its own runs, so it cannot refuse one.
    pub(crate) fn observe(&self, step: AcceptedStep, observation: Vec<u8>, record: u64) {
        if let Some(cursor) = self.cursor.lock().as_mut() {
            let _known = cursor.observe(step.run, observation, record);
        }
    }

    fn finish(&self) -> Result<VerifiedTrace<Vec<u8>>, FinishPlanError> {
        let mut place = self.cursor.lock();
        place.as_ref().ok_or(FinishPlanError::NoPlan)?.is_complete()?;
        let cursor = place.take().ok_or(FinishPlanError::NoPlan)?;
        drop(place);
        Ok(cursor.finish()?)
    }
}

const fn breach_code(breach: &PlanBreach) -> RejectionCode {
    match breach {
        PlanBreach::Required { .. } => RejectionCode::PlanRequired,
        PlanBreach::OutOfOrder { .. } => RejectionCode::PlanOutOfOrder,
        PlanBreach::Exhausted { .. } => RejectionCode::PlanExhausted,
        PlanBreach::StepMismatch { .. } | _ => RejectionCode::PlanStepMismatch,
    }
}

/// Holds one call's turn in the plan. Dropped without [`keep`](Self::keep), it gives the turn back: the call was refused by a
/// later check, or could not be recorded, and has not run.
#[derive(Debug)]
#[must_use]
pub(crate) struct HeldStep<'g> {
    plan: &'g RunningPlan,
    planned: Option<PlannedCall>,
}

impl HeldStep<'_> {
    pub(crate) const fn root(&self) -> PlanRoot {
        self.plan.root
    }

    fn index(&self) -> u64 {
        self.planned.as_ref().map_or(0, PlannedCall::index)
    }

    /// Goes on by the call, whose acceptance is on record. The turn is held, so the cursor takes it; nothing runs if it does not.
    pub(crate) fn keep(mut self) -> Option<AcceptedStep> {
        let index = self.index();
        let run = self.plan.cursor.lock().as_mut()?.accept(self.planned.take()?).ok()?;
        Some(AcceptedStep { index, run })
    }
}

impl Drop for HeldStep<'_> {
    fn drop(&mut self) {
        if let (Some(planned), Some(cursor)) = (self.planned.take(), self.plan.cursor.lock().as_mut()) {
            let _held = cursor.give_back(planned);
        }
    }
}

/// Holds an accepted step's place in the trace.
#[derive(Debug)]
pub(crate) struct AcceptedStep {
    index: u64,
    run: StepRun,
}

impl AcceptedStep {
    pub(crate) const fn index(&self) -> u64 {
        self.index
    }
}

/// Holds the turn of the plan's next step, where there is a plan; asks for one, where there is none.
pub(crate) fn next_step<'g>(
    gate: &'g Inner,
    call: &ToolCall<'_>,
    view: &RegistryView,
    rules: &ToolRules,
    args: &Canonical,
    facts: &mut Facts<'_>,
) -> Result<Option<HeldStep<'g>>, Refusal> {
    let Some(plan) = gate.plan.get() else {
        let is_free = rules.entry().plan() == PlanRule::NotRequired && call.plan_step.is_none();
        return if is_free && gate.without_plan == WithoutPlan::ByRule {
            Ok(None)
        } else {
            Err(Refusal::new(RejectionCode::PlanRequired, "no plan was started"))
        };
    };
    let mut asked = StepCall::new(rules.entry().tool(), args, view.snapshot().version());
    if let Some(index) = call.plan_step {
        asked = asked.at_step(index);
    }
    facts.note_plan(plan.root());
    let held = plan.hold(&asked)?;
    facts.plan_step = Some(held.index());
    Ok(Some(held))
}

impl ToolGate {
    /// The root of the plan that the gate holds its calls to.
    #[must_use]
    pub fn plan_root(&self) -> Option<PlanRoot> {
        self.inner().plan.get().map(RunningPlan::root)
    }

    /// Ends the plan and gives out what its steps returned ([`AcceptedCall::run_step`](crate::AcceptedCall::run_step)): once, when
    /// every step has run and its outcome is on record, and the plan's root was found again. Every later call is refused.
    ///
    /// # Errors
    /// [`FinishPlanError`] without a plan, before it is complete, and after it was halted.
    pub fn finish_plan(&self) -> Result<VerifiedTrace<Vec<u8>>, FinishPlanError> {
        self.inner().plan.get().ok_or(FinishPlanError::NoPlan)?.finish()
    }
}
