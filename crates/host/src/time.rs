//! The system's clock, and spans in a configuration.

use countersign_core::{Clock as _, Millis, SystemClock, Timestamp};
use serde::Deserialize;

use crate::error::HostError;

/// Returns the current time.
///
/// # Errors
/// `CLOCK_UNAVAILABLE`.
pub fn now() -> Result<Timestamp, HostError> {
    SystemClock::new().now().map_err(|error| HostError::new("CLOCK_UNAVAILABLE", error.to_string()))
}

/// A time span in text form, such as `10m`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(Millis);

impl TryFrom<String> for Span {
    type Error = countersign_core::TimeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl Span {
    /// Returns the span.
    #[must_use]
    pub const fn millis(self) -> Millis {
        self.0
    }
}
