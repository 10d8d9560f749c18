//! The public vectors under `tests/vectors/tool-gate`: digests that a gate computes by recipes of its own. Real gates
//! make them, and the test builds them a second time from their description. `COUNTERSIGN_WRITE_VECTORS=1` writes them.
//! They are made here, and not by `xtask vectors`, because the key of an asked call is private.

use std::sync::Arc;

use countersign_audit_log::AuditSink;
use countersign_core::*;
use countersign_test_vectors::{Framed, Vectors, numbered};
use serde_json::{Value, json};

use super::plan_world::*;
use super::world::*;

/// Definitions in the form in which a plan's approval binds them: server, tool, digest.
type Known<'a> = &'a [(&'a str, &'a str, Digest)];

/// Vector of a plan that calls each of these tools once, at a gate that has seen these definitions.
fn plan_definitions(about: &str, tools: &[(&str, &str)], seen: Known<'_>, known: Known<'_>) -> Value {
    let world = World::new();
    let gate = world.gate();
    for (server, name, definition) in seen {
        gate.note_definition(&ToolId::new(server, name).unwrap(), *definition);
    }
    let steps = tools.iter().map(|(server, name)| {
        let args = if *name == "refund" { r#"{"ticket":"T-1001","amount":49}"# } else { "{}" };
        countersign_committed_plan::Step::new(ToolId::new(server, name).unwrap(), args.as_bytes(), &[])
            .unwrap()
    });
    let plan = plan_of(&gate, steps.collect());
    let bound = gate.plan_approval_request(&plan).unwrap().binding().definition.unwrap();
    let mut definitions = json!({});
    for (server, name, definition) in known {
        definitions[server][name] = json!(definition);
    }
    // Names are plain ASCII here, and a map writes them in their order: this is their canonical JSON.
    let text = definitions.to_string();
    let framed = Framed::new("countersign/plan-definitions-1").field("definitions", text.as_bytes());
    assert_eq!(Digest::of(&framed.bytes()), bound, "{about}");
    framed.vector(
        about,
        "plan-definitions",
        &json!({ "definitions": definitions, "definitions_text": text }),
        bound,
    )
}

/// Vector of the id of a call by name alone: the call of this number in a session, from 1 on.
fn call_id(about: &str, session: &str, number: u64) -> Value {
    let world = World::new();
    let gate = world.builder_for(session, Arc::clone(&world.sink) as Arc<dyn AuditSink>).open().unwrap();
    for _ in 1..=number {
        gate.call("search", SEARCH, |_| Ok::<_, ()>(())).unwrap();
    }
    let made = gate.call_log().pop().unwrap().call_id;
    let framed = Framed::new("countersign/call-id-1")
        .field("session", session.as_bytes())
        .field("number", &number.to_be_bytes());
    assert_eq!(Digest::of(&framed.bytes()).to_string(), made.as_str(), "{about}");
    framed.vector(about, "call-id", &json!({ "session": session, "number": number }), made.as_str())
}

/// Vector of the key by which the signal `asked` identifies a call.
fn asked_call(about: &str, (server, tool): (&str, &str), args: Digest) -> Value {
    let key = crate::conduct::call_key(server, tool, args);
    let framed = Framed::new("countersign/asked-1")
        .field("server", server.as_bytes())
        .field("tool", tool.as_bytes())
        .field("args", args.as_bytes());
    assert_eq!(Digest::of(&framed.bytes()), key, "{about}");
    framed.vector(about, "asked-call", &json!({ "server": server, "tool": tool, "args": args }), key)
}

/// Vector of the ticket of a call's id that ran.
fn spent_call_id(about: &str, session: &str, call_id: &str) -> Value {
    let (session_id, id) = (SessionId::new(session).unwrap(), CallId::new(call_id).unwrap());
    let made = *crate::call_ids::spent_call_id(&session_id, &id).digest();
    let framed = Framed::new("countersign/call-id-spent-1")
        .field("session", session.as_bytes())
        .field("call_id", call_id.as_bytes());
    assert_eq!(Digest::of(&framed.bytes()), made, "{about}");
    framed.vector(about, "spent-call-id", &json!({ "session": session, "call_id": call_id }), made)
}

fn recipes() -> Vec<(&'static str, Value)> {
    let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
    let pinned = Digest::of(b"the pinned definition");
    let both = [("desk", "refund"), ("desk", "search")];
    let refund = ("desk", "refund", one);
    vec![
        (
            "one_definition_known",
            plan_definitions("two tools, of which one has a known definition", &both, &[refund], &[refund]),
        ),
        (
            "two_definitions",
            plan_definitions(
                "two tools of one server, in the order of their names whatever the order of the steps",
                &[("desk", "search"), ("desk", "refund"), ("desk", "search")],
                &[refund, ("desk", "search", two)],
                &[refund, ("desk", "search", two)],
            ),
        ),
        (
            "two_definitions_exchanged",
            plan_definitions(
                "the same two definitions, each of the other tool",
                &both,
                &[("desk", "refund", two), ("desk", "search", one)],
                &[("desk", "refund", two), ("desk", "search", one)],
            ),
        ),
        (
            "one_name_on_two_servers",
            plan_definitions(
                "two servers that have a tool of one name",
                &[("desk", "twin"), ("attic", "twin")],
                &[("desk", "twin", one), ("attic", "twin", two)],
                &[("desk", "twin", one), ("attic", "twin", two)],
            ),
        ),
        (
            "pinned_by_the_registry",
            plan_definitions(
                "a definition that nobody has seen and the registry pins",
                &[("desk", "pinned")],
                &[],
                &[("desk", "pinned", pinned)],
            ),
        ),
        (
            "seen_and_pinned",
            plan_definitions(
                "a definition that was seen, where the registry pins another",
                &[("desk", "pinned")],
                &[("desk", "pinned", one)],
                &[("desk", "pinned", one)],
            ),
        ),
        (
            "seen_of_no_step",
            plan_definitions(
                "a definition of a tool that the plan does not call is left out",
                &both,
                &[refund, ("desk", "twin", two)],
                &[refund],
            ),
        ),
        ("first_call", call_id("the first call by name of a session", "session-1", 1)),
        ("second_call", call_id("the second one", "session-1", 2)),
        ("call_256", call_id("a number that takes two bytes", "session-1", 256)),
        ("call_of_another_session", call_id("the first call of another session", "session-1\u{e9}|1", 1)),
        ("asked_call", asked_call("a call that needed an approval", ("desk", "refund"), one)),
        ("spent_call_id", spent_call_id("the id of a call that ran", "session-1", "call-7")),
        ("spent_call_id_border", spent_call_id("a border moved by one byte", "session-1c", "all-7")),
    ]
}

#[test]
fn the_vectors_on_disk_are_those_that_gates_make() {
    Vectors::recipes("tool-gate").hold(&numbered("recipes", recipes()));
}

#[test]
fn no_two_vectors_have_one_digest() {
    let cases = recipes();
    let digests: std::collections::BTreeSet<_> =
        cases.iter().map(|(_, case)| case["sha256"].as_str().unwrap().to_owned()).collect();
    // The last of the definition cases has the digest of the first: the part that it leaves out does not count.
    assert_eq!(digests.len(), cases.len() - 1);
}

#[test]
fn a_plan_of_tools_without_a_known_definition_binds_none() {
    let world = World::new();
    let gate = world.gate();
    let request = gate.plan_approval_request(&plan_of(&gate, steps())).unwrap();
    assert_eq!(request.binding().definition.as_ref(), None);
}
