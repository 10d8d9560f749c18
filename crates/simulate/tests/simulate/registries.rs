//! Random registries of a small desk, and pairs of them that differ in a few entries.

use std::sync::Arc;

use super::world::start;
use countersign_core::*;
use countersign_keys::{SigningKey, TrustRoot};
use countersign_registry::*;
use proptest::prelude::*;
use serde_json::{Value, json};

pub(super) const TOOLS: [(&str, &str); 5] =
    [("desk", "search"), ("desk", "mail"), ("desk", "wire"), ("desk", "twin"), ("attic", "twin")];
pub(super) const AGENTS: [&str; 2] = ["support-bot", "night-bot"];

#[derive(Clone, Copy, Debug)]
pub(super) struct ToolSpec {
    schema: u8,
    constrained: bool,
    approval: u8,
    ask: bool,
    plan: bool,
    evidence: bool,
    definition: u8,
    limits: (u8, u8),
    impact: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AgentSpec {
    tools: u8,
    short: bool,
    limits: (u8, u8),
    /// 0 to 7: registered; 8: not; 9: revoked.
    state: u8,
}

pub(super) type RegistrySpec = ([ToolSpec; 5], [AgentSpec; 2]);

fn limits() -> impl Strategy<Value = (u8, u8)> {
    (prop_oneof![3 => Just(0_u8), 1 => 1_u8..6], prop_oneof![3 => Just(0_u8), 1 => 1_u8..3])
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}

fn tool_spec() -> impl Strategy<Value = ToolSpec> {
    let rules = (0_u8..3, any::<bool>(), 0_u8..8, rarely(), rarely(), rarely());
    (rules, prop_oneof![4 => Just(0_u8), 1 => 1_u8..3], limits(), 0_u8..3).prop_map(
        |((schema, constrained, approval, ask, plan, evidence), definition, limits, impact)| ToolSpec {
            schema,
            constrained,
            approval,
            ask,
            plan,
            evidence,
            definition,
            limits,
            impact,
        },
    )
}

pub(super) fn registry_spec() -> impl Strategy<Value = RegistrySpec> {
    let tools = prop_oneof![1 => Just(31_u8), 1 => 1_u8..32];
    let agent = (tools, rarely(), limits(), 0_u8..10).prop_map(|(tools, short, limits, state)| AgentSpec {
        tools,
        short,
        limits,
        state,
    });
    (prop::array::uniform5(tool_spec()), prop::array::uniform2(agent))
}

/// A pair of registries that differ in a few entries.
pub(super) fn other_spec() -> impl Strategy<Value = (RegistrySpec, RegistrySpec)> {
    (registry_spec(), registry_spec(), prop::array::uniform7(rarely())).prop_map(|(a, b, swapped)| {
        let mut other = a;
        for (place, _) in swapped.iter().enumerate().filter(|(_, swapped)| **swapped) {
            match place.checked_sub(5) {
                None => other.0[place] = b.0[place],
                Some(agent) => other.1[agent] = b.1[agent],
            }
        }
        (a, other)
    })
}

pub(super) fn definition(number: u8) -> Digest {
    Digest::of(&[number])
}

fn limits_json((calls, rate): (u8, u8)) -> Value {
    let mut limits = json!({});
    if calls > 0 {
        limits["max_calls"] = json!(calls);
    }
    if rate > 0 {
        limits["rate"] = json!({"calls": rate, "per": "1m"});
    }
    limits
}

fn tool_json((server, name): (&str, &str), spec: &ToolSpec) -> Value {
    let schema = match spec.schema {
        0 => json!({"type": "object"}),
        1 => json!({"type": "object", "required": ["query"]}),
        _ => {
            json!({"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}}})
        }
    };
    let rule = |is_required| if is_required { "required" } else { "not_required" };
    let impact = ["read", "write", "external"][usize::from(spec.impact)];
    let approval = match spec.approval {
        0..4 => json!("not_required"),
        4 => json!("required"),
        5 => json!("each_call"),
        6 => json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "max": 7}]]}),
        _ => json!({"rule": "each_call", "unless": [
            [{"kind": "empty_list", "at": "/to"}, {"kind": "empty_list", "at": "/query"}],
            [{"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}],
        ]}),
    };
    let mut tool = json!({
        "server": server, "name": name, "args_schema": schema, "limits": limits_json(spec.limits),
        "impact": impact, "approval": approval,
        "ask": rule(spec.ask), "plan": rule(spec.plan), "evidence": rule(spec.evidence),
    });
    if spec.constrained {
        tool["constraints"] =
            json!([{"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}]);
    }
    if spec.definition > 0 {
        tool["definition"] = json!(definition(spec.definition).to_string());
    }
    tool
}

pub(super) fn load(version: u64, (tools, agents): &RegistrySpec) -> Arc<CapabilityRegistry> {
    let listed = |mask: u8| {
        let tools = TOOLS.iter().enumerate().filter(move |(place, _)| mask & (1 << place) != 0);
        tools.map(|(_, (server, name))| json!({"server": server, "name": name})).collect::<Vec<_>>()
    };
    let entries = AGENTS.iter().zip(agents).filter(|(_, spec)| spec.state != 8).map(|(agent, spec)| {
        json!({"agent": agent, "version": 1, "registered_by": "ops", "output_tags": [],
               "max_session": if spec.short { "10m" } else { "1h" },
               "limits": limits_json(spec.limits), "tools": listed(spec.tools)})
    });
    let revoked =
        AGENTS.iter().zip(agents).filter(|(_, spec)| spec.state == 9).map(|(agent, _)| json!(agent));
    let draft = json!({
        "format": "countersign-registry-1", "version": version,
        "agents": entries.collect::<Vec<_>>(),
        "tools": TOOLS.iter().zip(tools).map(|(name, spec)| tool_json(*name, spec)).collect::<Vec<_>>(),
        "revoked": {"agents": revoked.collect::<Vec<_>>(), "keys": [], "snapshots": []},
    });
    load_draft(&draft.to_string(), Millis::from_secs(86_400))
}

pub(super) fn load_draft(draft: &str, ttl: Millis) -> Arc<CapabilityRegistry> {
    let key = SigningKey::from_seed([7; 32]);
    let draft = RegistryDraft::from_json(draft.as_bytes()).unwrap();
    let signed = draft.sign(start(), start().checked_add(ttl).unwrap(), &[&key]).unwrap();
    let root = TrustRoot::new(1, 1, vec![key.verifying_key()]).unwrap();
    let marks = Arc::new(MemoryHighWater::new());
    let bytes = signed.to_json().into_bytes();
    Arc::new(CapabilityRegistry::load(&bytes, &root, marks, LoadOptions::default(), start()).unwrap())
}
