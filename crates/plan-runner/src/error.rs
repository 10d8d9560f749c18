use countersign_pinned_ask::AskDrift;
use countersign_tool_gate::{FinishPlanError, Rejection, StartPlanError};

use crate::inspect::Halt;
use crate::model::ModelError;
use crate::plan_text_error::PlanTextError;
use crate::tools::ToolError;
use crate::turn_text::TurnTextError;

/// Error that ended a run before its plan was done. Nothing is retried, and no tool runs after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A model returned no text.
    #[error("no text from the {role}")]
    Model {
        /// The model's role: `planner` or `responder`.
        role: &'static str,
        /// The cause.
        source: ModelError,
    },
    /// The planner's text has a plan token but is not a valid plan.
    #[error("the planner's text is not a valid plan")]
    PlanText(#[from] PlanTextError),
    /// The final answer is longer than the limit.
    #[error("the answer is longer than the limit")]
    AnswerTooLarge,
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
    /// The plan's goal is not the pinned one, or the pin has expired.
    #[error("goal mismatch between plan and session")]
    Goal(#[source] AskDrift),
    /// The plan is not allowed, its approval is not valid, or the gate cannot start it.
    #[error("the plan cannot be started")]
    Start(#[from] StartPlanError),
    /// There is a plan but no inspector.
    #[error("no inspector: a plan must be inspected before it starts")]
    Uninspected,
    /// An inspector halted the plan.
    #[error("an inspector halted the plan")]
    Inspection {
        /// The inspector's name.
        inspector: Box<str>,
        /// The inspector's verdict.
        halt: Halt,
    },
    /// The approver denied the plan or call.
    #[error("denied by the approver")]
    Denied,
    /// The responder's text is not a valid turn.
    #[error("step {step}: the responder's text is not a valid turn")]
    Turn {
        /// The current step, counted from 1.
        step: u64,
        /// The cause.
        source: TurnTextError,
    },
    /// The responder has used all its turns.
    #[error("step {step}: turn limit reached")]
    TurnsLimit {
        /// The current step, counted from 1.
        step: u64,
    },
    /// The gate refused the call.
    #[error("step {step}: the gate refused the call")]
    Refused {
        /// The current step, counted from 1.
        step: u64,
        /// The cause.
        source: Rejection,
    },
    /// The gate now runs another plan, or the step is not in its plan.
    #[error("step {step}: the gate's plan has changed")]
    PlanChanged {
        /// The current step, counted from 1.
        step: u64,
    },
    /// The tool failed.
    #[error("step {step}: the tool failed")]
    Tool {
        /// The step, counted from 1.
        step: u64,
        /// The cause.
        source: ToolError,
    },
    /// The tools returned more than the limit.
    #[error("step {step}: the tools returned more than the limit")]
    ObservationLimit {
        /// The step, counted from 1.
        step: u64,
    },
    /// The gate does not return the trace.
    #[error("the plan is not finished")]
    Finish(#[from] FinishPlanError),
}

impl RunError {
    /// The stable code. If the cause has a code of its own (the gate's, the inspector's, the model's), it is that code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Model { source, .. } => source.code(),
            Self::PlanText(error) => error.code(),
            Self::AnswerTooLarge => "MODEL_TEXT_TOO_LARGE",
            Self::Clock => "CLOCK_UNAVAILABLE",
            Self::Goal(drift) => drift.code(),
            Self::Start(error) => error.code(),
            Self::Uninspected => "PLAN_UNINSPECTED",
            Self::Inspection { halt, .. } => halt.code(),
            Self::Denied => "APPROVAL_DENIED",
            Self::Turn { source, .. } => source.code(),
            Self::TurnsLimit { .. } => "RUN_TURNS_LIMIT",
            Self::Refused { source, .. } => source.code().as_str(),
            Self::PlanChanged { .. } => "RUN_PLAN_CHANGED",
            Self::Tool { source, .. } => source.code(),
            Self::ObservationLimit { .. } => "RUN_OBSERVATION_LIMIT",
            Self::Finish(error) => error.code(),
        }
    }

    /// The step at which the run ended, counted from 1, if the error concerns one step.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        match self {
            Self::PlanText(error) => error.step(),
            Self::Inspection { halt, .. } => halt.step(),
            Self::Turn { step, .. }
            | Self::TurnsLimit { step }
            | Self::Refused { step, .. }
            | Self::PlanChanged { step }
            | Self::Tool { step, .. }
            | Self::ObservationLimit { step } => Some(*step),
            Self::Model { .. }
            | Self::AnswerTooLarge
            | Self::Clock
            | Self::Goal(_)
            | Self::Start(_)
            | Self::Uninspected
            | Self::Denied
            | Self::Finish(_) => None,
        }
    }
}

countersign_core::coded!(RunError);
