use std::str::FromStr;

use countersign_core::rfc3339::{self, Offset};
use countersign_core::{Millis, Timestamp};

use crate::failure::Failure;

pub(crate) use countersign_host::time::now;

/// A time, given directly or as a span before now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    Ago(Millis),
    At(Timestamp),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let neither = |_| "not a time span such as 2h or a time such as 2026-01-31T12:00:00Z".to_owned();
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

/// Parses an RFC 3339 time with an offset.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    let wrong = |_| "not a time such as 2026-01-31T12:00:00Z".to_owned();
    rfc3339::parse(text, Offset::Required).map_err(wrong)
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
    fn malformed_time_is_refused() {
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
