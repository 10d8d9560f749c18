use countersign_core::Millis;

use crate::present::present;
use crate::span;

/// The most calls that a limit can name.
const MAX_CALLS: u32 = 100_000;

/// The longest time that a rate can be counted over: one day.
const MAX_PER: Millis = Millis::from_secs(86_400);

/// Why a limit cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The number of calls is none or too many.
    #[error("a limit is 1 to 100000 calls")]
    Calls,
    /// The time that calls are counted over is none or too long.
    #[error("a rate is counted over 1ms to 1d")]
    Per,
}

/// Bounds how often one session may call: in all, and within a span of time. What is absent is not bounded.
///
/// For an agent it counts all of the session's calls, for a tool the session's calls of that tool. The gate does the
/// counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    max_calls: Option<CallCount>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
}

impl Limits {
    /// Makes limits that bound nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { max_calls: None, rate: None }
    }

    /// Bounds the calls of a whole session.
    ///
    /// # Errors
    /// [`LimitError::Calls`] outside 1 to 100,000.
    pub const fn with_max_calls(mut self, calls: u32) -> Result<Self, LimitError> {
        match CallCount::new(calls) {
            Ok(count) => self.max_calls = Some(count),
            Err(error) => return Err(error),
        }
        Ok(self)
    }

    /// Bounds the calls within a span of time.
    #[must_use]
    pub const fn with_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The most calls of a whole session.
    #[must_use]
    pub fn max_calls(&self) -> Option<u32> {
        self.max_calls.map(|count| count.0)
    }

    /// The most calls within a span of time.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Says whether neither bound is set.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.max_calls.is_none() && self.rate.is_none()
    }
}

/// Bounds calls within a span of time: at most `calls` in any `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "RateFields", into = "RateFields")]
pub struct Rate {
    calls: CallCount,
    per: Millis,
}

impl Rate {
    /// Makes one.
    ///
    /// # Errors
    /// [`LimitError::Calls`] outside 1 to 100,000 calls, [`LimitError::Per`] outside one millisecond to one day.
    pub fn new(calls: u32, per: Millis) -> Result<Self, LimitError> {
        if per.is_zero() || per > MAX_PER {
            return Err(LimitError::Per);
        }
        Ok(Self { calls: CallCount::new(calls)?, per })
    }

    /// How many calls.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls.0
    }

    /// In what span of time.
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

/// A number of calls, 1 to 100,000.
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
