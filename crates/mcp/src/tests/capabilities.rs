use std::collections::BTreeSet;

use super::json;
use crate::capabilities::{of_client, of_server};

const SERVER: &str = r#"{
    "completions": {}, "experimental": { "x": {} }, "extensions": { "a.b/c": {} }, "logging": { "x": 1 },
    "prompts": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true, "x": 1 },
    "tasks": { "cancel": {}, "list": {}, "requests": { "tools": { "call": {} } } },
    "tools": { "listChanged": true, "x": 1 }
}"#;

const CLIENT: &str = r#"{
    "elicitation": { "form": {}, "url": {} }, "experimental": { "x": {} }, "roots": { "listChanged": true },
    "sampling": { "tools": {} }, "tasks": { "list": {}, "requests": { "sampling": { "createMessage": {} } } }
}"#;

fn methods(methods: &[&str]) -> BTreeSet<Box<str>> {
    methods.iter().map(|method| (*method).into()).collect()
}

#[test]
fn server_capabilities_are_narrowed_by_default() {
    let narrowed = of_server(json(SERVER).value(), &methods(&[]), false);
    assert_eq!(narrowed, r#"{"logging":{},"tools":{"listChanged":true}}"#);
}

#[test]
fn allowed_methods_widen_the_server_capabilities() {
    let allowed = |also: &[&str]| of_server(json(SERVER).value(), &methods(also), false);
    let with = |more: &str| {
        let mut members = [r#""logging":{}"#, r#""tools":{"listChanged":true}"#, more];
        members.sort_unstable();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(allowed(&["resources/read"]), with(r#""resources":{"listChanged":true}"#));
    let subscribes = allowed(&["resources/list", "resources/subscribe"]);
    assert_eq!(subscribes, with(r#""resources":{"listChanged":true,"subscribe":true}"#));
    assert_eq!(allowed(&["prompts/get"]), with(r#""prompts":{"listChanged":true}"#));
    assert_eq!(allowed(&["completion/complete"]), with(r#""completions":{}"#));
    assert_eq!(allowed(&["tasks/list"]), with(r#""tasks":{"list":{}}"#));
}

#[test]
fn allowed_methods_widen_the_client_capabilities() {
    let allowed = |also: &[&str]| of_client(json(CLIENT).value(), &methods(also));
    let roots = r#""roots":{"listChanged":true}"#;
    assert_eq!(allowed(&[]), format!("{{{roots}}}"));
    assert_eq!(allowed(&["sampling/createMessage"]), format!("{{{roots},\"sampling\":{{\"tools\":{{}}}}}}"));
    assert_eq!(
        allowed(&["elicitation/create"]),
        format!("{{\"elicitation\":{{\"form\":{{}},\"url\":{{}}}},{roots}}}")
    );
}

#[test]
fn capabilities_that_are_no_object_are_none() {
    for text in ["null", "7", "[]", r#"{"tools":7}"#] {
        let narrowed = of_server(json(text).value(), &methods(&[]), false);
        assert!(["{}", r#"{"tools":{}}"#].contains(&narrowed.as_str()), "{text}: {narrowed}");
    }
}

#[test]
fn known_members_of_capabilities_pass_no_other_values() {
    let hidden = r#"{"_meta":{"dev.countersign/decision":1},"x":[1]}"#;
    let client = format!(
        r#"{{"elicitation":{{"form":{hidden},"url":7}},"roots":{{"listChanged":{hidden}}},
        "tasks":{{"list":{hidden},"requests":{{"elicitation":{{"create":7}},"sampling":{{"createMessage":{hidden},"x":{{}}}}}}}}}}"#
    );
    let also = methods(&["elicitation/create", "tasks/list", "tasks/result"]);
    assert_eq!(
        of_client(json(&client).value(), &also),
        r#"{"elicitation":{"form":{}},"roots":{},"tasks":{"list":{},"requests":{"sampling":{"createMessage":{}}}}}"#
    );
    let server =
        format!(r#"{{"tools":{{"listChanged":{hidden}}},"tasks":{{"cancel":{hidden},"list":{{}}}}}}"#);
    assert_eq!(
        of_server(json(&server).value(), &methods(&["tasks/cancel", "tasks/list"]), false),
        r#"{"tasks":{"cancel":{},"list":{}},"tools":{}}"#
    );
}
