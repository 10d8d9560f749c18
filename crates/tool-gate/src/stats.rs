use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_core::{AgentId, ToolId};
use dashmap::DashMap;

use crate::agent_row::AgentRow;
use crate::alarm::{AlarmAction, AlarmRule, AlarmState};
use crate::counts::Counts;
use crate::histogram::{Histogram, Ticks};
use crate::snapshot::{Standing, StatsSnapshot};

/// Counts answers over all sessions, per agent and per tool, times them, watches each agent's acceptance, and holds
/// the quarantine. Share one among the gates of a process.
///
/// Its memory is bounded by the registry, whatever an agent does: an agent has a row once a gate was opened for it or
/// for a session that it led to (or an operator named it here), a tool once a session discloses it (or it was tried
/// and is in the registry), and all other names share one ([`unknown_tools`](Self::unknown_tools)). What is counted
/// per session is in the gate ([`ToolGate::counts`]) and goes with it.
///
/// The alarm ([`AlarmRule`] says how it is decided) is fed with every decision about a call of the agent but those that
/// say nothing of what it does: refusals of step 1, which say that it may call nothing at all (quarantine is one of
/// them), as `ASK_EXPIRED` does; `TOOL_DEFINITION_CHANGED`, or a server could have its callers quarantined; and what is
/// the host's fault (`STORE_UNAVAILABLE`, `AUDIT_UNAVAILABLE`, `INTERNAL`). Unless said otherwise it only shows.
/// A call counts for the agent that made it and for no other, in a session that another agent's led to as well: who may
/// open sessions of an agent can make it look bad, and it is quarantined in all of them.
///
/// A quarantine refuses every call of the agent, and of sessions that its own led to, at every gate that shares these
/// counts (`AGENT_QUARANTINED`), and lets it start no plan; a call that came before it is not recalled. It is held in
/// memory: with the process it is gone, unless the host says it anew ([`quarantine`](Self::quarantine)).
///
/// ```
/// use countersign_core::AgentId;
/// use countersign_tool_gate::{AlarmAction, AlarmRule, CallStats, Standing};
/// let stats = CallStats::new().alarm(AlarmRule::new(0.95, 0.8, 100_000)?, AlarmAction::Quarantine);
/// let agent = AgentId::new("support-bot")?;
/// stats.quarantine(&agent);
/// assert_eq!(stats.snapshot().agents[0].standing, Standing::Quarantined);
/// assert_eq!(stats.lift_quarantine(&agent), Standing::Quarantined);
/// assert_eq!(stats.standing(&agent), Standing::Free);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`ToolGate::counts`]: crate::ToolGate::counts
#[derive(Debug, Default)]
pub struct CallStats {
    overall: Counts,
    agents: DashMap<AgentId, Arc<AgentRow>>,
    tools: DashMap<ToolId, Arc<Counts>>,
    unknown_tools: Counts,
    rule: AlarmRule,
    action: AlarmAction,
    timing: Option<(Arc<dyn Ticks>, Histogram)>,
}

impl CallStats {
    /// Starts at zero, flags by the default rule, and times nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets by which rule agents are watched and what follows, where [`watch`](Self::watch) says nothing else. It comes
    /// before any agent is named: those that have a row keep their rule.
    #[must_use]
    pub const fn alarm(mut self, rule: AlarmRule, action: AlarmAction) -> Self {
        self.rule = rule;
        self.action = action;
        self
    }

    /// Times every answer of [`ToolGate::check`](crate::ToolGate::check), its record included, by `ticks`.
    #[must_use]
    pub fn ticks(mut self, ticks: Arc<dyn Ticks>) -> Self {
        self.timing = Some((ticks, Histogram::default()));
        self
    }

    /// Watches one agent by a rule of its own. Its alarm starts anew; a quarantine stays.
    pub fn watch(&self, agent: &AgentId, rule: AlarmRule, action: AlarmAction) {
        self.agent_row(agent).watch(rule, action);
    }

    /// The counts over all agents.
    #[must_use]
    pub const fn overall(&self) -> &Counts {
        &self.overall
    }

    /// The counts of one agent; nothing when it has no row.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<Arc<Counts>> {
        self.find(agent).map(|row| Arc::clone(&row.counts))
    }

    /// The agents that have a row, in order.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentId> {
        let mut agents: Vec<AgentId> = self.agents.iter().map(|row| row.key().clone()).collect();
        agents.sort();
        agents
    }

    /// The counts of one tool; nothing when it has no row.
    #[must_use]
    pub fn tool(&self, tool: &ToolId) -> Option<Arc<Counts>> {
        self.tools.get(tool).map(|row| Arc::clone(row.value()))
    }

    /// The tools that have a row, in order.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolId> {
        let mut tools: Vec<ToolId> = self.tools.iter().map(|row| row.key().clone()).collect();
        tools.sort();
        tools
    }

    /// The counts of all calls that name no tool of the registry, together.
    #[must_use]
    pub const fn unknown_tools(&self) -> &Counts {
        &self.unknown_tools
    }

    /// What the agent's drop alarm says.
    #[must_use]
    pub fn alarm_state(&self, agent: &AgentId) -> AlarmState {
        self.find(agent).map_or(AlarmState::Steady, |row| row.alarm())
    }

    /// Starts the agent's alarm anew, without any evidence. A quarantine stays.
    pub fn reset_alarm(&self, agent: &AgentId) {
        if let Some(row) = self.find(agent) {
            row.reset_alarm();
        }
    }

    /// Refuses every call of the agent from now on, whatever its alarm says.
    pub fn quarantine(&self, agent: &AgentId) {
        self.agent_row(agent).quarantine();
    }

    /// Lets the agent call again what its session discloses, and starts its alarm anew. Says how it stood before.
    pub fn lift_quarantine(&self, agent: &AgentId) -> Standing {
        self.find(agent).map_or(Standing::Free, |row| row.lift())
    }

    /// Whether the agent is quarantined.
    #[must_use]
    pub fn standing(&self, agent: &AgentId) -> Standing {
        self.find(agent).map_or(Standing::Free, |row| row.standing())
    }

    /// Everything at one moment, for whoever shows or exports it.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        let agents = self.agents().into_iter();
        let tools = self.tools().into_iter();
        StatsSnapshot {
            overall: self.overall.snapshot(),
            agents: agents.filter_map(|agent| self.find(&agent).map(|row| row.snapshot(agent))).collect(),
            tools: tools.filter_map(|tool| self.tool(&tool).map(|row| (tool, row.snapshot()))).collect(),
            unknown_tools: self.unknown_tools.snapshot(),
            answer_time: self.timing.as_ref().map(|(_, histogram)| histogram.snapshot()),
        }
    }

    /// Runs `answer` and counts how long that took, where time is told. Ticks that panic lose the time and nothing
    /// else.
    pub(crate) fn timed<T>(&self, answer: impl FnOnce() -> T) -> T {
        let Some((ticks, histogram)) = &self.timing else { return answer() };
        let read = || catch_unwind(AssertUnwindSafe(|| ticks.nanos())).ok();
        let start = read();
        let answered = answer();
        if let (Some(start), Some(end)) = (start, read()) {
            histogram.count(end.saturating_sub(start));
        }
        answered
    }

    pub(crate) fn agent_row(&self, agent: &AgentId) -> Arc<AgentRow> {
        let fresh = || Arc::new(AgentRow::new(self.rule, self.action));
        Arc::clone(self.agents.entry(agent.clone()).or_insert_with(fresh).value())
    }

    /// Makes a row for the tool. Only for tools that the registry knows.
    pub(crate) fn tool_row(&self, tool: &ToolId) -> Arc<Counts> {
        Arc::clone(self.tools.entry(tool.clone()).or_default().value())
    }

    fn find(&self, agent: &AgentId) -> Option<Arc<AgentRow>> {
        self.agents.get(agent).map(|row| Arc::clone(row.value()))
    }
}
