//! The registry: hashes of entries and definitions, and sealed contracts.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_canonical_json::to_canonical;
use countersign_core::{AgentId, Approvers, ImpactClass, OperatorId, SessionId, Timestamp, ToolId};
use countersign_keys::sealed::seal;
use countersign_keys::{MacKey, SigningKey, TrustRoot};
use countersign_registry::{
    ApprovalRule, ArgPlace, CapabilityRegistry, Constraint, LoadOptions, MemoryHighWater, NegotiationRequest,
    RegistryDraft, TaskRule, ToolEntry,
};
use countersign_test_vectors::{Framed, hex, numbered};
use serde_json::{Value, json};

use crate::framed_vector;

pub(crate) fn recipe_files() -> BTreeMap<String, String> {
    numbered("recipes", recipes())
}

/// The draft of the registry's own tests.
fn draft() -> RegistryDraft {
    RegistryDraft::from_json(include_bytes!("../../registry/src/tests/desk.json")).unwrap()
}

/// So many milliseconds after the registry was issued.
fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis).unwrap()
}

/// The draft, signed by two of three keys.
fn loaded() -> CapabilityRegistry {
    let keys = [1, 2, 3].map(|seed| SigningKey::from_seed([seed; 32]));
    let root = TrustRoot::new(1, 2, keys.iter().map(SigningKey::verifying_key)).unwrap();
    let signed = draft().sign(at(0), at(7 * 86_400_000), &[&keys[0], &keys[1]]).unwrap().to_json();
    let marks = Arc::new(MemoryHighWater::new());
    CapabilityRegistry::load(signed.as_bytes(), &root, marks, LoadOptions::default(), at(60_000)).unwrap()
}

fn entry<T: serde::Serialize>(about: &str, label: &str, entry: &T) -> Value {
    let text = to_canonical(entry).unwrap();
    let framed = Framed::new(label).field("entry", text.bytes());
    framed_vector(about, "entry", &framed, &json!({ "entry": entry }))
}

/// Returns the vector of a tool as its server lists it, and of the hashed part of it.
fn definition(about: &str, listed: &str, hashed: &str) -> Value {
    let framed = Framed::new("countersign/tool-def-1").field("definition", hashed.as_bytes());
    framed_vector(about, "definition", &framed, &json!({ "listed": listed }))
}

/// Returns the vector of an unknown definition: the digest of the label alone, which no definition has.
fn unknown_definition() -> Value {
    let framed = Framed::new("countersign/tool-definition-unknown");
    framed_vector(
        "a definition that is not known: the label and nothing else",
        "definition",
        &framed,
        &json!({}),
    )
}

/// Returns the vector of a contract sealed under a key of 32 bytes of value 1: the bytes that the tag covers, and the text.
fn contract(about: &str, agent: &str) -> Value {
    let request = NegotiationRequest::new(SessionId::new("s-1").unwrap(), AgentId::new(agent).unwrap());
    let contract = loaded().negotiate(&request, at(60_000)).unwrap();
    let (label, key) = ("countersign/contract-1", MacKey::from_bytes(&[1; 32]).unwrap());
    let members = json!({
        "recipe": "contract-1", "session": contract.session(), "agent": contract.agent(),
        "ancestors": contract.ancestors(), "tools": contract.tools(), "tags": contract.tags(),
        "registry_version": contract.registry_version(), "registry_digest": contract.registry_digest(),
        "issued": contract.issued(), "expires": contract.expires(),
    });
    let payload = to_canonical(&members).unwrap();
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
    let draft = draft();
    let (agents, tools) = (draft.agents().collect::<Vec<_>>(), draft.tools().collect::<Vec<_>>());
    let (agent, tool) = ("countersign/agent-entry-1", "countersign/tool-entry-1");
    vec![
        ("agent_entry", entry("an agent with few members", agent, agents[0])),
        ("agent_entry_with_limits", entry("an agent with limits", agent, agents[1])),
        ("tool_entry", entry("a tool that asks for approval", tool, tools[0])),
        ("tool_entry_read", entry("a tool that does not", tool, tools[1])),
        ("tool_entry_with_constraints", entry("a tool with constraints and limits", tool, tools[2])),
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
        ("tool_entry_with_branches", entry("a tool whose approval has branches", tool, &branched())),
        ("tool_entry_with_approvers", entry("a tool that needs two approvals", tool, &approved_by_two())),
        ("tool_entry_with_tasks", entry("a tool whose results may be promised", tool, &promised())),
    ]
}

/// A tool that needs an approval unless the amount is small.
fn branched() -> ToolEntry {
    let at = ArgPlace::new("/amount").unwrap();
    let small = Constraint::number(at, Some(0.0), Some(20.5)).unwrap();
    let none = Constraint::empty_list(ArgPlace::new("/attendees").unwrap());
    let tool = ToolId::new("desk", "pay").unwrap();
    ToolEntry::builder(&tool, ImpactClass::Money, ApprovalRule::EachCall, json!({ "type": "object" }))
        .approval_unless(vec![small])
        .approval_unless(vec![none])
        .build()
        .unwrap()
}

/// A tool whose server may answer a call with a task.
fn promised() -> ToolEntry {
    let tool = ToolId::new("desk", "export").unwrap();
    ToolEntry::builder(&tool, ImpactClass::Read, ApprovalRule::NotRequired, json!({ "type": "object" }))
        .tasks(TaskRule::Allowed)
        .build()
        .unwrap()
}

/// A tool of which two of three persons approve each call.
fn approved_by_two() -> ToolEntry {
    let names = ["cy", "ada", "bob"].map(|name| OperatorId::new(name).unwrap());
    let tool = ToolId::new("desk", "pay").unwrap();
    ToolEntry::builder(&tool, ImpactClass::Money, ApprovalRule::Required, json!({ "type": "object" }))
        .approvers(Approvers::new(names, 2).unwrap())
        .build()
        .unwrap()
}
