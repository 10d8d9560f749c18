use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::constraint::is_index;
use crate::cut::cut;
use crate::draft::RegistryDraft;
use crate::place::ArgPlace;
use crate::schema_bounds::branches_back;
use crate::tool_entry::ToolEntry;

/// Longest format name in a finding, in bytes.
const MAX_FORMAT_BYTES: usize = 64;

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Information.
    Note,
    /// Probable mistake.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// Valid part of a draft that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    code: &'static str,
    severity: Severity,
    message: String,
}

impl Finding {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Importance.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Description in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

countersign_core::coded!(Finding);

impl RegistryDraft {
    /// Finds valid content that is probably a mistake: in tools by name, then in agents, then in the whole draft.
    #[must_use]
    pub fn lint(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for tool in self.tools() {
            lint_tool(tool, &mut findings);
        }
        lint_agents(self, &mut findings);
        lint_names(self, &mut findings);
        findings
    }
}

fn warn(findings: &mut Vec<Finding>, code: &'static str, message: String) {
    findings.push(Finding { code, severity: Severity::Warning, message });
}

fn note(findings: &mut Vec<Finding>, code: &'static str, message: String) {
    findings.push(Finding { code, severity: Severity::Note, message });
}

fn lint_tool(tool: &ToolEntry, findings: &mut Vec<Finding>) {
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
        let first = constraint.at().as_str().split('/').nth(1).unwrap_or_default();
        let is_named = schema.pointer("/properties").and_then(|properties| properties.get(plain(first)));
        if is_named.is_none() || !may_exist(constraint.at(), schema) {
            let message = format!(
                "a constraint of `{name}` is at `{}`, where the schema names nothing",
                constraint.at()
            );
            warn(findings, "LINT_CONSTRAINT_PLACE", message);
        }
        for host in constraint.url_hosts() {
            if host.strip_prefix('.').is_some_and(|parent| !parent.contains('.')) {
                let message = format!("a constraint of `{name}` allows every host under `{host}`");
                warn(findings, "LINT_WIDE_HOST", message);
            }
        }
    }
    if tool.impact().is_high() && !tool.approval().is_required() {
        let message = format!("`{name}` has the impact `{}` and needs no approval", tool.impact());
        warn(findings, "LINT_NO_APPROVAL", message);
    }
    if tool.definition().is_none() {
        let message = format!("the definition of `{name}` is not pinned; its server may change it unseen");
        note(findings, "LINT_NOT_PINNED", message);
    }
}

/// Returns whether a place may exist in arguments that match a schema. Follows names and types only, and returns
/// `true` where that is not enough.
fn may_exist(place: &ArgPlace, schema: &Value) -> bool {
    let mut schema = schema;
    for token in place.as_str().split('/').skip(1) {
        let Value::Object(keywords) = schema else {
            return schema != &Value::Bool(false);
        };
        let below = match keywords.get("type").and_then(Value::as_str) {
            Some("object") | None => {
                keywords.get("properties").and_then(|properties| properties.get(plain(token)))
            }
            Some("array") if !is_index(token) => return false,
            Some("array") => keywords.get("items"),
            Some(_) => return false,
        };
        let Some(below) = below else {
            let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
            return !(is_closed
                && keywords.contains_key("type")
                && !keywords.contains_key("patternProperties"));
        };
        schema = below;
    }
    schema != &Value::Bool(false)
}

/// Token of a JSON Pointer without its escapes.
fn plain(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
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
