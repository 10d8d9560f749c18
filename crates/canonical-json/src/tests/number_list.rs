//! The list of 100,000,000 doubles of RFC 8785's reference implementation, made by its published rule and held against
//! the published digests of the file (`es6testfile100m.txt`). A line has the bits and the canonical text of a double.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::suites::suites;
use crate::number::{evaluate, write_number};

/// Published digests of the first lines.
const PUBLISHED: [(u64, &str); 6] = [
    (1_000, "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687"),
    (10_000, "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892"),
    (100_000, "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7"),
    (1_000_000, "49415fee2c56c77864931bd3624faad425c3c577d6d74e89a83bc725506dad16"),
    (10_000_000, "b9f8a44a91d46813b21b9602e72f112613c91408db0b8341fb94603d9db135e0"),
    (100_000_000, "0f7dda6b0837dde083c5d6b896f7d62340c8a2415b0c7121d83145e08a755272"),
];

/// The 2,000 doubles that follow the edge cases: the smallest normal one and those after it.
const SERIES: std::ops::Range<u64> = 0x0010_0000_0000_0000..0x0010_0000_0000_07D0;

/// Bits of the doubles in the order of the list: edge cases, the series, and then SHA-256 of nothing but zeros, of that
/// digest, and so on, four doubles each, without zeros, infinities and NaNs.
fn listed_bits() -> impl Iterator<Item = u64> {
    let start = std::fs::read_to_string(suites().join("rfc8785/es6testfile-10k.txt")).unwrap();
    let bits = |line: &str| u64::from_str_radix(line.split_once(',').unwrap().0, 16).unwrap();
    let start: Vec<u64> = start.lines().map(bits).collect();
    let of_series = start.windows(2).position(|pair| *pair == [SERIES.start, SERIES.start + 1]).unwrap();
    let mut block = [0_u8; 32];
    let chain = std::iter::repeat_with(move || {
        block = Sha256::digest(block).into();
        let (words, _) = block.as_chunks::<8>();
        <[u64; 4]>::try_from(words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>()).unwrap()
    });
    let finite = |bits: &u64| f64::from_bits(*bits).is_finite() && f64::from_bits(*bits) != 0.0;
    start.into_iter().take(of_series).chain(SERIES).chain(chain.flatten().filter(finite))
}

/// Writes the first `count` lines and checks the published digests on the way. Every text must be read as canonical.
fn check_list(count: u64) {
    let (mut hash, mut lines, mut text) = (Sha256::new(), String::new(), String::new());
    let mut met = 0;
    for (line, bits) in (1..=count).zip(listed_bits()) {
        let value = f64::from_bits(bits);
        text.clear();
        write_number(&mut text, value);
        let read = evaluate(&text).unwrap();
        assert!(read.value == value && read.exact && read.canonical, "{bits:x}: {text}");
        writeln!(lines, "{bits:x},{text}").unwrap();
        let published = PUBLISHED.iter().find(|(lines, _)| *lines == line);
        if lines.len() > 1 << 16 || published.is_some() {
            hash.update(&lines);
            lines.clear();
        }
        if let Some((_, digest)) = published {
            let found: String = hash.clone().finalize().iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(found, *digest, "first {line} lines");
            met += 1;
        }
    }
    assert_eq!(met, PUBLISHED.iter().filter(|(lines, _)| *lines <= count).count());
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn hundred_thousand_listed_doubles_have_the_published_digest() {
    check_list(100_000);
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS, and takes about a minute"]
fn hundred_million_listed_doubles_have_the_published_digest() {
    check_list(100_000_000);
}
