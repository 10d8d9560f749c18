use std::collections::BTreeSet;

use super::json;
use crate::cut::{Edits, ValuePosition};
use crate::members::strange;

fn cut(method: &str, params: &str) -> Option<(Vec<String>, Vec<String>)> {
    let params = json(params);
    let owned = |names: BTreeSet<&str>| names.into_iter().map(ToOwned::to_owned).collect();
    strange(method, Some(params.value())).map(|found| (owned(found.params), owned(found.meta)))
}

#[test]
fn known_members_pass() {
    for (method, params) in [
        ("ping", "{}"),
        ("ping", r#"{"_meta":{"progressToken":1,"traceparent":"00-a-b-01","tracestate":"v=1"}}"#),
        ("logging/setLevel", r#"{"level":"debug"}"#),
        ("notifications/progress", r#"{"message":"half","progress":0.5,"progressToken":"t","total":1}"#),
        ("notifications/cancelled", r#"{"reason":"late","requestId":1}"#),
        ("notifications/message", r#"{"data":{"any":[1]},"level":"info","logger":"l"}"#),
        ("notifications/resources/updated", r#"{"uri":"x:y"}"#),
        ("tools/list", r#"{"cursor":"c"}"#),
        ("resources/read", r#"{"anything":1}"#),
    ] {
        assert_eq!(cut(method, params), None, "{method}: {params}");
    }
    assert_eq!(strange("ping", None), None);
}

#[test]
fn other_members_do_not_pass() {
    for method in [
        "initialize",
        "logging/setLevel",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/message",
        "notifications/progress",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/roots/list_changed",
        "notifications/tools/list_changed",
        "ping",
        "roots/list",
        "tools/list",
    ] {
        let found = cut(method, r#"{"_Meta":{},"_meta":{"note":"n","progressToken":1},"note":"secret"}"#);
        let expected = (vec!["_Meta".into(), "note".into()], vec!["note".into()]);
        assert_eq!(found, Some(expected), "{method}");
    }
}

#[test]
fn values_that_could_carry_more_do_not_pass() {
    let long = format!("\"{}\"", "x".repeat(1_025));
    for (method, member, value) in [
        ("logging/setLevel", "level", r#""secret""#),
        ("logging/setLevel", "level", r#"{"debug":1}"#),
        ("notifications/progress", "message", long.as_str()),
        ("notifications/progress", "message", "[1]"),
        ("notifications/progress", "progress", r#""1""#),
        ("notifications/progress", "progressToken", "1.5"),
        ("notifications/progress", "progressToken", long.as_str()),
        ("notifications/cancelled", "reason", long.as_str()),
        ("ping", "_meta", r#""secret""#),
    ] {
        let found = cut(method, &format!("{{\"{member}\":{value}}}"));
        assert_eq!(found, Some((vec![member.into()], vec![])), "{method}: {value}");
    }
    let found = cut("ping", r#"{"_meta":{"progressToken":{"a":1},"traceparent":7}}"#);
    assert_eq!(found, Some((vec![], vec!["progressToken".into(), "traceparent".into()])));
}

#[test]
fn widest_line_of_unknown_members_is_cut() {
    let unknown: Vec<String> = (0..65_536).map(|n| format!("\"unknown-{n}\":0")).collect();
    let line = format!("{{\"params\":{{{}}}}}", unknown.join(","));
    let message = json(&line);
    let found = strange("ping", message.value().get("params")).unwrap();
    assert_eq!(found.params.len(), 65_536);
    let mut edits = Edits::new(line.as_bytes());
    found.cut(&mut edits, &ValuePosition::new(line.as_bytes()));
    assert_eq!(edits.finish(), br#"{"params":{}}"#);
}
