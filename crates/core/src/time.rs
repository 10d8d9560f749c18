use std::fmt;
use std::time::Duration;

/// Largest time or span: 2^53 - 1 ms, so that every value is exact in JSON (RFC 8259, section 6).
const MAX_MILLIS: u64 = (1 << 53) - 1;

/// Invalid time or span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The value is above 2^53 - 1 milliseconds.
    #[error("time is out of range")]
    OutOfRange,
    /// The text is not a whole number with one of the units `ms`, `s`, `m`, `h`, `d`.
    #[error("invalid time span: whole number and unit (ms, s, m, h or d) expected")]
    Span,
}

/// A point in time, in whole milliseconds since 1970-01-01T00:00:00Z, 0 to 2^53 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// Creates a timestamp from milliseconds since the epoch.
    ///
    /// # Errors
    /// [`TimeError::OutOfRange`] above 2^53 - 1.
    pub const fn from_millis(millis: u64) -> Result<Self, TimeError> {
        if millis > MAX_MILLIS { Err(TimeError::OutOfRange) } else { Ok(Self(millis)) }
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time `span` later.
    ///
    /// # Errors
    /// [`TimeError::OutOfRange`] if the result is above 2^53 - 1.
    pub const fn checked_add(self, span: Millis) -> Result<Self, TimeError> {
        match self.0.checked_add(span.0) {
            Some(millis) => Self::from_millis(millis),
            None => Err(TimeError::OutOfRange),
        }
    }

    /// Returns the time `span` later, at most 2^53 - 1.
    #[must_use]
    pub const fn saturating_add(self, span: Millis) -> Self {
        let millis = self.0.saturating_add(span.0);
        Self(if millis > MAX_MILLIS { MAX_MILLIS } else { millis })
    }

    /// Returns the span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl TryFrom<u64> for Timestamp {
    type Error = TimeError;
    fn try_from(millis: u64) -> Result<Self, TimeError> {
        Self::from_millis(millis)
    }
}

impl From<Timestamp> for u64 {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}

/// RFC 3339 in UTC with milliseconds, in the proleptic Gregorian calendar: `2026-01-31T12:00:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        // Howard Hinnant's civil_from_days, over eras of 400 years that begin on the first of March.
        let shifted = days.saturating_add(719_468);
        let (era, doe) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let leap_days = doe.div_euclid(1_460).saturating_add(doe.div_euclid(146_096));
        let yoe = doe.saturating_add(doe.div_euclid(36_524)).saturating_sub(leap_days).div_euclid(365);
        let year_start =
            yoe.saturating_mul(365).saturating_add(yoe.div_euclid(4)).saturating_sub(yoe.div_euclid(100));
        let doy = doe.saturating_sub(year_start);
        let mp = doy.saturating_mul(5).saturating_add(2).div_euclid(153);
        let day =
            doy.saturating_sub(mp.saturating_mul(153).saturating_add(2).div_euclid(5)).saturating_add(1);
        let month = if mp < 10 { mp.saturating_add(3) } else { mp.saturating_sub(9) };
        let year = era.saturating_mul(400).saturating_add(yoe).saturating_add(u64::from(month <= 2));
        let (hour, minute) = (rest.div_euclid(3_600_000), rest.div_euclid(60_000).rem_euclid(60));
        let (second, milli) = (rest.div_euclid(1_000).rem_euclid(60), rest.rem_euclid(1_000));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// A span of time in whole milliseconds, 0 to 2^53 - 1. Text forms: `250ms`, `60s`, `5m`, `1h`, `30d`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct Millis(u64);

impl Millis {
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// Creates a span of milliseconds.
    ///
    /// # Errors
    /// [`TimeError::OutOfRange`] above 2^53 - 1.
    pub const fn new(millis: u64) -> Result<Self, TimeError> {
        if millis > MAX_MILLIS { Err(TimeError::OutOfRange) } else { Ok(Self(millis)) }
    }

    /// Creates a span of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u32) -> Self {
        // INVARIANT: (2^32 - 1) * 1000 is below 2^53.
        Self((seconds as u64).saturating_mul(1_000))
    }

    /// Creates a span of milliseconds, without the range check that 32 bits do not need.
    #[must_use]
    pub const fn from_millis(millis: u32) -> Self {
        Self(millis as u64)
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns whether the span is empty.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl TryFrom<u64> for Millis {
    type Error = TimeError;
    fn try_from(millis: u64) -> Result<Self, TimeError> {
        Self::new(millis)
    }
}

/// Whole milliseconds; a fraction is cut off.
impl TryFrom<Duration> for Millis {
    type Error = TimeError;
    fn try_from(span: Duration) -> Result<Self, TimeError> {
        Self::new(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for u64 {
    fn from(span: Millis) -> Self {
        span.0
    }
}

impl std::str::FromStr for Millis {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (Some(number), Some(unit)) = (text.get(..digits), text.get(digits..)) else {
            return Err(TimeError::Span);
        };
        let scale = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(TimeError::Span),
        };
        if number.is_empty() {
            return Err(TimeError::Span);
        }
        let count: u64 = number.parse().map_err(|_| TimeError::OutOfRange)?;
        count.checked_mul(scale).map_or(Err(TimeError::OutOfRange), Self::new)
    }
}

/// A whole number of the largest unit that divides the span: `90s`, `2m`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (scale, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
            if self.0 != 0 && self.0.is_multiple_of(scale) {
                return write!(f, "{}{unit}", self.0.div_euclid(scale));
            }
        }
        write!(f, "{}ms", self.0)
    }
}
