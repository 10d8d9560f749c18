use countersign_committed_plan::PlanRoot;
use countersign_core::ToolId;
use countersign_tool_gate::RejectionCode;

/// Progress of a run. No event holds an argument's value or a text of a tool or a model.
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
        /// Number of steps.
        steps: usize,
    },
    /// The plan was checked against the session's authority, and committed.
    Committed {
        /// Its root.
        root: PlanRoot,
    },
    /// An inspector passed the plan.
    Inspected {
        /// The inspector's name.
        inspector: &'a str,
    },
    /// The gate has started the plan, and accepts only its calls from now on.
    Started {
        /// The root.
        root: PlanRoot,
        /// Whether the whole plan was approved.
        approval: PlanApproval,
    },
    /// The gate verified a call as the plan's next one and accepted it; its tool runs now.
    StepVerified {
        /// The step, counted from 1.
        step: u64,
        /// The tool.
        tool: &'a ToolId,
        /// Record number of the decision.
        record: u64,
    },
    /// The tool returned.
    StepRan {
        /// The step, counted from 1.
        step: u64,
        /// Size of the result in bytes.
        bytes: usize,
    },
    /// The gate refused a call; the tool was not called, and the run ends.
    StepRefused {
        /// The current step, counted from 1.
        step: u64,
        /// The gate's code.
        code: RejectionCode,
    },
    /// Every step has run, and the recomputed root is the committed one.
    Verified {
        /// Number of calls in the trace.
        calls: usize,
    },
    /// The planner wrote the final answer from the trace.
    Finished,
    /// The run ended early.
    Halted {
        /// The code of the error that ended it.
        code: &'a str,
    },
}

/// Whether a plan runs under an approval of the whole plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanApproval {
    /// A token for the whole plan was verified and spent.
    Spent,
    /// The whole plan has no approval.
    None,
}
