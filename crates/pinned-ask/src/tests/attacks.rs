use countersign_core::Millis;

use super::{at, pin, session, verify};
use crate::*;

fn assert_drift(goal: &str, restated: &str) {
    let drift = verify(goal, restated).unwrap_err();
    assert_eq!(drift.code(), "ASK_DRIFT", "{restated:?}");
    assert_eq!(verify(restated, goal).unwrap_err().code(), "ASK_DRIFT", "{restated:?}");
    assert_eq!(drift.restated(), Some(pin(restated).digest()));
}

/// `pay alice` with the character inserted at each position.
fn with_each_insertion(c: char) -> impl Iterator<Item = String> {
    (0..=9).map(move |at| {
        let (before, after) = "pay alice".split_at(at);
        format!("{before}{c}{after}")
    })
}

#[test]
fn look_alikes_are_drift() {
    for other in ["p\u{430}y alice", "pay \u{251}lice", "\u{440}ay alice", "pay al\u{131}ce", "pay a1ice"] {
        assert_drift("pay alice", other);
    }
}

#[test]
fn zero_width_characters_are_drift_anywhere() {
    for c in ['\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{180e}', '\u{34f}', '\u{3164}'] {
        with_each_insertion(c).for_each(|text| assert_drift("pay alice", &text));
    }
}

#[test]
fn bidi_controls_are_drift_anywhere() {
    for c in
        ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain(['\u{200e}', '\u{200f}', '\u{61c}'])
    {
        with_each_insertion(c).for_each(|text| assert_drift("pay alice", &text));
    }
}

#[test]
fn tag_characters_are_drift_anywhere() {
    for c in '\u{e0000}'..='\u{e007f}' {
        with_each_insertion(c).for_each(|text| assert_drift("pay alice", &text));
    }
}

#[test]
fn variation_selectors_are_drift_anywhere() {
    for c in ('\u{fe00}'..='\u{fe0f}').chain('\u{e0100}'..='\u{e01ef}').chain('\u{180b}'..='\u{180d}') {
        with_each_insertion(c).for_each(|text| assert_drift("pay alice", &text));
    }
}

#[test]
fn soft_hyphen_is_drift_anywhere() {
    with_each_insertion('\u{ad}').for_each(|text| assert_drift("pay alice", &text));
}

#[test]
fn nfkc_only_equals_are_drift() {
    for (goal, other) in [
        ("pay alice", "\u{ff50}\u{ff41}\u{ff59} alice"),
        ("file", "\u{fb01}le"),
        ("x2", "x\u{b2}"),
        ("s", "\u{17f}"),
        ("\u{2460}", "1"),
        ("\u{bc} of it", "1\u{2044}4 of it"),
        ("\u{1d400}", "a"),
    ] {
        assert_drift(goal, other);
    }
}

#[test]
fn other_digits_are_drift() {
    for other in ["\u{661}\u{660}", "\u{ff11}\u{ff10}", "\u{967}\u{966}", "\u{1d7cf}\u{1d7ce}", "10.0", "010"]
    {
        assert_drift("10", other);
    }
}

#[test]
fn nfc_and_nfd_are_the_same() {
    assert_eq!(verify("R\u{e9}sum\u{e9}", "Re\u{301}sume\u{301}"), Ok(()));
    assert_eq!(verify("\u{1e69}", "s\u{307}\u{323}"), Ok(()));
    assert_eq!(verify("\u{d55c}", "\u{1112}\u{1161}\u{11ab}"), Ok(()));
    assert_eq!(verify("\u{212b}\u{2126}\u{212a}", "\u{c5}\u{3a9}K"), Ok(()));
}

#[test]
fn case_is_the_same() {
    assert_eq!(verify("Pay ALICE", "pAY alice"), Ok(()));
    assert_eq!(verify("\u{41f}\u{420}\u{418}", "\u{43f}\u{440}\u{438}"), Ok(()));
    assert_eq!(verify("H\u{331}", "\u{1e96}"), Ok(()));
}

#[test]
fn runs_of_blanks_are_the_same() {
    let blanks: String = (char::MIN..=char::MAX).filter(|c| c.is_whitespace()).collect();
    assert_eq!(blanks.chars().count(), 25);
    assert_eq!(verify("pay alice", &format!("{blanks}pay{blanks}alice{blanks}")), Ok(()));
    for c in blanks.chars() {
        assert_eq!(verify("pay alice", &format!("{c}pay{c}{c}alice{c}")), Ok(()), "{c:?}");
    }
}

#[test]
fn a_dotless_i_is_not_an_i() {
    assert_drift("I", "\u{131}");
    assert_drift("i", "\u{131}");
    assert_drift("\u{130}", "\u{131}");
}

#[test]
fn a_dotted_capital_i_is_an_i_with_a_dot() {
    assert_eq!(verify("\u{130}zmir", "i\u{307}zmir"), Ok(()));
    assert_eq!(verify("\u{130}zmir", "I\u{307}ZMIR"), Ok(()));
    assert_drift("\u{130}zmir", "izmir");
}

#[test]
fn a_capital_sigma_at_a_words_end_is_a_final_sigma() {
    assert_eq!(verify("\u{39f}\u{394}\u{39f}\u{3a3}", "\u{3bf}\u{3b4}\u{3bf}\u{3c2}"), Ok(()));
    assert_eq!(verify("\u{39f}\u{3a3}, \u{39f}", "\u{3bf}\u{3c2}, \u{3bf}"), Ok(()));
    assert_eq!(verify("\u{3a3}\u{391}\u{3a3}\u{391}", "\u{3c3}\u{3b1}\u{3c3}\u{3b1}"), Ok(()));
    assert_drift("\u{39f}\u{394}\u{39f}\u{3a3}", "\u{3bf}\u{3b4}\u{3bf}\u{3c3}");
}

#[test]
fn a_sharp_s_is_not_two_s() {
    assert_eq!(verify("STRA\u{1e9e}E", "stra\u{df}e"), Ok(()));
    assert_drift("stra\u{df}e", "STRASSE");
}

#[test]
fn goal_moved_into_its_session_is_another_goal() {
    let one = PinnedAsk::pin("bc", &session("a"), Millis::from_secs(60), at(0)).unwrap();
    let other = PinnedAsk::pin("c", &session("ab"), Millis::from_secs(60), at(0)).unwrap();
    assert_ne!(one.digest(), other.digest());
    assert_eq!(one.verify("c", &session("ab"), at(0)).unwrap_err().code(), "ASK_OTHER_SESSION");
}

#[test]
fn a_pin_of_session_a_shown_in_b_is_refused() {
    let drift = pin("goal").verify("goal", &session("s2"), at(1_000)).unwrap_err();
    assert_eq!(drift, AskDrift::OtherSession { pinned: pin("goal").digest() });
    let elsewhere = PinnedAsk::pin("goal", &session("s2"), Millis::from_secs(60), at(1_000)).unwrap();
    assert_ne!(elsewhere.digest(), pin("goal").digest());
}

#[test]
fn expired_pin_is_refused() {
    let pin = pin("goal");
    assert_eq!(pin.alive(at(60_999)), Ok(()));
    assert_eq!(pin.verify("goal", &session("s1"), at(60_999)), Ok(()));
    for now in [61_000, 61_001, (1 << 53) - 1] {
        assert_eq!(pin.alive(at(now)).unwrap_err().code(), "ASK_EXPIRED");
        assert_eq!(pin.verify("goal", &session("s1"), at(now)).unwrap_err().code(), "ASK_EXPIRED");
    }
}

#[test]
fn a_ttl_of_zero_or_beyond_the_last_moment_is_refused() {
    let last = (1 << 53) - 1;
    let pin = |ttl, now| PinnedAsk::pin("goal", &session("s1"), Millis::new(ttl).unwrap(), at(now));
    assert_eq!(pin(0, 5), Err(PinError::Ttl));
    assert_eq!(pin(last, 1), Err(PinError::Ttl));
    assert_eq!(pin(1, last), Err(PinError::Ttl));
    assert!(pin(last, 0).is_ok());
    assert_eq!(PinError::Ttl.code(), "ASK_TTL");
}

#[test]
fn a_clock_before_creation_is_refused() {
    let drift = pin("goal").verify("goal", &session("s1"), at(999)).unwrap_err();
    assert_eq!(drift.code(), "ASK_NOT_YET");
    assert_eq!(pin("goal").alive(at(999)), Err(drift));
}

#[test]
fn an_empty_or_blank_goal_is_refused() {
    for blank in ["", " ", "\t\n\u{b}\u{c}\r", "\u{a0}\u{3000}", "\u{85}\u{2028}"] {
        let pinned = PinnedAsk::pin(blank, &session("s1"), Millis::from_secs(1), at(0));
        assert_eq!(pinned.unwrap_err().code(), "ASK_EMPTY");
        assert_eq!(verify("goal", blank).unwrap_err().code(), "ASK_DRIFT");
    }
}

#[test]
fn a_goal_over_the_limits_is_refused() {
    let pin = |goal: &str| PinnedAsk::pin(goal, &session("s1"), Millis::from_secs(1), at(0));
    assert!(pin(&"a".repeat(64 << 10)).is_ok());
    assert!(pin(&"\u{e9}".repeat(32 << 10)).is_ok());
    assert!(pin(&format!("a{}", " ".repeat((256 << 10) - 1))).is_ok());
    for long in [
        "a".repeat((64 << 10) + 1),
        "\u{130}".repeat(32 << 10),
        "\u{1d160}".repeat(16 << 10),
        format!("a{}", " ".repeat(256 << 10)),
    ] {
        assert_eq!(pin(&long).unwrap_err().code(), "ASK_TOO_LONG");
    }
}

#[test]
fn megabyte_of_combining_marks_is_refused() {
    let marks = "\u{301}".repeat(512 << 10);
    let pinned = PinnedAsk::pin(&marks, &session("s1"), Millis::from_secs(1), at(0));
    assert_eq!(pinned, Err(PinError::TooLong));
    assert_eq!(verify("goal", &marks).unwrap_err().code(), "ASK_DRIFT");
}

#[test]
fn longest_run_of_marks_is_normalised() {
    // Combining classes 230 and 220 alternate, so the whole run must be sorted.
    let given = format!("a{}", "\u{301}\u{316}".repeat((16 << 10) - 1));
    let sorted = format!("a{}{}", "\u{316}".repeat((16 << 10) - 1), "\u{301}".repeat((16 << 10) - 1));
    assert_eq!(verify(&given, &sorted), Ok(()));
    let longest = "\u{301}\u{316}".repeat(64 << 10);
    let pinned = PinnedAsk::pin(&longest, &session("s1"), Millis::from_secs(1), at(0));
    assert_eq!(pinned, Err(PinError::TooLong));
}

#[test]
fn drift_contains_no_text() {
    let pinned = "wire 500 to ALICE-ACCOUNT";
    let restated = "wire 500 to MALLORY-ACCOUNT";
    let pin = pin(pinned);
    let drift = pin.verify(restated, &session("s1"), at(1_000)).unwrap_err();
    let both = [pin.digest().to_string(), super::pin(restated).digest().to_string()];
    let others = [
        pin.verify(restated, &session("s2"), at(1_000)).unwrap_err(),
        pin.verify(restated, &session("s1"), at(61_000)).unwrap_err(),
        pin.verify(restated, &session("s1"), at(0)).unwrap_err(),
        pin.verify(&restated.repeat(40_000), &session("s1"), at(1_000)).unwrap_err(),
    ];
    for text in [format!("{drift}"), format!("{drift:?}"), format!("{drift:#?}")] {
        assert!(both.iter().all(|digest| text.contains(digest)), "{text}");
    }
    for text in others.iter().flat_map(|d| [format!("{d}"), format!("{d:?}")]).chain([
        format!("{drift}"),
        format!("{drift:?}"),
        format!("{drift:#?}"),
        format!("{pin:?}"),
        serde_json::to_string(&pin).unwrap(),
    ]) {
        let text = text.to_lowercase();
        assert!(!["alice", "mallory", "wire", "500 to"].iter().any(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn invalid_restatement_has_the_digest_of_no_goal() {
    let drift = verify("goal", " ").unwrap_err();
    let label = "countersign/ask-1/unicode-17.0.0";
    let hashed =
        |label: &str, text: &[u8]| countersign_core::Digest::framed(label).field(b"s1").field(text).finish();
    assert_eq!(drift.restated(), Some(hashed(&format!("{label}/refused"), b" ")));
    assert_ne!(drift.restated(), Some(hashed(label, b" ")));
    assert_eq!(pin("goal").digest(), hashed(label, b"goal"));
}
