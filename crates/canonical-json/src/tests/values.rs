use super::{jcs, refusal};
use crate::pool::{SHORT_TEXT, with_pool};
use crate::tape::Node;
use crate::*;

#[test]
fn a_node_takes_sixteen_bytes() {
    assert_eq!(size_of::<Node>(), 16);
}

#[test]
fn accessors_return_none_for_other_kinds() {
    let all = jcs(r#"[null,true,7,"x",[1,2],{"a":1}]"#).unwrap();
    let values: Vec<_> = all.value().elements().collect();
    let kinds: Vec<_> = values.iter().map(|v| v.kind()).collect();
    assert_eq!(kinds, [Kind::Null, Kind::Bool, Kind::Number, Kind::String, Kind::Array, Kind::Object]);
    for (i, value) in values.iter().enumerate() {
        assert_eq!(value.as_bool().is_some(), i == 1);
        assert_eq!(value.as_f64().is_some(), i == 2);
        assert_eq!(value.as_i64().is_some(), i == 2);
        assert_eq!(value.as_u64().is_some(), i == 2);
        assert_eq!(value.as_str().is_some(), i == 3);
        assert_eq!(value.elements().count(), if i == 4 { 2 } else { 0 });
        assert_eq!(value.members().count(), usize::from(i == 5));
        assert_eq!(value.len(), [0, 0, 0, 0, 2, 1][i]);
        assert_eq!(value.is_empty(), i < 4);
        assert_eq!(value.get("a").is_some(), i == 5);
    }
}

#[test]
fn whole_numbers_within_two_to_the_53_are_integers() {
    let int = |text| jcs(text).unwrap().value().as_i64();
    assert_eq!(int("-9007199254740992"), Some(-(1 << 53)));
    assert_eq!(int("9007199254740992"), Some(1 << 53));
    assert_eq!(int("9007199254740994"), None);
    assert_eq!(int("1e2"), Some(100));
    assert_eq!(int("-0"), Some(0));
    assert_eq!(int("0.5"), None);
    assert_eq!(int("1e300"), None);
    assert_eq!(int("5e-324"), None);
    assert_eq!(jcs("-1").unwrap().value().as_u64(), None);
    assert_eq!(jcs("9007199254740992").unwrap().value().as_u64(), Some(1 << 53));
}

#[test]
fn members_are_found_and_listed_in_canonical_order() {
    let object = jcs("{\"\u{ffff}\":1,\"\u{10000}\":2,\"b\":3,\"\":4,\"ab\":5}").unwrap();
    let names: Vec<_> = object.value().members().map(|(name, _)| name).collect();
    assert_eq!(names, ["", "ab", "b", "\u{10000}", "\u{ffff}"]);
    for (name, number) in [("", 4), ("ab", 5), ("b", 3), ("\u{10000}", 2), ("\u{ffff}", 1)] {
        assert_eq!(object.value().get(name).and_then(ValueRef::as_u64), Some(number));
    }
    for missing in ["a", "B", "abc", "\u{0}", "\u{e000}"] {
        assert!(object.value().get(missing).is_none());
    }
    assert_eq!(object.value().members().len(), 5);
}

#[test]
fn json_pointers_of_rfc_6901_name_their_values() {
    let text =
        r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#;
    let document = jcs(text).unwrap();
    let at = |pointer| document.value().pointer(pointer).map(ValueRef::canonical_text);
    assert_eq!(at("").as_deref(), Some(document.as_str()));
    assert_eq!(at("/foo").as_deref(), Some(r#"["bar","baz"]"#));
    assert_eq!(at("/foo/0").as_deref(), Some(r#""bar""#));
    for (pointer, number) in [
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/e^f", "3"),
        ("/g|h", "4"),
        ("/i\\j", "5"),
        ("/k\"l", "6"),
        ("/ ", "7"),
        ("/m~0n", "8"),
    ] {
        assert_eq!(at(pointer).as_deref(), Some(number), "{pointer}");
    }
    for none in
        ["foo", "/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/foo/", "/foo/0/0", "/m~n", "/m~2n", "/m~", "//"]
    {
        assert_eq!(at(none), None, "{none}");
    }
    // `~01` is a tilde and a one, not a slash.
    assert_eq!(jcs(r#"{"~1":1,"/":2}"#).unwrap().value().pointer("/~01").and_then(ValueRef::as_u64), Some(1));
}

#[test]
fn rounded_number_marks_its_containers_inexact() {
    let text = br#"{"a":[1,{"b":9007199254740993}],"c":[0.5]}"#;
    let rounded = read(text, Recipe::Rfc8785, &Limits::default()).unwrap();
    let exact = |pointer| rounded.value().pointer(pointer).map(ValueRef::is_exact);
    for (pointer, is) in [
        ("", false),
        ("/a", false),
        ("/a/0", true),
        ("/a/1", false),
        ("/a/1/b", false),
        ("/c", true),
        ("/c/0", true),
    ] {
        assert_eq!(exact(pointer), Some(is), "{pointer}");
    }
    let part = rounded.subtree(rounded.value().pointer("/a/1").unwrap());
    assert!(!part.value().is_exact());
    assert!(jcs("[1,[0.1]]").unwrap().value().is_exact());
}

#[test]
fn a_subtree_has_the_digest_of_its_own_bytes() {
    let whole = jcs(r#"{"z":{"b":["x",{"d":"\n","c":1}],"a":2},"y":"later"}"#).unwrap();
    let part = whole.subtree(whole.value().get("z").unwrap());
    assert_eq!(part.as_str(), r#"{"a":2,"b":["x",{"c":1,"d":"\n"}]}"#);
    assert_eq!(part.digest(), jcs(part.as_str()).unwrap().digest());
    assert_eq!(part.recipe(), Recipe::Jcs1);
    assert_eq!(part.value().pointer("/b/1/d").and_then(ValueRef::as_str), Some("\n"));
    let inner = part.subtree(part.value().pointer("/b/1").unwrap());
    assert_eq!(inner.as_str(), r#"{"c":1,"d":"\n"}"#);
}

#[test]
fn debug_output_shows_no_contents() {
    let canonical = jcs(r#"{"password":"hunter2","n":[4711]}"#).unwrap();
    let value = canonical.value();
    let error = jcs(r#"{"password":"hunter2" 4711}"#).unwrap_err();
    let shown = format!(
        "{canonical:?} {value:?} {:?} {:?} {:?} {error:?} {error}",
        value.members(),
        value.elements(),
        Reader::new(Limits::default())
    );
    for secret in ["password", "hunter2", "4711"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains(&canonical.digest().to_string()));
}

#[test]
fn refusal_leaves_no_state_in_the_reader() {
    let mut reader = Reader::new(Limits::default());
    for text in [r#"{"b":[1,{"a":"#, r#"{"x":1,"x":2}"#, r#"["a"#, "[[[[", "1e999", r#"{"a":{"b":{"c""#] {
        assert!(reader.read(text.as_bytes(), Recipe::Jcs1).is_err());
        let after = reader.read(br#"{"b":[{"d":1,"c":2}],"a":"x"}"#, Recipe::Jcs1).unwrap();
        assert_eq!(after.as_str(), r#"{"a":"x","b":[{"c":2,"d":1}]}"#);
    }
}

#[test]
fn string_may_end_at_any_offset() {
    for before in
        ["", "a", " ", "!", "#", "[", "]", "\u{7f}", "\u{80}", "\u{a2}", "\u{dc}\u{5c0}", "\u{10ffff}"]
    {
        for after in ["\u{1}", "!", "#", "]", "\u{a0}\u{a2}", "\u{10ffff}", "\"", "\\"] {
            for count in 0..20 {
                let text = before.repeat(count);
                let ended = format!("[\"{text}\",\"\"]");
                assert_eq!(jcs(&ended).unwrap().value().pointer("/0").unwrap().as_str(), Some(&*text));
                let quoted = format!("[\"{text}\\\\\\\"{text}\"]");
                let expected = format!("{text}\\\"{text}");
                assert_eq!(jcs(&quoted).unwrap().value().pointer("/0").unwrap().as_str(), Some(&*expected));
                assert_eq!(jcs(&quoted).unwrap().as_str(), quoted);
                let control = format!("[\"{text}\u{1f}{}\"]", after.repeat(9));
                assert_eq!(refusal(control.as_bytes()), Some(("JSON_CONTROL_CHARACTER", 2 + text.len())));
            }
        }
    }
}

#[test]
fn reader_does_not_keep_the_spelling_of_a_text() {
    let mut reader = Reader::new(Limits::default());
    for text in
        [r#"{"a":"x","b":[1,true]}"#, r#"{"b":[1.0,true],"a":"\u0078"}"#, r#"{"a":"x","b":[1, true]}"#]
    {
        for _ in 0..2 {
            let canonical = reader.read(text.as_bytes(), Recipe::Jcs1).unwrap();
            assert_eq!(canonical.as_str(), r#"{"a":"x","b":[1,true]}"#);
            assert_eq!(canonical.value().canonical_text(), canonical.as_str());
        }
    }
}

#[test]
fn refused_texts_do_not_accumulate_memory() {
    let mut reader = Reader::new(Limits::default());
    for _ in 0..100 {
        assert!(reader.read(br#"{"a":{"b":{"c":"#, Recipe::Jcs1).is_err());
        assert!(reader.held_names() <= 3);
    }
}

#[test]
fn large_texts_leave_no_large_buffers() {
    let limits = Limits::default().bytes(4 << 20).unwrap();
    let escapes = format!("[{}1]", r#""\u0041",1.0,"#.repeat(30_000));
    let names: String = (0..60_000).map(|n| format!(r#""{n}":{n},"#)).collect();
    for text in [escapes, format!(r#"{{{names}"x":1}}"#)] {
        assert!(digest(text.as_bytes(), Recipe::Jcs1, &limits).is_ok());
        assert!(read(text.as_bytes(), Recipe::Jcs1, &limits).is_ok());
        assert!(read(format!("{text}!").as_bytes(), Recipe::Jcs1, &limits).is_err());
        assert!(with_pool(|pool| pool.footprint()) <= 64 << 10);
    }
    assert!(digest(b"[1]", Recipe::Jcs1, &limits).is_ok());
    assert!(read(b"[1]", Recipe::Jcs1, &limits).is_ok());
    assert!((1..=64 << 10).contains(&with_pool(|pool| pool.footprint())));
}

#[test]
fn short_texts_leave_no_large_buffers() {
    let repeated = |part: &str| format!("[{}1]", part.repeat((SHORT_TEXT - 3) / part.len()));
    let letters = || ('#'..='~').filter(|letter| *letter != '\\');
    let names = letters().flat_map(|a| letters().map(move |b| format!(r#""{a}{b}":0,"#)));
    let names: String = names.take((SHORT_TEXT - 7) / 7).collect();
    let escapes = format!(r#""\n{}""#, "\\u0041".repeat((SHORT_TEXT - 4) / 6));
    for text in [repeated("0,"), repeated("1e20,"), repeated("[],"), escapes, format!(r#"{{{names}"x":0}}"#)]
    {
        assert!((SHORT_TEXT - 7..=SHORT_TEXT).contains(&text.len()), "{}", text.len());
        assert!(digest(text.as_bytes(), Recipe::Jcs1, &Limits::default()).is_ok(), "{text}");
        assert!(read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).is_ok());
        assert!(with_pool(|pool| pool.stacks_footprint()) <= 64 << 10);
        assert!(with_pool(|pool| pool.footprint()) <= 1 << 20);
    }
}

#[test]
fn strings_are_written_as_rfc_8785_says() {
    let mut out = String::new();
    write_string(
        &mut out,
        "\u{0}\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{e}\u{f}\u{10}\u{1f} \"\\/\u{7f}\u{80}\u{2028}\u{10ffff}",
    );
    assert_eq!(
        out,
        "\"\\u0000\\u0001\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\\u0010\\u001f \\\"\\\\/\u{7f}\u{80}\u{2028}\u{10ffff}\""
    );
}

#[test]
fn a_limit_is_the_last_value_that_is_accepted() {
    let limits = Limits::default().bytes(5).unwrap().depth(1).unwrap().width(2).unwrap();
    let refused =
        |text: &str| read(text.as_bytes(), Recipe::Jcs1, &limits).err().map(|e| (e.code(), e.offset()));
    assert_eq!(refused("[1,2]"), None);
    assert_eq!(refused("[1,2] "), Some(("JSON_TOO_LARGE", 5)));
    assert_eq!(refused("[[]]"), Some(("JSON_TOO_DEEP", 1)));
    let limits = limits.bytes(100).unwrap();
    let refused =
        |text: &str| read(text.as_bytes(), Recipe::Jcs1, &limits).err().map(|e| (e.code(), e.offset()));
    assert_eq!(refused("[1,2, 3]"), Some(("JSON_TOO_WIDE", 6)));
    assert_eq!(refused(r#"{"a":1,"b":2}"#), None);
    assert_eq!(refused(r#"{"a":1,"b":2,"c":3}"#), Some(("JSON_TOO_WIDE", 13)));
    let scalars = limits.depth(0).unwrap();
    assert!(read(b"1", Recipe::Jcs1, &scalars).is_ok());
    assert_eq!(
        read(b" []", Recipe::Jcs1, &scalars).map_err(|e| (e.code(), e.offset())).err(),
        Some(("JSON_TOO_DEEP", 1))
    );
    let narrow = limits.width(0).unwrap();
    assert!(read(b"[]", Recipe::Jcs1, &narrow).is_ok() && read(b"{}", Recipe::Jcs1, &narrow).is_ok());
    assert_eq!(read(b"[1]", Recipe::Jcs1, &narrow).err().map(|e| e.code()), Some("JSON_TOO_WIDE"));
}

#[test]
fn read_value_is_held_to_other_limits_like_its_text() {
    let texts: [&[u8]; 8] = [
        b"7",
        b"[]",
        br#"{"a":{"b":[1,2,3]}}"#,
        b"[[],[[]],1]",
        b"[1,2,3]",
        b"[[1,2,3],[1]]",
        br#"{"a":1,"b":2}"#,
        b"[[[]]]",
    ];
    for text in texts {
        let value = read(text, Recipe::Jcs1, &Limits::hard_caps()).unwrap();
        for (bytes, depth, width) in
            [(100, 3, 3), (100, 2, 3), (100, 1, 3), (100, 0, 3), (100, 3, 2), (100, 3, 0), (6, 3, 3)]
        {
            let limits = Limits::default().bytes(bytes).unwrap();
            let limits = limits.depth(depth).unwrap().width(width).unwrap();
            assert_eq!(
                value.check_limits(&limits),
                read(text, Recipe::Jcs1, &limits).map(drop),
                "{limits:?}"
            );
        }
    }
    let sent = read(br#"{"a":[[1]],"b":2}"#, Recipe::Jcs1, &Limits::default()).unwrap();
    let flat = Limits::default().depth(1).unwrap();
    assert!(sent.check_limits(&flat).is_err());
    assert!(sent.without(&["a"]).check_limits(&flat).is_ok());
}

#[test]
fn empty_object_is_the_one_that_is_read() {
    let empty = Canonical::empty_object(Recipe::Jcs1);
    assert_eq!(empty, read(b"{}", Recipe::Jcs1, &Limits::default()).unwrap());
    assert_eq!((empty.value().kind(), empty.value().len()), (Kind::Object, 0));
}

#[test]
fn limits_above_the_hard_caps_are_refused() {
    let limits = Limits::default();
    assert_eq!((limits.max_bytes(), limits.max_depth(), limits.max_width()), (1 << 20, 32, 65_536));
    assert_eq!(limits.bytes((256 << 20) + 1).map_err(|e| e.code()), Err("JSON_LIMIT_OUT_OF_RANGE"));
    assert_eq!(limits.depth(129).unwrap_err().to_string(), "the depth limit can be at most 128");
    assert!(limits.width((256 << 20) + 1).is_err());
    assert!(limits.bytes(256 << 20).is_ok() && limits.depth(128).is_ok());
}

#[test]
fn reserved_members_are_stripped_at_the_top_only() {
    let sent = jcs(r#"{"z":[1,{"x":2}],"x":{"x":3},"a":{"x":4,"b":"\u0001"}}"#).unwrap();
    let left = sent.clone().without(&["x", "missing", "x"]);
    assert_eq!(left.as_str(), r#"{"a":{"b":"\u0001","x":4},"z":[1,{"x":2}]}"#);
    assert_eq!(left.value().pointer("/z/1/x").and_then(ValueRef::as_u64), Some(2));
    assert!(left.value().get("x").is_none());
    assert_eq!(left.digest(), jcs(left.as_str()).unwrap().digest());
    assert_eq!(sent.clone().without(&["a", "x", "z"]), jcs("{}").unwrap());
    assert_eq!(sent.clone().without(&[]), sent);
    for other in ["[{\"x\":1}]", "\"x\"", "7", "null"] {
        assert_eq!(jcs(other).unwrap().without(&["x"]), jcs(other).unwrap());
    }
}

#[test]
fn object_is_exact_without_its_rounded_member() {
    let text = br#"{"a":{"n":9007199254740993},"b":[1]}"#;
    let sent = read(text, Recipe::Rfc8785, &Limits::default()).unwrap();
    assert!(!sent.value().is_exact());
    assert!(!sent.clone().without(&["b"]).value().is_exact());
    assert!(sent.clone().without(&["a"]).value().is_exact());
    assert_eq!(sent.without(&["a"]).recipe(), Recipe::Rfc8785);
}
