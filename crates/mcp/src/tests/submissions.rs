use countersign_committed_plan::PlanContext;
use countersign_core::{Digest, ServerName, SessionId};
use serde_json::{Value, json};

use super::json as read;
use crate::read_plan;
use crate::submission::{DEFINITION, SUBMIT_PLAN};

fn context() -> PlanContext {
    PlanContext::new(Digest::of(b"goal"), SessionId::new("s-1").unwrap(), 7).unwrap()
}

/// The committed JSON of the steps, or the refusal's code and text.
fn plan(text: &str) -> Result<String, (&'static str, String)> {
    let desk = ServerName::new("desk").unwrap();
    match read_plan(text.as_bytes(), &desk, context()) {
        Ok(plan) => Ok(plan.to_json()),
        Err(error) => Err((error.code(), error.to_string())),
    }
}

fn steps(steps: &Value) -> Result<String, (&'static str, String)> {
    plan(&json!({ "steps": steps }).to_string())
}

fn code(list: &Value) -> &'static str {
    steps(list).unwrap_err().0
}

#[test]
fn tool_name_without_a_server_means_the_wrapped_one() {
    let bare = steps(&json!([{ "tool": "search", "args": { "q": "x" } }])).unwrap();
    assert_eq!(bare, steps(&json!([{ "tool": "desk:search", "args": { "q": "x" } }])).unwrap());
    let spelled_out = json!([{ "tool": { "server": "desk", "name": "search" }, "args": { "q": "x" } }]);
    assert_eq!(bare, steps(&spelled_out).unwrap());
    assert_eq!(bare, plan(&spelled_out.to_string()).unwrap(), "the list alone says the same");
    assert!(bare.contains(r#""tool":{"name":"search","server":"desk"}"#), "{bare}");
    assert!(
        bare.contains(r#""registry_version":7,"session":"s-1""#),
        "the context is not the client's: {bare}"
    );
    let other = [json!({ "tool": "search", "args": {} }), json!({ "tool": "mail:send", "args": {} })];
    assert_eq!(
        steps(&json!(other)).unwrap_err(),
        ("PLAN_TOOL_UNDISCLOSED", "step 2: the tool is not disclosed to the session".into())
    );
    for name in ["", ":", "desk:", ":search", "desk:a:b", "se arch", "s\u{1b}[31m", "séarch"] {
        assert_eq!(code(&json!([{ "tool": name, "args": {} }])), "PLAN_ID", "{name}");
    }
}

#[test]
fn whatever_else_is_in_it_is_refused() {
    let step = json!({ "tool": "search", "args": {} });
    for text in ["{}", "7", "null", r#"{"steps":{}}"#, r#"{"steps":null}"#, r#"{"steps":[],"goal":"x"}"#] {
        let refused = plan(text).unwrap_err();
        assert!(refused.0 == "PLAN_SHAPE", "{text}: {refused:?}");
    }
    assert_eq!(code(&json!([])), "PLAN_EMPTY");
    assert_eq!(plan("[]").unwrap_err().0, "PLAN_EMPTY");
    let told = |list: Value| steps(&list).unwrap_err();
    let at_2 = ("PLAN_SHAPE", "step 2: a member is missing, unknown or of the wrong kind".to_owned());
    for bad in [
        json!(7),
        json!("search"),
        json!([]),
        json!({ "args": {} }),
        json!({ "tool": "search" }),
        json!({ "tool": { "server": "desk" }, "args": {} }),
        json!({ "tool": null, "args": {} }),
        json!({ "tool": "search", "args": {}, "goal": "x" }),
        json!({ "tool": "search", "args": {}, "dynamic": "/q" }),
        json!({ "tool": "search", "args": {}, "max_calls": "2" }),
    ] {
        assert_eq!(told(json!([step, bad])), at_2, "{bad}");
    }
    assert_eq!(code(&json!([{ "tool": "search", "args": {}, "max_calls": 0 }])), "PLAN_MAX_CALLS");
    assert_eq!(code(&json!([{ "tool": "search", "args": [] }])), "PLAN_ARGS");
    assert_eq!(plan(r#"{"steps":[{"tool":"a","args":{"q":1,"q":2}}]}"#).unwrap_err().0, "PLAN_JSON");
    assert_eq!(
        code(&json!([{ "tool": "search", "args": {}, "description": "a\u{1b}[2Jb" }])),
        "PLAN_DESCRIPTION"
    );
}

#[test]
fn oversized_or_too_deep_plan_is_refused() {
    let many = vec![json!({ "tool": "search", "args": { "q": "x" } }); 10_000];
    assert_eq!(code(&json!(many)), "PLAN_LIMIT");
    let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let nested = |depth| plan(&format!(r#"{{"steps":[{{"tool":"search","args":{}}}]}}"#, deep(depth)));
    assert!(nested(31).is_ok(), "as deep as a call's arguments: {:?}", nested(31));
    assert_eq!(nested(32).unwrap_err().0, "PLAN_LIMIT");
    let long = json!([{ "tool": "search", "args": { "q": "x".repeat(1 << 20) } }]);
    assert_eq!(code(&long), "PLAN_LIMIT");
}

#[test]
fn whole_plan_keeps_its_own_context() {
    let whole = steps(&json!([{ "tool": "search", "args": {} }])).unwrap();
    assert_eq!(plan(&whole).unwrap(), whole);
    let elsewhere = whole.replace("\"s-1\"", "\"s-2\"");
    assert_eq!(plan(&elsewhere).unwrap(), elsewhere, "whose it is, the gate asks");
    assert_eq!(plan(&whole.replace("desk", "mail")).unwrap_err().0, "PLAN_TOOL_UNDISCLOSED");
    assert_eq!(plan(&whole.replace("plan-1", "plan-9")).unwrap_err().0, "PLAN_RECIPE");
}

#[test]
fn tool_schema_states_the_enforced_limits() {
    let definition = read(DEFINITION);
    assert_eq!(definition.as_str(), DEFINITION, "canonical, so that its digest is nobody's surprise");
    let at = |pointer: &str| definition.value().pointer(pointer).unwrap();
    assert_eq!(at("/name").as_str(), Some(SUBMIT_PLAN));
    let number = |pointer: &str| at(pointer).as_u64().unwrap();
    let list = "/inputSchema/properties/steps";
    let of_step = |member: &str| format!("{list}/items/properties/{member}");
    let most = usize::try_from(number(&format!("{list}/maxItems"))).unwrap();
    let step = json!({ "tool": "search", "args": {} });
    assert!(steps(&json!(vec![step.clone(); most])).is_ok());
    assert_eq!(code(&json!(vec![step; most + 1])), "PLAN_LIMIT");
    let calls = number(&of_step("max_calls/maximum"));
    assert!(steps(&json!([{ "tool": "a", "args": {}, "max_calls": calls }])).is_ok());
    assert_eq!(code(&json!([{ "tool": "a", "args": {}, "max_calls": calls + 1 }])), "PLAN_MAX_CALLS");
    let long = usize::try_from(number(&of_step("description/maxLength"))).unwrap();
    assert!(steps(&json!([{ "tool": "a", "args": {}, "description": "x".repeat(long) }])).is_ok());
    assert_eq!(
        code(&json!([{ "tool": "a", "args": {}, "description": "x".repeat(long + 1) }])),
        "PLAN_DESCRIPTION"
    );
    let open = number(&of_step("dynamic/maxItems"));
    let places = |count: u64| (0..count).map(|at| format!("/a{at}")).collect::<Vec<_>>();
    assert!(steps(&json!([{ "tool": "a", "args": {}, "dynamic": places(open) }])).is_ok());
    assert_eq!(code(&json!([{ "tool": "a", "args": {}, "dynamic": places(open + 1) }])), "PLAN_LIMIT");
}
