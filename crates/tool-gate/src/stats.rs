use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_audit_log::{Record, Signal, StandingRecord};
use countersign_core::{AgentId, Timestamp, ToolId};
use dashmap::DashMap;

use crate::agent_row::AgentRow;
use crate::counts::Counts;
use crate::histogram::{Histogram, Ticks};
use crate::metrics::ProcessMetrics;
use crate::quarantine::{QuarantineError, Quarantines};
use crate::replay::AgentReplay;
use crate::snapshot::{Standing, StatsSnapshot};
use countersign_signals::{
    AgentSignals, AlarmAction, AlarmRule, AlarmState, Probing, SavedReplay, SignalRule,
};

/// Counts answers over all sessions, per agent and per tool, times them, watches each agent's acceptance, and holds the
/// quarantines. Share one among the gates of a process.
///
/// The registry bounds its memory, whatever an agent does. An agent has a row once a gate was opened for it or for a
/// session that it led to, or once an operator named it here. A tool has a row once a session discloses it, or once it
/// was tried and is in the registry. All other names share one row ([`unknown_tools`](Self::unknown_tools)). The counts
/// of a session are in its gate ([`ToolGate::counts`]) and are dropped with it.
///
/// The alarm ([`AlarmRule`] documents its statistics) counts every decision about the agent's calls, except refusals
/// that are not about the agent's conduct:
///
/// - refusals of step 1 and `ASK_EXPIRED`: the agent may not call at all (quarantine is one of them);
/// - `TOOL_DEFINITION_CHANGED` and `TOOL_DEFINITION_UNKNOWN`: otherwise a server could quarantine its callers;
/// - faults of the host (`STORE_UNAVAILABLE`, `AUDIT_UNAVAILABLE`, `INTERNAL`).
///
/// A call that a person denied counts like any other refusal. By default, the alarm is only shown. A call counts only
/// for the agent that made it, even in a session that another agent's session led to. A caller that may open sessions
/// of an agent can therefore make that agent look bad, and get it quarantined in all of its sessions.
///
/// A quarantine refuses every call of the agent, and of sessions that its own led to, at every gate that shares these
/// counts (`AGENT_QUARANTINED`), and lets it start no plan. A call that was accepted before and runs already is not
/// recalled. Each gate that learns that an agent of its session was quarantined or released records that before its
/// next answer. A quarantine is held in memory, and lost with the process, unless it is [kept](Self::kept_in).
///
/// ```
/// use countersign_audit_log::{StandingChange, StandingRecord};
/// use countersign_core::{AgentId, Timestamp};
/// use countersign_tool_gate::{AlarmAction, AlarmRule, CallStats, Standing};
/// let stats = CallStats::new().alarm(AlarmRule::new(0.95, 0.8, 100_000)?, AlarmAction::Quarantine);
/// let (agent, now) = (AgentId::new("support-bot")?, Timestamp::from_millis(1_800_000_000_000)?);
/// stats.set_standing(&StandingRecord::new(now, agent.clone(), StandingChange::Quarantined, "ada"))?;
/// assert_eq!(stats.snapshot().agents[0].standing, Standing::Quarantined);
/// stats.set_standing(&StandingRecord::new(now, agent.clone(), StandingChange::Lifted, "ada"))?;
/// assert_eq!(stats.standing(&agent), Standing::Free);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`ToolGate::counts`]: crate::ToolGate::counts
#[derive(Debug)]
pub struct CallStats {
    overall: Counts,
    agents: DashMap<AgentId, Arc<AgentRow>>,
    tools: DashMap<ToolId, Arc<Counts>>,
    unknown_tools: Counts,
    rule: AlarmRule,
    action: AlarmAction,
    asked: SignalRule,
    undisclosed: SignalRule,
    timing: Option<(Arc<dyn Ticks>, Histogram)>,
    store: Option<Arc<dyn Quarantines>>,
    pub(crate) metrics: ProcessMetrics,
}

impl Default for CallStats {
    fn default() -> Self {
        Self {
            overall: Counts::default(),
            agents: DashMap::new(),
            tools: DashMap::new(),
            unknown_tools: Counts::default(),
            rule: AlarmRule::default(),
            action: AlarmAction::default(),
            asked: SignalRule::usual(Signal::Asked),
            undisclosed: SignalRule::usual(Signal::Undisclosed),
            timing: None,
            store: None,
            metrics: Default::default(),
        }
    }
}

impl CallStats {
    /// Starts at zero, with the default rule, which only flags, and without timing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rule and action for all agents, except those with a rule from [`watch`](Self::watch). Call it before
    /// any agent is named: an agent that has a row keeps its rule.
    #[must_use]
    pub const fn alarm(mut self, rule: AlarmRule, action: AlarmAction) -> Self {
        self.rule = rule;
        self.action = action;
        self
    }

    /// Sets the rule of a signal, for agents that have no row yet. The gate whose call raised a signal records it. The
    /// signal stays raised until the agent is released from quarantine or starts its next session.
    #[must_use]
    pub const fn signal(mut self, signal: Signal, rule: SignalRule) -> Self {
        match signal {
            Signal::Asked => self.asked = rule,
            Signal::Undisclosed => self.undisclosed = rule,
            _ => {}
        }
        self
    }

    /// Times every answer of [`ToolGate::check`](crate::ToolGate::check), including its record, by `ticks`.
    #[must_use]
    pub fn ticks(mut self, ticks: Arc<dyn Ticks>) -> Self {
        self.timing = Some((ticks, Histogram::default()));
        self
    }

    /// Keeps quarantines in `store`: they outlive the process, and a change that another process or an operator makes
    /// there takes effect at the agent's next call here. While the store cannot be read, every call is refused
    /// (`AGENT_QUARANTINED`, with the reason recorded). While it cannot be written, quarantines by the alarm hold here,
    /// and are written as soon as possible.
    #[must_use]
    pub fn kept_in(mut self, store: Arc<dyn Quarantines>) -> Self {
        self.store = Some(store);
        self
    }

    /// Watches one agent by a rule of its own. Its alarm is reset; a quarantine stays.
    pub fn watch(&self, agent: &AgentId, rule: AlarmRule, action: AlarmAction) {
        self.agent_row(agent).watch(rule, action);
    }

    /// Continues the agent's alarm from earlier processes. `entries` are their verified records, in order. Entries
    /// about other agents are skipped, and nothing is counted. It is for a host that has a process for each session.
    /// Call it before any gate is opened for the agent: after a call of the agent was counted here, it changes nothing.
    ///
    /// The present rule applies. Entries from before the agent's last release, by the record or by the
    /// [store](Self::kept_in), do not count. An alarm that an earlier session raised ends with that session, and the
    /// next session starts anew. One exception: the last session raised the alarm, its action is a quarantine that a
    /// store keeps, and the store does not have it. Then the process ended too early, and the agent is quarantined now.
    ///
    /// # Errors
    /// The first error among the entries, or [`QuarantineError`] if the store fails. Do not open a gate then.
    pub fn take_up<E: From<QuarantineError>>(
        &self,
        agent: &AgentId,
        entries: impl IntoIterator<Item = Result<Record, E>>,
    ) -> Result<(), E> {
        let mut replay = self.replay(agent)?;
        for entry in entries {
            replay.add(&entry?);
        }
        Ok(self.take_up_replay(replay)?)
    }

    /// Starts a replay of the agent's records, by the agent's rules and the last lift in the [store](Self::kept_in).
    ///
    /// # Errors
    /// [`QuarantineError`] if the store fails.
    pub fn replay(&self, agent: &AgentId) -> Result<AgentReplay, QuarantineError> {
        self.agent_row(agent).replay(self.store())
    }

    /// Resumes a saved replay. Returns `None` if it does not fit, so that all entries must be replayed: it is of
    /// another agent or other rules, or mixes entries from before the agent's last release with later ones.
    ///
    /// # Errors
    /// [`QuarantineError`] if the store fails.
    pub fn resume_replay(
        &self,
        agent: &AgentId,
        saved: &SavedReplay,
    ) -> Result<Option<AgentReplay>, QuarantineError> {
        Ok(self.replay(agent)?.resumed(saved))
    }

    /// Continues the alarm of the replay's agent from it, as [`take_up`](Self::take_up) does.
    ///
    /// # Errors
    /// [`QuarantineError`] if the store fails. Do not open a gate then.
    pub fn take_up_replay(&self, replay: AgentReplay) -> Result<(), QuarantineError> {
        self.agent_row(replay.signals.agent()).take_up(self.store(), replay)
    }

    /// Returns the counts over all agents.
    #[must_use]
    pub const fn overall(&self) -> &Counts {
        &self.overall
    }

    /// Returns the counts of one agent; `None` if it has no row.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<Arc<Counts>> {
        self.find(agent).map(|row| Arc::clone(&row.counts))
    }

    /// Returns the agents that have a row, in order.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentId> {
        let mut agents: Vec<AgentId> = self.agents.iter().map(|row| row.key().clone()).collect();
        agents.sort();
        agents
    }

    /// Returns the counts of one tool; `None` if it has no row.
    #[must_use]
    pub fn tool(&self, tool: &ToolId) -> Option<Arc<Counts>> {
        self.tools.get(tool).map(|row| Arc::clone(row.value()))
    }

    /// Returns the tools that have a row, in order.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolId> {
        let mut tools: Vec<ToolId> = self.tools.iter().map(|row| row.key().clone()).collect();
        tools.sort();
        tools
    }

    /// Returns the counts of all calls that name no tool of the registry, together.
    #[must_use]
    pub const fn unknown_tools(&self) -> &Counts {
        &self.unknown_tools
    }

    /// Returns the state of the agent's drop alarm.
    #[must_use]
    pub fn alarm_state(&self, agent: &AgentId) -> AlarmState {
        self.find(agent).map_or(AlarmState::Steady, |row| row.alarm())
    }

    /// Returns the time at which the agent's signal was raised; `None` if it is not raised.
    #[must_use]
    pub fn signal_raised(&self, agent: &AgentId, signal: Signal) -> Option<Timestamp> {
        self.find(agent).and_then(|row| row.signal(signal))
    }

    /// Resets the agent's alarm and signals. A quarantine stays.
    pub fn reset_alarm(&self, agent: &AgentId) {
        if let Some(row) = self.find(agent) {
            row.reset_alarm();
        }
    }

    /// Quarantines an agent, or releases it and resets its alarm. Returns the standing before. If the agent has that
    /// standing already, nothing changes, not even the recorded author. The change's time is the time at which the host
    /// made it.
    ///
    /// # Errors
    /// [`QuarantineError`] if quarantines are kept and the change cannot be stored. A new quarantine still holds in
    /// this process; a lift does not take effect.
    pub fn set_standing(&self, change: &StandingRecord) -> Result<Standing, QuarantineError> {
        self.agent_row(&change.agent).set_standing(change, self.store())
    }

    /// Writes unsaved changes to the store and takes its changes over, for every agent that has a row. Gates do this by
    /// themselves before each answer; it is for a host that displays standings, or is about to end.
    ///
    /// # Errors
    /// The first [`QuarantineError`] of an agent; the others were tried as well.
    pub fn sync(&self) -> Result<(), QuarantineError> {
        let Some(store) = self.store() else { return Ok(()) };
        let rows: Vec<_> = self.agents.iter().map(|row| Arc::clone(row.value())).collect();
        rows.iter().map(|row| row.sync(store)).fold(Ok(()), Result::and)
    }

    /// Returns the agent's standing as far as this process knows.
    #[must_use]
    pub fn standing(&self, agent: &AgentId) -> Standing {
        self.find(agent).map_or(Standing::Free, |row| row.standing())
    }

    /// Returns all counts at one moment, for display and export.
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

    /// Counts the time until the result is dropped, once for each of the answers that are given together, if timing is on.
    /// Ticks that panic lose only the time.
    pub(crate) fn timed(&self, answers: usize) -> TimedAnswers<'_> {
        TimedAnswers { stats: self, answers, start: self.read_ticks() }
    }

    fn read_ticks(&self) -> Option<u64> {
        let (ticks, _) = self.timing.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| ticks.nanos())).ok()
    }

    pub(crate) fn store(&self) -> Option<&dyn Quarantines> {
        self.store.as_deref()
    }

    pub(crate) fn agent_row(&self, agent: &AgentId) -> Arc<AgentRow> {
        if let Some(row) = self.find(agent) {
            return row;
        }
        self.metrics.describe();
        // Made outside the map's lock: a metrics recorder is the host's code.
        let probing = Probing::new(self.asked, self.undisclosed);
        let fresh = Arc::new(AgentRow::new(agent, AgentSignals::new(self.rule, self.action, probing)));
        Arc::clone(self.agents.entry(agent.clone()).or_insert(fresh).value())
    }

    /// Makes a row for the tool. Use it only for tools that the registry lists.
    pub(crate) fn tool_row(&self, tool: &ToolId) -> Arc<Counts> {
        if let Some(row) = self.tools.get(tool) {
            return Arc::clone(row.value());
        }
        Arc::clone(self.tools.entry(tool.clone()).or_default().value())
    }

    fn find(&self, agent: &AgentId) -> Option<Arc<AgentRow>> {
        self.agents.get(agent).map(|row| Arc::clone(row.value()))
    }
}

/// Counts the time of answers when it is dropped.
#[must_use]
pub(crate) struct TimedAnswers<'s> {
    stats: &'s CallStats,
    answers: usize,
    start: Option<u64>,
}

impl Drop for TimedAnswers<'_> {
    fn drop(&mut self) {
        // why: the metrics are the host's, and a second panic would end the process.
        let Some(start) = self.start.filter(|_| !std::thread::panicking()) else { return };
        if let (Some((_, histogram)), Some(end)) = (&self.stats.timing, self.stats.read_ticks()) {
            let nanos = end.saturating_sub(start);
            for _ in 0..self.answers {
                histogram.count(nanos);
                self.stats.metrics.answer_took(nanos);
            }
        }
    }
}
