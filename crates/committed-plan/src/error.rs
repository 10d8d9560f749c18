use std::fmt;

use countersign_canonical_json::{JsonError, JsonErrorKind};

/// Invalid plan: the problem and the step that has it. The error never contains any of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError {
    problem: PlanProblem,
    step: Option<u64>,
}

impl PlanError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.problem.code()
    }

    /// The problem.
    #[must_use]
    pub const fn problem(&self) -> PlanProblem {
        self.problem
    }

    /// Index of the faulty step, from 1, if the problem is in one step.
    #[must_use]
    pub const fn step(&self) -> Option<u64> {
        self.step
    }

    pub(crate) const fn at_step(self, step: u64) -> Self {
        Self { step: Some(step), ..self }
    }
}

impl From<PlanProblem> for PlanError {
    fn from(problem: PlanProblem) -> Self {
        Self { problem, step: None }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.problem)
    }
}

/// Problems of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanProblem {
    /// The bytes are not strict JSON.
    #[error("the plan is not JSON that can be read in one way only")]
    Json(#[source] JsonError),
    /// The plan exceeds a limit on bytes, steps, nesting or open arguments.
    #[error("the plan is larger than its limits")]
    Limit,
    /// A requested limit is too high.
    #[error("a plan's limits cannot be as high as that")]
    LimitRange,
    /// A member is missing, unknown or of the wrong kind.
    #[error("a member is missing, unknown or of the wrong kind")]
    Shape,
    /// The recipe is not `plan-1`.
    #[error("the plan is written by another recipe")]
    Recipe,
    /// A digest, a session id or a tool's name is outside its grammar.
    #[error("a digest, an id or a name is outside its grammar")]
    Id,
    /// The registry's version is above 2^53 - 1.
    #[error("the registry version is out of range")]
    RegistryVersion,
    /// There are no steps.
    #[error("a plan has at least one step")]
    Empty,
    /// The arguments are not an object, or contain an inexact number.
    #[error("a step's arguments are an object of exact values")]
    Args,
    /// An open place is not a JSON Pointer below the top, is repeated, lies within another one, or has no parent
    /// object.
    #[error("an argument that is left open has no place in the arguments")]
    OpenPlace,
    /// An argument has a value and is listed as open.
    #[error("an argument is either fixed or left open")]
    FixedAndOpen,
    /// The description is too long or contains an invisible character.
    #[error("a description has at most 1,024 bytes and nothing hidden")]
    Description,
    /// The number of calls of a step is 0 or too large.
    #[error("a step may be called once or more, and at most 1,000 times")]
    MaxCalls,
}

impl PlanProblem {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "PLAN_JSON",
            Self::Limit => "PLAN_LIMIT",
            Self::LimitRange => "PLAN_LIMIT_OUT_OF_RANGE",
            Self::Shape => "PLAN_SHAPE",
            Self::Recipe => "PLAN_RECIPE",
            Self::Id => "PLAN_ID",
            Self::RegistryVersion => "PLAN_REGISTRY_VERSION",
            Self::Empty => "PLAN_EMPTY",
            Self::Args => "PLAN_ARGS",
            Self::OpenPlace => "PLAN_OPEN_PLACE",
            Self::FixedAndOpen => "PLAN_FIXED_AND_OPEN",
            Self::Description => "PLAN_DESCRIPTION",
            Self::MaxCalls => "PLAN_MAX_CALLS",
        }
    }
}

impl From<JsonError> for PlanProblem {
    fn from(error: JsonError) -> Self {
        use JsonErrorKind::{TooDeep, TooLarge, TooWide};
        if matches!(error.kind(), TooLarge | TooDeep | TooWide) { Self::Limit } else { Self::Json(error) }
    }
}

/// The operator's rules refuse a step of the plan. Steps count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The tool is not disclosed to the session or does not exist.
    #[error("step {step}: the tool is not disclosed to the session")]
    Undisclosed {
        /// The step.
        step: u64,
    },
    /// An open argument is not data, for example a destination.
    #[error("step {step}: an argument that is not data is left open")]
    ControlOpen {
        /// The step.
        step: u64,
    },
    /// The fixed arguments do not fit the tool.
    #[error("step {step}: the fixed arguments do not fit the tool")]
    Args {
        /// The step.
        step: u64,
    },
}

impl CommitError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Undisclosed { .. } => "PLAN_TOOL_UNDISCLOSED",
            Self::ControlOpen { .. } => "PLAN_CONTROL_OPEN",
            Self::Args { .. } => "PLAN_ARGS_SCHEMA",
        }
    }
}

/// A plan cannot be started or amended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanUseError {
    /// The plan was made for another session.
    #[error("the plan was made for another session")]
    OtherSession,
    /// The plan was made for another goal.
    #[error("the plan was made for another goal")]
    OtherGoal,
    /// The plan was made under another version of the registry.
    #[error("the plan was made under another registry")]
    OtherRegistry,
    /// The plan is not an amendment of the running plan at its position, or is an amendment without a running plan.
    #[error("the plan does not go on from the one that runs")]
    Link,
    /// The approval is for another root.
    #[error("the amendment is not the plan that was approved")]
    NotApproved,
    /// The running plan was halted.
    #[error("the plan was halted")]
    Halted,
    /// A call of the plan is being decided.
    #[error("a call of the plan is being decided")]
    Busy,
    /// The header is not proved by the root.
    #[error("the header is not that of the plan with this root")]
    Header,
    /// The plan has the maximum number of amendments.
    #[error("the plan was amended too often")]
    TooMany,
}

impl PlanUseError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherSession => "PLAN_OTHER_SESSION",
            Self::OtherGoal => "PLAN_OTHER_GOAL",
            Self::OtherRegistry => "PLAN_OTHER_REGISTRY",
            Self::Link => "PLAN_AMENDMENT_LINK",
            Self::NotApproved => "PLAN_AMENDMENT_NOT_APPROVED",
            Self::Halted => "PLAN_HALTED",
            Self::Busy => "PLAN_BUSY",
            Self::Header => "PLAN_HEADER_UNPROVED",
            Self::TooMany => "PLAN_AMENDED_TOO_OFTEN",
        }
    }
}

/// A plan cannot be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The plan was halted.
    #[error("the plan was halted")]
    Halted,
    /// A call of the plan is being decided.
    #[error("a call of the plan is being decided")]
    Busy,
    /// Steps have not run.
    #[error("steps of the plan have not run")]
    Incomplete,
    /// An accepted call has no recorded result.
    #[error("the outcome of a step is unknown")]
    OutcomeMissing,
    /// The root of the steps is not the committed one, or an amendment lacks its link.
    #[error("root mismatch: the plan that ran is not the committed one")]
    Root,
}

impl FinishError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Halted => "PLAN_HALTED",
            Self::Busy => "PLAN_BUSY",
            Self::Incomplete => "PLAN_INCOMPLETE",
            Self::OutcomeMissing => "PLAN_OUTCOME_MISSING",
            Self::Root => "PLAN_ROOT_CHANGED",
        }
    }
}

countersign_core::coded!(PlanError, PlanProblem, CommitError, PlanUseError, FinishError);
