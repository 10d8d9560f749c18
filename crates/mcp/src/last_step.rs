use countersign_committed_plan::{Plan, Step};

/// Counts the remaining calls of the plan's last step, by the calls that the gate accepted. The gate decides which calls may
/// run; this count only shows when no call is left, so that the plan is finished then and not earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastStep {
    index: u64,
    calls_left: u32,
}

impl LastStep {
    /// The last step of a plan, or of an amendment, of which nothing has run.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { index: plan.header().steps(), calls_left: plan.steps().last().map_or(1, Step::max_calls) }
    }

    /// Counts an accepted call of this step.
    pub(crate) const fn accepted(&mut self, step: u64) {
        if step == self.index {
            self.calls_left = self.calls_left.saturating_sub(1);
        }
    }

    /// Returns whether the plan has no call left.
    pub(crate) const fn is_over(&self) -> bool {
        self.calls_left == 0
    }
}
