use proptest::prelude::*;

use super::{jcs, refusal};
use crate::number::{Number, SHORT_DIGITS, evaluate, evaluate_short};
use crate::{Canonical, JsonError, JsonErrorKind, Limits, Recipe, read};

/// Normal form of a literal's decimal value, computed independently of the crate: the digits without zeros at either
/// end, and the power of ten of the last one.
fn normal(literal: &str) -> (bool, String, i128) {
    let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let unsigned = mantissa.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_end_matches('0');
    let power =
        exponent.parse::<i128>().unwrap() - fraction.len() as i128 + (all.len() - digits.len()) as i128;
    let digits = digits.trim_start_matches('0').to_owned();
    if digits.is_empty() { (false, digits, 0) } else { (literal.starts_with('-'), digits, power) }
}

#[test]
fn integer_is_accepted_if_its_text_is_canonical() {
    for text in ["0", "-1", "999999999999999", "1000000000000000", "9007199254740991", "9007199254740992"] {
        assert_eq!(jcs(text).unwrap().as_str(), text);
    }
    for text in ["9007199254740993", "1152921504606846976", "9223372036854775807", "18446744073709551615"] {
        assert_eq!(refusal(text.as_bytes()), Some(("JSON_INEXACT_NUMBER", 0)), "{text}");
    }
}

#[test]
fn digits_with_zeros_between_are_kept_apart() {
    assert_ne!(jcs("101").unwrap(), jcs("11").unwrap());
    assert_ne!(jcs("1000000000000001").unwrap(), jcs("100000000000001").unwrap());
    assert_eq!(jcs("10000000000000000e-16").unwrap().as_str(), "1");
    assert_eq!(jcs("1000000000000000.5").unwrap().as_str(), "1000000000000000.5");
}

#[test]
fn exponents_beyond_64_bits_saturate_and_never_wrap() {
    // 2^64 and 2^32 would wrap to exponent 0.
    assert_eq!(refusal(b"1e18446744073709551616"), Some(("JSON_NUMBER_OVERFLOW", 0)));
    assert_eq!(refusal(b"1e4294967296"), Some(("JSON_NUMBER_OVERFLOW", 0)));
    assert_eq!(refusal(b"1e-18446744073709551616"), Some(("JSON_INEXACT_NUMBER", 0)));
    assert_eq!(refusal(b"1e-4294967296"), Some(("JSON_INEXACT_NUMBER", 0)));
    assert_eq!(jcs("0e18446744073709551616").unwrap().as_str(), "0");
}

#[test]
fn numbers_of_a_hundred_thousand_digits_are_exact() {
    let one = format!("1.{}e0", "0".repeat(100_000));
    assert_eq!(jcs(&one).unwrap().as_str(), "1");
    let far = format!("0.{}1e100001", "0".repeat(100_000));
    assert_eq!(jcs(&far).unwrap().as_str(), "1");
    let near = format!("1{}e-100000", "0".repeat(100_000));
    assert_eq!(jcs(&near).unwrap().as_str(), "1");
    let third = format!("0.{}", "3".repeat(100_000));
    assert_eq!(refusal(third.as_bytes()), Some(("JSON_INEXACT_NUMBER", 0)));
}

fn pic(text: &str) -> Result<Canonical, JsonError> {
    read(text.as_bytes(), Recipe::PicCjson1, &Limits::default())
}

#[test]
fn pic_cjson_refuses_exactly_the_unsafe_integers() {
    for text in ["9007199254740991", "-9007199254740991", "0", "-1"] {
        assert_eq!(pic(text).unwrap().as_str(), text);
    }
    for text in ["9007199254740992", "-9007199254740992", "9007199254740993", "100000000000000000000"] {
        assert_eq!(pic(text).unwrap_err().code(), "JSON_UNSAFE_INTEGER", "{text}");
    }
    for (text, canonical) in [
        ("9007199254740992.0", "9007199254740992"),
        ("9007199254740993e0", "9007199254740992"),
        ("0.30000000000000001", "0.3"),
        ("1e-400", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1E20", "100000000000000000000"),
        ("1e21", "1e+21"),
    ] {
        assert_eq!(pic(text).unwrap().as_str(), canonical, "{text}");
    }
    assert_eq!(pic("1e400").unwrap_err().code(), "JSON_NUMBER_OVERFLOW");
    let long = "1".repeat(400);
    assert_eq!(pic(&long).unwrap_err().code(), "JSON_NUMBER_OVERFLOW");
    let error = pic(r#"{"n": [1, -9007199254740992]}"#).unwrap_err();
    assert_eq!((error.code(), error.offset()), ("JSON_UNSAFE_INTEGER", 10));
}

#[test]
fn pic_cjson_marks_rounded_numbers_inexact() {
    assert!(pic("0.5").unwrap().value().is_exact());
    assert!(!pic("[0.30000000000000001]").unwrap().value().is_exact());
}

/// Returns whether a literal is an integer beyond 2^53 - 1, by its digits.
fn unsafe_integer(literal: &str) -> bool {
    let digits = literal.trim_start_matches('-');
    let most = "9007199254740991";
    !literal.contains(['.', 'e', 'E'])
        && (digits.len() > most.len() || (digits.len() == most.len() && digits > most))
}

/// Literals, many of them close to a rounding boundary.
fn literals() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?",
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?",
        "-?0\\.0{0,30}[0-9]{1,18}([eE][+-]?[0-9]{1,2})?",
        "-?[1-9][0-9]{0,17}0{0,30}([eE]-?[0-9]{1,2})?",
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(|x| format!("{x:e}")),
        any::<i64>().prop_map(|x| x.to_string()),
        any::<u64>().prop_map(|x| x.to_string()),
    ]
}

/// The value of a literal of few digits without exponent, the fast way.
fn short(literal: &str) -> Option<Number> {
    let unsigned = literal.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let magnitude = format!("{whole}{fraction}");
    let magnitude = (magnitude.len() <= SHORT_DIGITS).then(|| magnitude.parse().ok()).flatten()?;
    evaluate_short(literal.starts_with('-'), magnitude, fraction.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn exactness_compares_decimal_values(literal in literals()) {
        let std_value: f64 = literal.parse().unwrap();
        match evaluate(&literal) {
            None => prop_assert!(std_value.is_infinite()),
            Some(number) => {
                prop_assert_eq!(number.value, std_value);
                prop_assert!(number.value != 0.0 || number.value.is_sign_positive());
                let mut text = String::new();
                crate::number::write_number(&mut text, number.value);
                prop_assert_eq!(number.exact, normal(&text) == normal(&literal), "{} {}", literal, text);
            }
        }
    }

    #[test]
    fn both_ways_to_evaluate_a_literal_agree(
        literal in prop_oneof![
            literals(),
            "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,18})?",
            "-?0\\.0{0,18}[0-9]{1,16}0{0,4}",
            "-?[0-9]\\.[0-9]{13,14}",
            "900719925474099[0-9]",
        ],
    ) {
        let slow = evaluate(&literal);
        let read = read(literal.as_bytes(), Recipe::Rfc8785, &Limits::default());
        if let (Some(slow), Ok(read)) = (slow, &read) {
            let mut text = String::new();
            crate::number::write_number(&mut text, slow.value);
            prop_assert_eq!(read.value().as_f64().map(f64::to_bits), Some(slow.value.to_bits()));
            prop_assert_eq!(read.value().is_exact(), slow.exact);
            prop_assert_eq!(read.as_str(), text);
        }
        if let Some(short) = short(&literal) {
            prop_assert_eq!(Some(short), slow, "{}", literal);
        }
    }

    #[test]
    fn pic_cjson_is_rfc8785_without_the_unsafe_integers(
        literal in prop_oneof![literals(), "-?900719925474099[0-9]", "-?9007199254740[0-9]{3}(\\.0)?"],
    ) {
        let rounded = read(literal.as_bytes(), Recipe::Rfc8785, &Limits::default());
        match pic(&literal) {
            Ok(canonical) => {
                prop_assert!(!unsafe_integer(&literal), "{}", literal);
                prop_assert_eq!(rounded.as_ref().map(Canonical::as_str), Ok(canonical.as_str()));
            }
            Err(error) if error.kind() == JsonErrorKind::UnsafeInteger => {
                prop_assert!(unsafe_integer(&literal), "{}", literal);
            }
            Err(error) => prop_assert_eq!(Err(error), rounded),
        }
    }

    #[test]
    fn every_finite_double_is_exact_in_its_own_text(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let mut text = String::new();
        crate::number::write_number(&mut text, value);
        let read = jcs(&text).unwrap();
        prop_assert_eq!(read.value().as_f64(), Some(value));
        prop_assert_eq!(read.as_str(), text);
    }
}
