//! The reader of `canonical-json` beside a plain one that shares no code with it, on random documents: canonical text, or
//! code and offset of the refusal.
//!
//! `COUNTERSIGN_DOCUMENTS` sets the number of documents of the long comparison, 200,000 without it. Ten million take some
//! minutes: `COUNTERSIGN_DOCUMENTS=10000000 cargo test --release -p countersign-testing --test second_reader -- --ignored`.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a generator of tests, which fails by panicking"
)]

use std::collections::BTreeMap;

use countersign::canonical_json::{Limits, Reader, read};
use countersign::core::Recipe;
use countersign_testing::{plain_jcs, structured_args};

/// Pseudo-random documents in odd spellings.
struct Documents(u64);

const CHARACTERS: [&str; 24] = [
    "a",
    "b",
    "z",
    " ",
    "é",
    "€",
    "\u{7f}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{fb33}",
    "\u{ffff}",
    "\u{10000}",
    "😀",
    "\\n",
    "\\\"",
    "\\\\",
    "\\/",
    "\\u0061",
    "\\u00E9",
    "\\u001f",
    "\\u0008",
    "\\ud83d\\ude00",
    "\\uFB33",
    "\\u0000",
];

const NUMBERS: [&str; 28] = [
    "0",
    "-0",
    "-0.0",
    "0e5",
    "1e0",
    "1E+2",
    "10.0",
    "0.1e1",
    "1e21",
    "1e20",
    "1e-6",
    "1e-7",
    "0.000001",
    "0.0000001",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "999999999999999",
    "1e308",
    "1e309",
    "5e-324",
    "2e-324",
    "1.7976931348623157e308",
    "0.30000000000000004",
    "0.1000000000000000055511151231257827",
    "123456789012345.6",
    "1e400",
];

const BYTES: &[u8] = b"\"\\{}[]:, \n\t0123456789-+.eEaunltrfsx\x00\x1f\x7f\x80\xc3\xed\xf0\xff";

impl Documents {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    fn document(&mut self) -> Vec<u8> {
        let mut text = String::new();
        self.blank(&mut text);
        self.value(0, &mut text);
        self.blank(&mut text);
        let mut bytes = text.into_bytes();
        if self.roll(2) == 0 {
            for _ in 0..=self.roll(3) {
                self.mutate(&mut bytes);
            }
        }
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let (at, to) = (self.roll(bytes.len() + 1), self.roll(bytes.len() + 1));
        let byte = BYTES[self.roll(BYTES.len())];
        match self.roll(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 => drop(bytes.drain(at.min(to)..at.max(to).min(at.min(to) + 4))),
            3 => {
                let part = bytes[at.min(to)..at.max(to)].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
        }
    }

    fn blank(&mut self, out: &mut String) {
        out.push_str(self.pick(&["", "", "", "", "", "", " ", "\n  ", "\t\r\n"]));
    }

    fn value(&mut self, depth: usize, out: &mut String) {
        match self.roll(if depth < 5 { 9 } else { 6 }) {
            0 => out.push_str(self.pick(&["null", "true", "false"])),
            1 | 2 => self.string(12, out),
            3..=5 => self.number(out),
            6 => {
                out.push('[');
                for i in 0..self.roll(5) {
                    out.push_str(if i > 0 { "," } else { "" });
                    self.blank(out);
                    self.value(depth + 1, out);
                    self.blank(out);
                }
                out.push(']');
            }
            _ => {
                out.push('{');
                let names = if self.roll(20) == 0 { 30 } else { 6 };
                for i in 0..self.roll(names) {
                    out.push_str(if i > 0 { "," } else { "" });
                    self.blank(out);
                    self.string(4, out);
                    self.blank(out);
                    out.push(':');
                    self.blank(out);
                    self.value(depth + 1, out);
                    self.blank(out);
                }
                out.push('}');
            }
        }
    }

    fn string(&mut self, most: usize, out: &mut String) {
        out.push('"');
        let run = if self.roll(8) == 0 { 26 } else { 4 };
        out.push_str(&"abcdefghijklmnopqrstuvwxyz"[..self.roll(run)]);
        for _ in 0..self.roll(most) {
            out.push_str(self.pick(&CHARACTERS));
        }
        out.push('"');
    }

    /// Any double, mostly of common size: the plain reader takes long for the others.
    fn double(&mut self) -> f64 {
        let exponent = 1_023 - 40 + self.roll(80) as u64;
        let any = self.roll(16) == 0;
        f64::from_bits(if any { self.0 } else { self.0 & !(0x7FF << 52) | exponent << 52 })
    }

    fn number(&mut self, out: &mut String) {
        let number = match self.roll(8) {
            0 => self.pick(&NUMBERS).to_owned(),
            1 => self.double().to_string(),
            2 => format!("{:e}", self.double()),
            3 => (self.0 as i64 >> self.roll(63)).to_string(),
            4 => format!("{}.{}", self.roll(1000), self.0 >> self.roll(63)),
            5 => format!("-{}.{:04}", self.roll(3), self.roll(10_000)),
            6 => format!("0.{}{}", "0".repeat(self.roll(8)), self.roll(1_000_000)),
            _ => format!("{}e{}", self.roll(100_000), self.roll(60) as i32 - 30),
        };
        // Not numbers of JSON, and seldom a fault: mutation makes enough of them.
        out.push_str(if number.contains("inf") || number.contains("NaN") { "0.5" } else { &number });
    }
}

/// Compares both readers on documents, and returns how often each code was met.
fn compare(seed: u64, count: u64) -> BTreeMap<&'static str, u64> {
    let mut documents = Documents(seed);
    let mut reader = Reader::new(Limits::default());
    let mut codes = BTreeMap::new();
    for _ in 0..count {
        let bytes = documents.document();
        let plain = plain_jcs(&bytes);
        let real = reader.read(&bytes, Recipe::Jcs1);
        let found = real.as_ref().map(|read| read.as_str().to_owned()).map_err(|e| (e.code(), e.offset()));
        assert_eq!(found, plain, "{}", bytes.escape_ascii());
        if let Ok(read) = &real {
            assert_eq!(read.value().canonical_text(), read.as_str(), "{}", bytes.escape_ascii());
            assert_eq!(reader.digest(&bytes, Recipe::Jcs1), Ok(read.digest()), "{}", bytes.escape_ascii());
        }
        *codes.entry(plain.err().map_or("accepted", |(code, _)| code)).or_default() += 1;
    }
    codes
}

#[test]
fn random_documents_are_read_as_by_a_plain_reader() {
    let codes = compare(0x9E37_79B9_7F4A_7C15, 10_000);
    assert!(codes["accepted"] > 4_000, "{codes:?}");
    let met = [
        "JSON_CONTROL_CHARACTER",
        "JSON_DUPLICATE_NAME",
        "JSON_INEXACT_NUMBER",
        "JSON_INVALID_ESCAPE",
        "JSON_INVALID_NUMBER",
        "JSON_INVALID_UTF8",
        "JSON_LONE_SURROGATE",
        "JSON_NUMBER_OVERFLOW",
        "JSON_TRAILING_DATA",
        "JSON_UNEXPECTED_BYTE",
        "JSON_UNEXPECTED_END",
    ];
    for code in met {
        assert!(codes.contains_key(code), "{code} is not among {codes:?}");
    }
}

#[test]
#[ignore = "takes long without optimisation"]
fn many_documents_are_read_as_by_a_plain_reader() {
    let count = std::env::var("COUNTERSIGN_DOCUMENTS").ok().map_or(200_000, |count| count.parse().unwrap());
    println!("{:?}", compare(0x1234_5678_9ABC_DEF1, count));
}

#[test]
fn structured_args_have_their_size() {
    for bytes in (26..1_500).chain([4 << 10, 64 << 10]) {
        let args = structured_args(bytes);
        assert_eq!(args.len(), bytes);
        let read = read(&args, Recipe::Jcs1, &Limits::default()).unwrap_or_else(|e| panic!("{bytes}: {e}"));
        assert_eq!(plain_jcs(&args).as_deref(), Ok(read.as_str()));
    }
}
