use std::str::FromStr;

use countersign_core::{Clock as _, Millis, SystemClock, Timestamp};

use crate::failure::Failure;

/// The moment it is.
pub(crate) fn now() -> Result<Timestamp, Failure> {
    SystemClock::new().now().map_err(|error| Failure::new("CLOCK_UNAVAILABLE", error.to_string()))
}

/// A moment, given as such or as a span back from now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    Ago(Millis),
    At(Timestamp),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let neither = |_| "neither a span like 2h nor a moment like 2026-01-31T12:00:00Z".to_owned();
        text.parse().map(Self::Ago).or_else(|_| moment(text).map(Self::At)).map_err(neither)
    }
}

impl Since {
    pub(crate) fn moment(self) -> Result<Timestamp, Failure> {
        match self {
            Self::At(time) => Ok(time),
            Self::Ago(span) => {
                let start = now()?.as_millis().saturating_sub(span.as_millis());
                Ok(Timestamp::from_millis(start).unwrap_or(Timestamp::EPOCH))
            }
        }
    }
}

/// The last moment that has a year of four digits.
const LAST_MILLIS: u64 = 253_402_300_799_999;

/// Reads a moment in RFC 3339: `2026-01-31T12:00:00Z`, with up to three digits of a second's fraction, or with an offset
/// like `+01:00` in place of the `Z`.
///
/// The one calendar is that of [`Timestamp`]'s own text, whose order is the order of time: the moment is looked for among
/// those.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    let wrong = || "not a moment like 2026-01-31T12:00:00Z".to_owned();
    let (local, shift) = split_offset(text).ok_or_else(wrong)?;
    let (seconds, fraction) = match local.split_once('.') {
        Some((_, "")) => return Err(wrong()),
        Some(parts) => parts,
        None => (local, ""),
    };
    let local = format!("{seconds}.{fraction:0<3}Z");
    let (mut low, mut high) = (0, LAST_MILLIS);
    while low < high {
        let middle = low.midpoint(high);
        if shown(middle)? < local {
            low = middle.saturating_add(1);
        } else {
            high = middle;
        }
    }
    if shown(low)? != local {
        return Err(wrong());
    }
    let millis = low.checked_add_signed(shift).ok_or_else(wrong)?;
    Timestamp::from_millis(millis).map_err(|error| error.to_string())
}

/// The local time, and how many milliseconds have to be added to it.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix('Z') {
        return Some((local, 0));
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (sign, span) = offset.split_at_checked(1)?;
    let (hours, minutes) = span.split_once(':')?;
    let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    if !two_digits(hours) || !two_digits(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let east = hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60_000)?;
    match sign {
        "+" => Some((local, east.checked_neg()?)),
        "-" => Some((local, east)),
        _ => None,
    }
}

fn shown(millis: u64) -> Result<String, String> {
    Timestamp::from_millis(millis).map(|time| time.to_string()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn a_moment_is_read_as_it_is_written() {
        for text in ["1970-01-01T00:00:00.000Z", "2024-02-29T23:59:59.999Z", "9999-12-31T23:59:59.999Z"] {
            assert_eq!(moment(text).unwrap().to_string(), text);
        }
        assert_eq!(moment("2026-01-31T12:00:00Z").unwrap().as_millis(), 1_769_860_800_000);
        assert_eq!(moment("2026-01-31T12:00:00.5Z").unwrap().as_millis(), 1_769_860_800_500);
        assert_eq!(moment("2026-01-31T13:30:00+01:30").unwrap().as_millis(), 1_769_860_800_000);
        assert_eq!(moment("2026-01-31T10:30:00.000-01:30").unwrap().as_millis(), 1_769_860_800_000);
    }

    #[test]
    fn what_is_no_moment_is_not_taken_for_one() {
        for text in [
            "",
            "Z",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00:00+1:00",
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00 01:00",
            "1970-01-01T00:00:00+00:01",
            "2026-01-31T12:00:00+-1:00",
            "2026-02-29T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31t12:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.0000Z",
            "2026-01-31T12:00:00ZZ",
            "1969-12-31T23:59:59Z",
            "20260-01-31T12:00:00Z",
            " 2026-01-31T12:00:00Z",
            "1769860800000",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
