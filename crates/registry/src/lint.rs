use std::collections::{BTreeMap, BTreeSet};

use countersign_core::{AgentId, Approvers, look_alike};
use serde_json::Value;

use crate::agent_entry::AgentEntry;
use crate::cut::cut;
use crate::draft::RegistryDraft;
use crate::finding::{Finding, note, warn};
use crate::lint_gaps::lint_gaps;
use crate::lint_mentions::lint_mentions;
use crate::lint_rules::{lint_approval, lint_place};
use crate::reads::is_read_name;
use crate::schema_bounds::branches_back;
use crate::tool_entry::ToolEntry;

/// Longest format name in a finding, in bytes.
const MAX_FORMAT_BYTES: usize = 64;

impl RegistryDraft {
    /// Finds valid content that is probably a mistake: in tools by name, then in agents, then in the whole draft.
    #[must_use]
    pub fn lint(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let agents: Vec<_> = self.agents().map(AgentEntry::agent).collect();
        for tool in self.tools() {
            lint_tool(tool, &agents, &mut findings);
        }
        lint_agents(self, &mut findings);
        lint_names(self, &mut findings);
        lint_mentions(self, &mut findings);
        findings
    }
}

fn lint_tool(tool: &ToolEntry, agents: &[&AgentId], findings: &mut Vec<Finding>) {
    let name = tool.tool();
    let schema = tool.args_schema();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        warn(
            findings,
            "LINT_SCHEMA_TYPE",
            format!("the schema of `{name}` does not say `\"type\": \"object\"`"),
        );
    }
    let closed = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(false));
    if !closed("additionalProperties") && !closed("unevaluatedProperties") {
        let message = format!("the schema of `{name}` lets arguments through that it does not name");
        warn(findings, "LINT_SCHEMA_OPEN", message);
    }
    if branches_back(schema) {
        let message = format!(
            "the schema of `{name}` leads back to itself in several ways; where a call does not fit is not said, and a \
             planned call with open places may be refused"
        );
        warn(findings, "LINT_SCHEMA_BRANCHES", message);
    }
    for format in tool.schema().unchecked_formats() {
        let format = countersign_core::escape_hidden(format);
        let format = cut(&format, MAX_FORMAT_BYTES);
        let message = format!("the schema of `{name}` has the format `{format}`, which is not checked");
        warn(findings, "LINT_FORMAT_NOT_CHECKED", message);
    }
    for constraint in tool.constraints() {
        lint_place(tool, constraint, findings);
    }
    lint_approval(tool, findings);
    lint_gaps(tool, findings);
    if tool.impact().is_high() && !tool.approval().is_required() {
        let message = format!("`{name}` has the impact `{}` and needs no approval", tool.impact());
        warn(findings, "LINT_NO_APPROVAL", message);
    }
    for approver in tool.approvers().map_or(&[][..], Approvers::names) {
        if let Some(agent) = agents.iter().find(|agent| look_alike(agent.as_str(), approver.as_str())) {
            let message = format!(
                "`{approver}` approves `{name}`, but never for itself: it looks like the agent `{agent}`"
            );
            warn(findings, "LINT_APPROVER_AGENT", message);
        }
    }
    if tool.definition().is_none() && !is_read_name(name.name().as_str()) {
        let message = format!("the definition of `{name}` is not pinned; its server may change it unseen");
        note(findings, "LINT_NOT_PINNED", message);
    }
}

fn lint_agents(draft: &RegistryDraft, findings: &mut Vec<Finding>) {
    for agent in draft.revoked().agents() {
        if draft.agents().any(|entry| entry.agent() == agent) {
            warn(
                findings,
                "LINT_REVOKED_AGENT",
                format!("`{agent}` is registered and revoked; it stays revoked"),
            );
        }
    }
    let listed: BTreeSet<_> = draft.agents().flat_map(|agent| agent.tools()).collect();
    for tool in draft.tools().map(ToolEntry::tool).filter(|tool| !listed.contains(tool)) {
        note(findings, "LINT_UNUSED_TOOL", format!("no agent lists `{tool}`"));
    }
}

/// Reports names that are distinct in the registry, but equal for a host that drops or joins server names.
fn lint_names(draft: &RegistryDraft, findings: &mut Vec<Finding>) {
    let mut by_name = BTreeMap::new();
    let mut by_joined = BTreeMap::new();
    for tool in draft.tools().map(ToolEntry::tool) {
        if let Some(other) = by_name.insert(tool.name(), tool) {
            note(
                findings,
                "LINT_SHARED_NAME",
                format!("`{other}` and `{tool}` have the same name at two servers"),
            );
        }
        let joined = format!("{}__{}", tool.server(), tool.name());
        if let Some(other) = by_joined.insert(joined, tool) {
            let message = format!("`{other}` and `{tool}` are one name for a host that joins them with `__`");
            warn(findings, "LINT_JOINED_NAMES", message);
        }
    }
}
