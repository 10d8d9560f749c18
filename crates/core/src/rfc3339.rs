//! Times as text: RFC 3339, in one spelling.

use crate::Timestamp;

/// 9999-12-31T23:59:59.999Z, the last millisecond that RFC 3339 can express in UTC.
const LAST_MILLIS: i64 = 253_402_300_799_999;

/// Returns whether the time has a year of four digits, as RFC 3339 requires.
#[must_use]
pub fn is_sayable(time: Timestamp) -> bool {
    i64::try_from(time.as_millis()).is_ok_and(|millis| millis <= LAST_MILLIS)
}

/// Treatment of a text without an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Offset {
    /// The text ends in `Z` or an offset.
    Required,
    /// A text without an offset is in UTC.
    OrUtc,
}

/// Failure to read a time. A time before 1970 is a separate case, because its meaning differs between callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeTextError {
    /// The text is not RFC 3339, or not in the accepted spelling.
    #[error("not an RFC 3339 time")]
    Malformed,
    /// A time before 1970.
    #[error("a time before 1970")]
    BeforeEpoch,
}

/// Reads RFC 3339 (section 5.6) in one spelling: `2026-01-31T12:00:00Z`, with any number of digits after a point, or
/// with `+01:00` in place of `Z`. Capital `T` and `Z`, no spaces, no leap second, years 0000 to 9999.
///
/// Digits beyond milliseconds are truncated.
///
/// # Errors
///
/// Fails if the text has another form, or names a time before 1970.
pub fn parse(text: &str, offset: Offset) -> Result<Timestamp, TimeTextError> {
    let millis = parse_millis(text.as_bytes(), offset).ok_or(TimeTextError::Malformed)?;
    if millis > LAST_MILLIS {
        return Err(TimeTextError::Malformed);
    }
    let millis = u64::try_from(millis).map_err(|_| TimeTextError::BeforeEpoch)?;
    Timestamp::from_millis(millis).map_err(|_| TimeTextError::Malformed)
}

/// Reads an expiry or a start of validity. A time before 1970 becomes 1970, which no clock precedes: such an expiry has
/// passed, and such a start has begun.
#[must_use]
pub fn parse_bound(text: &str, offset: Offset) -> Option<Timestamp> {
    match parse(text, offset) {
        Ok(time) => Some(time),
        Err(TimeTextError::BeforeEpoch) => Some(Timestamp::EPOCH),
        Err(TimeTextError::Malformed) => None,
    }
}

/// Milliseconds since 1970, rounded down.
fn parse_millis(text: &[u8], offset: Offset) -> Option<i64> {
    let (fixed, rest) = text.split_at_checked(19)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2] = fixed
    else {
        return None;
    };
    let year = two(y1, y2)?.checked_mul(100)?.checked_add(two(y3, y4)?)?;
    let (month, day) = (two(m1, m2)?, two(d1, d2)?);
    let (hour, minute, second) = (two(h1, h2)?, two(n1, n2)?, two(s1, s2)?);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, rest) = parse_fraction(rest)?;
    let shift = parse_offset(rest, offset)?;
    let minutes = days_since_epoch(year, month, day)?
        .checked_mul(24 * 60)?
        .checked_add(hour.checked_mul(60)?)?
        .checked_add(minute)?
        .checked_sub(shift)?;
    minutes.checked_mul(60_000)?.checked_add(second.checked_mul(1_000)?)?.checked_add(fraction)
}

/// Milliseconds of `.123`, and the rest of the text; 0 without a fraction.
fn parse_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let (digits, rest) = digits.split_at_checked(count)?;
    let mut millis = 0_i64;
    for at in 0..3 {
        let digit = digits.get(at).map_or(Some(0), |b| digit(*b))?;
        millis = millis.checked_mul(10)?.checked_add(digit)?;
    }
    Some((millis, rest))
}

/// Minutes east of UTC.
fn parse_offset(text: &[u8], offset: Offset) -> Option<i64> {
    match *text {
        [b'Z'] => Some(0),
        [] if offset == Offset::OrUtc => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let east = hours.checked_mul(60)?.checked_add(minutes)?;
            if sign == b'-' { east.checked_neg() } else { Some(east) }
        }
        _ => None,
    }
}

fn digit(b: u8) -> Option<i64> {
    b.is_ascii_digit().then(|| i64::from(b.wrapping_sub(b'0')))
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    digit(tens)?.checked_mul(10)?.checked_add(digit(ones)?)
}

const fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar. Years are counted from the first of March, so that a
/// leap day is the last of its year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let (year, from_march) =
        if month > 2 { (year, month.checked_sub(3)?) } else { (year.checked_sub(1)?, month.checked_add(9)?) };
    let leap_days =
        year.div_euclid(4).checked_sub(year.div_euclid(100))?.checked_add(year.div_euclid(400))?;
    // From March on, months have 31, 30, 31, 30 and 31 days, twice, then the remainder.
    let day_of_year =
        from_march.checked_mul(153)?.checked_add(2)?.div_euclid(5).checked_add(day)?.checked_sub(1)?;
    let days = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(day_of_year)?;
    // 1970-01-01 is 719,468 days after 0000-03-01.
    days.checked_sub(719_468)
}
