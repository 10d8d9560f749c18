//! Descriptions that speak of a tool of another server: a model that reads them may be led from one to the other.

use std::collections::{BTreeMap, BTreeSet};

use countersign_core::ToolId;
use serde_json::Value;

use crate::draft::RegistryDraft;
use crate::finding::{Finding, warn};
use crate::tool_entry::ToolEntry;

/// Members of a listed tool, at any depth of its schemas, that models read as text.
const TEXTS: [&str; 2] = ["description", "title"];

pub(crate) fn lint_mentions(draft: &RegistryDraft, findings: &mut Vec<Finding>) {
    let mut by_name: BTreeMap<&str, Vec<&ToolId>> = BTreeMap::new();
    for tool in draft.tools().map(ToolEntry::tool) {
        by_name.entry(tool.name().as_str()).or_default().push(tool);
    }
    for tool in draft.tools() {
        let mut texts = Vec::new();
        let listed = tool.as_listed().into_iter();
        for member in ["title", "description", "annotations", "inputSchema", "outputSchema"] {
            let value = listed.clone().find_map(|listed| listed.get(member));
            value.into_iter().for_each(|value| collect(member, value, &mut texts));
        }
        let words: BTreeSet<&str> = texts.into_iter().flat_map(words).collect();
        let others = words.iter().filter_map(|word| by_name.get(word)).flatten();
        for other in others.filter(|other| other.server() != tool.tool().server()) {
            // A name that is a word of the language says nothing without its server.
            if is_a_name(other.name().as_str()) || words.contains(other.server().as_str()) {
                let message = format!(
                    "the description of `{}` speaks of `{other}`, a tool of another server",
                    tool.tool()
                );
                warn(findings, "LINT_OTHER_SERVER", message);
            }
        }
    }
}

/// Collects the texts that models read. Recursion is safe: the levels of a listed tool were checked.
fn collect<'a>(name: &str, value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if TEXTS.contains(&name) => texts.push(text),
        Value::Object(members) => members.iter().for_each(|(name, value)| collect(name, value, texts)),
        Value::Array(elements) => elements.iter().for_each(|value| collect("", value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The parts of a text that may be names of tools or servers: as a whole, and between dots and slashes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    let whole = text.split(is_between).map(|word| word.trim_matches(['.', '/', '-']));
    whole.flat_map(|word| std::iter::once(word).chain(word.split(['.', '/']))).filter(|word| !word.is_empty())
}

/// Returns whether a name cannot be a word of the language: it joins words, or has a capital or a digit within.
fn is_a_name(name: &str) -> bool {
    name.bytes().skip(1).any(|byte| !byte.is_ascii_lowercase())
}
