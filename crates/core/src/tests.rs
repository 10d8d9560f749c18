mod rfc3339;
mod thread_number;

use proptest::prelude::*;

use crate::*;

#[test]
fn id_has_1_to_256_bytes() {
    assert_eq!(CallId::new(""), Err(IdError::Empty { what: "call id" }));
    assert!(CallId::new("a").is_ok());
    assert!(CallId::new(&"a".repeat(256)).is_ok());
    assert_eq!(CallId::new(&"a".repeat(257)), Err(IdError::TooLong { what: "call id", max: 256 }));
    assert!(CallId::new("\u{e9}t\u{e9} 7|x").is_ok());
}

#[test]
fn id_with_an_invisible_character_is_refused() {
    for bad in [
        "a\n",
        "\0",
        "a\u{1b}[2J",
        "a\u{202e}b",
        "a\u{200b}",
        "\u{feff}a",
        " a",
        "a ",
        "a\u{a0}b",
        "a\u{e0041}",
        "a\u{2800}b",
        "a\u{1d159}b",
    ] {
        assert!(matches!(Principal::new(bad), Err(IdError::Character { .. })), "{bad:?}");
        assert!(serde_json::from_str::<Principal>(&serde_json::to_string(bad).unwrap()).is_err());
    }
}

#[test]
fn tool_name_outside_its_grammar_is_refused() {
    assert!(ToolName::new("files/read_v1.2-x").is_ok());
    assert!(ToolName::new(&"a".repeat(128)).is_ok());
    for bad in ["", "a b", "a:b", "a*", "se\u{430}rch", "\u{ff41}", "a\u{200b}", &"a".repeat(129)] {
        assert!(ToolName::new(bad).is_err(), "{bad:?}");
        assert!(ServerName::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_digest_has_one_spelling() {
    let digest = Digest::of(b"x");
    let text = digest.to_string();
    assert_eq!(text.parse(), Ok(digest));
    assert!(text.to_uppercase().parse::<Digest>().is_err());
    assert!(text.get(..63).unwrap().parse::<Digest>().is_err());
    assert!(format!("{text}0").parse::<Digest>().is_err());
    assert!(format!("{}\u{e9}", text.get(..62).unwrap()).parse::<Digest>().is_err());
    assert_ne!(digest, Digest::of(b"y"));
    for at in 0..64 {
        for bad in ["/", ":", "@", "A", "F", "G", "`", "g", " ", "\u{0}", "\u{7f}"] {
            let mut other = text.clone();
            other.replace_range(at..=at, bad);
            assert!(other.parse::<Digest>().is_err(), "{other}");
        }
    }
}

#[test]
fn two_digests_differ_whichever_bit_does() {
    let digest = Digest::of(b"x");
    for at in 0..256 {
        let mut bytes = *digest.as_bytes();
        bytes[at / 8] ^= 1 << (at % 8);
        assert_ne!(digest, Digest::from_bytes(bytes));
        bytes[at / 8] ^= 1 << (at % 8);
        assert_eq!(digest, Digest::from_bytes(bytes));
    }
}

#[test]
fn fields_in_one_piece_have_the_digest_of_framed_ones() {
    for length in 0..400 {
        let (one, other) = (vec![1; length], vec![2; length / 3]);
        let framed = Digest::framed("label").field(&one).field(&other).finish();
        assert_eq!(Digest::of_fields("label", [&one, &other]), framed, "{length}");
    }
}

#[test]
fn fields_of_a_digest_are_framed() {
    let ab_c = Digest::framed("l").field(b"ab").field(b"c").finish();
    assert_ne!(ab_c, Digest::framed("l").field(b"a").field(b"bc").finish());
    assert_ne!(ab_c, Digest::framed("l").field(b"abc").finish());
    assert_ne!(ab_c, Digest::framed("m").field(b"ab").field(b"c").finish());
}

#[test]
fn a_time_above_two_to_the_53_is_refused() {
    let last = Timestamp::from_millis((1 << 53) - 1).unwrap();
    assert_eq!(Timestamp::from_millis(1 << 53), Err(TimeError::OutOfRange));
    assert_eq!(last.checked_add(Millis::from_secs(1)), Err(TimeError::OutOfRange));
    assert_eq!(last.saturating_add(Millis::from_secs(1)), last);
    assert!(serde_json::from_str::<Timestamp>("9007199254740992").is_err());
    assert!(serde_json::from_str::<Timestamp>("-1").is_err());
    assert!(serde_json::from_str::<Timestamp>("1.5").is_err());
}

#[test]
fn a_time_is_written_as_rfc_3339() {
    let shown = |millis| Timestamp::from_millis(millis).unwrap().to_string();
    assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(shown(951_782_400_000), "2000-02-29T00:00:00.000Z");
    assert_eq!(shown(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
    assert_eq!(shown(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
}

#[test]
fn negative_or_broken_spans_in_json_are_rejected() {
    assert_eq!(serde_json::from_str::<Millis>("1500").unwrap(), Millis::new(1_500).unwrap());
    for bad in ["-1", "1.5", "\"1s\"", "9007199254740992"] {
        assert!(serde_json::from_str::<Millis>(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_span_is_read_from_a_number_and_a_unit() {
    assert_eq!("60s".parse(), Ok(Millis::from_secs(60)));
    assert_eq!("1d".parse(), Ok(Millis::from_secs(86_400)));
    assert_eq!("250ms".parse(), Millis::new(250));
    for bad in ["", "60", "s", "-1s", "1.5s", "1 s", "1S", "+1s", "1w"] {
        assert_eq!(bad.parse::<Millis>(), Err(TimeError::Span), "{bad}");
    }
    assert_eq!("99999999999999999999s".parse::<Millis>(), Err(TimeError::OutOfRange));
    assert_eq!("9007199254740991s".parse::<Millis>(), Err(TimeError::OutOfRange));
    assert_eq!(Millis::from_secs(90).to_string(), "90s");
    assert_eq!(Millis::from_secs(120).to_string(), "2m");
    assert_eq!(Millis::ZERO.to_string(), "0ms");
}

#[test]
fn a_broken_clock_is_an_error_until_it_is_set() {
    let clock = ManualClock::new(Timestamp::EPOCH);
    clock.break_down();
    assert_eq!(clock.now(), Err(ClockError));
    clock.set(Timestamp::EPOCH);
    clock.advance(Millis::from_secs(2)).unwrap();
    assert_eq!(clock.now(), Timestamp::from_millis(2_000).map_err(|_| ClockError));
}

#[test]
fn hidden_characters_are_escaped() {
    assert_eq!(escape_hidden("a\u{202e}b\n\\\u{e9}"), "a\\u{202e}b\\u{a}\\\\\u{e9}");
}

#[test]
fn names_that_differ_in_case_or_script_look_alike() {
    for (one, other) in
        [("bot", "BOT"), ("bot", "b\u{43e}t"), ("bot", "bot."), ("a  b", "a b"), ("bot", "\u{ff42}ot")]
    {
        assert!(look_alike(one, other), "{one:?} {other:?}");
    }
    for (one, other) in [("bot", "bob"), ("bot", "bot2"), ("a b", "ab")] {
        assert!(!look_alike(one, other), "{one:?} {other:?}");
    }
}

/// Checks the keys of two names, and that comparing the names is comparing their keys.
fn check_keys(one: &str, other: &str) {
    let full = [one, other].map(crate::text::full_lookalike_keys);
    assert_eq!([one, other].map(lookalike_keys), full);
    let [keys, others] = full;
    let alike = one == other || keys.iter().zip(&others).any(|(key, other)| key == other);
    assert_eq!(look_alike(one, other), alike, "{one:?} {other:?}");
}

#[test]
fn ascii_characters_look_alike_as_their_full_keys_do() {
    let names: Vec<String> = ('\0'..='\x7f').map(String::from).collect();
    for (one, other) in names.iter().flat_map(|one| names.iter().map(move |other| (one, other))) {
        check_keys(one, other);
    }
}

proptest! {
    #[test]
    fn ascii_keys_are_the_full_ones(
        one in "(m|r|n|rn|M|0|O|o|1|l|I|i|L|[|]|`|'|\"|''| |[.]|a|A|%|\t|\u{e9}|\u{430}){0,5}",
        other in "(m|r|n|rn|M|0|O|o|1|l|I|i|L|[|]|`|'|\"|''| |[.]|a|A|%|\t|\u{e9}|\u{430}){0,5}",
        ascii in "[ -~]{0,12}",
    ) {
        check_keys(&one, &other);
        check_keys(&one, &one.to_uppercase());
        check_keys(&one, &one.replace("rn", "m").replace('l', "1"));
        check_keys(&ascii, &ascii.to_uppercase());
    }
}

#[test]
fn a_recipe_has_one_spelling() {
    for recipe in Recipe::ALL {
        assert_eq!(recipe.to_string().parse(), Ok(recipe));
        assert_eq!(serde_json::to_value(recipe).unwrap(), recipe.as_str());
        assert_eq!(serde_json::from_value::<Recipe>(recipe.as_str().into()).unwrap(), recipe);
    }
    assert_eq!(Recipe::default(), Recipe::Jcs1);
    for other in ["", "JCS-1", "jcs-2", "jcs-1 ", "rfc-8785", "none", "pic-cjson", "PIC-CJSON-1"] {
        assert_eq!(other.parse::<Recipe>(), Err(RecipeError));
        assert!(serde_json::from_value::<Recipe>(other.into()).is_err());
    }
}
