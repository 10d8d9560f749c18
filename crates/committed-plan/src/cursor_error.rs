/// Why a plan cannot be started, or taken in the place of another.
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
    /// The plan is not an amendment of the one that runs, at the place where it stands; or it is one, and none runs.
    #[error("the plan does not go on from the one that runs")]
    Link,
    /// Another root was approved.
    #[error("the amendment is not the plan that was approved")]
    NotApproved,
    /// The plan that runs was halted.
    #[error("the plan was halted")]
    Halted,
    /// A call of the plan is being decided.
    #[error("a call of the plan is being decided")]
    Busy,
    /// The header is not that of the plan with the root.
    #[error("the header is not that of the plan with this root")]
    Header,
    /// The plan was amended as often as it can be.
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

/// Why a plan is not finished.
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
    /// A call was accepted, and nobody said what came of it.
    #[error("the outcome of a step is not known")]
    OutcomeMissing,
    /// The steps do not have the root that was committed, or the amendments are not linked to each other.
    #[error("the plan does not have its root any more")]
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
