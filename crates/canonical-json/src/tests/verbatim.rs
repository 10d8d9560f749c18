//! Canonical input takes a fast path: its text is copied and its strings are not moved. The same value in another
//! spelling must give the same result on the slow path.

use countersign_core::Digest;
use proptest::prelude::*;

use super::laws::{docs, jsonish, limits};
use crate::scan::first_special;
use crate::*;

/// Escapes every character of every string of a canonical text.
fn escaped(canonical: &str) -> String {
    let (mut out, mut within, mut chars) = (String::new(), false, canonical.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => within = !within,
            '\\' => {
                out.push(c);
                let kind = chars.next();
                out.extend(kind);
                out.extend(chars.by_ref().take(if kind == Some('u') { 4 } else { 0 }));
                continue;
            }
            _ if within => {
                out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Compares two values through every accessor.
fn same(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    let as_they_are = |value: ValueRef<'_>| {
        (value.kind(), value.len(), value.is_exact(), value.as_bool(), value.as_f64().map(f64::to_bits))
    };
    as_they_are(a) == as_they_are(b)
        && a.as_str() == b.as_str()
        && a.elements().zip(b.elements()).all(|(a, b)| same(a, b))
        && a.members().zip(b.members()).all(|((a_name, a), (b_name, b))| a_name == b_name && same(a, b))
}

/// Reads bytes with and without a leading space. Results must be equal, except that offsets differ by one byte.
fn check_behind_a_blank(reader: &mut Reader, bytes: &[u8]) -> Result<(), TestCaseError> {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Ok(()); // A byte order mark is refused only at the start.
    }
    let moved = [b" ", bytes].concat();
    for recipe in Recipe::ALL {
        let (whole, behind) = (reader.read(bytes, recipe), reader.read(&moved, recipe));
        let further = |error: JsonError| (error.kind(), error.offset() + 1);
        match (whole, behind) {
            (Ok(a), Ok(b)) => {
                prop_assert_eq!(a.as_str(), b.as_str());
                prop_assert_eq!(a.digest(), b.digest());
                prop_assert_eq!(a.value().canonical_text(), b.as_str());
                prop_assert!(same(a.value(), b.value()));
            }
            (a, b) => prop_assert_eq!(a.map_err(further).err(), b.map_err(|e| (e.kind(), e.offset())).err()),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn fast_path_agrees_with_the_slow_path(doc in docs(), seed: u64) {
        let once = read(doc.spelled(seed).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let mut reader = Reader::new(limits());
        for text in [once.as_str().to_owned(), format!("{}\n", once.as_str()), escaped(once.as_str())] {
            let again = reader.read(text.as_bytes(), Recipe::Jcs1).unwrap();
            prop_assert_eq!(again.as_str(), once.as_str());
            prop_assert_eq!(again.digest(), Digest::of(once.bytes()));
            prop_assert!(same(again.value(), once.value()), "{}", text);
            for (name, member) in again.value().members() {
                let copy = again.subtree(member);
                prop_assert_eq!(copy.as_str(), member.canonical_text());
                prop_assert_eq!(again.clone().without(&[name]), once.clone().without(&[name]));
            }
        }
    }

    #[test]
    fn leading_space_only_moves_the_offset_of_a_fault(
        doc in docs(), at: prop::sample::Index, insert: bool,
        byte in prop_oneof![Just(b' '), Just(b'-'), Just(b'"'), Just(b'\\'), Just(0x1f), Just(0x7f), any::<u8>()],
    ) {
        let once = read(doc.spelled(0).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let mut bytes = once.bytes().to_vec();
        let mut reader = Reader::new(limits());
        check_behind_a_blank(&mut reader, &bytes)?;
        let at = at.index(bytes.len());
        if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
        check_behind_a_blank(&mut reader, &bytes)?;
        // State of one text must not leak into the next.
        check_behind_a_blank(&mut reader, once.bytes())?;
    }

    #[test]
    fn leading_space_only_moves_the_offset_of_json_like_bytes(bytes in jsonish()) {
        check_behind_a_blank(&mut Reader::new(limits()), &bytes)?;
    }

    #[test]
    fn eight_byte_scan_agrees_with_a_byte_scan(
        bytes in prop::array::uniform8(prop_oneof![
            any::<u8>(),
            prop::sample::select(vec![0, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x5b, 0x5c, 0x5d, 0x7f, 0x80, 0xa0, 0xa2, 0xdc, 0xff]),
        ]),
    ) {
        let one_by_one = bytes.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\');
        prop_assert_eq!(first_special(bytes), one_by_one);
    }
}

#[test]
fn every_pair_of_bytes_at_every_place_of_eight_is_seen() {
    for (first, second) in (0_usize..8).flat_map(|first| (first + 1..8).map(move |second| (first, second))) {
        for pair in 0..=u16::MAX {
            let ([a, b], mut bytes) = (pair.to_le_bytes(), [b'x'; 8]);
            (bytes[first], bytes[second]) = (a, b);
            let special = |b: u8| b < 0x20 || b == b'"' || b == b'\\';
            let expected = if special(a) { Some(first) } else { special(b).then_some(second) };
            assert_eq!(first_special(bytes), expected, "{bytes:?}");
        }
    }
}

#[test]
fn non_canonical_numbers_are_rewritten() {
    let mut reader = Reader::new(limits());
    let numbers = "-0 0 -1 1e0 1E2 10 1.0 0.10 999999999999999 1000000000000000 9007199254740991 9007199254740992 \
                   9007199254740993 100000000000000000000 1000000000000000000000 000 01 - 1e400";
    for number in numbers.split(' ') {
        for text in [number.to_owned(), format!("[{number}]"), format!("{{\"a\":{number},\"b\":[{number}]}}")]
        {
            check_behind_a_blank(&mut reader, text.as_bytes()).unwrap();
        }
    }
}

#[test]
fn ascii_byte_means_the_same_anywhere_in_a_string() {
    for (before, after) in (0..20).flat_map(|before| (0..20).map(move |after| (before, after))) {
        for byte in 0..=0x7f_u8 {
            let (before, after) = ("x".repeat(before), "x".repeat(after));
            let text = format!("\"{before}{}{after}\"", char::from(byte));
            let at = before.len() + 1;
            let expected = match byte {
                ..0x20 => Err(("JSON_CONTROL_CHARACTER", at)),
                b'"' => Err(("JSON_TRAILING_DATA", at + 1)),
                b'\\' if after.is_empty() => Err(("JSON_UNEXPECTED_END", text.len())),
                b'\\' => Err(("JSON_INVALID_ESCAPE", at)),
                _ => Ok(text.clone()),
            };
            let found =
                super::jcs(&text).map(|read| read.as_str().to_owned()).map_err(|e| (e.code(), e.offset()));
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
