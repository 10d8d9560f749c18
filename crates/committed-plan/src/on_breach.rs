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
#[error("a plan is halted after 1 to {} breaches", Breaches::MAX)]
#[non_exhaustive]
pub struct BreachesError;

impl BreachesError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "PLAN_BREACHES_OUT_OF_RANGE"
    }
}
