//! Amendments: approved steps replace the steps that have not run.

use crate::commit::CommittedPlan;
use crate::cursor::{Amended, PlanCursor};
use crate::error::PlanUseError;
use crate::header::{MAX_AMENDMENTS, PlanContext, check_continues, is_linked};
use crate::root::PlanRoot;
use crate::turn::Turn;

/// Proof that an amendment continues the running plan. Holds the plan's step, so that no call passes. Only
/// [`PlanCursor::check_amendment`] creates one; it cannot be copied.
///
/// [`accept_amendment`](PlanCursor::accept_amendment) and [`give_back_amendment`](PlanCursor::give_back_amendment)
/// release the step.
#[derive(Debug)]
#[must_use]
pub struct PlannedAmendment {
    turn: Turn,
    plan: CommittedPlan,
}

impl PlannedAmendment {
    /// The amendment's root.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        self.plan.root()
    }
}

impl<O> PlanCursor<O> {
    /// Checks and accepts an amendment at once. It replaces the steps that have not run.
    ///
    /// # Errors
    /// As [`check_amendment`](Self::check_amendment) and [`accept_amendment`](Self::accept_amendment).
    pub fn amend(
        &mut self,
        amendment: CommittedPlan,
        approved: &PlanRoot,
        context: &PlanContext,
    ) -> Result<(), PlanUseError> {
        let planned = self.check_amendment(amendment, context)?;
        self.accept_amendment(planned, approved)
    }

    /// Checks whether the cursor would accept an amendment if no call were being decided. Does not acquire the step.
    ///
    /// The amendment's `registry_version` may be later than the plan's and must equal `context`'s.
    ///
    /// # Errors
    /// [`PlanUseError`] if the plan was halted, or the amendment is for another session, goal or registry, does not
    /// name the running plan and its position, or exceeds 64 amendments.
    pub fn can_amend(&self, amendment: &CommittedPlan, context: &PlanContext) -> Result<(), PlanUseError> {
        if self.progress.halted().is_some() {
            return Err(PlanUseError::Halted);
        }
        amendment.header().check(context)?;
        check_continues(self.plan.header(), amendment.header())?;
        if !is_linked(amendment.header(), self.plan.root(), self.progress.position()) {
            return Err(PlanUseError::Link);
        }
        if self.amended.len() >= MAX_AMENDMENTS { Err(PlanUseError::TooMany) } else { Ok(()) }
    }

    /// Checks an amendment and acquires the plan's step: every call is refused until the amendment is accepted or
    /// given back. The plan is unchanged.
    ///
    /// # Errors
    /// As [`can_amend`](Self::can_amend), and [`PlanUseError::Busy`] while a call is being decided.
    pub fn check_amendment(
        &mut self,
        amendment: CommittedPlan,
        context: &PlanContext,
    ) -> Result<PlannedAmendment, PlanUseError> {
        self.can_amend(&amendment, context)?;
        let turn = self.progress.hold_amendment(*self.plan.root(), amendment.root())?;
        Ok(PlannedAmendment { turn, plan: amendment })
    }

    /// Continues with an amendment. `approved` is the root in its approval, which the caller has verified.
    ///
    /// # Errors
    /// [`PlanUseError::NotApproved`] if the roots differ; the plan then continues unchanged. [`PlanUseError::Halted`]
    /// if the plan was halted since [`check_amendment`](Self::check_amendment).
    pub fn accept_amendment(
        &mut self,
        planned: PlannedAmendment,
        approved: &PlanRoot,
    ) -> Result<(), PlanUseError> {
        let PlannedAmendment { turn, plan: amendment } = planned;
        let position = self.progress.accept_amendment(&turn, amendment.root(), approved)?;
        let plan = std::mem::replace(&mut self.plan, amendment);
        self.amended.push(Amended { plan, position });
        self.verified = 0;
        Ok(())
    }

    /// Releases the step of a refused amendment. The plan continues unchanged.
    ///
    /// # Errors
    /// [`PlanUseError::Busy`] if the amendment is another cursor's.
    #[expect(clippy::needless_pass_by_value, reason = "consumes the claim on the step")]
    pub fn give_back_amendment(&mut self, planned: PlannedAmendment) -> Result<(), PlanUseError> {
        self.progress.release_amendment(&planned.turn)
    }
}
