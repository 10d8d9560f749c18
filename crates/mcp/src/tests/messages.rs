use proptest::prelude::*;

use super::json;
use crate::fault::Fault;
use crate::message::{Message, RpcId, error_line, result_line};

fn fault(text: &str) -> (Fault, Option<RpcId>) {
    let message = json(text);
    let refused = Message::read(message.value()).expect_err(text);
    (refused.fault, refused.id)
}

#[test]
fn each_kind_of_message_is_recognised() {
    let message = json(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}"#);
    assert!(matches!(Message::read(message.value()), Ok(Message::Request { id: RpcId::Number(1), .. })));
    let message = json(r#"{"jsonrpc":"2.0","method":"ping"}"#);
    assert!(matches!(Message::read(message.value()), Ok(Message::Notification { params: None, .. })));
    let message = json(r#"{"jsonrpc":"2.0","id":"a","result":null}"#);
    assert!(matches!(Message::read(message.value()), Ok(Message::Answer { id: RpcId::Text(_), .. })));
    let message = json(r#"{"jsonrpc":"2.0","id":"a","error":{}}"#);
    assert!(matches!(Message::read(message.value()), Ok(Message::Answer { .. })));
}

#[test]
fn an_id_that_is_null_fractional_long_or_structured_is_no_id() {
    let long = format!("\"{}\"", "x".repeat(257));
    for id in ["null", "1.5", "true", "[]", "{}", &long] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(fault(&text), (Fault::Id, None), "{id}");
    }
}

#[test]
fn an_id_that_was_rounded_on_reading_is_no_id() {
    let read = |id: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        let limits = countersign_canonical_json::Limits::default();
        let read = countersign_canonical_json::read(
            text.as_bytes(),
            countersign_canonical_json::Recipe::Rfc8785,
            &limits,
        );
        Message::read(read.unwrap().value()).is_ok()
    };
    assert!(read("9007199254740992"));
    assert!(!read("9007199254740993"));
}

#[test]
fn a_batch_is_refused() {
    assert_eq!(fault(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), (Fault::Batch, None));
    assert_eq!(fault("[]"), (Fault::Batch, None));
}

#[test]
fn a_message_with_unknown_or_contradicting_members_is_refused() {
    let one = Some(RpcId::Number(1));
    for (text, expected) in [
        ("1", (Fault::NotAnObject, None)),
        ("\"ping\"", (Fault::NotAnObject, None)),
        ("{}", (Fault::Version, None)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, (Fault::Version, one.clone())),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, (Fault::Version, one.clone())),
        (r#"{"jsonrpc":"2.0"}"#, (Fault::Member, None)),
        (r#"{"jsonrpc":"2.0","id":1}"#, (Fault::Member, None)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"x"}"#, (Fault::Member, one.clone())),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, (Fault::Member, one.clone())),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, (Fault::Member, None)),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#, (Fault::Member, None)),
        (r#"{"jsonrpc":"2.0","result":{}}"#, (Fault::Id, None)),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, (Fault::Method, None)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, (Fault::Params, one.clone())),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, (Fault::Params, one)),
    ] {
        assert_eq!(fault(text), expected, "{text}");
    }
}

#[test]
fn an_error_names_its_code_twice_and_repeats_nothing() {
    assert_eq!(
        error_line(Some(&RpcId::text("a\"b").unwrap()), Fault::NotAllowed),
        concat!(
            r#"{"error":{"code":-32601,"data":{"code":"METHOD_NOT_ALLOWED"},"#,
            r#""message":"the gateway does not allow the method"},"id":"a\"b","jsonrpc":"2.0"}"#
        )
    );
    assert!(error_line(None, Fault::Batch).contains(r#""id":null"#));
    assert_eq!(result_line(&RpcId::Number(-7), "{}"), r#"{"id":-7,"jsonrpc":"2.0","result":{}}"#);
}

proptest! {
    #[test]
    fn ids_survive_being_written_and_read(text in ".{0,80}", number in -(1_i64 << 53)..(1_i64 << 53)) {
        for id in [RpcId::Number(number), RpcId::text(&text).unwrap()] {
            let line = result_line(&id, "{}");
            let message = json(&line);
            let read = Message::read(message.value());
            let Ok(Message::Answer { id: read, .. }) = read else { panic!("no answer") };
            prop_assert_eq!(read, id);
        }
    }

    #[test]
    fn reading_any_text_as_a_message_never_panics(text in r#"[\[\]{}",:a-z0-9.\\ -]{0,60}"#) {
        let read = countersign_canonical_json::read(
            text.as_bytes(),
            countersign_canonical_json::Recipe::Rfc8785,
            &countersign_canonical_json::Limits::hard_caps(),
        );
        if let Ok(read) = read {
            let _ = Message::read(read.value());
        }
    }
}

#[test]
fn every_code_of_the_gateway_is_known_as_its_own() {
    let codes = include_str!("../fault.rs").split('"').skip(1).step_by(2);
    let is_code = |text: &&str| text.len() > 3 && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let codes: Vec<&str> = codes.filter(is_code).collect();
    assert!(codes.len() > 25, "{codes:?}");
    for code in codes.into_iter().chain(["JSON_BOM", "UNDISCLOSED_TOOL"]) {
        assert!(Fault::is_ours(code), "{code}");
    }
    for other in ["ENOENT", "", "method_not_allowed", "server:BATCH"] {
        assert!(!Fault::is_ours(other), "{other}");
    }
}
