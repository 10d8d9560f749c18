use sha2::{Digest as _, Sha256};

use crate::bench::Bench;

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn canonicalize_writes_the_canonical_bytes_and_nothing_else() {
    let bench = Bench::new();
    let input = " {\"b\": 1e1, \"a\": [true, null, \"\\u00e9\\u20ac\"], \"\": {}}\n";
    let expected = "{\"\":{},\"a\":[true,null,\"\u{e9}\u{20ac}\"],\"b\":10}";
    assert_eq!(bench.feed("json canonicalize", input).done(), expected);
    assert_eq!(bench.feed("json canonicalize -", input).done(), expected);
    bench.write("in.json", input);
    assert_eq!(bench.ok("json canonicalize in.json"), expected);
}

#[test]
fn digest_is_the_sha256_of_the_canonical_bytes() {
    let bench = Bench::new();
    for input in ["{\"b\":1.0,\"a\":2}", "[]", "\"x\"", "{\"deep\":[[[[{}]]]]}"] {
        let canonical = bench.feed("json canonicalize", input).done();
        let digest = bench.feed("json digest", input).done();
        assert_eq!(digest, format!("{}\n", sha256(canonical.as_bytes())), "{input}");
        let report = bench.feed("json digest --json", input).value();
        assert_eq!(report["digest"], sha256(canonical.as_bytes()));
        assert_eq!(report["recipe"], "jcs-1");
        let report = bench.feed("json canonicalize --json", input).value();
        assert_eq!(report["canonical"], canonical);
    }
}

#[test]
fn the_recipe_decides_about_numbers_that_a_double_cannot_hold() {
    let bench = Bench::new();
    let big = "9007199254740993";
    bench.fails_with(&["json", "canonicalize"], big, 1, "JSON_INEXACT_NUMBER");
    assert_eq!(bench.feed("json canonicalize --recipe rfc8785", big).done(), "9007199254740992");
    assert_eq!(bench.feed("json digest --recipe rfc8785 --json", big).value()["recipe"], "rfc8785");
}

#[test]
fn malformed_json_has_a_code_and_a_place() {
    let bench = Bench::new();
    for (input, code) in [
        ("", "JSON_UNEXPECTED_END"),
        ("{\"a\":1,\"\\u0061\":2}", "JSON_DUPLICATE_NAME"),
        ("[1] 2", "JSON_TRAILING_DATA"),
        ("\"\\ud800\"", "JSON_LONE_SURROGATE"),
        ("1e999", "JSON_NUMBER_OVERFLOW"),
        ("\u{feff}1", "JSON_BOM"),
        ("[01]", "JSON_INVALID_NUMBER"),
    ] {
        bench.fails_with(&["json", "canonicalize"], input, 1, code);
        bench.fails_with(&["json", "digest"], input, 1, code);
    }
    assert!(bench.feed("json digest", "{\"a\":1,\"a\":2}").err.contains("byte 7"));
}

#[test]
fn limits_hold_and_can_be_set_within_reason() {
    let bench = Bench::new();
    let large = format!("[{}1]", "1,".repeat(600_000));
    bench.fails_with(&["json", "digest"], &large, 1, "JSON_TOO_LARGE");
    bench.fails_with(&["json", "digest", "--max-bytes", "9999999"], &large, 1, "JSON_TOO_WIDE");
    let set = "json digest --max-bytes 9999999 --max-width 9999999";
    assert_eq!(bench.feed(set, &large).done().len(), 65);
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    bench.fails_with(&["json", "digest"], &deep, 1, "JSON_TOO_DEEP");
    assert_eq!(bench.feed("json digest --max-depth 33", &deep).code, 0);
    bench.fails("json digest --max-depth 129", 2, "USAGE");
    bench.fails("json digest --max-bytes 99999999999", 2, "USAGE");
}

#[test]
fn missing_or_unreadable_file_has_its_own_code() {
    let bench = Bench::new();
    bench.fails("json digest no-such-file", 1, "FILE_MISSING");
    bench.fails("json digest .", 1, "FILE_UNREADABLE");
}
