use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::jcs;
use crate::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    tool: &'a str,
    count: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default)]
    how: How,
    #[serde(default)]
    ratio: f64,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    #[default]
    Plain,
    Times(i32),
    Pair(u8, u8),
    Named {
        a: bool,
    },
}

fn call(text: &str) -> Result<(), String> {
    let canonical = jcs(text).unwrap();
    Call::deserialize(canonical.value()).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn struct_deserialises_from_the_digested_value() {
    let canonical = jcs(r#"{"tool":"\u0073earch","count":3.0,"how":{"times":-2},"ratio":1}"#).unwrap();
    let made = Call::deserialize(canonical.value()).unwrap();
    assert_eq!(made, Call { tool: "search", count: 3, note: None, how: How::Times(-2), ratio: 1.0 });
    assert_eq!(to_canonical(&made).unwrap(), canonical);
}

#[test]
fn enum_variant_has_one_form() {
    let how = |text| How::deserialize(jcs(text).unwrap().value()).ok();
    assert_eq!(how(r#""plain""#), Some(How::Plain));
    assert_eq!(how(r#"{"pair":[1,2]}"#), Some(How::Pair(1, 2)));
    assert_eq!(how(r#"{"named":{"a":true}}"#), Some(How::Named { a: true }));
    for bad in [
        r#"{"plain":null}"#,
        r#""times""#,
        r#"{"pair":[1,2,3]}"#,
        r#"{"pair":[1]}"#,
        r#"{"pair":{"0":1}}"#,
        r#"{"named":[true]}"#,
        r#"{"times":1,"plain":null}"#,
        r#"{}"#,
        "7",
        r#"["plain"]"#,
        r#""other""#,
    ] {
        assert_eq!(how(bad), None, "{bad}");
    }
}

#[test]
fn a_struct_is_never_an_array() {
    assert_eq!(call(r#"["search",3]"#), Err("found an array, expected struct Call".to_owned()));
    assert!(call(r#"{"tool":"search","count":3,"how":{"named":[true]}}"#).is_err());
}

#[test]
fn error_names_offset_and_expectation_only() {
    for (text, error) in [
        (
            r#"{"tool":"t","count":4711}"#,
            "found a whole number outside of what is allowed, expected u8 in the member at byte 12",
        ),
        (
            r#"{"tool":"t","count":-4711}"#,
            "found a whole number outside of what is allowed, expected u8 in the member at byte 12",
        ),
        (
            r#"{"tool":"t","count":0.4711}"#,
            "found a number that is not whole, expected u8 in the member at byte 12",
        ),
        (r#"{"tool":"t","count":"4711"}"#, "found a string, expected u8 in the member at byte 12"),
        (r#"{"tool":null,"count":1}"#, "found null, expected a borrowed string in the member at byte 1"),
        (r#"{"tool":"t"}"#, "member `count` is missing"),
        (
            r#"{"tool":"t","count":1,"x4711":2}"#,
            "found an unknown member, expected `tool`, `count`, `note`, `how`, `ratio` in the member at byte 22",
        ),
        (
            r#"{"tool":"t","count":1,"how":"x4711"}"#,
            "found an unknown variant, expected `plain`, `times`, `pair`, `named` in the member at byte 22",
        ),
        (
            r#"{"tool":"t","count":1,"how":{"named":{"a":4711}}}"#,
            "found a whole number, expected a boolean in the member at byte 38",
        ),
    ] {
        assert_eq!(call(text), Err(error.to_owned()), "{text}");
        assert!(!error.contains("4711"));
    }
    let error = Call::deserialize(jcs("7").unwrap().value()).unwrap_err();
    assert_eq!((error.code(), error.offset()), ("JSON_UNEXPECTED_SHAPE", None));
}

#[test]
fn missing_null_and_empty_stay_different_for_types() {
    let notes = |text| BTreeMap::<String, Option<String>>::deserialize(jcs(text).unwrap().value()).unwrap();
    assert_eq!(notes("{}"), BTreeMap::new());
    assert_eq!(notes(r#"{"a":null}"#), BTreeMap::from([("a".to_owned(), None)]));
    assert_eq!(notes(r#"{"a":""}"#), BTreeMap::from([("a".to_owned(), Some(String::new()))]));
}

#[test]
fn tuples_have_their_length() {
    let pair = |text| <(u8, u8)>::deserialize(jcs(text).unwrap().value()).is_ok();
    assert!(pair("[1,2]"));
    assert!(!pair("[1]") && !pair("[1,2,3]") && !pair("{}"));
}

#[test]
fn numbers_come_in_the_narrowest_form() {
    let value = |text| serde_json::Value::deserialize(jcs(text).unwrap().value()).unwrap();
    assert!(
        value("1e3").is_u64() && value("-1.0").is_i64() && value("0.5").is_f64() && value("1e20").is_f64()
    );
    assert_eq!(value("-0.0").to_string(), "0");
}

#[test]
fn own_values_are_canonicalised() {
    assert_eq!(to_canonical(&[1.0, 0.5]).unwrap().as_str(), "[1,0.5]");
    assert_eq!(to_canonical(&u64::MAX).unwrap_err().code(), "JSON_INEXACT_NUMBER");
    assert_eq!(to_canonical(&BTreeMap::from([(vec![1], 2)])).unwrap_err().code(), "JSON_NOT_SERIALIZABLE");
    assert_eq!(to_canonical("\u{1}").unwrap().as_str(), "\"\\u0001\"");
}

proptest::proptest! {
    #[test]
    fn every_finite_double_of_ours_has_a_canonical_form(bits: u64) {
        let value = f64::from_bits(bits);
        proptest::prop_assume!(value.is_finite());
        proptest::prop_assert_eq!(to_canonical(&value).unwrap().value().as_f64(), Some(value));
    }
}
