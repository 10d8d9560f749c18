use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

use super::{normalise, pin, verify};
use crate::normalise::{ascii, unicode};

/// A literal, slow transcription of the recipe.
fn by_the_book(text: &str) -> String {
    let composed = text.nfc().collect::<String>();
    let lower = composed.to_lowercase();
    let again = lower.nfc().collect::<String>();
    let spaced: String = again.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Checks that both paths agree with the recipe and that normalising is idempotent.
fn check(text: &str) {
    let whole = unicode(text);
    assert_eq!(whole, by_the_book(text), "{text:?}");
    assert_eq!(unicode(&whole), whole, "not stable: {text:?}");
    assert_eq!(normalise(text).unwrap_or_default(), whole, "{text:?}");
    if text.is_ascii() {
        let mut out = vec![0; text.len()];
        let length = ascii(text.as_bytes(), &mut out);
        assert_eq!(out[..length], *whole.as_bytes(), "{text:?}");
    }
}

#[test]
fn both_paths_agree_on_every_scalar_value() {
    let all = |chars: std::ops::RangeInclusive<char>| {
        for c in chars {
            check(c.encode_utf8(&mut [0; 4]));
            // Each word is a context: between capitals, beside composing marks, around a sigma, doubled.
            check(&format!("A{c}B {c}\u{331} H{c}\u{331} \u{391}{c}\u{3a3}{c} {c}{c}"));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| all('\0'..='\u{7ffff}'));
        all('\u{80000}'..=char::MAX);
    });
}

#[test]
fn both_paths_agree_on_pairs_of_ascii_characters() {
    for a in '\0'..='\x7f' {
        for b in '\0'..='\x7f' {
            check(&format!("{a}{b}"));
            check(&format!("x{a}{b}Y"));
        }
    }
}

#[test]
fn one_odd_character_is_seen_at_any_place() {
    let words = "pay the two invoices of the last week, ".repeat(3);
    for length in 30..=100 {
        let text = words.get(..length).unwrap();
        for place in 0..length {
            for odd in [
                " ", "\t", "\n", "\u{b}", "\r", "\u{1f}", "A", "Z", "@", "[", "\u{7f}", "\u{e9}", "\u{a0}",
                "\u{130}",
            ] {
                let (before, behind) = (text.get(..place).unwrap(), text.get(place + 1..).unwrap());
                let text = format!("{before}{odd}{behind}");
                assert_eq!(normalise(&text).unwrap(), by_the_book(&text), "{text:?}");
            }
        }
    }
}

#[test]
fn normalising_h_with_macron_below_twice_is_once() {
    assert_eq!(unicode("H\u{331}"), "\u{1e96}");
    assert_eq!(unicode("\u{1e96}"), "\u{1e96}");
    // One pass is not idempotent: the capital does not compose, its lower case does.
    let one_pass = |text: &str| text.nfc().collect::<String>().to_lowercase();
    assert_ne!(one_pass("H\u{331}"), one_pass(&one_pass("H\u{331}")).nfc().collect::<String>());
    check("H\u{331}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn both_paths_agree_on_any_text(
        chars in proptest::collection::vec(proptest::char::range(char::MIN, char::MAX), 0..24),
    ) {
        check(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn both_paths_agree_on_any_ascii(text in "[\\x00-\\x7f]{0,64}") {
        check(&text);
    }

    #[test]
    fn both_paths_agree_on_ascii_of_several_chunks(
        text in "([A-Za-z.,]{1,9}[ ]|[a-z]{60,68}|[ \\t\\n\\x0b\\r]{1,3}|[ ]{62,66}|[\\x00-\\x7f]){0,60}",
    ) {
        check(&text);
    }

    #[test]
    fn both_paths_agree_on_letters_marks_and_sigmas(
        text in "[ \\t\\u{b}\\u{1c}\\u{85}\\u{2003}aAhHiIsSK\\u{130}\\u{131}\\u{3a3}\\u{3c3}\\u{3c2}\\u{391}'.\\u{300}-\\u{345}\\u{1100}-\\u{1112}\\u{1161}\\u{11a8}]{0,24}",
    ) {
        check(&text);
    }

    #[test]
    fn a_decomposed_and_respaced_goal_is_the_same(text in any::<String>()) {
        prop_assume!(normalise(&text).is_ok());
        let other = text.nfd().collect::<String>();
        prop_assert_eq!(verify(&text, &other), Ok(()));
        let spaced = format!("\u{3000}{}\n", other.replace(' ', " \t"));
        prop_assert_eq!(verify(&text, &spaced), Ok(()));
    }

    #[test]
    fn equal_digests_mean_equal_normalised_goals(a in any::<String>(), b in any::<String>()) {
        prop_assume!(normalise(&a).is_ok() && normalise(&b).is_ok());
        prop_assert_eq!(pin(&a).digest() == pin(&b).digest(), unicode(&a) == unicode(&b));
        prop_assert_eq!(verify(&a, &b).is_ok(), unicode(&a) == unicode(&b));
    }
}
