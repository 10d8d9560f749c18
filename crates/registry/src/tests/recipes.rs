//! Public vectors under `tests/vectors/registry/recipes`: hashes and seals of a registry, built a second time.
//! `COUNTERSIGN_WRITE_VECTORS=1` writes them.

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::Digest;
use countersign_keys::MacKey;
use countersign_keys::sealed::seal;
use countersign_test_vectors::{Framed, Vectors, hex, numbered};
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

fn vector(about: &str, kind: &str, framed: &Framed, input: &Value, digest: Digest) -> Value {
    assert_eq!(Digest::of(&framed.bytes()), digest, "{about}");
    framed.vector(about, kind, input, digest)
}

fn entry<T: serde::Serialize>(about: &str, label: &str, entry: &T, digest: Digest) -> Value {
    let text = to_canonical(entry).unwrap();
    let framed = Framed::new(label).field("entry", text.bytes());
    vector(about, "entry", &framed, &json!({ "entry": entry }), digest)
}

/// Returns the vector of a tool as its server lists it, and of the hashed part of it.
fn definition(about: &str, listed: &str, hashed: &str) -> Value {
    let tool = read(listed.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
    let framed = Framed::new("countersign/tool-def-1").field("definition", hashed.as_bytes());
    let digest = definition_digest(tool.value()).unwrap();
    vector(about, "definition", &framed, &json!({ "listed": listed }), digest)
}

/// Returns the vector of an unknown definition: the digest of the label alone, which no definition has.
fn unknown_definition() -> Value {
    let framed = Framed::new("countersign/tool-definition-unknown");
    let digest = Digest::framed("countersign/tool-definition-unknown").finish();
    vector(
        "a definition that is not known: the label and nothing else",
        "definition",
        &framed,
        &json!({}),
        digest,
    )
}

/// Returns the vector of a contract sealed under a key of 32 bytes of value 1: the bytes that the tag covers, and the text.
fn contract(about: &str, agent: &str) -> Value {
    let contract = load(&desk(1)).negotiate(&request(agent), now()).unwrap();
    let (label, key) = ("countersign/contract-1", MacKey::from_bytes(&[1; 32]).unwrap());
    let members = json!({
        "recipe": "contract-1", "session": contract.session(), "agent": contract.agent(),
        "ancestors": contract.ancestors(), "tools": contract.tools(), "tags": contract.tags(),
        "registry_version": contract.registry_version(), "registry_digest": contract.registry_digest(),
        "issued": contract.issued(), "expires": contract.expires(),
    });
    let payload = canonical(&members);
    let bytes = [&(label.len() as u64).to_be_bytes(), label.as_bytes(), payload.bytes()].concat();
    let text = contract.seal(&key).unwrap();
    assert_eq!(seal("cc1", label, &key, payload.bytes()), Ok(text.clone()));
    json!({
        "description": about, "kind": "seal", "label": label, "key": hex(&[1; 32]), "input": members,
        "payload": payload.as_str(), "bytes": hex(&bytes), "tag": hex(key.tag(&bytes).as_bytes()),
        "sealed": text,
    })
}

fn recipes() -> Vec<(&'static str, Value)> {
    let draft = draft(&desk(1));
    let (agents, tools) = (draft.agents().collect::<Vec<_>>(), draft.tools().collect::<Vec<_>>());
    let (agent, tool) = ("countersign/agent-entry-1", "countersign/tool-entry-1");
    vec![
        ("agent_entry", entry("an agent with few members", agent, agents[0], agents[0].fingerprint())),
        ("agent_entry_with_limits", entry("an agent with limits", agent, agents[1], agents[1].fingerprint())),
        ("tool_entry", entry("a tool that asks for approval", tool, tools[0], tools[0].fingerprint())),
        ("tool_entry_read", entry("a tool that does not", tool, tools[1], tools[1].fingerprint())),
        (
            "tool_entry_with_constraints",
            entry("a tool with constraints and limits", tool, tools[2], tools[2].fingerprint()),
        ),
        (
            "definition_name_alone",
            definition("a name and nothing else", r#"{"name":"search"}"#, r#"{"name":"search"}"#),
        ),
        (
            "definition",
            definition(
                "every member that counts, in another order, beside two that do not",
                r#"{"title":"T","_meta":{"a":1},"icons":[],"outputSchema":{},"name":"n","inputSchema":{"type":"object"},"description":"d","annotations":{"readOnlyHint":true}}"#,
                r#"{"annotations":{"readOnlyHint":true},"description":"d","inputSchema":{"type":"object"},"name":"n","outputSchema":{},"title":"T"}"#,
            ),
        ),
        ("contract", contract("a contract of two tools", "support-bot")),
        ("contract_of_another_agent", contract("a contract of another agent", "mailer")),
        ("definition_unknown", unknown_definition()),
        (
            "definition_beyond_ascii",
            definition(
                "names and texts beyond ASCII, in the order of their UTF-16 code units, and numbers in their one spelling",
                "{\"name\":\"n\",\"description\":\"caf\\u00e9 \u{1f600}\",\"inputSchema\":{\"\u{ff5e}\":1.0,\"\u{1f600}\":1e2,\"b\":[]}}",
                "{\"description\":\"caf\u{e9} \u{1f600}\",\"inputSchema\":{\"b\":[],\"\u{1f600}\":100,\"\u{ff5e}\":1},\"name\":\"n\"}",
            ),
        ),
    ]
}

#[test]
fn the_recipes_on_disk_are_those_that_are_made() {
    Vectors::recipes("registry").hold(&numbered("recipes", recipes()));
}

#[test]
fn no_definition_has_the_unknown_digest() {
    let cases = recipes();
    let of = |kind: &str| -> Vec<_> {
        cases
            .iter()
            .filter(|(_, case)| case["kind"] == kind)
            .map(|(_, case)| case["sha256"].clone())
            .collect()
    };
    let unknown = unknown_definition()["sha256"].clone();
    assert_eq!(of("definition").iter().filter(|digest| **digest == unknown).count(), 1);
    // A definition without text does not have it either, under the label of definitions.
    assert_ne!(unknown, Digest::framed("countersign/tool-def-1").finish().to_string());
    assert_ne!(unknown, Digest::framed("countersign/tool-def-1").field(b"").finish().to_string());
}
