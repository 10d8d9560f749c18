//! The targets over the committed corpus and over edits of it. The long tests take a minute each, or as many seconds as
//! `COUNTERSIGN_FUZZ_SECONDS` says.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a driver of tests, which fails by panicking"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use countersign_fuzz::PART;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Pieces of text that readers treat differently.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\n",
    b" ",
    b"\r\n",
    b"null",
    b"true",
    b"0",
    b"-0",
    b"1e21",
    b"1.50",
    b"9007199254740993",
    b"1e309",
    b"\\u0000",
    b"\\ud800",
    b"\\u00e9",
    "é".as_bytes(),
    "\u{10000}".as_bytes(),
    b"\x80",
    b"\0",
    b"\"a\":1,",
    b"\"id\":1,",
    b"\"tools\":[],",
    b"[[[[[[[[",
    b"{\"a\":{\"a\":",
    b"/../",
    b"@ID@",
    &[PART],
];

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    Put(Index, Index),
    Insert(Index, Index),
    Set(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
    /// Continues with the end of another input.
    Splice(Index, Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), at()).prop_map(|(place, piece)| Edit::Put(place, piece)),
        3 => (at(), at()).prop_map(|(place, piece)| Edit::Insert(place, piece)),
        3 => (at(), any::<u8>()).prop_map(|(place, byte)| Edit::Set(place, byte)),
        3 => (at(), 1..9_usize).prop_map(|(place, count)| Edit::Remove(place, count)),
        2 => (at(), 1..200_usize).prop_map(|(place, count)| Edit::Repeat(place, count)),
        1 => at().prop_map(Edit::Cut),
        1 => (at(), at(), at()).prop_map(|(place, other, from)| Edit::Splice(place, other, from)),
    ]
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match self {
            Self::Put(at, piece) => {
                let (start, piece) = (place(at, bytes), PIECES[piece.index(PIECES.len())]);
                let end = bytes.len().min(start + piece.len());
                bytes.splice(start..end, piece.iter().copied());
            }
            Self::Insert(at, piece) => {
                let start = place(at, bytes);
                bytes.splice(start..start, PIECES[piece.index(PIECES.len())].iter().copied());
            }
            Self::Set(at, to) => {
                let at = place(at, bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = *to;
                }
            }
            Self::Remove(at, count) => {
                let start = place(at, bytes);
                drop(bytes.drain(start..bytes.len().min(start + count)));
            }
            Self::Repeat(at, count) => {
                let start = place(at, bytes);
                let part = bytes[start..bytes.len().min(start + count)].to_vec();
                bytes.splice(start..start, part);
            }
            Self::Cut(at) => bytes.truncate(place(at, bytes)),
            Self::Splice(at, other, from) => {
                bytes.truncate(place(at, bytes));
                let other = &corpus[other.index(corpus.len())];
                bytes.extend_from_slice(&other[place(from, other)..]);
            }
        }
    }
}

/// The committed inputs of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn run_corpus(name: &str, target: fn(&[u8]) -> bool) {
    let accepted = corpus(name).iter().filter(|bytes| target(bytes)).count();
    let refused = corpus(name).len() - accepted;
    assert!(accepted >= 3 && refused >= 3, "{accepted} inputs get past the reader, {refused} do not");
}

fn run_edits(name: &str, target: fn(&[u8]) -> bool, cases: u32) {
    let corpus = corpus(name);
    let config = Config { failure_persistence: None, ..Config::with_cases(cases) };
    let inputs = (any::<Index>(), prop::collection::vec(edit(), 1..5));
    let held = TestRunner::new(config).run(&inputs, |(seed, edits)| {
        let mut bytes = corpus[seed.index(corpus.len())].clone();
        edits.iter().for_each(|edit| edit.apply(&mut bytes, &corpus));
        let run = std::panic::catch_unwind(|| target(&bytes));
        run.map(drop).map_err(|_| TestCaseError::fail(format!("b\"{}\"", bytes.escape_ascii())))
    });
    held.unwrap_or_else(|error| panic!("{error}"));
}

#[expect(clippy::disallowed_methods, reason = "fuzzing takes real time")]
fn run_for_a_minute(name: &str, target: fn(&[u8]) -> bool) {
    let seconds = std::env::var("COUNTERSIGN_FUZZ_SECONDS").map_or(60, |seconds| seconds.parse().unwrap());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        run_edits(name, target, 1_000);
    }
}

macro_rules! targets {
    ($($target:ident: $cases:literal,)*) => {$(
        mod $target {
            const NAME: &str = stringify!($target);

            #[test]
            fn corpus_holds() {
                super::run_corpus(NAME, countersign_fuzz::$target);
            }

            #[test]
            fn edits_of_the_corpus_hold() {
                super::run_edits(NAME, countersign_fuzz::$target, $cases);
            }

            #[test]
            #[ignore = "takes a minute"]
            fn edits_hold_for_a_minute() {
                super::run_for_a_minute(NAME, countersign_fuzz::$target);
            }
        }
    )*};
}

targets! {
    log_scan: 1_000,
    mcp_line: 1_000,
    plan: 5_000,
    proposal: 5_000,
    reader: 5_000,
    registry_draft: 2_000,
    token: 5_000,
}
