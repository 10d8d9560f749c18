//! A pivot in mid-plan: the steps that have not run are replaced by others, which somebody has approved.

use crate::commit::CommittedPlan;
use crate::cursor::PlanCursor;
use crate::cursor_error::PlanUseError;
use crate::header::{PlanContext, PlanHeader};
use crate::root::PlanRoot;
use crate::turn::Turn;

/// How often one plan can be amended: each time somebody approves it, so this is far from what people do.
pub(crate) const MAX_AMENDMENTS: usize = 64;

/// A plan that an amendment went on from.
pub(crate) struct Amended {
    pub(crate) plan: CommittedPlan,
    /// How many of its steps ran.
    pub(crate) position: u64,
}

/// Proves that an amendment goes on from the plan that runs, and holds the turn. Made by [`PlanCursor::check_amendment`] alone; it
/// cannot be copied.
///
/// The turn is held until the amendment is [accepted](PlanCursor::accept_amendment) or
/// [given back](PlanCursor::give_back_amendment), so that no call passes between the two.
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
    /// Puts an amendment in the place of the steps that have not run, in one go. What has run stays as it is.
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

    /// Says whether an amendment could be taken now, but for a call that is being decided. Holds nothing.
    ///
    /// `registry_version` of the amendment may be later than the plan's, and has to be `context`'s.
    ///
    /// # Errors
    /// [`PlanUseError`] when the plan was halted, or the amendment is for another session, goal or registry, does not name the
    /// plan that runs and the place where it stands, or is one too many.
    pub fn can_amend(&self, amendment: &CommittedPlan, context: &PlanContext) -> Result<(), PlanUseError> {
        if self.progress.halted().is_some() {
            return Err(PlanUseError::Halted);
        }
        amendment.header().check(context)?;
        goes_on(self.plan.header(), amendment.header())?;
        if !is_linked(amendment.header(), self.plan.root(), self.progress.position()) {
            return Err(PlanUseError::Link);
        }
        if self.amended.len() >= MAX_AMENDMENTS { Err(PlanUseError::TooMany) } else { Ok(()) }
    }

    /// Says whether an amendment can be taken, and holds the turn: every call is refused as one too many at a time until it was
    /// accepted or given back. The plan is as it was.
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

    /// Goes on by an amendment, whose root somebody with authority has approved; that this is so is for the caller to verify.
    ///
    /// # Errors
    /// [`PlanUseError::NotApproved`] when it is another root; the plan goes on as it was. [`PlanUseError::Halted`] when the plan was
    /// halted while the turn was held.
    pub fn accept_amendment(
        &mut self,
        planned: PlannedAmendment,
        approved: &PlanRoot,
    ) -> Result<(), PlanUseError> {
        let PlannedAmendment { turn, plan: amendment } = planned;
        let position = self.progress.accept_amendment(&turn, amendment.root(), approved)?;
        let plan = std::mem::replace(&mut self.plan, amendment);
        self.amended.push(Amended { plan, position });
        Ok(())
    }

    /// Gives the turn back: the amendment was refused, and the plan goes on as it was.
    ///
    /// # Errors
    /// [`PlanUseError::Busy`] when the turn is not this amendment's, which only happens between two cursors.
    #[expect(clippy::needless_pass_by_value, reason = "a turn that was given back is gone")]
    pub fn give_back_amendment(&mut self, planned: PlannedAmendment) -> Result<(), PlanUseError> {
        self.progress.release_amendment(&planned.turn)
    }
}

/// Whether a plan is for the session and the goal of the one before it, under its registry or a later one.
pub(crate) fn goes_on(old: &PlanHeader, new: &PlanHeader) -> Result<(), PlanUseError> {
    let (old, new) = (old.context(), new.context());
    if new.session() != old.session() {
        return Err(PlanUseError::OtherSession);
    }
    if new.goal() != old.goal() {
        return Err(PlanUseError::OtherGoal);
    }
    if new.registry_version() < old.registry_version() {
        return Err(PlanUseError::OtherRegistry);
    }
    Ok(())
}

/// Whether a plan is an amendment of the one with that root, after as many of its steps.
pub(crate) fn is_linked(amendment: &PlanHeader, root: &PlanRoot, position: u64) -> bool {
    let amends = amendment.amends();
    amends.is_some_and(|amends| amends.root() == root && amends.position() == position)
}
