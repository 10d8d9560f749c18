//! The plan that a gate enforces.

use std::sync::Arc;

use countersign_committed_plan::{
    PlanBreach, PlanContext, PlanContract, PlanError, PlanLimits, PlanRoot, PlannedCall, StepCall, StepProof,
    StepRun, VerifiedTrace,
};
use parking_lot::Mutex;

use crate::code::RejectionCode;
use crate::findings::Findings;
use crate::plan_approval::SpentPlanApproval;
use crate::plan_error::{FinishPlanError, StartPlanError};
use crate::plan_walk::{OfferedCommit, PlanWalk, PlannedChange};
use crate::rejection::Refusal;

/// A plan that the gate enforces. A gate that has one never loses it.
#[derive(Debug)]
pub(crate) struct RunningPlan {
    /// Boxed, since most sessions have no plan.
    parts: Box<PlanParts>,
}

/// Result of a halt.
pub(crate) enum Halting {
    /// The halt took effect on the plan with this root.
    Halted(PlanRoot),
    /// The plan was halted before.
    Before,
    /// The trace was returned before.
    Finished,
}

/// Breach reason: the host halted the plan.
const BY_HOST: &str = "by-host";

#[derive(Debug)]
struct PlanParts {
    state: Mutex<PlanState>,
    /// The proof that was read last. A step can have many calls, each with the same proof.
    proof: Mutex<Option<Arc<ReadProof>>>,
}

/// A proof as it was sent, and as it was read.
#[derive(Debug)]
pub(crate) struct ReadProof {
    text: Box<[u8]>,
    pub(crate) proof: StepProof,
}

/// Longest proof that is kept, in bytes.
const MAX_KEPT_PROOF: usize = 16 << 10;

/// Reads the proof of a step, unless it is the one that was read last for this plan.
pub(crate) fn read_proof(plan: Option<&RunningPlan>, json: &[u8]) -> Result<Arc<ReadProof>, PlanError> {
    let last = plan.and_then(|plan| plan.parts.proof.lock().clone());
    if let Some(last) = last.filter(|last| *last.text == *json) {
        return Ok(last);
    }
    let proof = StepProof::from_json(json, &PlanLimits::default())?;
    let read = Arc::new(ReadProof { text: json.into(), proof });
    if let (Some(plan), 0..=MAX_KEPT_PROOF) = (plan, json.len()) {
        *plan.parts.proof.lock() = Some(Arc::clone(&read));
    }
    Ok(read)
}

/// Root, approval and position change together.
#[derive(Debug)]
struct PlanState {
    root: PlanRoot,
    approval: Option<Arc<SpentPlanApproval>>,
    walk: PlanWalk,
}

impl RunningPlan {
    pub(crate) fn new(root: PlanRoot, approval: Option<SpentPlanApproval>, walk: PlanWalk) -> Self {
        let state = Mutex::new(PlanState { root, approval: approval.map(Arc::new), walk });
        Self { parts: Box::new(PlanParts { state, proof: Mutex::default() }) }
    }

    pub(crate) fn root(&self) -> PlanRoot {
        self.parts.state.lock().root
    }

    pub(crate) fn position(&self) -> Option<u64> {
        self.parts.state.lock().walk.position()
    }

    /// Acquires the step of a call that is the plan's next one. A breach takes effect here, before any later check.
    pub(crate) fn hold(
        &self,
        call: &StepCall<'_>,
        contract: &dyn PlanContract,
        findings: &mut Findings,
    ) -> Result<HeldStep<'_>, Refusal> {
        let mut state = self.parts.state.lock();
        findings.note_plan(state.root);
        let planned = match state.walk.check(call, contract) {
            Ok(planned) => planned,
            Err(PlanBreach::Halted { reason }) => {
                let reason = format!("the plan was halted: {reason}");
                return Err(Refusal::new(RejectionCode::PlanHalted, reason));
            }
            Err(breach) => {
                let halted = state.walk.halted().is_some();
                return Err(Refusal { halted, ..Refusal::new(breach_code(&breach), breach.reason()) });
            }
        };
        findings.plan_step = Some(planned.index());
        let (root, approval) = (*planned.root(), state.approval.clone());
        Ok(HeldStep { plan: self, root, approval, planned: Some(planned) })
    }

    /// Returns an error if an amendment could not be taken now.
    pub(crate) fn can_amend(
        &self,
        plan: &OfferedCommit,
        context: &PlanContext,
    ) -> Result<(), StartPlanError> {
        if plan.header().amends().is_none() {
            return Err(StartPlanError::Started);
        }
        self.parts.state.lock().walk.can_amend(plan, context)
    }

    /// Acquires the turn for an amendment while its approval is verified and spent and the amendment is recorded.
    pub(crate) fn hold_amendment(
        &self,
        plan: OfferedCommit,
        context: &PlanContext,
    ) -> Result<HeldAmendment<'_>, StartPlanError> {
        let planned = self.parts.state.lock().walk.check_amendment(plan, context)?;
        Ok(HeldAmendment { plan: self, planned: Some(planned) })
    }

    /// Keeps a step's result for the trace. The cursor knows its own runs, so it cannot refuse one.
    pub(crate) fn observe(&self, step: AcceptedStep, observation: Vec<u8>, record: u64) {
        if let (Some(run), PlanWalk::Whole(cursor)) = (step.run, &mut self.parts.state.lock().walk) {
            let _known = cursor.observe(run, observation, record);
        }
    }

    /// Halts the plan at any point: a call or amendment that holds the turn now is not kept.
    pub(crate) fn halt(&self) -> Halting {
        let mut state = self.parts.state.lock();
        match state.walk.halt(BY_HOST) {
            Some(Ok(())) => Halting::Halted(state.root),
            Some(Err(_)) => Halting::Before,
            None => Halting::Finished,
        }
    }

    pub(crate) fn finish(&self) -> Result<VerifiedTrace<Vec<u8>>, FinishPlanError> {
        let mut state = self.parts.state.lock();
        match &state.walk {
            PlanWalk::Whole(cursor) => cursor.is_complete()?,
            PlanWalk::Root(_) => return Err(FinishPlanError::RootOnly),
            PlanWalk::Finished => return Err(FinishPlanError::NoPlan),
        }
        let walk = std::mem::replace(&mut state.walk, PlanWalk::Finished);
        drop(state);
        match walk {
            PlanWalk::Whole(cursor) => Ok(cursor.finish()?),
            PlanWalk::Root(_) | PlanWalk::Finished => Err(FinishPlanError::NoPlan),
        }
    }
}

const fn breach_code(breach: &PlanBreach) -> RejectionCode {
    match breach {
        PlanBreach::Required { .. } => RejectionCode::PlanRequired,
        PlanBreach::OutOfOrder { .. } => RejectionCode::PlanOutOfOrder,
        PlanBreach::Exhausted { .. } => RejectionCode::PlanExhausted,
        PlanBreach::Halted { .. } => RejectionCode::PlanHalted,
        PlanBreach::StepMismatch { .. } | _ => RejectionCode::PlanStepMismatch,
    }
}

/// One call's turn in the plan. If it is dropped without [`keep`](Self::keep), it releases the turn: a later check
/// refused the call, or it could not be recorded, and it has not run.
#[derive(Debug)]
#[must_use]
pub(crate) struct HeldStep<'g> {
    plan: &'g RunningPlan,
    root: PlanRoot,
    /// Approval of the plan whose turn is held.
    approval: Option<Arc<SpentPlanApproval>>,
    planned: Option<PlannedCall>,
}

impl HeldStep<'_> {
    pub(crate) const fn root(&self) -> PlanRoot {
        self.root
    }

    pub(crate) fn approval(&self) -> Option<&SpentPlanApproval> {
        self.approval.as_deref()
    }

    /// Advances the plan by the call, whose acceptance is recorded. The turn is held, so the cursor takes the call
    /// unless the plan was halted meanwhile; in that case nothing runs.
    pub(crate) fn keep(mut self) -> Result<AcceptedStep, RejectionCode> {
        let planned = self.planned.take().ok_or(RejectionCode::Internal)?;
        let index = planned.index();
        let run = self.plan.parts.state.lock().walk.accept(planned).map_err(|breach| breach_code(&breach))?;
        Ok(AcceptedStep { index, run })
    }
}

impl Drop for HeldStep<'_> {
    fn drop(&mut self) {
        if let Some(planned) = self.planned.take() {
            self.plan.parts.state.lock().walk.give_back(planned);
        }
    }
}

/// The turn for an amendment. If it is dropped without [`keep`](Self::keep), it releases the turn.
#[derive(Debug)]
#[must_use]
pub(crate) struct HeldAmendment<'g> {
    plan: &'g RunningPlan,
    planned: Option<PlannedChange>,
}

impl HeldAmendment<'_> {
    /// Applies the amendment, whose approval is spent and which is recorded, unless the plan was halted meanwhile.
    pub(crate) fn keep(mut self, approval: Option<SpentPlanApproval>) -> Result<(), StartPlanError> {
        let approval = approval.ok_or(RejectionCode::Internal)?;
        let planned = self.planned.take().ok_or(RejectionCode::Internal)?;
        let mut state = self.plan.parts.state.lock();
        let root = state.walk.accept_amendment(planned)?;
        (state.root, state.approval) = (root, Some(Arc::new(approval)));
        Ok(())
    }
}

impl Drop for HeldAmendment<'_> {
    fn drop(&mut self) {
        if let Some(planned) = self.planned.take() {
            self.plan.parts.state.lock().walk.give_back_amendment(planned);
        }
    }
}

/// An accepted step's place in the trace.
#[derive(Debug)]
pub(crate) struct AcceptedStep {
    index: u64,
    /// `None` if the gate knows only the plan's root.
    run: Option<StepRun>,
}

impl AcceptedStep {
    pub(crate) const fn index(&self) -> u64 {
        self.index
    }
}
