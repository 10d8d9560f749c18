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
    #[error("the outcome of a step is not known")]
    OutcomeMissing,
    /// The root of the steps is not the committed one, or an amendment lacks its link.
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
