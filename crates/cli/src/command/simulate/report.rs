use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_audit_log::CallRecord;
use countersign_core::{ServerName, Timestamp, ToolId, ToolName};
use countersign_registry::RegistryView;
use countersign_tool_gate::{Answer, Basis, Missing, Simulated};
use serde::Serialize;
use serde_json::{Value, json};

use crate::shown::shown_name;

/// The most rows; what comes beyond has one together.
const MAX_ROWS: usize = 1_024;
const OTHERS: &str = "(others)";

/// The row of every tool that no registry here lists: an agent can make up any number of them.
const UNKNOWN: &str = "(unknown)";

/// What was counted, of one tool of one agent or of all.
#[derive(Debug, Default, Serialize)]
struct Row {
    /// Decided again, with the answer on record.
    same: u64,
    /// With the answer on record, since nothing differs that it depends on; by what is missing.
    carried: BTreeMap<&'static str, u64>,
    /// By the code that there is now.
    accepted_to_refused: BTreeMap<&'static str, u64>,
    /// By the code on record.
    refused_to_accepted: BTreeMap<&'static str, u64>,
    /// By the code on record and the one that there is now.
    other_code: BTreeMap<String, u64>,
    /// By what is missing.
    undetermined: BTreeMap<&'static str, u64>,
}

impl Row {
    fn add(&mut self, simulated: Simulated) {
        match simulated {
            Simulated::Same(Basis::Redecided) => self.same = self.same.saturating_add(1),
            Simulated::Same(Basis::Carried(missing)) => count(&mut self.carried, missing.as_str()),
            Simulated::Undetermined(missing) => count(&mut self.undetermined, missing.as_str()),
            Simulated::Changed { recorded, now, .. } => match (recorded, now) {
                (_, Answer::Accepted) => count(&mut self.refused_to_accepted, recorded.as_str()),
                (Answer::Accepted, _) => count(&mut self.accepted_to_refused, now.as_str()),
                (Answer::Refused(_), _) => count(&mut self.other_code, format!("{recorded} -> {now}")),
            },
        }
    }

    fn changed(&self) -> u64 {
        let other_code = self.other_code.values().copied().fold(0, u64::saturating_add);
        [&self.accepted_to_refused, &self.refused_to_accepted]
            .into_iter()
            .map(sum)
            .fold(other_code, u64::saturating_add)
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

fn sum(counts: &BTreeMap<&'static str, u64>) -> u64 {
    counts.values().copied().fold(0, u64::saturating_add)
}

/// One call whose answer is another one.
#[derive(Debug, Serialize)]
struct Change {
    seq: u64,
    time: Timestamp,
    session: String,
    agent: String,
    tool: String,
    /// For a person.
    #[serde(skip)]
    shown_tool: String,
    recorded: &'static str,
    now: &'static str,
    /// What had to be carried over for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    carried: Option<&'static str>,
}

/// What a simulation said, by agent and tool.
pub(super) struct Report {
    registry: Arc<RegistryView>,
    was: Vec<Arc<RegistryView>>,
    rows: BTreeMap<(String, String), Row>,
    total: Row,
    /// The first ones.
    changes: Vec<Change>,
    max_changes: usize,
}

impl Report {
    pub(super) fn new(registry: Arc<RegistryView>, was: Vec<Arc<RegistryView>>, max_changes: usize) -> Self {
        let (rows, total, changes) = (BTreeMap::new(), Row::default(), Vec::new());
        Self { registry, was, rows, total, changes, max_changes }
    }

    pub(super) fn add(&mut self, seq: u64, call: &CallRecord, simulated: Simulated) {
        let tool = format!("{}:{}", call.tool.server, call.tool.name);
        self.total.add(simulated);
        let listed = if self.is_listed(call) { tool.clone() } else { UNKNOWN.to_owned() };
        let mut key = (call.agent.to_string(), listed);
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            key = (OTHERS.to_owned(), OTHERS.to_owned());
        }
        self.rows.entry(key).or_default().add(simulated);
        if let Simulated::Changed { recorded, now, basis } = simulated
            && self.changes.len() < self.max_changes
        {
            self.changes.push(Change {
                seq,
                time: call.time,
                session: call.session.to_string(),
                agent: call.agent.to_string(),
                tool,
                shown_tool: format!(
                    "{}:{}",
                    shown_name(call.tool.server.as_str()),
                    shown_name(call.tool.name.as_str())
                ),
                recorded: recorded.as_str(),
                now: now.as_str(),
                carried: match basis {
                    Basis::Redecided => None,
                    Basis::Carried(missing) => Some(missing.as_str()),
                },
            });
        }
    }

    fn is_listed(&self, call: &CallRecord) -> bool {
        let names = (ServerName::new(call.tool.server.as_str()), ToolName::new(call.tool.name.as_str()));
        let (Ok(server), Ok(name)) = names else { return false };
        let tool = ToolId::from_names(server, name);
        self.was.iter().chain([&self.registry]).any(|view| view.snapshot().tool(&tool).is_some())
    }

    pub(super) fn has_changes(&self) -> bool {
        self.total.changed() > 0
    }

    pub(super) fn has_undetermined(&self) -> bool {
        sum(&self.total.undetermined) > 0
    }

    pub(super) fn to_json(&self, verified: bool) -> Value {
        let named = |view: &Arc<RegistryView>| json!({"version": view.snapshot().version(), "digest": view.snapshot().digest()});
        let rows =
            self.rows.iter().map(|((agent, tool), row)| json!({"agent": agent, "tool": tool, "counts": row}));
        json!({
            "ok": true,
            "verified": verified,
            "registry": named(&self.registry),
            "was": self.was.iter().map(named).collect::<Vec<_>>(),
            "total": self.total,
            "rows": rows.collect::<Vec<_>>(),
            "changed": self.total.changed(),
            "changes": self.changes,
        })
    }

    pub(super) fn table(&self) -> String {
        let named = |agent: &str| if agent == OTHERS { agent.to_owned() } else { shown_name(agent) };
        let names: Vec<_> =
            self.rows.keys().map(|(agent, tool)| format!("{}  {tool}", named(agent))).collect();
        let total = ("total".to_owned(), &self.total);
        let rows: Vec<_> = names.into_iter().zip(self.rows.values()).chain([total]).collect();
        let width = rows.iter().map(|(name, _)| name.chars().count()).chain([11]).max().unwrap_or(11);
        let mut text = format!("simulated under registry version {}", self.registry.snapshot().version());
        text.push_str(&format!(
            "\n{:width$}  {:>8}  {:>8}  {:>8}  {:>12}  what changes",
            "agent  tool", "same", "carried", "changed", "undetermined"
        ));
        for (name, row) in &rows {
            let line = format!(
                "\n{name:width$}  {:>8}  {:>8}  {:>8}  {:>12}  {}",
                row.same,
                sum(&row.carried),
                row.changed(),
                sum(&row.undetermined),
                kinds(row).join(", ")
            );
            text.push_str(line.trim_end());
        }
        if !self.total.undetermined.is_empty() {
            let missing = self.total.undetermined.iter().map(|(missing, count)| format!("{missing} {count}"));
            text.push_str(&format!(
                "\nundetermined, by what is not on record: {}",
                missing.collect::<Vec<_>>().join(", ")
            ));
        }
        if self.total.undetermined.contains_key(Missing::Arguments.as_str()) && self.was.is_empty() {
            text.push_str("\nwith --was, answers are carried over where what was in force says the same");
        }
        for change in &self.changes {
            let Change { seq, time, shown_tool, recorded, now, .. } = change;
            let (session, agent) = (shown_name(&change.session), shown_name(&change.agent));
            text.push_str(&format!("\n{seq}  {time}  {session}  {agent}  {shown_tool}  {recorded} -> {now}"));
        }
        let more = self.total.changed().saturating_sub(self.changes.len() as u64);
        if more > 0 {
            text.push_str(&format!("\nand {more} more"));
        }
        text
    }
}

/// The kinds of change with their numbers.
fn kinds(row: &Row) -> Vec<String> {
    let refused = row.accepted_to_refused.iter().map(|(code, count)| format!("ACCEPTED -> {code} {count}"));
    let accepted = row.refused_to_accepted.iter().map(|(code, count)| format!("{code} -> ACCEPTED {count}"));
    let other = row.other_code.iter().map(|(codes, count)| format!("{codes} {count}"));
    refused.chain(accepted).chain(other).collect()
}
