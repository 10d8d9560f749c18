use proptest::prelude::*;

use crate::Timestamp;
use crate::rfc3339::{Offset, TimeTextError, parse, parse_bound};

fn millis(text: &str) -> Result<u64, TimeTextError> {
    parse(text, Offset::Required).map(Timestamp::as_millis)
}

#[test]
fn known_moments_are_read() {
    for (text, expected) in [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("2000-02-29T00:00:00Z", 951_782_400_000),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T12:00:00+00:00", 1_769_860_800_000),
        ("2026-01-31T12:00:00-00:00", 1_769_860_800_000),
        ("2026-01-31T17:29:59+05:30", 1_769_860_799_000),
        ("2096-02-29T23:59:59.999Z", 3_981_398_399_999),
        ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ] {
        assert_eq!(millis(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_fraction_of_any_length_is_cut_off_at_the_millisecond() {
    for (fraction, expected) in [(".1", 100), (".12", 120), (".123", 123), (".1239", 123), (".000999", 0)] {
        assert_eq!(millis(&format!("1970-01-01T00:00:00{fraction}Z")), Ok(expected));
    }
    assert_eq!(millis(&format!("1970-01-01T00:00:01.{}Z", "9".repeat(10_000))), Ok(1_999));
}

#[test]
fn leap_years_are_those_of_the_gregorian_calendar() {
    for (year, leap) in [(1996, true), (2000, true), (2023, false), (2024, true), (2100, false), (2400, true)]
    {
        assert_eq!(millis(&format!("{year}-02-29T00:00:00Z")).is_ok(), leap, "{year}");
    }
    assert_eq!(millis("1900-02-29T00:00:00Z"), Err(TimeTextError::Malformed));
}

#[test]
fn the_last_day_of_each_month_is_known() {
    let days = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, days) in (1..).zip(days) {
        assert!(millis(&format!("2026-{month:02}-{days:02}T00:00:00Z")).is_ok());
        assert!(millis(&format!("2026-{month:02}-{:02}T00:00:00Z", days + 1)).is_err());
    }
}

#[test]
fn other_spellings_of_a_time_are_refused() {
    for text in [
        "",
        "2026-01-31",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31t12:00:00Z",
        "2026-01-31T12:00:00z",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00Z\n",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+01:60",
        "2026-01-31T12:00:00\u{2212}01:00",
        "2026-01-31T12:00:00Z+01:00",
        "2026-01-31T24:00:00Z",
        "2026-01-31T23:60:00Z",
        "2026-06-30T23:59:60Z",
        "2026-00-31T12:00:00Z",
        "2026-13-31T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-1-31T12:00:00Z",
        "+026-01-31T12:00:00Z",
        "20260131T120000Z",
        "2026-W05-6T12:00:00Z",
        "２026-01-31T12:00:00Z",
        "12026-01-31T12:00:00Z",
    ] {
        assert_eq!(millis(text), Err(TimeTextError::Malformed), "{text:?}");
    }
}

#[test]
fn offset_beyond_the_year_9999_is_refused() {
    assert_eq!(millis("9999-12-31T23:59:59-00:01"), Err(TimeTextError::Malformed));
    assert_eq!(millis("9999-12-31T23:59:59+00:01"), Ok(253_402_300_739_000));
}

#[test]
fn bound_before_1970_becomes_1970() {
    for text in [
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:59:59+01:00",
        "0001-01-01T00:00:00Z",
        "0000-02-29T00:00:00Z",
    ] {
        assert_eq!(millis(text), Err(TimeTextError::BeforeEpoch), "{text}");
        assert_eq!(parse_bound(text, Offset::Required), Some(Timestamp::EPOCH), "{text}");
    }
    assert_eq!(parse_bound("1969-02-29T00:00:00Z", Offset::Required), None);
}

#[test]
fn an_offset_may_be_missing_only_where_that_is_said() {
    assert_eq!(
        parse("2026-01-31T12:00:00.5", Offset::OrUtc).map(Timestamp::as_millis),
        Ok(1_769_860_800_500)
    );
    assert_eq!(parse("2026-01-31T12:00:00.5", Offset::Required), Err(TimeTextError::Malformed));
    assert_eq!(
        parse("2026-01-31T12:00:00+01:00", Offset::OrUtc).map(Timestamp::as_millis),
        Ok(1_769_857_200_000)
    );
}

proptest! {
    #[test]
    fn written_timestamp_is_read_back(millis in 0_u64..=253_402_300_799_999) {
        let time = Timestamp::from_millis(millis).unwrap();
        prop_assert_eq!(parse(&time.to_string(), Offset::Required), Ok(time));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9TZ:.+ -]{0,40}") {
        if let Ok(time) = parse(&text, Offset::Required) {
            prop_assert!(time.as_millis() <= 253_402_300_799_999);
        }
    }
}
