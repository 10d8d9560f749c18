/// A call is not the plan's next one. The message and the code are public; the reason is for the record only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanBreach {
    /// No plan was committed under the current registry.
    #[error("the call must be a step of a committed plan")]
    Required {
        /// The missing precondition, such as `no-plan`.
        reason: &'static str,
    },
    /// The call does not match the step, or the step is not the committed one.
    #[error("the call is not the one that the plan has here")]
    StepMismatch {
        /// The difference, such as `fixed-argument`.
        reason: &'static str,
    },
    /// The step is in the plan, but not the next one.
    #[error("it is not this step's turn in the plan")]
    OutOfOrder {
        /// The violation of the order, such as `skipped`.
        reason: &'static str,
    },
    /// The step or the plan has no calls left.
    #[error("the plan has no call left for this")]
    Exhausted {
        /// `count` for the step, `ended` for the plan.
        reason: &'static str,
    },
    /// An earlier breach or the [host](crate::PlanCursor::halt) halted the plan.
    #[error("the plan is halted")]
    Halted {
        /// Reason of the breach, or the host's reason.
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

    /// The reason, for the record. Never shown to a model.
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
