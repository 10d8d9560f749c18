//! The first draft of a registry for a host's own tools.
//!
//! Reading inside one folder is free, and so are tools that only change what the host shows. All else needs an approval.

use std::collections::BTreeMap;

use countersign_core::AgentId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::HostError;
use crate::hook_event::HookHost;

/// The tools of each host, sorted by what a call of them needs.
const TOOLS: &str = include_str!("hook_tools.json");

/// The tools of one host. `within` and `confined` name the argument that is a path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SortedTools {
    /// Free.
    free: Vec<String>,
    /// Free inside the folder, an approval elsewhere.
    within: BTreeMap<String, String>,
    /// Free inside the folder, refused elsewhere. Without the path they work in the host's current folder.
    confined: BTreeMap<String, String>,
    /// An approval each.
    ask: Vec<String>,
}

/// Drafts a registry: one agent with all tools of the host, and `more` of them, such as those of its MCP servers.
///
/// # Errors
/// `INTERNAL`.
pub fn hook_draft(
    host: HookHost,
    agent: &AgentId,
    folder: &str,
    more: &[String],
) -> Result<Value, HostError> {
    let mut all: BTreeMap<String, SortedTools> =
        serde_json::from_str(TOOLS).map_err(|_| HostError::internal("the list of tools is not valid"))?;
    let tools =
        all.remove(host.as_str()).ok_or_else(|| HostError::internal("a host has no list of tools"))?;
    let at = |place: &str| json!([{"kind": "path_within", "at": place, "roots": [folder]}]);
    let mut entries = BTreeMap::new();
    for name in &tools.free {
        entries.insert(name, json!({"impact": "read", "approval": "not_required"}));
    }
    for (name, place) in &tools.within {
        let rule = json!({"rule": "required", "unless": [at(place)]});
        entries.insert(name, json!({"impact": "read", "approval": rule}));
    }
    for (name, place) in &tools.confined {
        entries.insert(name, json!({"impact": "read", "approval": "not_required", "constraints": at(place)}));
    }
    for name in tools.ask.iter().chain(more) {
        entries.insert(name, json!({"impact": "irreversible", "approval": "required"}));
    }
    let ids: Vec<_> = entries.keys().map(|name| json!({"server": host.as_str(), "name": name})).collect();
    let entries = entries.into_iter().map(|(name, mut entry)| {
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("server".to_owned(), host.as_str().into());
            entry.insert("name".to_owned(), name.as_str().into());
            entry.insert("args_schema".to_owned(), json!({"type": "object"}));
        }
        entry
    });
    Ok(json!({
        "format": "countersign-registry-1",
        "version": 1,
        "agents": [{
            "agent": agent.as_str(), "version": 1, "registered_by": "countersign", "max_session": "24h", "tools": ids,
        }],
        "tools": entries.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests;
