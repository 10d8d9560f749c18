//! Facts beside a question's binding that help a person to judge it.

use std::collections::BTreeMap;

use countersign_approval_token::PendingApproval;
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::ImpactClass;
use countersign_registry::ToolEntry;
use serde_json::{Value, json};

use crate::escape::spelled;

/// Characters of a tool's description that a terminal shows. `registry show` has all of it.
const DESCRIPTION_CHARS: usize = 400;

/// Goal, tool and earlier call of a question. An approval binds them by digest or not at all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QuestionContext {
    /// Text of the goal, if the configuration's goal has the digest that the question binds.
    pub goal: Option<String>,
    /// Impact and description of the tool in the registry, if its definition is the one that the question binds.
    pub tool: Option<SignedTool>,
    /// Arguments of the call of this tool that was approved last for this principal.
    pub before: Option<Canonical>,
}

/// A tool as the operator signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedTool {
    /// Severity of its calls.
    pub impact: ImpactClass,
    /// Description that models read. Not escaped.
    pub description: Option<String>,
}

/// How an argument differs from that of the last approved call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "two sets of arguments differ in one of these ways")]
pub enum ArgChange {
    /// The last approved call had no such argument.
    New,
    /// It had another value.
    Changed,
    /// It had this argument, and this call does not.
    Missing,
}

impl ArgChange {
    /// Returns the change in one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Missing => "missing",
        }
    }
}

impl SignedTool {
    /// Takes the shown parts of an entry of the registry.
    pub(super) fn of(tool: &ToolEntry) -> Self {
        let description = tool.as_listed().and_then(|listed| listed.get("description")?.as_str());
        Self { impact: tool.impact(), description: description.map(ToOwned::to_owned) }
    }
}

impl QuestionContext {
    /// Returns the arguments in which the call differs from the last approved one; `None` without such a call.
    #[must_use]
    pub fn changes(&self, pending: &PendingApproval) -> Option<BTreeMap<String, ArgChange>> {
        let (now, mut before) = (members(&args_of(pending.args())?), members(self.before.as_ref()?));
        let mut changes = BTreeMap::new();
        for (name, value) in now {
            match before.remove(&name) {
                None => drop(changes.insert(name, ArgChange::New)),
                Some(old) if old != value => drop(changes.insert(name, ArgChange::Changed)),
                Some(_) => {}
            }
        }
        changes.extend(before.into_keys().map(|name| (name, ArgChange::Missing)));
        Some(changes)
    }

    /// Builds the members of the context for a report.
    #[must_use]
    pub fn report(&self, pending: &PendingApproval) -> Value {
        let changes = self.changes(pending).map(|changes| {
            changes.into_iter().map(|(name, change)| (name, Value::from(change.word()))).collect::<Value>()
        });
        json!({
            "goal": self.goal,
            "impact": self.tool.as_ref().map(|tool| tool.impact.as_str()),
            "tool_description": self.tool.as_ref().and_then(|tool| tool.description.as_deref()),
            "changes": changes,
        })
    }

    /// Returns the lines about the tool, each after a line break.
    pub(super) fn tool_lines(&self) -> String {
        let Some(tool) = &self.tool else { return String::new() };
        let mut text = format!("\nimpact     {}", tool.impact);
        if let Some(description) = &tool.description {
            let shown: String = description.chars().take(DESCRIPTION_CHARS).collect();
            let more = description.chars().count().saturating_sub(DESCRIPTION_CHARS);
            let more = if more == 0 { String::new() } else { format!(" and {more} more characters") };
            text.push_str(&format!("\ndescribed  {}{more}", spelled(&shown)));
        }
        text
    }

    /// Returns the line about the changes, after a line break.
    pub(super) fn change_line(&self, pending: &PendingApproval) -> String {
        let Some(changes) = self.changes(pending) else { return String::new() };
        let changes: Vec<_> =
            changes.iter().map(|(name, change)| format!("{} {}", spelled(name), change.word())).collect();
        let changes = if changes.is_empty() { "nothing".to_owned() } else { changes.join(", ") };
        format!("\nchanged    {changes}, since the last approved call of this tool for this principal")
    }
}

/// Reads arguments that a store keeps.
pub(super) fn args_of(text: &str) -> Option<Canonical> {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::hard_caps()).ok()
}

fn members(args: &Canonical) -> BTreeMap<String, String> {
    args.value().members().map(|(name, value)| (name.to_owned(), value.canonical_text())).collect()
}
