use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_audit_log::{AuditSink, Record, Signal, SignalRecord};
use countersign_core::{Clock, IdError, ServerName, SessionId, Timestamp, ToolId};
use countersign_registry::{CapabilityRegistry, SessionContract};
use countersign_signals::{Probe, SignalRule};
use parking_lot::Mutex;

use crate::agent_row::{AgentRow, standing_after};
use crate::code::RejectionCode;
use crate::counts::Counts;
use crate::refusals::{RefusalRate, Refusals};
use crate::rejection::Refusal;
use crate::snapshot::Standing;
use crate::stats::CallStats;
use crate::used_tools::{UsedTool, UsedTools};

/// Maximum number of signals that wait to be recorded. They add up if an agent is released again and again while its
/// record fails.
const MAX_WAITING: usize = 16;

/// The rows in which one session's answers are counted. They are looked up once, so that counting takes no lock that
/// sessions of different agents share.
pub(crate) struct Rows {
    pub(crate) stats: Arc<CallStats>,
    pub(crate) session: Counts,
    agent: Followed,
    /// Agents of the sessions that led to this one.
    ancestors: Box<[Followed]>,
    /// The contract that the session began with. Its tools have rows of their own.
    opened: Arc<SessionContract>,
    pub(crate) used: UsedTools,
    /// Refusals without an entry of their own.
    pub(crate) refused: Refusals,
    signals: RaisedSignals,
}

/// Signals that this session's calls raised and that are not recorded yet.
#[derive(Default)]
struct RaisedSignals {
    is_waiting: AtomicBool,
    #[expect(
        clippy::box_collection,
        reason = "most sessions raise no signal, and an empty list takes four times as much"
    )]
    waiting: Mutex<Option<Box<VecDeque<SignalRecord>>>>,
}

/// An agent's row, with the standing that this session's record shows.
struct Followed {
    row: Arc<AgentRow>,
    /// Number of changes that the record covers. Written only under the lock of `telling`.
    told: AtomicU64,
    telling: Mutex<()>,
}

impl Rows {
    pub(crate) fn new(
        stats: Arc<CallStats>,
        contract: &Arc<SessionContract>,
        sink: Arc<dyn AuditSink>,
        clock: Arc<dyn Clock>,
        rate: RefusalRate,
        now: Timestamp,
    ) -> Self {
        let agent = Followed::new(stats.agent_row(contract.agent()));
        agent.row.metrics.session_started(now);
        let ancestors =
            contract.ancestors().iter().map(|agent| Followed::new(stats.agent_row(agent))).collect();
        for tool in contract.tools() {
            stats.tool_row(tool);
            agent.row.metrics.tool(tool);
        }
        let (session, of) = (contract.session().clone(), contract.agent().clone());
        let refused = Refusals::new(sink, session, Some(of), rate)
            .timed_by(clock)
            .counted_by(agent.row.metrics.summed_calls());
        let (session, opened, used) = (Counts::in_one_part(), Arc::clone(contract), UsedTools::default());
        let signals = RaisedSignals::default();
        Self { stats, session, agent, ancestors, opened, used, refused, signals }
    }

    /// Returns sums of the session's refused messages that are not calls.
    pub(crate) fn refused_messages(&self, session: SessionId, rate: RefusalRate) -> Refusals {
        self.refused.of_messages(session, rate).counted_by(self.agent.row.metrics.summed_messages())
    }

    /// Refuses while the agent, or one that led to its session, is quarantined: an agent must not act through another.
    /// Changes of their standing are recorded before this returns.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        for led_here in &self.ancestors {
            self.check_one(led_here, "an agent that led to the session is", now)?;
        }
        self.check_one(&self.agent, "it is", now)
    }

    fn check_one(&self, agent: &Followed, who: &str, now: Timestamp) -> Result<(), Refusal> {
        let refused = |reason| Refusal::new(RejectionCode::AgentQuarantined, reason);
        let synced = self.stats.store().map_or(Ok(()), |store| agent.row.sync(store));
        let standing = agent.tell(self, now).map_err(|()| {
            Refusal::new(
                RejectionCode::AuditUnavailable,
                "a change of the agent's standing cannot be recorded",
            )
        })?;
        synced.map_err(|error| refused(format!("whether {who} quarantined is unknown: {error}")))?;
        match standing {
            Standing::Free => Ok(()),
            Standing::Quarantined => Err(refused(format!("{who} quarantined"))),
        }
    }

    /// Returns `true` if a signal counts a call that was not approved yet.
    pub(crate) fn has_asked(&self) -> bool {
        self.agent.row.has_asked()
    }

    /// Returns the name of a server, without a copy if the session's first contract has tools of it.
    pub(crate) fn server(&self, name: &str) -> Result<ServerName, IdError> {
        let mut known = self.opened.tools().iter().map(ToolId::server);
        known
            .find(|known| known.as_str() == name)
            .map_or_else(|| ServerName::new(name), |known| Ok(known.clone()))
    }

    /// Returns the row of a tool that the session's first contract or the one in force discloses.
    pub(crate) fn use_tool(&self, tool: &ToolId, contract: &SessionContract) -> Option<Arc<UsedTool>> {
        let used = self.used.find(tool.server().as_str(), tool.name().as_str());
        let is_renewed = || !std::ptr::eq(&*self.opened, contract);
        if used.is_some() || !(self.opened.discloses(tool) || (is_renewed() && contract.discloses(tool))) {
            return used;
        }
        let id = tool.detached();
        let (counts, metrics) = (self.stats.tool_row(&id), self.agent.row.metrics.tool(&id));
        Some(self.used.add(UsedTool::new(id, counts, metrics)))
    }

    /// Counts one answer, once in each row. `tool` is the tool that the call means; it may be a made-up name. `used` is that
    /// tool if the session [uses](Self::use_tool) it. A refused call that `waits` for a person's evidence is no conduct of the agent.
    pub(crate) fn count(
        &self,
        time: Timestamp,
        (refused, waits): (Option<RejectionCode>, bool),
        (tool, used): (Option<&ToolId>, Option<&UsedTool>),
        probe: Option<Probe>,
        registry: &CapabilityRegistry,
    ) {
        self.session.count(time, refused);
        let raised = self.agent.row.count(time, (refused, waits), probe);
        self.stats.overall().count(time, refused);
        if let Some(used) = used {
            used.counts.count(time, refused);
            used.metrics.count(refused);
        } else if let Some(tool) = tool.filter(|tool| registry.current().tool(tool).is_some()) {
            self.stats.tool_row(tool).count(time, refused);
            self.agent.row.metrics.tool(tool).count(refused);
        } else {
            self.stats.unknown_tools().count(time, refused);
            self.agent.row.metrics.unknown().count(refused);
        }
        if let Some((signal, rule)) = raised {
            self.signals.raise(time, &self.opened, signal, &rule);
        }
        self.signals.record(self.refused.sink());
        if !self.agent.is_told() {
            // The alarm has just quarantined the agent, here or at another gate. A failure here is retried before the
            // next answer, which is a refusal either way.
            let _ = self.stats.store().map(|store| self.agent.row.sync(store));
            let _ = self.agent.tell(self, time);
        }
    }

    /// Returns `true` if the session or the registry has the tool.
    pub(crate) fn knows(&self, tool: &ToolId, registry: &CapabilityRegistry) -> bool {
        self.opened.discloses(tool) || registry.current().tool(tool).is_some()
    }
}

impl RaisedSignals {
    fn raise(&self, time: Timestamp, of: &SessionContract, signal: Signal, rule: &SignalRule) {
        let (session, agent) = (of.session().clone(), of.agent().clone());
        let record = SignalRecord::new(time, session, agent, signal, rule.count(), rule.within());
        let mut waiting = self.waiting.lock();
        let waiting = waiting.get_or_insert_default();
        if waiting.len() < MAX_WAITING {
            waiting.push_back(record);
        }
        self.is_waiting.store(true, Ordering::SeqCst);
    }

    /// Records the signals that wait. One that cannot be recorded waits for the next answer.
    fn record(&self, sink: &dyn AuditSink) {
        if !self.is_waiting.load(Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let waiting = waiting.get_or_insert_default();
        while let Some(signal) = waiting.front() {
            let record = Record::Signal(signal.clone());
            if !catch_unwind(AssertUnwindSafe(|| sink.record(&record).is_ok())).unwrap_or(false) {
                return;
            }
            waiting.pop_front();
        }
        self.is_waiting.store(false, Ordering::SeqCst);
    }
}

impl Followed {
    fn new(row: Arc<AgentRow>) -> Self {
        let told = AtomicU64::new(row.told());
        Self { row, told, telling: Mutex::new(()) }
    }

    fn is_told(&self) -> bool {
        self.told.load(Ordering::SeqCst) == self.row.changes()
    }

    /// Records the agent's standing unless the record shows it already, and returns it.
    fn tell(&self, rows: &Rows, now: Timestamp) -> Result<Standing, ()> {
        let told = self.told.load(Ordering::SeqCst);
        if told == self.row.changes() {
            return Ok(standing_after(told));
        }
        // Concurrent callers wait until the change is recorded.
        let _telling = self.telling.lock();
        let (changes, last) = self.row.last_change();
        if let (true, Some(mut change)) = (changes != self.told.load(Ordering::SeqCst), last) {
            change.time = now;
            let record = Record::Standing(change);
            // why: a replayed alarm is reset at a lift, and must not count earlier refusals after it.
            rows.refused.write(now).map_err(drop)?;
            let recorded = catch_unwind(AssertUnwindSafe(|| rows.refused.sink().record(&record).is_ok()));
            if !recorded.unwrap_or(false) {
                return Err(());
            }
            self.told.store(changes, Ordering::SeqCst);
        }
        Ok(standing_after(changes))
    }
}
