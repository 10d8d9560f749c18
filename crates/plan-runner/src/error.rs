use countersign_pinned_ask::AskDrift;
use countersign_tool_gate::{FinishPlanError, Rejection, StartPlanError};

use crate::inspect::Halt;
use crate::model::ModelError;
use crate::plan_text_error::PlanTextError;
use crate::tools::ToolError;
use crate::turn_text::TurnTextError;

/// Why a run ended before its plan was done. Nothing is tried a second time: after the first of these no tool is run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A model gave no text.
    #[error("the {role} gave no text")]
    Model {
        /// Which one: `planner` or `responder`.
        role: &'static str,
        /// Why.
        source: ModelError,
    },
    /// The planner's text has a plan token and is not a plan.
    #[error("the planner's text is no plan")]
    PlanText(#[from] PlanTextError),
    /// The final answer is longer than the limit.
    #[error("the answer is longer than the limit")]
    AnswerTooLarge,
    /// The time cannot be told.
    #[error("the time cannot be told")]
    Clock,
    /// The plan is for another goal than the pinned one, or the pin does not count any more.
    #[error("the plan's goal is not the session's")]
    Goal(#[source] AskDrift),
    /// The plan is not allowed, its approval is not valid, or the gate cannot start it.
    #[error("the plan cannot be started")]
    Start(#[from] StartPlanError),
    /// There is a plan and nobody who inspects it.
    #[error("a plan is inspected before it is started, and there is no inspector")]
    Uninspected,
    /// An inspector halted the plan.
    #[error("an inspector halted the plan")]
    Inspection {
        /// What the inspector is called.
        inspector: Box<str>,
        /// What it said.
        halt: Halt,
    },
    /// The approver said no.
    #[error("the approver said no")]
    Denied,
    /// The responder's text is no turn.
    #[error("step {step}: the responder's text is no turn")]
    Turn {
        /// The step whose turn it was, from 1 on.
        step: u64,
        /// Why.
        source: TurnTextError,
    },
    /// The responder has had all its turns.
    #[error("step {step}: no turn is left")]
    TurnsLimit {
        /// The step whose turn it was, from 1 on.
        step: u64,
    },
    /// The gate refused the call.
    #[error("step {step}: the gate refused the call")]
    Refused {
        /// The step whose turn it was, from 1 on.
        step: u64,
        /// Why.
        source: Rejection,
    },
    /// The gate runs another plan now, or the step is not in the plan that it runs.
    #[error("step {step}: the gate's plan is another one now")]
    PlanChanged {
        /// The step whose turn it was, from 1 on.
        step: u64,
    },
    /// The tool failed.
    #[error("step {step}: the tool failed")]
    Tool {
        /// The step, from 1 on.
        step: u64,
        /// Why.
        source: ToolError,
    },
    /// The tools returned more than the limit.
    #[error("step {step}: the tools returned more than the limit")]
    ObservationLimit {
        /// The step, from 1 on.
        step: u64,
    },
    /// The gate does not give out the trace.
    #[error("the plan is not finished")]
    Finish(#[from] FinishPlanError),
}

impl RunError {
    /// The stable code. That of what ended the run, where it has one of its own: the gate's, the inspector's, the model's.
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

    /// The step that it ended at, from 1 on, where it was one step's fault.
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
