use countersign_committed_plan::{CommitError, FinishError, PlanError, PlanUseError};
use countersign_registry::ContractError;

use crate::code::RejectionCode;
use crate::rejection::Refusal;

/// Why a plan cannot be started, or amended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartPlanError {
    /// The gate has a plan already, running, halted or finished.
    #[error("the gate has a plan already")]
    Started,
    /// The gate has no plan to amend, or has given out its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The session has no pinned goal that the plan could be for.
    #[error("the session has no pinned goal")]
    NoGoal,
    /// The session's contract does not hold any more.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The registry's version is not one that a plan can name.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan is for another session, goal or registry, or no amendment of the one that runs.
    #[error(transparent)]
    Use(#[from] PlanUseError),
    /// The plan has a step that the operator does not allow.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The plan's approval was refused, or what becomes of it cannot be recorded.
    #[error("{}", .0.message())]
    Refused(RejectionCode),
    /// The plan's approval is spent, and its start could not be recorded. Another try needs a new approval.
    #[error("the plan cannot be recorded, and its approval is spent")]
    Unrecorded,
}

impl From<RejectionCode> for StartPlanError {
    fn from(code: RejectionCode) -> Self {
        Self::Refused(code)
    }
}

impl From<Refusal> for StartPlanError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.code)
    }
}

impl StartPlanError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Started => "PLAN_STARTED",
            Self::NoPlan => "PLAN_NOT_STARTED",
            Self::NoGoal => "PLAN_NO_GOAL",
            Self::Contract(error) => error.code(),
            Self::Plan(error) => error.code(),
            Self::Use(error) => error.code(),
            Self::Commit(error) => error.code(),
            Self::Refused(code) => code.as_str(),
            Self::Unrecorded => RejectionCode::AuditUnavailable.as_str(),
        }
    }

    /// Whether the plan's approval was spent before the record failed.
    #[must_use]
    pub const fn approval_spent(&self) -> bool {
        matches!(self, Self::Unrecorded)
    }
}

/// Why a gate does not give out the trace of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishPlanError {
    /// The gate has no plan, or has given out its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The gate knows the plan by its root alone. The trace is with the gate that has the whole plan.
    #[error("a gate that knows a plan by its root alone has no trace of it")]
    RootOnly,
    /// The plan is over, and that could not be recorded: its trace is not given out.
    #[error("the plan is over, and the record of that could not be kept")]
    Unrecorded,
    /// The plan is not finished, or was halted.
    #[error(transparent)]
    Unfinished(#[from] FinishError),
}

impl FinishPlanError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPlan => "PLAN_NOT_STARTED",
            Self::RootOnly => "PLAN_NO_TRACE",
            Self::Unrecorded => "AUDIT_UNAVAILABLE",
            Self::Unfinished(error) => error.code(),
        }
    }
}

/// Why a gate does not halt its plan, or does and cannot say so on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HaltPlanError {
    /// The gate has no plan, or has given out its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The plan is halted, and that could not be recorded.
    #[error("the plan is halted, and the record of that could not be kept")]
    Unrecorded,
}

impl HaltPlanError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPlan => "PLAN_NOT_STARTED",
            Self::Unrecorded => "AUDIT_UNAVAILABLE",
        }
    }
}
