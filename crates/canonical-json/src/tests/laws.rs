use proptest::prelude::*;
use serde::Deserialize as _;

use crate::*;

/// A generated JSON value. Names in an object are distinct.
#[derive(Clone, Debug)]
pub(super) enum Doc {
    Null,
    Bool(bool),
    /// `digits * 10^power`. At most 15 digits, so it is exact in a double's shortest text.
    Number(i64, i32),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

fn texts() -> impl Strategy<Value = String> {
    let special: Vec<char> =
        "\"\\/\u{0}\u{1f}\n\u{7f}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}".chars().collect();
    prop_oneof![
        "[a-c]{0,3}",
        "\\PC{0,6}",
        proptest::collection::vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect()),
        proptest::collection::vec(prop::sample::select(special), 0..4)
            .prop_map(|chars| chars.into_iter().collect()),
    ]
}

pub(super) fn docs() -> impl Strategy<Value = Doc> {
    let leaf = prop_oneof![
        Just(Doc::Null),
        any::<bool>().prop_map(Doc::Bool),
        (-999_999_999_999_999_i64..=999_999_999_999_999, -30..30).prop_map(|(d, p)| Doc::Number(d, p)),
        (-20_i64..20, -2..3).prop_map(|(d, p)| Doc::Number(d, p)),
        texts().prop_map(Doc::Text),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Doc::Array),
            proptest::collection::btree_map(texts(), inner, 0..6)
                .prop_map(|members| Doc::Object(members.into_iter().collect())),
        ]
    })
}

/// Pseudo-random choices of one spelling.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

impl Doc {
    /// Writes the value in a random spelling: order of members, whitespace, escapes, form of numbers.
    fn spell(&self, dice: &mut Dice, out: &mut String) {
        blank(dice, out);
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(digits, power) => spell_number(*digits, *power, dice, out),
            Self::Text(text) => spell_text(text, dice, out),
            Self::Array(elements) => {
                out.push('[');
                for (i, element) in elements.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    element.spell(dice, out);
                }
                blank(dice, out);
                out.push(']');
            }
            Self::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for i in (1..members.len()).rev() {
                    members.swap(i, dice.roll(i as u64 + 1) as usize);
                }
                out.push('{');
                for (i, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    blank(dice, out);
                    spell_text(name, dice, out);
                    blank(dice, out);
                    out.push(':');
                    value.spell(dice, out);
                }
                blank(dice, out);
                out.push('}');
            }
        }
        blank(dice, out);
    }

    pub(super) fn spelled(&self, seed: u64) -> String {
        let mut out = String::new();
        self.spell(&mut Dice(seed | 1), &mut out);
        out
    }

    /// Normal form of the value, computed independently of the crate.
    fn normal(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(0, _) => "0".to_owned(),
            Self::Number(digits, power) => {
                let (mut digits, mut power) = (*digits, *power);
                while digits % 10 == 0 {
                    (digits, power) = (digits / 10, power + 1);
                }
                format!("{digits}e{power}")
            }
            Self::Text(text) => format!("{text:?}"),
            Self::Array(elements) => format!("{:?}", elements.iter().map(Self::normal).collect::<Vec<_>>()),
            Self::Object(members) => {
                let sorted: std::collections::BTreeMap<_, _> =
                    members.iter().map(|(name, value)| (name, value.normal())).collect();
                format!("{sorted:?}")
            }
        }
    }

    /// Makes one random change.
    fn change(&mut self, dice: &mut Dice) {
        match self {
            Self::Array(elements) if !elements.is_empty() && dice.roll(3) > 0 => {
                let at = dice.roll(elements.len() as u64) as usize;
                match dice.roll(4) {
                    0 => drop(elements.remove(at)),
                    1 => elements.insert(at, Self::Null),
                    2 => elements.swap(0, at),
                    _ => elements[at].change(dice),
                }
            }
            Self::Object(members) if !members.is_empty() && dice.roll(3) > 0 => {
                let at = dice.roll(members.len() as u64) as usize;
                match dice.roll(4) {
                    0 => drop(members.remove(at)),
                    1 => members.push(("\u{1}added".to_owned(), Self::Null)),
                    2 => members[at].0.push('\u{301}'),
                    _ => members[at].1.change(dice),
                }
            }
            Self::Number(digits, _) if dice.roll(2) > 0 => *digits = digits.wrapping_add(1),
            Self::Number(_, power) => *power += 1,
            Self::Text(text) => text.push('0'),
            Self::Bool(value) => *value = !*value,
            Self::Null => *self = Self::Text("null".to_owned()),
            Self::Array(_) | Self::Object(_) => *self = Self::Null,
        }
    }
}

fn blank(dice: &mut Dice, out: &mut String) {
    out.push_str(["", "", "", " ", "\n", "\t \r\n"][dice.roll(6) as usize]);
}

fn spell_number(digits: i64, power: i32, dice: &mut Dice, out: &mut String) {
    let sign = if digits < 0 { "-" } else { "" };
    let magnitude = digits.unsigned_abs();
    let e = if dice.roll(2) == 0 { 'e' } else { 'E' };
    let spelled = match dice.roll(4) {
        0 if (0..20).contains(&power) && magnitude > 0 => {
            format!("{magnitude}{}", "0".repeat(power as usize))
        }
        1 => {
            let zeros = if magnitude > 0 { dice.roll(4) as usize } else { 0 };
            format!("{magnitude}{}{e}{}", "0".repeat(zeros), power - zeros as i32)
        }
        2 => format!("0.{magnitude:0>20}{}{e}{}", "0".repeat(dice.roll(30) as usize), power + 20),
        _ => {
            let plus = if power >= 0 && dice.roll(2) == 0 { "+" } else { "" };
            format!("{magnitude}.0{e}{plus}{power}")
        }
    };
    out.push_str(sign);
    out.push_str(&spelled);
}

fn spell_text(text: &str, dice: &mut Dice, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let must = c < ' ' || c == '"' || c == '\\';
        match dice.roll(4) {
            0 => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let hex =
                        if dice.roll(2) == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
                    out.push_str(&hex);
                }
            }
            1 if c == '/' => out.push_str("\\/"),
            _ if must => {
                let quoted = serde_json::to_string(&c).unwrap();
                out.push_str(quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap());
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

pub(super) fn limits() -> Limits {
    Limits::default()
}

/// Bytes that resemble JSON.
pub(super) fn jsonish() -> impl Strategy<Value = Vec<u8>> {
    let words = r#"{ } [ ] , : " "a" "a": \ \u \ud83d \ude00 0 1 - . e E+ 9007199254740993 1e999 true false null // + NaN"#;
    let bytes: [&[u8]; 9] = [
        b" ",
        b"\n",
        b"\x00",
        b"\x1f",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xf0\x9f\x98\x80",
        b"\xff",
        b"\xc3\xa9",
    ];
    let pieces: Vec<&[u8]> = words.split(' ').map(str::as_bytes).chain(bytes).collect();
    proptest::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

/// Compares values, numbers by their value as doubles.
fn agree(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (ours, theirs) {
        (Number(a), Number(b)) => a.as_f64() == b.as_f64(),
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agree(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| agree(a, b)))
        }
        _ => ours == theirs,
    }
}

/// Checks the laws that hold for any bytes.
fn check_any_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut reader = Reader::new(limits());
    let mut accepted = [false; 3];
    for (recipe, accepted) in Recipe::ALL.into_iter().zip(&mut accepted) {
        let result = read(bytes, recipe, &limits());
        prop_assert_eq!(&reader.read(bytes, recipe), &result);
        prop_assert_eq!(
            &reader.digest(bytes, recipe),
            &result.as_ref().map(Canonical::digest).map_err(|e| *e)
        );
        match result {
            Err(error) => prop_assert!(error.offset() <= bytes.len()),
            Ok(canonical) => {
                *accepted = true;
                prop_assert_eq!(canonical.value().canonical_text(), canonical.as_str());
                let again = read(canonical.bytes(), Recipe::Jcs1, &limits());
                prop_assert_eq!(again.as_ref().map(Canonical::as_str), Ok(canonical.as_str()));
                let theirs: serde_json::Value = serde_json::from_slice(bytes)
                    .map_err(|e| TestCaseError::fail(format!("serde_json refuses what we accept: {e}")))?;
                let ours = serde_json::Value::deserialize(canonical.value()).unwrap();
                prop_assert!(agree(&ours, &theirs));
            }
        }
    }
    prop_assert!(accepted[1] || !accepted[0], "what jcs-1 accepts rfc8785 accepts");
    prop_assert!(accepted[1] || !accepted[2], "what pic-cjson-1 accepts rfc8785 accepts");
    Ok(())
}

/// Builds the next value of `parts`.
fn rebuilt(parts: &mut Parts<'_>) -> serde_json::Value {
    match parts.next() {
        Some(Part::Null) => serde_json::Value::Null,
        Some(Part::Bool(value)) => value.into(),
        Some(Part::Number(value)) => value.into(),
        Some(Part::String(text)) => parts.text(text).into(),
        Some(Part::Array { elements, .. }) => (0..elements).map(|_| rebuilt(parts)).collect(),
        Some(Part::Object { members, .. }) => {
            let mut member = || {
                let Some(Part::Name(name)) = parts.next() else { panic!("a name comes first") };
                let text = parts.text(name);
                let mut word = [0; 8];
                text.bytes().zip(&mut word).for_each(|(b, place)| *place = b);
                assert_eq!(parts.first_word(name).to_le_bytes(), word, "{text}");
                (text.to_owned(), rebuilt(parts))
            };
            (0..members).map(|_| member()).collect()
        }
        Some(Part::Name(_)) | None => panic!("a value comes next"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn parts_make_up_the_value(doc in docs(), seed: u64) {
        let read = read(doc.spelled(seed).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let mut parts = read.value().parts();
        let text = rebuilt(&mut parts).to_string();
        prop_assert!(parts.next().is_none());
        prop_assert_eq!(super::read(text.as_bytes(), Recipe::Jcs1, &limits()).unwrap(), read.clone());
        let mut parts = read.value().parts();
        if let Some(Part::Array { contents, .. } | Part::Object { contents, .. }) = parts.next() {
            parts.leave_out(contents);
        }
        prop_assert!(parts.next().is_none());
    }

    #[test]
    fn reading_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        check_any_bytes(&bytes)?;
    }

    #[test]
    fn reading_bytes_that_look_like_json_never_panics(bytes in jsonish()) {
        check_any_bytes(&bytes)?;
    }

    #[test]
    fn reading_json_with_a_broken_byte_never_panics(
        doc in docs(), seed: u64, at: prop::sample::Index, byte: u8, cut: bool,
    ) {
        let mut bytes = doc.spelled(seed).into_bytes();
        check_any_bytes(&bytes)?;
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        check_any_bytes(&bytes)?;
    }

    #[test]
    fn changed_byte_of_canonical_json_is_refused_or_rewritten(
        doc in docs(), at: prop::sample::Index, insert: bool,
        byte in prop_oneof![Just(b' '), Just(b'-'), Just(b'0'), Just(b'.'), Just(b'\\'), any::<u8>()],
    ) {
        let once = read(doc.spelled(0).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let mut bytes = once.bytes().to_vec();
        let at = at.index(bytes.len());
        if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
        check_any_bytes(&bytes)?;
    }

    #[test]
    fn canonicalising_is_idempotent(doc in docs(), seed: u64) {
        let once = read(doc.spelled(seed).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let twice = read(once.bytes(), Recipe::Jcs1, &limits()).unwrap();
        prop_assert_eq!(once.as_str(), twice.as_str());
        prop_assert_eq!(once.digest(), twice.digest());
        prop_assert_eq!(once.value().canonical_text(), once.as_str());
    }

    #[test]
    fn respelling_keeps_the_digest(doc in docs(), a: u64, b: u64) {
        let first = read(doc.spelled(a).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let second = read(doc.spelled(b).as_bytes(), Recipe::Rfc8785, &limits()).unwrap();
        prop_assert_eq!(first.as_str(), second.as_str());
        prop_assert_eq!(first.digest(), second.digest());
        prop_assert!(second.value().is_exact());
    }

    #[test]
    fn any_other_change_alters_the_digest(doc in docs(), seed: u64, what: u64) {
        let mut changed = doc.clone();
        changed.change(&mut Dice(what | 1));
        let before = digest(doc.spelled(seed).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let after = digest(changed.spelled(seed).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        prop_assert_eq!(before == after, doc.normal() == changed.normal());
    }

    #[test]
    fn serde_json_canonicalizer_writes_the_same_bytes(doc in docs(), seed: u64) {
        let text = doc.spelled(seed);
        let theirs: serde_json::Value = serde_json::from_str(&text).unwrap();
        let ours = read(text.as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        prop_assert_eq!(ours.as_str(), serde_json_canonicalizer::to_string(&theirs).unwrap());
        prop_assert_eq!(serde_json_canonicalizer::to_string(&ours.value()).unwrap(), ours.as_str());
        prop_assert_eq!(&to_canonical(&ours.value()).unwrap(), &ours);
    }

    #[test]
    fn subtree_equals_its_text_read_again(doc in docs(), seed: u64) {
        let canonical = read(doc.spelled(seed).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let mut left = vec![canonical.value()];
        while let Some(value) = left.pop() {
            let copy = canonical.subtree(value);
            let again = read(value.canonical_text().as_bytes(), Recipe::Jcs1, &limits()).unwrap();
            prop_assert_eq!(&copy, &again);
            prop_assert_eq!(copy.digest(), again.digest());
            prop_assert_eq!(copy.value().canonical_text(), again.as_str());
            left.extend(value.elements());
            for (name, member) in value.members() {
                prop_assert_eq!(value.get(name).map(ValueRef::canonical_text), Some(member.canonical_text()));
                left.push(member);
            }
        }
    }

    #[test]
    fn stripped_object_equals_one_read_without_the_members(
        members in proptest::collection::btree_map(texts(), docs(), 0..8),
        reserved in proptest::collection::vec((texts(), docs()), 0..4),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
        a: u64, b: u64,
    ) {
        // Some reserved names are random, some are names of members.
        let mut names: Vec<String> = reserved.iter().map(|(name, _)| name.clone()).collect();
        names.extend(picks.iter().filter_map(|at| members.keys().nth(at.index(members.len().max(1)))).cloned());
        let mut sent = members.clone();
        sent.extend(reserved);
        let left: Vec<_> = members.into_iter().filter(|(name, _)| !names.contains(name)).collect();
        let sent = Doc::Object(sent.into_iter().collect()).spelled(a);
        let sent = read(sent.as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let stripped = sent.without(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let never = read(Doc::Object(left).spelled(b).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        prop_assert_eq!(&stripped, &never);
        prop_assert_eq!(stripped.digest(), never.digest());
        // Every accessor returns the same value.
        let mut left = vec![(stripped.value(), never.value())];
        while let Some((ours, theirs)) = left.pop() {
            prop_assert_eq!((ours.kind(), ours.len(), ours.is_exact()), (theirs.kind(), theirs.len(), theirs.is_exact()));
            prop_assert_eq!(ours.canonical_text(), theirs.canonical_text());
            prop_assert_eq!(stripped.subtree(ours).digest(), never.subtree(theirs).digest());
            left.extend(ours.elements().zip(theirs.elements()));
            for (name, member) in ours.members() {
                let their_member = theirs.get(name).unwrap();
                prop_assert_eq!(ours.get(name).map(ValueRef::canonical_text), Some(member.canonical_text()));
                left.push((member, their_member));
            }
        }
        let as_read = serde_json::Value::deserialize(stripped.value()).unwrap();
        prop_assert_eq!(as_read, serde_json::Value::deserialize(never.value()).unwrap());
    }

    #[test]
    fn names_are_sorted_as_utf_16_sorts_them(names in proptest::collection::btree_set(texts(), 0..8)) {
        let members: Vec<_> = names.iter().map(|name| (name.clone(), Doc::Null)).collect();
        let canonical = read(Doc::Object(members).spelled(7).as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        let ours: Vec<_> = canonical.value().members().map(|(name, _)| name.to_owned()).collect();
        let mut theirs: Vec<_> = names.into_iter().collect();
        theirs.sort_by_key(|name| name.encode_utf16().collect::<Vec<_>>());
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn repeated_name_is_refused_in_any_spelling(
        name in texts(), others in proptest::collection::btree_set(texts(), 0..6), at: prop::sample::Index,
        a: u64, b: u64,
    ) {
        let (mut first, mut second) = (String::new(), String::new());
        spell_text(&name, &mut Dice(a | 1), &mut first);
        spell_text(&name, &mut Dice(b | 1), &mut second);
        let mut members: Vec<String> = others
            .iter()
            .filter(|other| **other != name)
            .map(|other| format!("{}:0", serde_json::to_string(other).unwrap()))
            .collect();
        let place = at.index(members.len() + 1);
        members.insert(place, format!("{first}:1"));
        members.push(format!("{second}:2"));
        let text = format!("{{{}}}", members.join(","));
        let error = read(text.as_bytes(), Recipe::Rfc8785, &limits()).unwrap_err();
        prop_assert_eq!((error.code(), error.offset()), ("JSON_DUPLICATE_NAME", text.len() - second.len() - 3));
    }

    #[test]
    fn first_of_many_repeated_names_is_reported(
        names in prop_oneof![
            proptest::collection::vec(0_u8..40, 2..200),
            proptest::collection::vec(0_u8..40, 2..20),
        ],
    ) {
        let (mut text, mut seen, mut first) = (String::from("{"), std::collections::BTreeSet::new(), None);
        for name in &names {
            text.push_str(if text.len() > 1 { "," } else { "" });
            if !seen.insert(name) {
                first = first.or(Some(text.len()));
            }
            text.push_str(&format!("\"{name}\":0"));
        }
        text.push('}');
        let refused = read(text.as_bytes(), Recipe::Jcs1, &limits()).map_err(|e| (e.code(), e.offset())).err();
        prop_assert_eq!(refused, first.map(|at| ("JSON_DUPLICATE_NAME", at)));
    }

    #[test]
    fn a_string_literal_is_read_back_as_its_text(text in texts()) {
        let mut literal = String::new();
        write_string(&mut literal, &text);
        let canonical = read(literal.as_bytes(), Recipe::Jcs1, &limits()).unwrap();
        prop_assert_eq!(canonical.value().as_str(), Some(text.as_str()));
        prop_assert_eq!(canonical.as_str(), literal);
    }
}
