use countersign_committed_plan::PlanRoot;
use countersign_core::ToolId;
use countersign_tool_gate::RejectionCode;

/// Tells how a run goes on. No event holds an argument's value, nor anything that a tool or a model said.
///
/// ```
/// use countersign_plan_runner::RunEvent;
/// fn told(event: &RunEvent<'_>) -> Option<String> {
///     match event {
///         RunEvent::StepVerified { step, tool, record } => Some(format!("step {step}: {tool} (record {record})")),
///         RunEvent::Halted { code } => Some(format!("halted: {code}")),
///         _ => None,
///     }
/// }
/// assert_eq!(told(&RunEvent::Halted { code: "PLAN_STEP_MISMATCH" }).as_deref(), Some("halted: PLAN_STEP_MISMATCH"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// The planner answered without a plan.
    Answered,
    /// The planner wrote a plan, for the pinned goal.
    Planned {
        /// How many steps it has.
        steps: usize,
    },
    /// The plan was checked against what the session may do, and committed.
    Committed {
        /// Its root.
        root: PlanRoot,
    },
    /// An inspector let the plan pass.
    Inspected {
        /// What the inspector is called.
        inspector: &'a str,
    },
    /// The gate holds its calls to the plan from now on.
    Started {
        /// The root.
        root: PlanRoot,
        /// Whether a person has approved the whole plan.
        approval: PlanApproval,
    },
    /// The gate verified a call as the plan's next one and accepted it; its tool is run now.
    StepVerified {
        /// The step, from 1 on.
        step: u64,
        /// The tool.
        tool: &'a ToolId,
        /// The number of the decision's record.
        record: u64,
    },
    /// The tool returned.
    StepRan {
        /// The step, from 1 on.
        step: u64,
        /// How many bytes it returned.
        bytes: usize,
    },
    /// The gate refused a call; no tool was touched, and the run ends.
    StepRefused {
        /// The step whose turn it was, from 1 on.
        step: u64,
        /// Why.
        code: RejectionCode,
    },
    /// Every step has run, and the root was found again.
    Verified {
        /// How many calls the trace holds.
        calls: usize,
    },
    /// The planner wrote the final answer from the trace.
    Finished,
    /// The run ended before that.
    Halted {
        /// The code of the error that ended it.
        code: &'a str,
    },
}

/// Says whether a plan runs under an approval of the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanApproval {
    /// A token for the whole plan was verified and spent.
    Spent,
    /// Nobody has approved the whole plan.
    None,
}
