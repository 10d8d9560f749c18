use countersign_audit_log::{Record, RecordedValues};
use countersign_core::*;
use proptest::prelude::*;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

fn tool(name: &str) -> ToolId {
    ToolId::new("desk", name).unwrap()
}

fn fields(of: &[(&str, &str)]) -> RecordedFields {
    of.iter()
        .fold(RecordedFields::new(), |fields, (name, pointer)| fields.field(tool(name), pointer).unwrap())
}

fn gate(world: &World, of: &[(&str, &str)]) -> ToolGate {
    world.full().recorded_fields(fields(of)).open().unwrap()
}

/// Pointers and values of the last decision, unescaped.
fn values(world: &World) -> Vec<(String, String)> {
    let read = |text: Option<String>| text.unwrap();
    let last = last_decision(world);
    last.values.iter().map(|one| (read(one.pointer.unescape()), read(one.value.unescape()))).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(pointer, value)| ((*pointer).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn only_named_values_are_recorded() {
    let world = World::new();
    let gate =
        gate(&world, &[("mail", "/to"), ("mail", "/cc/1/name"), ("mail", "/not/there"), ("search", "")]);
    let args = br#"{"to":"x@customers.example","body":"secret","cc":[{"name":"b"},{"name":"a\nb"}]}"#;
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "mail", args)), None);
    assert_eq!(values(&world), pairs(&[("/to", r#""x@customers.example""#), ("/cc/1/name", r#""a\nb""#)]));
    assert!(!serde_json::to_string(&last_decision(&world)).unwrap().contains("secret"));
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "asking", args).ask(GOAL)), None);
    assert_eq!(values(&world), []);
    assert_eq!(code(&gate, &search("c")), None);
    assert_eq!(values(&world), pairs(&[("", r#"{"query":"T-1001"}"#)]));
}

#[test]
fn arguments_are_not_recorded_by_default() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(code(&gate, &search("c")), None);
    assert_eq!(values(&world), []);
    assert!(last_decision(&world).args.is_some());
}

#[test]
fn all_of_the_arguments_are_proved_by_their_digest() {
    let world = World::new();
    let gate = gate(&world, &[("mail", "")]);
    let hidden = "{\"to\":\"x@customers.example\",\"body\":\"\\u202e\\\\ \u{200b}\\u001b[2J\u{2026}\"}";
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "mail", hidden.as_bytes())), None);
    let all = last_decision(&world).values.get("").unwrap().unescape().unwrap();
    assert_eq!(Some(Digest::of(all.as_bytes())), last_decision(&world).args);
}

#[test]
fn refusal_records_values_once_the_tool_is_verified() {
    let world = World::new();
    let every = ["search", "refund", "pinned", "delete_ticket", "asking", "mail"].map(|name| (name, ""));
    let gate = gate(&world, &every);
    let call = |name, args| ToolCall::new("c", "desk", name, args);
    let after = |refused, call: &ToolCall<'_>| {
        assert_eq!(code(&gate, call), Some(refused));
        values(&world).into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(after(MalformedCall, &call("search", b"[1]")), none);
    assert_eq!(after(UndisclosedTool, &call("delete_ticket", br#"{"id":1}"#)), none);
    assert_eq!(after(UndisclosedTool, &call("invented", br#"{"id":1}"#)), none);
    assert_eq!(after(ToolDefinitionUnknown, &call("pinned", br#"{"id":1}"#)), none);
    assert_eq!(after(ArgsSchema, &call("search", br#"{"query":7}"#)), [r#"{"query":7}"#]);
    assert_eq!(
        after(ArgsConstraint, &call("mail", br#"{"to":"x@evil.example"}"#)),
        [r#"{"to":"x@evil.example"}"#]
    );
    assert_eq!(after(AskRequired, &call("asking", br#"{"id":1}"#)), [r#"{"id":1}"#]);
    assert_eq!(after(ApprovalRequired, &refund("c")), [r#"{"amount":49,"ticket":"T-1001"}"#]);
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(after(AgentRevoked, &search("c")), none);
}

#[test]
fn reserved_members_are_never_recorded() {
    let world = World::new();
    let gate =
        gate(&world, &[("mail", ""), ("mail", "/__pic"), ("mail", "/__pic_request_id"), ("mail", "/to")]);
    let args = br#"{"__pic":{"secret":1},"__pic_request_id":"r-1","to":"x@customers.example"}"#;
    let call = ToolCall::new("c", "desk", "mail", args).approval("cs1.secret.secret").ask(GOAL);
    assert_eq!(code(&gate, &call), None);
    let all = r#"{"to":"x@customers.example"}"#;
    assert_eq!(values(&world), pairs(&[("", all), ("/to", r#""x@customers.example""#)]));
    assert!(!serde_json::to_string(&last_decision(&world)).unwrap().contains("secret"));
}

#[test]
fn overlong_value_is_recorded_as_cut() {
    let world = World::new();
    let gate = gate(&world, &[("mail", "/body"), ("mail", "/to")]);
    let args = format!(r#"{{"to":"x@customers.example","body":"{}"}}"#, "\\\\".repeat(400_000));
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "mail", args.as_bytes())), None);
    let values = last_decision(&world).values;
    let body = values.get("/body").unwrap();
    assert!(body.as_str().ends_with('\u{2026}') && body.unescape().is_none());
    assert_eq!(values.get("/to").unwrap().unescape().as_deref(), Some(r#""x@customers.example""#));
}

#[test]
fn the_decisions_that_a_gate_keeps_in_memory_have_no_values() {
    let world = World::new();
    let gate = gate(&world, &[("search", "")]);
    assert_eq!(code(&gate, &search("c")), None);
    assert!(gate.call_log()[0].values.is_empty());
    assert_eq!(gate.call_log()[0].args, last_decision(&world).args);
}

#[test]
fn invalid_repeated_or_seventeenth_field_is_refused() {
    let field =
        |pointer: &str| fields(&[("mail", "/a")]).field(tool("mail"), pointer).map_err(|no| no.code());
    let long = format!("/{}", "x".repeat(255));
    for good in ["", "/", "/b", "/a/b", "/~0~1", "/\u{e9}", "/a\nb", "/0", "/-", &long] {
        assert!(field(good).is_ok(), "{good}");
    }
    let too_long = format!("{long}x");
    let grows = format!("/{}", "\\".repeat(128));
    for bad in ["a", "a/b", "/~", "/~2", "/a~", "#/a", &too_long, &grows] {
        assert_eq!(field(bad).unwrap_err(), "RECORDED_FIELD_POINTER", "{bad}");
    }
    assert_eq!(field("/a").unwrap_err(), "RECORDED_FIELD_TWICE");
    let all = (0..16).map(|n| format!("/{n}"));
    let all = all.fold(RecordedFields::new(), |fields, at| fields.field(tool("mail"), &at).unwrap());
    assert_eq!(all.clone().field(tool("mail"), "/x").unwrap_err().code(), "RECORDED_FIELD_LIMIT");
    assert!(all.field(tool("search"), "/x").is_ok());
}

#[test]
fn recorded_field_of_an_unknown_tool_is_refused() {
    let world = World::new();
    let unknown = || fields(&[("search", "/query"), ("invented", "/x")]);
    assert_eq!(unknown().check(&world.registry).unwrap_err().code(), "RECORDED_FIELD_TOOL");
    let opened = world.full().recorded_fields(unknown()).open();
    assert_eq!(opened.unwrap_err().code(), "RECORDED_FIELD_TOOL");
    assert_eq!(world.sink.count(), 0, "and no session is on record");
    // A tool that the registry lists and this session does not disclose is not an error.
    assert!(world.full().recorded_fields(fields(&[("delete_ticket", "")])).open().is_ok());
}

proptest! {
    #[test]
    fn any_short_text_is_recovered_from_the_record(text in any::<String>()) {
        let world = World::new();
        let gate = gate(&world, &[("mail", "/body"), ("mail", "")]);
        let args = serde_json::json!({ "to": "x@customers.example", "body": text }).to_string();
        prop_assert_eq!(code(&gate, &ToolCall::new("c", "desk", "mail", args.as_bytes())), None);
        let values = last_decision(&world).values;
        let body = values.get("/body").unwrap().unescape().unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(&body).unwrap(), text);
        let all = values.get("").unwrap().unescape().unwrap();
        prop_assert_eq!(Some(Digest::of(all.as_bytes())), last_decision(&world).args);
    }
}

#[test]
fn call_log_has_the_records_of_the_sink_without_values() {
    let world = World::new();
    let gate = gate(&world, &[("mail", "/to"), ("search", "")]);
    let long = "x".repeat(256);
    for call in [
        search("c\"1"),
        search("c\\1\u{2026}")
            .request_id("r-1")
            .trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ToolCall::by_name(&long, "search", SEARCH),
        ToolCall::new("c", "desk", "mail", br#"{"to":"x@customers.example"}"#),
        ToolCall::new("c", "d\u{202e}k", "no tool", b"{"),
        ToolCall::by_name("\n", "search", SEARCH),
        refund("c").denied_by("grace\u{7}"),
        search("c").ask("another goal"),
    ] {
        drop(gate.check(&call));
    }
    let recorded = world.sink.latest().into_iter().filter_map(|(_, record)| {
        let Record::Decision(mut call) = record else { return None };
        call.values = RecordedValues::default();
        Some(call)
    });
    assert_eq!(gate.call_log(), recorded.collect::<Vec<_>>());
}
