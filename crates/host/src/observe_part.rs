//! The `[observe]` table of a configuration.

use countersign_core::rfc3339::{self, Offset};
use countersign_core::{Millis, Timestamp};
use serde::Deserialize;

use crate::error::HostError;

/// Longest time that observe mode may still last: 31 days.
pub const LONGEST: Millis = Millis::from_secs(31 * 24 * 60 * 60);

/// A shadow mode with a stated end: what only lacks an approval, a rate or a constraint runs, and is recorded as observed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObservePart {
    until: String,
}

impl ObservePart {
    /// Returns the end of the mode; `None` once it has come.
    pub(crate) fn until(&self, now: Timestamp) -> Result<Option<Timestamp>, HostError> {
        let wrong = |text: &str| HostError::new("CONFIG_OBSERVE", format!("`until` of `observe`: {text}"));
        let until = rfc3339::parse(&self.until, Offset::Required);
        let until =
            until.map_err(|_| wrong("a time with an offset expected, such as 2026-12-01T12:00:00Z"))?;
        if until.since(now) > LONGEST {
            return Err(wrong("at most 31 days from now"));
        }
        Ok(Some(until).filter(|until| now < *until))
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, ObservePart};
    use countersign_core::{Millis, Timestamp};

    fn until(text: &str, now: Timestamp) -> Result<Option<Timestamp>, &'static str> {
        ObservePart { until: text.to_owned() }.until(now).map_err(|error| error.code())
    }

    #[test]
    fn mode_has_an_end_that_is_near() {
        let end = Timestamp::from_millis(1_764_590_400_000).unwrap();
        let text = "2025-12-01T12:00:00Z";
        let before = |span: Millis| Timestamp::from_millis(end.as_millis() - span.as_millis()).unwrap();
        assert_eq!(until(text, before(LONGEST)), Ok(Some(end)));
        assert_eq!(until(text, before(Millis::new(LONGEST.as_millis() + 1).unwrap())), Err("CONFIG_OBSERVE"));
        assert_eq!(until(text, end), Ok(None));
        assert_eq!(until("forever", end), Err("CONFIG_OBSERVE"));
        assert_eq!(until("2025-12-01T12:00:00", end), Err("CONFIG_OBSERVE"));
    }
}
