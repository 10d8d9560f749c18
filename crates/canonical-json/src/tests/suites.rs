use std::path::{Path, PathBuf};

use crate::number::write_number;
use crate::*;

/// Folder of the public suites. A test that is run without it fails.
pub(super) fn suites() -> PathBuf {
    let folder = std::env::var_os("COUNTERSIGN_VECTORS")
        .expect("COUNTERSIGN_VECTORS names the folder of public suites");
    PathBuf::from(folder)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn json_test_suite_holds() {
    let (mut accepted, mut refused, mut free) = (0, 0, 0);
    for file in files(&suites().join("json-test-suite/test_parsing")) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&file).unwrap();
        for recipe in Recipe::ALL {
            let result = read(&bytes, recipe, &Limits::hard_caps());
            match name.split('_').next().unwrap() {
                // Stricter than the suite: a repeated name is refused, although JSON's grammar allows it.
                "y" if name.starts_with("y_object_duplicated_key") => {
                    assert_eq!(result.unwrap_err().code(), "JSON_DUPLICATE_NAME", "{name}");
                    refused += 1;
                }
                "y" => {
                    result.unwrap_or_else(|e| panic!("{name}, {recipe}: {e}"));
                    accepted += 1;
                }
                "n" => {
                    result.expect_err(&name);
                    refused += 1;
                }
                "i" => free += 1,
                other => panic!("{name} begins with {other}"),
            }
        }
    }
    println!("{accepted} accepted, {refused} refused, {free} free");
    assert!(accepted >= 180 && refused >= 370 && free >= 60);
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn rfc_8785_inputs_become_its_outputs() {
    let folder = suites().join("rfc8785/testdata");
    let inputs = files(&folder.join("input"));
    assert!(inputs.len() >= 6);
    for input in inputs {
        let canonical = read(&std::fs::read(&input).unwrap(), Recipe::Rfc8785, &Limits::hard_caps()).unwrap();
        let name = input.file_name().unwrap();
        assert_eq!(canonical.bytes(), std::fs::read(folder.join("output").join(name)).unwrap(), "{name:?}");
        let hex = std::fs::read_to_string(folder.join("outhex").join(name).with_extension("txt")).unwrap();
        let listed: Vec<u8> = hex.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
        assert_eq!(canonical.bytes(), listed, "{name:?}");
    }
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn ten_thousand_listed_doubles_print_as_in_ecmascript() {
    let list = std::fs::read_to_string(suites().join("rfc8785/es6testfile-10k.txt")).unwrap();
    let mut lines = 0;
    for line in list.lines() {
        let (bits, text) = line.split_once(',').unwrap();
        let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        let mut printed = String::new();
        write_number(&mut printed, value);
        assert_eq!(printed, text, "{bits}");
        assert_eq!(jcs(text).as_str(), text, "its own text is exact");
        lines += 1;
    }
    assert_eq!(lines, 10_000);
}

fn jcs(text: &str) -> Canonical {
    super::jcs(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Prints a finite double by ECMA-262, `Number::toString`, from the standard library's shortest digits.
fn second_printer(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let shortest = format!("{:e}", value.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap();
    let digits = even_of_two(&mantissa.replace('.', ""), value.abs());
    let k = i32::try_from(digits.len()).unwrap();
    let n = exponent.parse::<i32>().unwrap() + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap());
    let unsigned = if k <= n && n <= 21 {
        format!("{digits}{}", zeros(n - k))
    } else if 0 < n && n <= 21 {
        let (whole, fraction) = digits.split_at(usize::try_from(n).unwrap());
        format!("{whole}.{fraction}")
    } else if -6 < n && n <= 0 {
        format!("0.{}{digits}", zeros(-n))
    } else {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if n > 0 { "+" } else { "-" };
        format!("{first}{point}{rest}e{sign}{}", (n - 1).abs())
    };
    if value < 0.0 { format!("-{unsigned}") } else { unsigned }
}

/// Of two equally near shortest texts ECMAScript prints the even one (ECMA-262, `Number::toString`, note 2; RFC 8785,
/// appendix B, "Round to even"), the standard library the upper one.
fn even_of_two(digits: &str, value: f64) -> String {
    let significant =
        |count: usize| format!("{value:.*e}", count - 1).split_once('e').unwrap().0.replace('.', "");
    let one_more = significant(digits.len() + 1);
    // 60 digits are more than a value between two shortest texts has.
    let half = one_more.ends_with('5') && significant(60).trim_end_matches('0') == one_more;
    let number: u64 = digits.parse().unwrap();
    if half && number % 2 == 1 { (number - 1).to_string() } else { digits.to_owned() }
}

#[test]
fn the_second_printer_knows_the_edges() {
    for (value, text) in [
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (-0.0, "0"),
        (-123.456, "-123.456"),
        (5e-324, "5e-324"),
        (f64::from_bits(0x4314_3ff3_c1cb_0959), "1424953923781206.2"),
        (f64::MAX, "1.7976931348623157e+308"),
    ] {
        assert_eq!(second_printer(value), text);
    }
}

fn compare_printers(count: usize) {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut compared = 0;
    let mut printed = String::new();
    while compared < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = f64::from_bits(state);
        if !value.is_finite() {
            continue;
        }
        printed.clear();
        write_number(&mut printed, value);
        assert_eq!(printed, second_printer(value), "{state:016x}");
        compared += 1;
    }
}

#[test]
fn ten_thousand_random_doubles_print_as_in_ecmascript() {
    compare_printers(10_000);
}

#[test]
#[ignore = "takes about a minute"]
fn ten_million_random_doubles_print_as_in_ecmascript() {
    compare_printers(10_000_000);
}
