use proptest::prelude::*;
use serde_json::{Value, json};

use crate::glean::{Gleaned, Gleaner, glean};
use crate::message::RpcId;

fn found(id: i64, method: Option<&str>) -> Gleaned {
    let method = method.map(Into::into);
    Gleaned { id: Some(RpcId::Number(id)), is_answer: method.is_none(), method }
}

#[test]
fn malformed_line_still_yields_its_id() {
    let twice = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":1,"a":"\ud800"}}"#;
    assert_eq!(glean(twice), found(7, Some("tools/call")));
    assert_eq!(glean(br#"{"id":1.5,"method":1}"#), Gleaned::default());
    for nothing in ["garbage", "", "{", r#"{"id":1"#, r#"{"id":1} {}"#, r#"[{"id":1}]"#, r#"7{"id":1}"#] {
        assert_eq!(glean(nothing.as_bytes()), Gleaned::default(), "{nothing}");
    }
    assert_eq!(glean("[".repeat(100_000).as_bytes()), Gleaned::default());
}

#[test]
fn an_id_is_found_behind_everything_else() {
    let line = r#"{"result":{"id":2,"x":"\"}],\\","method":"m","a":[{"id":3}]}, "id" : 1 }"#;
    assert_eq!(glean(line.as_bytes()), found(1, None));
    assert_eq!(glean(br#"{"x":"\\","\u0069d":"a\u0062"}"#).id, RpcId::text("ab"));
}

#[test]
fn two_ids_are_none() {
    assert_eq!(glean(br#"{"id":1,"id":1}"#).id, None);
    assert_eq!(glean(br#"{"id":1,"i\u0064":2}"#).id, None);
    for id in ["{}", "[1]", "null", "1.5", "{\"id\":1}", "true"] {
        assert_eq!(glean(format!(r#"{{"id":{id}}}"#).as_bytes()).id, None, "{id}");
    }
}

#[test]
fn a_method_that_cannot_be_read_is_still_no_answer() {
    for method in ["7", "\"\\ud800\"", "{}", "\"a\",\"method\":\"b\""] {
        let gleaned = glean(format!(r#"{{"id":1,"method":{method}}}"#).as_bytes());
        assert_eq!((gleaned.method, gleaned.is_answer), (None, false), "{method}");
    }
}

#[test]
fn memory_does_not_grow_with_the_line() {
    let mut gleaner = Gleaner::default();
    gleaner.read(br#"{"id":""#);
    gleaner.read(&[b'x'; 100_000]);
    gleaner.read(br#"","method":"m"}"#);
    assert!(std::mem::size_of_val(&gleaner) < 512);
    assert_eq!(gleaner.finish(), Gleaned { id: None, method: Some("m".into()), is_answer: false });
}

proptest! {
    #[test]
    fn line_read_in_pieces_yields_the_same_id(
        id in prop_oneof![any::<i32>().prop_map(Value::from), "[a-c\"\\\\ é]{0,9}".prop_map(Value::from)],
        text in ".{0,30}",
        at in 0_usize..60,
        last in any::<bool>(),
    ) {
        let (id_json, rest) = (id.to_string(), json!({ "x": [{ "id": text }], "id": 7 }).to_string());
        let line = if last {
            format!(r#"{{"result":{rest},"id":{id_json}}}"#)
        } else {
            format!(r#"{{"id":{id_json},"result":{rest}}}"#)
        };
        let (one, two) = line.as_bytes().split_at(at.min(line.len()));
        let mut gleaner = Gleaner::default();
        gleaner.read(one);
        gleaner.read(two);
        let expected = id.as_i64().map(RpcId::Number).or_else(|| RpcId::text(id.as_str()?));
        prop_assert_eq!(gleaner.finish().id, expected);
    }

    #[test]
    fn gleaning_any_text_never_panics(text in r#"[\[\]{}",:a-z0-9.\\ -]{0,60}"#) {
        let _ = glean(text.as_bytes());
    }
}
