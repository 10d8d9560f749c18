//! A pivot in mid-plan: the steps that have not run are replaced by others, which somebody has approved.

use crate::commit::CommittedPlan;
use crate::cursor::PlanCursor;
use crate::cursor_error::PlanUseError;
use crate::header::PlanContext;
use crate::root::PlanRoot;

/// How often one plan can be amended: each time somebody approves it, so this is far from what people do.
const MAX_AMENDMENTS: usize = 64;

/// A plan that an amendment went on from.
pub(crate) struct Amended {
    pub(crate) plan: CommittedPlan,
    /// How many of its steps ran.
    pub(crate) position: u64,
}

impl<O> PlanCursor<O> {
    /// Puts an amendment in the place of the steps that have not run. What has run stays as it is.
    ///
    /// `approved` is the root that somebody with authority has approved, which is for the caller to verify. `registry_version`
    /// of the amendment may be another than the plan's, and has to be `context`'s.
    ///
    /// # Errors
    /// [`PlanUseError`] when the plan was halted or a call is being decided, the amendment is for another session, goal or
    /// registry, does not name the plan that runs and the place where it stands, or is not what was approved.
    pub fn amend(
        &mut self,
        amendment: CommittedPlan,
        approved: &PlanRoot,
        context: &PlanContext,
    ) -> Result<(), PlanUseError> {
        if self.halted.is_some() {
            return Err(PlanUseError::Halted);
        }
        if self.held.is_some() {
            return Err(PlanUseError::Busy);
        }
        amendment.header().check(context)?;
        self.goes_on(&amendment)?;
        if amendment.root() != approved {
            return Err(PlanUseError::NotApproved);
        }
        if self.amended.len() >= MAX_AMENDMENTS {
            return Err(PlanUseError::TooMany);
        }
        let plan = std::mem::replace(&mut self.plan, amendment);
        self.amended.push(Amended { plan, position: self.position });
        (self.position, self.used) = (0, 0);
        Ok(())
    }

    /// Whether the amendment names the plan that runs and the place where it stands, and is for the same session and goal.
    fn goes_on(&self, amendment: &CommittedPlan) -> Result<(), PlanUseError> {
        let (old, new) = (self.plan.header().context(), amendment.header().context());
        if new.session() != old.session() {
            return Err(PlanUseError::OtherSession);
        }
        if new.goal() != old.goal() {
            return Err(PlanUseError::OtherGoal);
        }
        if new.registry_version() < old.registry_version() {
            return Err(PlanUseError::OtherRegistry);
        }
        if is_linked(amendment, self.plan.root(), self.position) { Ok(()) } else { Err(PlanUseError::Link) }
    }
}

/// Whether a plan is an amendment of the one with that root, after as many of its steps.
pub(crate) fn is_linked(amendment: &CommittedPlan, root: &PlanRoot, position: u64) -> bool {
    let amends = amendment.header().amends();
    amends.is_some_and(|amends| amends.root() == root && amends.position() == position)
}
