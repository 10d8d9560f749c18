use countersign_core::Digest;

use crate::breach::{OnBreach, PlanBreach};
use crate::error::PlanUseError;
use crate::header::PlanHeader;
use crate::root::PlanRoot;
use crate::turn::{PlannedCall, StepCall, Turn};

/// The position of a plan, and the one call or amendment that holds its step. Shared by the cursor over a whole plan
/// and the cursor over a root.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Index of the last step with an accepted call; 0 before the first.
    position: u64,
    /// Number of accepted calls of that step.
    used: u32,
    turns: u64,
    held: Option<Turn>,
    on_breach: OnBreach,
    /// Number of refused calls that count as breaches.
    breaches: u32,
    halted: Option<PlanBreach>,
}

impl Progress {
    pub(crate) const fn set_on_breach(&mut self, on_breach: OnBreach) {
        self.on_breach = on_breach;
    }

    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    pub(crate) const fn halted(&self) -> Option<PlanBreach> {
        self.halted
    }

    pub(crate) const fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Halts the plan. Returns the first breach if it was halted before.
    pub(crate) fn halt(&mut self, breach: PlanBreach) -> Result<(), PlanBreach> {
        self.halted.map_or(Ok(()), Err)?;
        self.halted = Some(breach);
        Ok(())
    }

    /// Checks whether a call can be decided now. None of these three refusals halts the plan.
    pub(crate) fn is_open(&self, plan: &PlanHeader, call: &StepCall<'_>) -> Result<(), PlanBreach> {
        self.check_not_halted()?;
        if call.registry_version != plan.context().registry_version() {
            return Err(PlanBreach::Required { reason: "other-registry" });
        }
        if self.is_held() {
            return Err(PlanBreach::OutOfOrder { reason: "busy" });
        }
        Ok(())
    }

    fn check_not_halted(&self) -> Result<(), PlanBreach> {
        match &self.halted {
            Some(first) => Err(PlanBreach::Halted { reason: first.reason() }),
            None => Ok(()),
        }
    }

    /// Acquires the step that was found for a call, or counts a breach.
    pub(crate) fn hold(
        &mut self,
        root: PlanRoot,
        found: Result<u64, PlanBreach>,
        call: &StepCall<'_>,
    ) -> Result<PlannedCall, PlanBreach> {
        let index = found.inspect_err(|breach| self.count(*breach))?;
        Ok(PlannedCall { turn: self.take(root, index, call.args.digest()) })
    }

    /// Counts a breach, and halts the plan at the limit.
    const fn count(&mut self, breach: PlanBreach) {
        self.breaches = self.breaches.saturating_add(1);
        if self.breaches >= self.on_breach.limit() {
            self.halted = Some(breach);
        }
    }

    /// Advances by an accepted call.
    pub(crate) fn accept(&mut self, turn: &Turn) -> Result<(), PlanBreach> {
        self.release(turn)?;
        self.check_not_halted()?;
        self.used = if turn.index == self.position { self.used.saturating_add(1) } else { 1 };
        self.position = turn.index;
        Ok(())
    }

    /// Acquires the plan's step for an amendment.
    pub(crate) fn hold_amendment(
        &mut self,
        root: PlanRoot,
        amendment: &PlanRoot,
    ) -> Result<Turn, PlanUseError> {
        if self.is_held() {
            return Err(PlanUseError::Busy);
        }
        // Leaf 0 is the header, so no call has this index.
        Ok(self.take(root, 0, amendment.digest()))
    }

    /// Moves to the start of an amendment and returns the position in the plan before it.
    pub(crate) fn accept_amendment(
        &mut self,
        turn: &Turn,
        root: &PlanRoot,
        approved: &PlanRoot,
    ) -> Result<u64, PlanUseError> {
        self.release_amendment(turn)?;
        if self.halted.is_some() {
            return Err(PlanUseError::Halted);
        }
        if root != approved {
            return Err(PlanUseError::NotApproved);
        }
        self.used = 0;
        Ok(std::mem::take(&mut self.position))
    }

    /// Releases the step of a call.
    pub(crate) fn release(&mut self, turn: &Turn) -> Result<(), PlanBreach> {
        if self.held.as_ref() != Some(turn) {
            return Err(PlanBreach::OutOfOrder { reason: "other-turn" });
        }
        self.held = None;
        Ok(())
    }

    /// Releases the step of an amendment.
    pub(crate) fn release_amendment(&mut self, turn: &Turn) -> Result<(), PlanUseError> {
        self.release(turn).map_err(|_| PlanUseError::Busy)
    }

    /// Acquires the step under a new, unique number.
    fn take(&mut self, root: PlanRoot, index: u64, args: Digest) -> Turn {
        self.turns = self.turns.saturating_add(1);
        let turn = Turn { number: self.turns, root, index, args };
        self.held = Some(turn);
        turn
    }
}
