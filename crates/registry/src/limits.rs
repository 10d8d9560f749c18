use countersign_core::Millis;

use crate::fields::{present, span};

/// Highest limit, in calls.
const MAX_CALLS: u32 = 100_000;

/// Longest window of a rate: one day.
const MAX_PER: Millis = Millis::from_secs(86_400);

/// Failure to create a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The number of calls is 0 or too high.
    #[error("a limit is 1 to 100000 calls")]
    Calls,
    /// The window is 0 or too long.
    #[error("a rate is counted over 1ms to 1d")]
    Per,
}

/// Call limits of one session: in total, and within a time window. An absent limit sets no bound.
///
/// For an agent they count all calls of the session, for a tool the session's calls of that tool. The gate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    max_calls: Option<CallCount>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
}

impl Limits {
    /// Returns limits without any bound.
    #[must_use]
    pub const fn none() -> Self {
        Self { max_calls: None, rate: None }
    }

    /// Creates limits of the calls in a session, and of the calls within a time window.
    ///
    /// # Errors
    /// [`LimitError::Calls`] if `max_calls` is outside 1 to 100,000.
    pub fn new(max_calls: Option<u32>, rate: Option<Rate>) -> Result<Self, LimitError> {
        Ok(Self { max_calls: max_calls.map(CallCount::new).transpose()?, rate })
    }

    /// Maximum number of calls in a session.
    #[must_use]
    pub fn max_calls(&self) -> Option<u32> {
        self.max_calls.map(|count| count.0)
    }

    /// Maximum number of calls within a time window.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Returns the same limits without the rate.
    #[must_use]
    pub const fn without_rate(&self) -> Self {
        Self { max_calls: self.max_calls, rate: None }
    }

    /// Returns `true` if neither limit is set.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.max_calls.is_none() && self.rate.is_none()
    }
}

/// Rate limit: at most `calls` in any window of length `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "RateFields", into = "RateFields")]
pub struct Rate {
    calls: CallCount,
    per: Millis,
}

impl Rate {
    /// Creates a rate.
    ///
    /// # Errors
    /// [`LimitError::Calls`] outside 1 to 100,000 calls, [`LimitError::Per`] outside one millisecond to one day.
    pub fn new(calls: u32, per: Millis) -> Result<Self, LimitError> {
        if per.is_zero() || per > MAX_PER {
            return Err(LimitError::Per);
        }
        Ok(Self { calls: CallCount::new(calls)?, per })
    }

    /// Maximum number of calls in a window.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls.0
    }

    /// Length of the window.
    #[must_use]
    pub const fn per(&self) -> Millis {
        self.per
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RateFields {
    calls: u32,
    #[serde(with = "span")]
    per: Millis,
}

impl TryFrom<RateFields> for Rate {
    type Error = LimitError;
    fn try_from(fields: RateFields) -> Result<Self, LimitError> {
        Self::new(fields.calls, fields.per)
    }
}

impl From<Rate> for RateFields {
    fn from(rate: Rate) -> Self {
        Self { calls: rate.calls(), per: rate.per }
    }
}

/// Number of calls, 1 to 100,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u32", into = "u32")]
struct CallCount(u32);

impl CallCount {
    const fn new(calls: u32) -> Result<Self, LimitError> {
        if calls == 0 || calls > MAX_CALLS { Err(LimitError::Calls) } else { Ok(Self(calls)) }
    }
}

impl TryFrom<u32> for CallCount {
    type Error = LimitError;
    fn try_from(calls: u32) -> Result<Self, LimitError> {
        Self::new(calls)
    }
}

impl From<CallCount> for u32 {
    fn from(count: CallCount) -> Self {
        count.0
    }
}
