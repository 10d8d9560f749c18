use countersign_core::Clock;
use countersign_tool_gate::ToolGate;

use crate::limits::RunLimits;
use crate::task::Task;

/// The parts of a run that all its stages share.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'r> {
    pub(crate) gate: &'r ToolGate,
    pub(crate) clock: &'r dyn Clock,
    pub(crate) limits: &'r RunLimits,
    pub(crate) task: Task<'r>,
}
