use countersign_committed_plan::PlanRoot;
use countersign_tool_gate::ToolGate;

use crate::error::RunError;

/// Reason recorded for a halt if the run neither ended nor failed: its future was dropped, or a participant panicked.
const DROPPED: &str = "RUN_DROPPED";

/// Halts the started plan unless the run reaches the plan's end, so that no holder of a clone of the gate can continue it. A plan
/// that was amended meanwhile is a different plan with its own approval, and is left alone.
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

    /// Takes the result of the run, and halts the plan if it is unfinished.
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
            // A plan whose trace was returned needs no halt. A halt is effective even if it cannot be recorded.
            let _halted = self.gate.halt_plan(self.why);
        }
    }
}
