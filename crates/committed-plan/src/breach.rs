/// Why a call is not the plan's next one. The message and the code are for everybody; the reason is for the record alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanBreach {
    /// There is no plan, or none that was committed under the registry of this moment.
    #[error("the call must be a step of a committed plan")]
    Required {
        /// What is missing, such as `no-plan`.
        reason: &'static str,
    },
    /// The call is another one than the step is for, or the step is not the one that was committed.
    #[error("the call is not the one that the plan has here")]
    StepMismatch {
        /// What differs, such as `fixed-argument`.
        reason: &'static str,
    },
    /// The step is in the plan, and it is not its turn.
    #[error("it is not this step's turn in the plan")]
    OutOfOrder {
        /// What is out of order, such as `skipped`.
        reason: &'static str,
    },
    /// The step, or the plan, has had all its calls.
    #[error("the plan has no call left for this")]
    Exhausted {
        /// What has run out: `count` or `ended`.
        reason: &'static str,
    },
    /// The plan was halted, by an earlier breach or by its [host](crate::PlanCursor::halt).
    #[error("the plan is halted")]
    Halted {
        /// Reason of the halt: that of the breach, or the host's.
        reason: &'static str,
    },
}

impl PlanBreach {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Required { .. } => "PLAN_REQUIRED",
            Self::StepMismatch { .. } => "PLAN_STEP_MISMATCH",
            Self::OutOfOrder { .. } => "PLAN_OUT_OF_ORDER",
            Self::Exhausted { .. } => "PLAN_EXHAUSTED",
            Self::Halted { .. } => "PLAN_HALTED",
        }
    }

    /// What is wrong, for the record. Never for a model.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Required { reason }
            | Self::StepMismatch { reason }
            | Self::OutOfOrder { reason }
            | Self::Exhausted { reason }
            | Self::Halted { reason } => reason,
        }
    }
}
