use countersign_core::{Clock as _, SystemClock, Timestamp};

use crate::failure::Failure;

/// The moment it is.
pub(crate) fn now() -> Result<Timestamp, Failure> {
    SystemClock::new().now().map_err(|error| Failure::new("CLOCK_UNAVAILABLE", error.to_string()))
}
