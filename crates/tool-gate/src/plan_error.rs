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
    /// The gate has no plan to amend, or has returned its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The session has no pinned goal, which a plan requires.
    #[error("the session has no pinned goal")]
    NoGoal,
    /// The session's contract no longer holds.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A plan cannot name the registry's version.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan is for another session, goal or registry, or does not amend the running plan.
    #[error(transparent)]
    Use(#[from] PlanUseError),
    /// The plan has a step that the operator does not allow.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A check refused the plan or its approval, or the decision cannot be recorded.
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
    /// Returns the stable code.
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

    /// Returns `true` if the plan's approval was spent before the record failed.
    #[must_use]
    pub const fn approval_spent(&self) -> bool {
        matches!(self, Self::Unrecorded)
    }
}

/// Why a gate does not return the trace of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishPlanError {
    /// The gate has no plan, or has returned its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The gate knows only the plan's root. The gate that has the whole plan has the trace.
    #[error("no trace: the gate knows only the plan's root")]
    RootOnly,
    /// The plan is over, and its end could not be recorded: its trace is not returned.
    #[error("the end of the plan could not be recorded")]
    Unrecorded,
    /// The plan is not finished, or was halted.
    #[error(transparent)]
    Unfinished(#[from] FinishError),
}

impl FinishPlanError {
    /// Returns the stable code.
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

/// Why a gate does not halt its plan, or cannot record the halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HaltPlanError {
    /// The gate has no plan, or has returned its trace already.
    #[error("no plan is under way")]
    NoPlan,
    /// The plan is halted, and the halt could not be recorded.
    #[error("the halt of the plan could not be recorded")]
    Unrecorded,
}

impl HaltPlanError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPlan => "PLAN_NOT_STARTED",
            Self::Unrecorded => "AUDIT_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(StartPlanError, FinishPlanError, HaltPlanError);
