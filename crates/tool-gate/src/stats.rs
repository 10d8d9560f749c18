use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_audit_log::{Record, Signal, StandingRecord};
use countersign_core::{AgentId, Timestamp, ToolId};
use dashmap::DashMap;

use crate::agent_row::AgentRow;
use crate::alarm::{AlarmAction, AlarmRule, AlarmState};
use crate::counts::Counts;
use crate::histogram::{Histogram, Ticks};
use crate::metrics::ProcessMetrics;
use crate::probing::{Probing, SignalRule};
use crate::quarantine::{QuarantineError, Quarantines};
use crate::replay::{AgentReplay, SavedReplay};
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
/// them), as `ASK_EXPIRED` does; `TOOL_DEFINITION_CHANGED` and `TOOL_DEFINITION_UNKNOWN`, or a server could have its callers
/// quarantined; and what is the host's fault (`STORE_UNAVAILABLE`, `AUDIT_UNAVAILABLE`, `INTERNAL`). A call that a person denied is the agent's doing
/// like any other that is refused. Unless said otherwise it only shows.
/// A call counts for the agent that made it and for no other, in a session that another agent's led to as well: who may
/// open sessions of an agent can make it look bad, and it is quarantined in all of them.
///
/// A quarantine refuses every call of the agent, and of sessions that its own led to, at every gate that shares these
/// counts (`AGENT_QUARANTINED`), and lets it start no plan; a call that came before it is not recalled. Each gate that
/// learns that an agent of its session was put into quarantine, or let out, puts that on its record before its next
/// answer. A quarantine is held in memory, and gone with the process, unless it is [kept](Self::kept_in).
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

    /// Sets the rule of a signal, for agents that have no row yet. A signal that is raised is recorded by the gate whose
    /// call raised it, and stays raised until the agent is let out of quarantine or its next session.
    #[must_use]
    pub const fn signal(mut self, signal: Signal, rule: SignalRule) -> Self {
        match signal {
            Signal::Asked => self.asked = rule,
            Signal::Undisclosed => self.undisclosed = rule,
            _ => {}
        }
        self
    }

    /// Times every answer of [`ToolGate::check`](crate::ToolGate::check), its record included, by `ticks`.
    #[must_use]
    pub fn ticks(mut self, ticks: Arc<dyn Ticks>) -> Self {
        self.timing = Some((ticks, Histogram::default()));
        self
    }

    /// Keeps quarantines in `store`: they outlive the process, and what another process or an operator changes there holds
    /// at the agent's next call here. While the store cannot be read, every call is refused (`AGENT_QUARANTINED`, with the
    /// reason on record). What the alarm does while it cannot be written holds here, and is kept as soon as it can be.
    #[must_use]
    pub fn kept_in(mut self, store: Arc<dyn Quarantines>) -> Self {
        self.store = Some(store);
        self
    }

    /// Watches one agent by a rule of its own. Its alarm starts anew; a quarantine stays.
    pub fn watch(&self, agent: &AgentId, rule: AlarmRule, action: AlarmAction) {
        self.agent_row(agent).watch(rule, action);
    }

    /// Has the agent's alarm go on where earlier processes left off: these are the entries of their record, verified, in their
    /// order. Those about other agents are passed over, and nothing is counted. It is for a host that has a process for each
    /// session, and comes before any gate is opened for the agent: once a call of the agent was counted here, nothing is taken up.
    ///
    /// The rule is the one that holds now. What came before the agent was last let out, by the record or by the
    /// [store](Self::kept_in), is not held against it. An alarm that an earlier session raised is over with that session,
    /// and begins anew with the next, unless it was the last one, and was to put the agent into quarantine where a store
    /// keeps that, and the store does not have it: the process ended too early, and the agent is quarantined now.
    ///
    /// # Errors
    /// The first error among the entries, and [`QuarantineError`] where the store fails. No gate is to be opened then.
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

    /// Begins a replay of the agent's records, by the agent's rules and the last lift in the [store](Self::kept_in).
    ///
    /// # Errors
    /// [`QuarantineError`] where the store fails.
    pub fn replay(&self, agent: &AgentId) -> Result<AgentReplay, QuarantineError> {
        self.agent_row(agent).replay(self.store())
    }

    /// Resumes a replay that was saved. Returns `None` where it does not fit, so that all entries are to be replayed: it is
    /// of another agent or other rules, or counts entries from before the agent was last let out beside later ones.
    ///
    /// # Errors
    /// [`QuarantineError`] where the store fails.
    pub fn resume_replay(
        &self,
        agent: &AgentId,
        saved: &SavedReplay,
    ) -> Result<Option<AgentReplay>, QuarantineError> {
        Ok(self.replay(agent)?.resumed(saved))
    }

    /// Has the alarm of the replay's agent go on from it, as [`take_up`](Self::take_up) does.
    ///
    /// # Errors
    /// [`QuarantineError`] where the store fails. No gate is to be opened then.
    pub fn take_up_replay(&self, replay: AgentReplay) -> Result<(), QuarantineError> {
        self.agent_row(&replay.agent).take_up(self.store(), replay)
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

    /// Time at which the agent's signal was raised; nothing while it is not.
    #[must_use]
    pub fn signal_raised(&self, agent: &AgentId, signal: Signal) -> Option<Timestamp> {
        self.find(agent).and_then(|row| row.signal(signal))
    }

    /// Starts the agent's alarm and signals anew, without any evidence. A quarantine stays.
    pub fn reset_alarm(&self, agent: &AgentId) {
        if let Some(row) = self.find(agent) {
            row.reset_alarm();
        }
    }

    /// Puts an agent into quarantine, or lets it out and starts its alarm anew. Says how it stood before; an agent that
    /// stands so already stays as it is, and so does who is on record for it. The time is when the host did it.
    ///
    /// # Errors
    /// [`QuarantineError`] where quarantines are kept and the change cannot be. A quarantine holds in this process all the
    /// same; one that is to be lifted goes on.
    pub fn set_standing(&self, change: &StandingRecord) -> Result<Standing, QuarantineError> {
        self.agent_row(&change.agent).set_standing(change, self.store())
    }

    /// Gives the store what it does not have yet, and takes over what it says, for every agent that has a row. Gates do so
    /// by themselves before each answer: this is for whoever shows how agents stand, or is about to end.
    ///
    /// # Errors
    /// [`QuarantineError`] for the first agent of which that fails; the others were tried as well.
    pub fn sync(&self) -> Result<(), QuarantineError> {
        let Some(store) = self.store() else { return Ok(()) };
        let rows: Vec<_> = self.agents.iter().map(|row| Arc::clone(row.value())).collect();
        rows.iter().map(|row| row.sync(store)).fold(Ok(()), Result::and)
    }

    /// Whether the agent is quarantined, as far as this process has learnt.
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
            let nanos = end.saturating_sub(start);
            histogram.count(nanos);
            self.metrics.answer_took(nanos);
        }
        answered
    }

    pub(crate) fn store(&self) -> Option<&dyn Quarantines> {
        self.store.as_deref()
    }

    pub(crate) fn agent_row(&self, agent: &AgentId) -> Arc<AgentRow> {
        if let Some(row) = self.find(agent) {
            return row;
        }
        self.metrics.describe();
        // Made outside of the map's lock: a recorder of metrics is the host's code.
        let fresh = Arc::new(AgentRow::new(
            agent,
            self.rule,
            self.action,
            Probing::new(self.asked, self.undisclosed),
        ));
        Arc::clone(self.agents.entry(agent.clone()).or_insert(fresh).value())
    }

    /// Makes a row for the tool. Only for tools that the registry knows.
    pub(crate) fn tool_row(&self, tool: &ToolId) -> Arc<Counts> {
        Arc::clone(self.tools.entry(tool.clone()).or_default().value())
    }

    fn find(&self, agent: &AgentId) -> Option<Arc<AgentRow>> {
        self.agents.get(agent).map(|row| Arc::clone(row.value()))
    }
}
