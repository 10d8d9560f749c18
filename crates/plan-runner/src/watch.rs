use countersign_committed_plan::PlanRoot;
use countersign_tool_gate::ToolGate;

use crate::error::RunError;

/// What a halt is on record for where the run neither ended nor failed: its future was dropped, or somebody whom it asked panicked.
const DROPPED: &str = "RUN_DROPPED";

/// Halts the plan that a run has started, unless the run comes to the plan's end: nobody who has a clone of the gate goes on with
/// what the run has left. A plan that was amended meanwhile is another one, which somebody has approved, and is left alone.
pub(crate) struct Watch<'r> {
    gate: &'r ToolGate,
    started: Option<PlanRoot>,
    why: &'static str,
}

impl<'r> Watch<'r> {
    pub(crate) const fn new(gate: &'r ToolGate) -> Self {
        Self { gate, started: None, why: DROPPED }
    }

    pub(crate) const fn started(&mut self, root: PlanRoot) {
        self.started = Some(root);
    }

    /// Takes how the run has ended, and halts what it has left.
    pub(crate) fn ended<T>(mut self, end: Result<T, RunError>) -> Result<T, RunError> {
        if let Err(error) = &end {
            self.why = error.code();
        }
        end
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.started.is_some() && self.started == self.gate.plan_root() {
            // Of a plan whose trace was given out there is nothing left to halt. A halt that cannot be recorded holds as well.
            let _halted = self.gate.halt_plan(self.why);
        }
    }
}
