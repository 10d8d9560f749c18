use std::fmt;
use std::str::FromStr;

use countersign_core::{CallId, OperatorId};

use crate::error::PendingError;

/// Longest reason, in bytes.
const MAX_REASON: usize = 200;

/// Reason that a person gave for a denial: 1 to 200 bytes of any text. The agent reads it, so it must hold no secret.
/// Escape it before it reaches a terminal.
#[derive(Clone, PartialEq, Eq)]
pub struct DenialReason(Box<str>);

impl DenialReason {
    /// Checks the length of a reason.
    ///
    /// # Errors
    /// [`PendingError::Reason`] for an empty text or more than 200 bytes.
    pub fn new(text: &str) -> Result<Self, PendingError> {
        let fits = (1..=MAX_REASON).contains(&text.len());
        if fits { Ok(Self(text.into())) } else { Err(PendingError::Reason) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DenialReason {
    type Err = PendingError;

    fn from_str(text: &str) -> Result<Self, PendingError> {
        Self::new(text)
    }
}

impl fmt::Debug for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DenialReason({:?})", self.0)
    }
}

/// Denial of an act that is still in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingDenial {
    /// Id of the denied question.
    pub id: CallId,
    /// Operator who denied it.
    pub by: OperatorId,
    /// Reason, if the operator gave one.
    pub reason: Option<DenialReason>,
}

impl PendingDenial {
    /// Creates a denial.
    #[must_use]
    pub const fn new(id: CallId, by: OperatorId, reason: Option<DenialReason>) -> Self {
        Self { id, by, reason }
    }
}
