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

/// Response of a plan to a call that is not its next one. Either way the call is refused.
///
/// ```
/// use countersign_committed_plan::{Breaches, OnBreach};
/// assert_eq!(OnBreach::default(), OnBreach::Halt);
/// assert_eq!(OnBreach::Refuse(Breaches::default()), OnBreach::Refuse(Breaches::new(8)?));
/// # Ok::<(), countersign_committed_plan::BreachesError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnBreach {
    /// The first such call halts the plan.
    #[default]
    Halt,
    /// The plan keeps its position, and its next call still passes. The last of this number of breaches halts the plan.
    Refuse(Breaches),
}

impl OnBreach {
    /// Number of the breach that halts.
    pub(crate) const fn limit(self) -> u32 {
        match self {
            Self::Halt => 1,
            Self::Refuse(breaches) => breaches.get(),
        }
    }
}

/// Number of breaches that halt a plan, counted over its amendments: 1 to 1,000, 8 by default.
///
/// The number is small, because each breach lets the caller probe for the plan's next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaches(u32);

impl Breaches {
    /// The largest number.
    pub const MAX: u32 = 1_000;

    /// Validates a number of breaches.
    ///
    /// # Errors
    /// [`BreachesError`] for 0 and above [`MAX`](Self::MAX).
    pub const fn new(breaches: u32) -> Result<Self, BreachesError> {
        if breaches == 0 || breaches > Self::MAX { Err(BreachesError) } else { Ok(Self(breaches)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Breaches {
    fn default() -> Self {
        Self(8)
    }
}

/// A number of breaches is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("number of breaches out of range: 1 to {} expected", Breaches::MAX)]
#[non_exhaustive]
pub struct BreachesError;

impl BreachesError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "PLAN_BREACHES_OUT_OF_RANGE"
    }
}

countersign_core::coded!(PlanBreach, BreachesError);
