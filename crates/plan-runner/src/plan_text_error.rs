use std::fmt;

use countersign_canonical_json::JsonError;
use countersign_committed_plan::PlanError;

/// Error of a planner's text that is not a usable plan. It never holds any of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanTextError {
    problem: PlanTextProblem,
    step: Option<u64>,
}

impl PlanTextError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.problem.code()
    }

    /// The problem.
    #[must_use]
    pub const fn problem(&self) -> PlanTextProblem {
        self.problem
    }

    /// The step, counted from 1, if the problem concerns one step.
    #[must_use]
    pub const fn step(&self) -> Option<u64> {
        self.step
    }

    pub(crate) const fn at_step(problem: PlanTextProblem, step: u64) -> Self {
        Self { problem, step: Some(step) }
    }
}

impl From<PlanTextProblem> for PlanTextError {
    fn from(problem: PlanTextProblem) -> Self {
        Self { problem, step: None }
    }
}

impl fmt::Display for PlanTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for PlanTextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.problem)
    }
}

/// Problem of a planner's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanTextProblem {
    /// The text is longer than the limit.
    #[error("the planner's text is longer than the limit")]
    TooLarge,
    /// The plan token occurs more than once, or its closing token anywhere but at the end.
    #[error("a plan has one plan token, and its closing token at the end only")]
    Token,
    /// The plan token is preceded by something other than whitespace.
    #[error("text before the plan token")]
    Before,
    /// The text after the token is not a single strict JSON value.
    #[error("the plan is not JSON that can be read in one way only")]
    Json(#[source] JsonError),
    /// A member is missing, unknown or of the wrong kind.
    #[error("a member is missing, unknown or of the wrong kind")]
    Shape,
    /// The plan has no steps, or more than the limit.
    #[error("a plan has at least one step and no more than the limit")]
    Steps,
    /// A step's id is not its position in the plan.
    #[error("invalid step ids: 1, 2, 3 and so on expected")]
    StepId,
    /// A tool is not written as `name` or `server:name`.
    #[error("a tool is written as name or server:name")]
    Tool,
    /// The session discloses no tool of that name, or tools of several servers.
    #[error("unknown or ambiguous tool name in the session")]
    UnknownTool,
    /// The step is not a valid step of a plan.
    #[error("the step cannot be one of a plan")]
    Step(#[source] PlanError),
}

impl PlanTextProblem {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "MODEL_TEXT_TOO_LARGE",
            Self::Token => "PLAN_TEXT_TOKEN",
            Self::Before => "PLAN_TEXT_BEFORE_TOKEN",
            Self::Json(_) => "PLAN_TEXT_JSON",
            Self::Shape => "PLAN_TEXT_SHAPE",
            Self::Steps => "PLAN_TEXT_STEPS",
            Self::StepId => "PLAN_TEXT_STEP_ID",
            Self::Tool => "PLAN_TEXT_TOOL",
            Self::UnknownTool => "PLAN_TEXT_TOOL_UNKNOWN",
            Self::Step(error) => error.code(),
        }
    }
}

countersign_core::coded!(PlanTextError, PlanTextProblem);
