use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_audit_log::{CallRecord, RecordedTool, RefusedRow};
use countersign_core::{AgentId, ServerName, SessionId, Timestamp, ToolId, ToolName};
use countersign_registry::RegistryView;
use countersign_simulate::{Answer, Basis, Missing, Simulated};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use countersign_host::escape::{shown_id, shown_tool};

/// Most rows; further calls share one row.
const MAX_ROWS: usize = 1_024;
const OTHERS: &str = "(others)";

/// Row of all tools that no given registry lists: an agent can invent any number of them.
const UNKNOWN: &str = "(unknown)";

/// The calls that a row counts, in the order of the rows.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Calls {
    /// Calls that found no free row.
    Others,
    /// Calls of an agent to one tool, or to all tools that no registry lists.
    Of(AgentId, Option<ToolId>),
}

impl Calls {
    /// Returns agent and tool as JSON. `server` and `name` distinguish tools with equal joined names; they are null if
    /// the row has no single tool.
    fn to_json(&self, counts: &SimulationRow) -> Value {
        let (agent, tool, names) = match self {
            Self::Others => (OTHERS, OTHERS.to_owned(), None),
            Self::Of(agent, None) => (agent.as_str(), UNKNOWN.to_owned(), None),
            Self::Of(agent, Some(tool)) => {
                (agent.as_str(), tool.to_string(), Some((tool.server(), tool.name())))
            }
        };
        let (server, name) = names.map(|(server, name)| (server.as_str(), name.as_str())).unzip();
        json!({"agent": agent, "tool": tool, "server": server, "name": name, "counts": counts})
    }

    /// Formats agent and tool for a person.
    fn shown(&self) -> String {
        match self {
            Self::Others => format!("{OTHERS}  {OTHERS}"),
            Self::Of(agent, tool) => {
                let tool = tool.as_ref().map(|tool| shown_tool(&tool.into()));
                format!("{}  {}", shown_id(agent.as_str()), tool.as_deref().unwrap_or(UNKNOWN))
            }
        }
    }
}

/// Counts of one agent and tool, or of all.
#[derive(Debug, Default, Serialize)]
struct SimulationRow {
    /// Decided again with the recorded answer.
    same: u64,
    /// Not decided again, but nothing that the answer depends on differs; by the missing input.
    carried: BTreeMap<&'static str, u64>,
    /// By the new code.
    accepted_to_refused: BTreeMap<&'static str, u64>,
    /// By the recorded code.
    refused_to_accepted: BTreeMap<&'static str, u64>,
    /// By the recorded and the new code.
    other_code: BTreeMap<String, u64>,
    /// By the missing input.
    undetermined: BTreeMap<&'static str, u64>,
}

impl SimulationRow {
    fn add(&mut self, simulated: Simulated, calls: u64) {
        match simulated {
            Simulated::Same(Basis::Redecided) => self.same = self.same.saturating_add(calls),
            Simulated::Same(Basis::Carried(missing)) => count(&mut self.carried, missing.as_str(), calls),
            Simulated::Undetermined(missing) => count(&mut self.undetermined, missing.as_str(), calls),
            Simulated::Changed { recorded, now, .. } => match (recorded, now) {
                (_, Answer::Accepted) => count(&mut self.refused_to_accepted, recorded.as_str(), calls),
                (Answer::Accepted, _) => count(&mut self.accepted_to_refused, now.as_str(), calls),
                (Answer::Refused(_), _) => count(&mut self.other_code, format!("{recorded} -> {now}"), calls),
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

    fn undetermined(&self) -> u64 {
        sum(&self.undetermined)
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, calls: u64) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(calls);
}

fn sum(counts: &BTreeMap<&'static str, u64>) -> u64 {
    counts.values().copied().fold(0, u64::saturating_add)
}

/// One call whose answer changes.
#[derive(Debug, Serialize)]
struct ChangedCall {
    seq: u64,
    time: Timestamp,
    session: SessionId,
    agent: AgentId,
    #[serde(flatten, serialize_with = "apart")]
    tool: RecordedTool,
    recorded: &'static str,
    now: &'static str,
    /// Missing input that was carried over from the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    carried: Option<&'static str>,
}

/// Serializes a tool's joined name and both of its names.
fn apart<S: Serializer>(tool: &RecordedTool, s: S) -> Result<S::Ok, S::Error> {
    let RecordedTool { server, name, .. } = tool;
    let mut members = s.serialize_map(None)?;
    members.serialize_entry("tool", &format!("{server}:{name}"))?;
    members.serialize_entry("server", server)?;
    members.serialize_entry("name", name)?;
    members.end()
}

/// Result of a simulation, by agent and tool.
pub(super) struct SimulationReport {
    registry: Arc<RegistryView>,
    was: Vec<Arc<RegistryView>>,
    rows: BTreeMap<Calls, SimulationRow>,
    total: SimulationRow,
    /// The first changes, up to `max_changes`.
    changes: Vec<ChangedCall>,
    max_changes: usize,
}

impl SimulationReport {
    pub(super) fn new(registry: Arc<RegistryView>, was: Vec<Arc<RegistryView>>, max_changes: usize) -> Self {
        let (rows, total, changes) = (BTreeMap::new(), SimulationRow::default(), Vec::new());
        Self { registry, was, rows, total, changes, max_changes }
    }

    pub(super) fn add(&mut self, seq: u64, call: &CallRecord, simulated: Simulated) {
        self.count(&call.agent, Some(&call.tool), simulated, 1);
        if let Simulated::Changed { recorded, now, basis } = simulated
            && self.changes.len() < self.max_changes
        {
            self.changes.push(ChangedCall {
                seq,
                time: call.time,
                session: call.session.clone(),
                agent: call.agent.clone(),
                tool: call.tool.clone(),
                recorded: recorded.as_str(),
                now: now.as_str(),
                carried: match basis {
                    Basis::Redecided => None,
                    Basis::Carried(missing) => Some(missing.as_str()),
                },
            });
        }
    }

    /// Counts one row of a sum of refusals.
    pub(super) fn add_row(&mut self, agent: &AgentId, row: &RefusedRow, simulated: Simulated) {
        self.count(agent, row.tool.as_ref(), simulated, row.count);
    }

    fn count(&mut self, agent: &AgentId, tool: Option<&RecordedTool>, simulated: Simulated, calls: u64) {
        self.total.add(simulated, calls);
        let mut key = Calls::Of(agent.clone(), tool.and_then(|tool| self.listed(tool)));
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            key = Calls::Others;
        }
        self.rows.entry(key).or_default().add(simulated, calls);
    }

    /// Returns the tool if a registry lists it.
    fn listed(&self, tool: &RecordedTool) -> Option<ToolId> {
        let names = (ServerName::new(tool.server.as_str()), ToolName::new(tool.name.as_str()));
        let (Ok(server), Ok(name)) = names else { return None };
        let tool = ToolId::from_names(server, name);
        let is_listed = |view: &Arc<RegistryView>| view.snapshot().tool(&tool).is_some();
        self.was.iter().chain([&self.registry]).any(is_listed).then_some(tool)
    }

    /// Returns `true` if there were no calls.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn has_changes(&self) -> bool {
        self.total.changed() > 0
    }

    pub(super) fn has_undetermined(&self) -> bool {
        self.total.undetermined() > 0
    }

    pub(super) fn to_json(&self, verified: bool) -> Value {
        let named = |view: &Arc<RegistryView>| json!({"version": view.snapshot().version(), "digest": view.snapshot().digest()});
        let rows = self.rows.iter().map(|(calls, row)| calls.to_json(row));
        json!({
            "ok": true,
            "verified": verified,
            "registry": named(&self.registry),
            "was": self.was.iter().map(named).collect::<Vec<_>>(),
            "total": self.total,
            "rows": rows.collect::<Vec<_>>(),
            "changed": self.total.changed(),
            "undetermined": self.total.undetermined(),
            "changes": self.changes,
        })
    }

    pub(super) fn table(&self) -> String {
        let total = ("total".to_owned(), &self.total);
        let rows = self.rows.iter().map(|(calls, row)| (calls.shown(), row));
        let rows: Vec<_> = rows.chain([total]).collect();
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
                row.undetermined(),
                kinds(row).join(", ")
            );
            text.push_str(line.trim_end());
        }
        for (what, missing) in [("carried", &self.total.carried), ("undetermined", &self.total.undetermined)]
        {
            let missing: Vec<_> =
                missing.iter().map(|(missing, count)| format!("{missing} {count}")).collect();
            if !missing.is_empty() {
                text.push_str(&format!("\n{what}, by facts that were not recorded: {}", missing.join(", ")));
            }
        }
        if self.total.undetermined.contains_key(Missing::Arguments.as_str()) && self.was.is_empty() {
            text.push_str("\nwith --was, answers are carried over where the registry in force then gives the same answer");
        }
        for change in &self.changes {
            let ChangedCall { seq, time, recorded, now, .. } = change;
            let (session, agent) = (shown_id(change.session.as_str()), shown_id(change.agent.as_str()));
            let tool = shown_tool(&change.tool);
            text.push_str(&format!("\n{seq}  {time}  {session}  {agent}  {tool}  {recorded} -> {now}"));
        }
        let more = self.total.changed().saturating_sub(self.changes.len() as u64);
        if more > 0 {
            text.push_str(&format!("\nand {more} more"));
        }
        text
    }
}

/// Lists the kinds of change with their counts.
fn kinds(row: &SimulationRow) -> Vec<String> {
    let refused = row.accepted_to_refused.iter().map(|(code, count)| format!("ACCEPTED -> {code} {count}"));
    let accepted = row.refused_to_accepted.iter().map(|(code, count)| format!("{code} -> ACCEPTED {count}"));
    let other = row.other_code.iter().map(|(codes, count)| format!("{codes} {count}"));
    refused.chain(accepted).chain(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_are_joined_alike_have_their_names_apart() {
        let change = |server: &str, name: &str| {
            let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
            let tool = RecordedTool::new(server, name);
            let (time, recorded, now) = (Timestamp::EPOCH, "MALFORMED_CALL", "AGENT_REVOKED");
            json!(ChangedCall { seq: 1, time, session, agent, tool, recorded, now, carried: None })
        };
        for (server, name) in [("a:b", "c"), ("a", "b:c")] {
            let told = change(server, name);
            assert_eq!((&told["tool"], &told["seq"]), (&json!("a:b:c"), &json!(1)), "{told}");
            assert_eq!((&told["server"], &told["name"]), (&json!(server), &json!(name)), "{told}");
        }
    }

    #[test]
    fn overflow_row_names_no_tool() {
        let told = Calls::Others.to_json(&SimulationRow::default());
        assert_eq!((&told["agent"], &told["tool"]), (&json!(OTHERS), &json!(OTHERS)), "{told}");
        assert_eq!((&told["server"], &told["name"]), (&Value::Null, &Value::Null), "{told}");
        assert!(told.as_object().is_some_and(|row| row.contains_key("server") && row.contains_key("name")));
    }
}
