//! Position of a plan at a gate that knows the whole plan or only its root.

use countersign_committed_plan::{
    CommittedPlan, OnBreach, PlanBreach, PlanContext, PlanContract, PlanCursor, PlanHeader, PlanRoot,
    PlanUseError, PlannedAmendment, PlannedCall, PlannedRoot, RootCursor, StepCall, StepRun, VerifiedHeader,
};

use crate::code::RejectionCode;
use crate::plan_error::StartPlanError;

/// A plan that may be started or taken as an amendment: its header is proven to belong to its root.
pub(crate) enum OfferedCommit {
    Whole(Box<CommittedPlan>),
    Root(VerifiedHeader),
}

impl OfferedCommit {
    pub(crate) const fn root(&self) -> &PlanRoot {
        match self {
            Self::Whole(plan) => plan.root(),
            Self::Root(plan) => plan.root(),
        }
    }

    pub(crate) const fn header(&self) -> &PlanHeader {
        match self {
            Self::Whole(plan) => plan.header(),
            Self::Root(plan) => plan.header(),
        }
    }
}

/// Breach reason: the trace was returned.
const FINISHED: PlanBreach = PlanBreach::Exhausted { reason: "the plan is finished" };

#[derive(Debug)]
pub(crate) enum PlanWalk {
    Whole(Box<PlanCursor<Vec<u8>>>),
    Root(Box<RootCursor>),
    /// The trace was returned.
    Finished,
}

/// An amendment that holds the turn.
#[derive(Debug)]
pub(crate) enum PlannedChange {
    Whole(Box<PlannedAmendment>),
    Root(Box<PlannedRoot>),
}

impl PlanWalk {
    pub(crate) fn start(
        plan: OfferedCommit,
        context: &PlanContext,
        on_breach: OnBreach,
    ) -> Result<Self, PlanUseError> {
        Ok(match plan {
            OfferedCommit::Whole(plan) => {
                Self::Whole(Box::new(PlanCursor::start(*plan, context)?.on_breach(on_breach)))
            }
            OfferedCommit::Root(plan) => {
                Self::Root(Box::new(RootCursor::start(plan, context)?.on_breach(on_breach)))
            }
        })
    }

    pub(crate) fn halted(&self) -> Option<PlanBreach> {
        match self {
            Self::Whole(cursor) => cursor.halted(),
            Self::Root(cursor) => cursor.halted(),
            Self::Finished => None,
        }
    }

    pub(crate) fn position(&self) -> Option<u64> {
        match self {
            Self::Whole(cursor) => Some(cursor.position()),
            Self::Root(cursor) => Some(cursor.position()),
            Self::Finished => None,
        }
    }

    pub(crate) fn check(
        &mut self,
        call: &StepCall<'_>,
        contract: &dyn PlanContract,
    ) -> Result<PlannedCall, PlanBreach> {
        match self {
            Self::Whole(cursor) => cursor.check(call),
            Self::Root(cursor) => cursor.check(call, contract),
            Self::Finished => Err(FINISHED),
        }
    }

    /// Advances by an accepted call. A gate that knows only the root has no place for its result.
    pub(crate) fn accept(&mut self, planned: PlannedCall) -> Result<Option<StepRun>, PlanBreach> {
        match self {
            Self::Whole(cursor) => cursor.accept(planned).map(Some),
            Self::Root(cursor) => cursor.accept(planned).map(|()| None),
            Self::Finished => Err(FINISHED),
        }
    }

    /// Halts the plan. Returns `None` if the plan is finished, and the first breach if one has halted it before.
    pub(crate) fn halt(&mut self, reason: &'static str) -> Option<Result<(), PlanBreach>> {
        match self {
            Self::Whole(cursor) => Some(cursor.halt(reason)),
            Self::Root(cursor) => Some(cursor.halt(reason)),
            Self::Finished => None,
        }
    }

    pub(crate) fn give_back(&mut self, planned: PlannedCall) {
        let _held = match self {
            Self::Whole(cursor) => cursor.give_back(planned),
            Self::Root(cursor) => cursor.give_back(planned),
            Self::Finished => Ok(()),
        };
    }

    pub(crate) fn can_amend(
        &self,
        plan: &OfferedCommit,
        context: &PlanContext,
    ) -> Result<(), StartPlanError> {
        match (self, plan) {
            (Self::Whole(cursor), OfferedCommit::Whole(plan)) => Ok(cursor.can_amend(plan, context)?),
            (Self::Root(cursor), OfferedCommit::Root(plan)) => Ok(cursor.can_amend(plan, context)?),
            (Self::Finished, _) => Err(StartPlanError::NoPlan),
            (Self::Whole(_) | Self::Root(_), _) => Err(PlanUseError::Link.into()),
        }
    }

    pub(crate) fn check_amendment(
        &mut self,
        plan: OfferedCommit,
        context: &PlanContext,
    ) -> Result<PlannedChange, StartPlanError> {
        Ok(match (self, plan) {
            (Self::Whole(cursor), OfferedCommit::Whole(plan)) => {
                PlannedChange::Whole(Box::new(cursor.check_amendment(*plan, context)?))
            }
            (Self::Root(cursor), OfferedCommit::Root(plan)) => {
                PlannedChange::Root(Box::new(cursor.check_amendment(plan, context)?))
            }
            (Self::Finished, _) => return Err(StartPlanError::NoPlan),
            (Self::Whole(_) | Self::Root(_), _) => return Err(PlanUseError::Link.into()),
        })
    }

    /// Applies an amendment whose approval was spent and binds its root.
    pub(crate) fn accept_amendment(&mut self, planned: PlannedChange) -> Result<PlanRoot, StartPlanError> {
        match (self, planned) {
            (Self::Whole(cursor), PlannedChange::Whole(planned)) => {
                let approved = *planned.root();
                cursor.accept_amendment(*planned, &approved)?;
                Ok(approved)
            }
            (Self::Root(cursor), PlannedChange::Root(planned)) => {
                let approved = *planned.root();
                cursor.accept_amendment(*planned, &approved)?;
                Ok(approved)
            }
            (Self::Whole(_) | Self::Root(_) | Self::Finished, _) => Err(RejectionCode::Internal.into()),
        }
    }

    pub(crate) fn give_back_amendment(&mut self, planned: PlannedChange) {
        let _held = match (self, planned) {
            (Self::Whole(cursor), PlannedChange::Whole(planned)) => cursor.give_back_amendment(*planned),
            (Self::Root(cursor), PlannedChange::Root(planned)) => cursor.give_back_amendment(*planned),
            (Self::Whole(_) | Self::Root(_) | Self::Finished, _) => Ok(()),
        };
    }
}
