use countersign_committed_plan::{Plan, Step};

/// Counts the calls that the last step of the session's plan has left, as the gateway has seen them accepted. What may run is
/// the gate's to say; this says when nothing more can come, so that the plan is finished then and not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastStep {
    index: u64,
    calls_left: u32,
}

impl LastStep {
    /// That of a plan, or an amendment, of which nothing has run.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { index: plan.header().steps(), calls_left: plan.steps().last().map_or(1, Step::max_calls) }
    }

    /// A call of this step was accepted.
    pub(crate) const fn accepted(&mut self, step: u64) {
        if step == self.index {
            self.calls_left = self.calls_left.saturating_sub(1);
        }
    }

    /// Says whether the plan has no call left.
    pub(crate) const fn is_over(&self) -> bool {
        self.calls_left == 0
    }
}
