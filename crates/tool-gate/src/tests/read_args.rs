use countersign_canonical_json::{Limits, Recipe, read};

use super::world::*;
use crate::*;

fn args(text: &str, recipe: Recipe) -> CallArgs {
    CallArgs::new(read(text.as_bytes(), recipe, &Limits::hard_caps()).unwrap())
}

#[test]
fn read_value_is_decided_like_its_text() {
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let long = format!(r#"{{"query":"{}"}}"#, "x".repeat(2 << 20));
    for text in [
        r#"{"query":"T-1001"}"#,
        r#"{"__pic_request_id":"r-7","query":"T-1001"}"#,
        r#"{"__pic_request_id":7,"query":"T-1001"}"#,
        r#"{"__pic":{"a":1},"query":"T-1001"}"#,
        r#"{"other":1}"#,
        "[1]",
        &format!(r#"{{"query":{deep}}}"#),
        &long,
    ] {
        let world = World::new();
        let (of_text, of_value) = (world.gate(), world.gate());
        let args = args(text, Recipe::Jcs1);
        drop(of_text.check(&ToolCall::new("c", "desk", "search", text.as_bytes())));
        drop(of_value.check(&ToolCall::from_read("c", Some("desk"), "search", &args)));
        let record = |gate: &ToolGate| serde_json::to_string(gate.call_log().last().unwrap()).unwrap();
        assert_eq!(record(&of_value), record(&of_text));
    }
}

#[test]
fn accepted_call_has_the_value_that_was_handed_over() {
    let gate = World::new().gate();
    let args = args(r#"{"__pic_request_id":"r-7","query":"T-1001"}"#, Recipe::Jcs1);
    let accepted = gate.check(&ToolCall::from_read("c", None, "search", &args)).unwrap();
    assert_eq!(accepted.args(), args.own());
    assert_eq!(accepted.args().as_str(), r#"{"query":"T-1001"}"#);
}

#[test]
fn value_of_another_recipe_is_refused() {
    let gate = World::new().gate();
    let args = args(r#"{"query":"T-1001"}"#, Recipe::Rfc8785);
    let refused = gate.check(&ToolCall::from_read("c", None, "search", &args)).unwrap_err();
    assert_eq!(refused.code(), RejectionCode::MalformedCall);
}
