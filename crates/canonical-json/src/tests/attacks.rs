//! Attacks on strict JSON. The vectors repeat those that fit a file, with code and offset.

use super::{jcs, refusal};
use crate::*;

/// Codes of the refusals, without consecutive repetitions.
fn codes(texts: &[&str]) -> Vec<&'static str> {
    let mut codes: Vec<_> =
        texts.iter().map(|text| refusal(text.as_bytes()).map_or("accepted", |(code, _)| code)).collect();
    codes.dedup();
    codes
}

#[test]
fn duplicate_names_are_refused() {
    let texts = [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"x":[{"y":{"a":1,"b":2,"a":3}}]}"#,
        "{\"\u{1f600}\":1,\"\\ud83d\\ude00\":2}",
        r#"{"\uD83D\uDE00":1,"\ud83d\ude00":2}"#,
    ];
    assert_eq!(codes(&texts), ["JSON_DUPLICATE_NAME"]);
    for text in texts {
        assert_eq!(
            read(text.as_bytes(), Recipe::Rfc8785, &Limits::hard_caps()).unwrap_err().code(),
            "JSON_DUPLICATE_NAME"
        );
    }
}

#[test]
fn lone_surrogates_are_refused() {
    let halves = [r"\ud800", r"\udfff", r"\ude00\ud83d", r"\ud800\ud800", r"\ud83dx", r"\ud83d\u0041"];
    for half in halves {
        assert_eq!(refusal(format!(r#""{half}""#).as_bytes()), Some(("JSON_LONE_SURROGATE", 1)), "{half}");
        assert_eq!(
            refusal(format!(r#"{{"{half}":1}}"#).as_bytes()),
            Some(("JSON_LONE_SURROGATE", 2)),
            "{half}"
        );
    }
}

#[test]
fn invalid_utf_8_is_refused_at_its_offset() {
    let sequences: [&[u8]; 9] = [
        b"\x80",
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xed\xa0\x80",
        b"\xed\xa0\xbd\xed\xb8\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
    ];
    for sequence in sequences {
        for (before, after) in [(&b"\""[..], &b"\""[..]), (b"{\"", b"\":1}"), (b"[1,", b"]"), (b"{}", b"")] {
            let bytes = [before, sequence, after].concat();
            assert_eq!(refusal(&bytes), Some(("JSON_INVALID_UTF8", before.len())), "{bytes:?}");
        }
    }
}

#[test]
fn utf_16_a_byte_order_mark_and_nul_are_refused() {
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    assert_eq!(refusal(&utf_16("{}")), Some(("JSON_UNEXPECTED_BYTE", 1)));
    assert_eq!(refusal(&utf_16("\u{feff}{}")), Some(("JSON_INVALID_UTF8", 0)));
    assert_eq!(refusal("\u{feff}{}".as_bytes()), Some(("JSON_BOM", 0)));
    assert_eq!(refusal(b"\0"), Some(("JSON_UNEXPECTED_BYTE", 0)));
    assert_eq!(refusal(b"{}\0"), Some(("JSON_TRAILING_DATA", 2)));
    assert_eq!(refusal(b"\"\0\""), Some(("JSON_CONTROL_CHARACTER", 1)));
}

#[test]
fn inexact_numbers_are_refused() {
    let inexact = [
        "9007199254740993",
        "18446744073709551615",
        "0.1000000000000000055511151231257827",
        "1e-400",
        "-1e-400",
    ];
    assert_eq!(codes(&inexact), ["JSON_INEXACT_NUMBER"]);
    assert_eq!(codes(&["1e400", "-1e400", "1e999999999999"]), ["JSON_NUMBER_OVERFLOW"]);
    for overflow in ["1e400", "-1e400", "1e999999999999"] {
        let error = read(overflow.as_bytes(), Recipe::Rfc8785, &Limits::hard_caps()).unwrap_err();
        assert_eq!(error.kind(), JsonErrorKind::NumberOverflow);
    }
}

#[test]
fn numbers_outside_the_grammar_are_refused() {
    assert_eq!(codes(&["NaN", "Infinity", "+1", ".5"]), ["JSON_UNEXPECTED_BYTE"]);
    assert_eq!(
        codes(&["01", "-01", "00", "-Infinity", "-NaN", "[1.]", "[1.e1]", "[1e]"]),
        ["JSON_INVALID_NUMBER"]
    );
    assert_eq!(codes(&["1.", "-", "1e", "1e+"]), ["JSON_UNEXPECTED_END"]);
}

#[test]
fn trailing_data_is_refused() {
    assert_eq!(
        codes(&["{}{}", "1 2", "[]]", "{}//", "{} /* */", "null\u{b}", "1\u{feff}"]),
        ["JSON_TRAILING_DATA"]
    );
    assert_eq!(codes(&["//\n1", "/**/1", "[/**/]", "[1,]", "{\"a\":1,}"]), ["JSON_UNEXPECTED_BYTE"]);
}

#[test]
fn raw_control_characters_are_refused() {
    for c in '\0'..' ' {
        assert_eq!(refusal(format!("\"a{c}\"").as_bytes()), Some(("JSON_CONTROL_CHARACTER", 2)), "{c:?}");
        assert_eq!(
            refusal(format!("{{\"{c}\":1}}").as_bytes()),
            Some(("JSON_CONTROL_CHARACTER", 2)),
            "{c:?}"
        );
    }
    assert!(jcs("\"\u{7f}\"").is_ok());
}

#[test]
fn depth_33_is_refused_and_depth_32_is_read() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(jcs(&nested(32)).is_ok());
    assert_eq!(refusal(nested(33).as_bytes()), Some(("JSON_TOO_DEEP", 32)));
}

#[test]
fn depth_1_000_000_does_not_overflow_the_stack() {
    // On a small stack recursion that follows the input overflows; the depth limit bounds it.
    let small = std::thread::Builder::new().stack_size(512 << 10);
    let refused = small.spawn(|| {
        let limits = Limits::hard_caps();
        [b"[".as_slice(), b"{\"a\":", b"[{\"a\":"]
            .map(|piece| read(&piece.repeat(1_000_000), Recipe::Jcs1, &limits).map_err(|e| e.code()).err())
    });
    assert_eq!(refused.unwrap().join().unwrap(), [Some("JSON_TOO_DEEP"); 3]);
}

#[test]
fn depth_128_fits_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(512 << 10);
    let walked = small.spawn(|| {
        use serde::Deserialize as _;
        let text = format!("{}{}", "[{\"a\":".repeat(64), "}]".repeat(64)).replace(":}", ":1}");
        let canonical = read(text.as_bytes(), Recipe::Jcs1, &Limits::hard_caps()).unwrap();
        let value = serde_json::Value::deserialize(canonical.value()).unwrap();
        canonical.as_str() == text
            && value.to_string().eq(&text)
            && canonical.subtree(canonical.value()) == canonical
    });
    assert!(walked.unwrap().join().unwrap());
}

#[test]
fn a_million_members_need_a_wider_limit() {
    use std::fmt::Write as _;
    let mut text = String::from("{");
    for i in 0..1_000_000_u32 {
        // Shuffled names, which the reader must sort.
        let name = i.wrapping_mul(2_654_435_761);
        write!(text, "{}\"{name:08x}\":0", if i == 0 { "" } else { "," }).unwrap();
    }
    text.push('}');
    let limits = Limits::default().bytes(64 << 20).unwrap();
    let refused = read(text.as_bytes(), Recipe::Jcs1, &limits).unwrap_err();
    assert_eq!((refused.code(), refused.offset()), ("JSON_TOO_WIDE", 1 + 65_536 * 13));
    let canonical = read(text.as_bytes(), Recipe::Jcs1, &Limits::hard_caps()).unwrap();
    assert_eq!(canonical.value().len(), 1_000_000);
    assert!(canonical.value().members().map(|(name, _)| name).is_sorted());
}

#[test]
fn names_with_long_common_prefixes_are_read() {
    // There is no hash table. The worst case is long common prefixes: 2,000 names of 500 bytes that differ at the end
    // only, in descending order.
    let members: Vec<_> = (0..2_000).rev().map(|i| format!("\"{}{i:04}\":0", "x".repeat(496))).collect();
    let canonical = jcs(&format!("{{{}}}", members.join(","))).unwrap();
    assert_eq!(canonical.value().len(), 2_000);
    assert!(canonical.value().get(&format!("{}1999", "x".repeat(496))).is_some());
}

#[test]
fn oversized_input_is_refused() {
    let bytes = vec![b'['; 100 << 20];
    assert_eq!(refusal(&bytes), Some(("JSON_TOO_LARGE", 1 << 20)));
}

#[test]
fn names_are_sorted_by_utf_16_units() {
    // By code point U+FB33 would sort before U+1F600.
    let canonical =
        jcs("{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{20ac}\":3,\"\\r\":4,\"1\":5,\"\u{80}\":6,\"\u{f6}\":7}")
            .unwrap();
    assert_eq!(
        canonical.as_str(),
        "{\"\\r\":4,\"1\":5,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}"
    );
}

#[test]
fn nfc_and_nfd_strings_stay_different() {
    assert_ne!(jcs("\"\u{e9}\"").unwrap().digest(), jcs("\"e\u{301}\"").unwrap().digest());
    assert_eq!(jcs("{\"\u{e9}\":1,\"e\u{301}\":2}").unwrap().value().len(), 2);
}

#[test]
fn missing_null_and_empty_stay_different() {
    let digests: Vec<_> =
        ["{}", r#"{"a":null}"#, r#"{"a":""}"#, r#"{"a":[]}"#, r#"{"a":{}}"#, r#"{"a":false}"#, r#"{"a":0}"#]
            .map(|text| jcs(text).unwrap().digest())
            .into();
    for (i, a) in digests.iter().enumerate() {
        assert_eq!(digests.iter().position(|b| a == b), Some(i));
    }
}

#[test]
fn arguments_may_be_any_kind_of_value() {
    for (text, kind) in [
        ("[]", Kind::Array),
        ("\"{}\"", Kind::String),
        ("0", Kind::Number),
        ("null", Kind::Null),
        ("true", Kind::Bool),
    ] {
        let value = jcs(text).unwrap();
        assert_eq!(value.value().kind(), kind);
        assert_eq!((value.value().members().len(), value.value().get("a").is_none()), (0, true));
    }
}

#[test]
fn second_reader_gets_the_digested_value() {
    use serde::Deserialize as _;
    // Known differences between readers are refused.
    for text in [r#"{"to":"a","to":"b"}"#, r#"{"n":9007199254740993}"#, r#"["\ud800"]"#, "[1,]", "{} x"] {
        assert!(jcs(text).is_err(), "{text}");
    }
    // The value read is the value of the canonical bytes, so that a second reader of those gets the same.
    let canonical = jcs("{ \"n\": 1E2, \"t\\u006f\": \"\\ud83d\\ude00\", \"z\": -0.0 }").unwrap();
    let handed_on = serde_json::Value::deserialize(canonical.value()).unwrap();
    let second_parse: serde_json::Value = serde_json::from_slice(canonical.bytes()).unwrap();
    assert_eq!(handed_on, second_parse);
    assert_eq!(to_canonical(&handed_on).unwrap().digest(), canonical.digest());
}
