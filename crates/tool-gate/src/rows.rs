use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_audit_log::{AuditSink, Record, Signal, SignalRecord};
use countersign_core::{AgentId, Clock, SessionId, Timestamp, ToolId};
use countersign_registry::{CapabilityRegistry, SessionContract};
use parking_lot::Mutex;

use crate::agent_row::{AgentRow, standing_after};
use crate::code::RejectionCode;
use crate::counts::Counts;
use crate::metrics::AnswerMetrics;
use crate::probing::{Probe, SignalRule};
use crate::refusals::{RefusalRate, Refusals};
use crate::rejection::Refusal;
use crate::snapshot::Standing;
use crate::stats::CallStats;

/// Most signals that wait to be recorded: those of an agent that is let out again and again while its record fails.
const MAX_WAITING: usize = 16;

/// The rows that one session's answers are counted in. They are looked up once, so that counting takes no lock that
/// is shared by sessions of different agents.
pub(crate) struct Rows {
    pub(crate) stats: Arc<CallStats>,
    pub(crate) session: Counts,
    agent: Followed,
    /// The agents whose sessions led to this one.
    ancestors: Vec<Followed>,
    disclosed: BTreeMap<ToolId, (Arc<Counts>, Arc<AnswerMetrics>)>,
    /// Refusals that have no entry of their own.
    pub(crate) refused: Refusals,
    signals: RaisedSignals,
    /// The gate's record, on which each change of an agent's standing goes.
    sink: Arc<dyn AuditSink>,
    clock: Arc<dyn Clock>,
}

/// Signals that this session's calls raised and that are not recorded yet.
struct RaisedSignals {
    session: SessionId,
    agent: AgentId,
    is_waiting: AtomicBool,
    waiting: Mutex<VecDeque<SignalRecord>>,
}

/// An agent's row, and what this session's record says of its standing.
struct Followed {
    row: Arc<AgentRow>,
    /// After how many changes the record says how it stands. Written under the lock of `telling` alone.
    told: AtomicU64,
    telling: Mutex<()>,
}

impl Rows {
    pub(crate) fn new(
        stats: Arc<CallStats>,
        contract: &SessionContract,
        sink: Arc<dyn AuditSink>,
        clock: Arc<dyn Clock>,
        rate: RefusalRate,
        now: Timestamp,
    ) -> Self {
        let agent = Followed::new(stats.agent_row(contract.agent()));
        agent.row.metrics.session_started(now);
        let ancestors =
            contract.ancestors().iter().map(|agent| Followed::new(stats.agent_row(agent))).collect();
        let rows = |tool: &ToolId| (stats.tool_row(tool), agent.row.metrics.tool(tool));
        let disclosed = contract.tools().iter().map(|tool| (tool.clone(), rows(tool))).collect();
        let (session, of) = (contract.session().clone(), contract.agent().clone());
        let refused = Refusals::new(Arc::clone(&sink), session, Some(of), rate)
            .timed_by(Arc::clone(&clock))
            .counted_by(agent.row.metrics.summed_calls());
        let signals = RaisedSignals {
            session: contract.session().clone(),
            agent: contract.agent().clone(),
            is_waiting: AtomicBool::new(false),
            waiting: Mutex::default(),
        };
        let session = Counts::default();
        Self { stats, session, agent, ancestors, disclosed, refused, signals, sink, clock }
    }

    /// Sums of the session's refused messages that are no calls.
    pub(crate) fn refused_messages(&self, session: SessionId, rate: RefusalRate) -> Refusals {
        Refusals::new(Arc::clone(&self.sink), session, None, rate)
            .timed_by(Arc::clone(&self.clock))
            .counted_by(self.agent.row.metrics.summed_messages())
    }

    /// Refuses while the agent is quarantined, or one that led to its session: it must not act through another. Whatever
    /// changed in how they stand is on record before this returns.
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
        synced.map_err(|error| refused(format!("whether {who} quarantined cannot be told: {error}")))?;
        match standing {
            Standing::Free => Ok(()),
            Standing::Quarantined => Err(refused(format!("{who} quarantined"))),
        }
    }

    /// Counts one answer, once in each row. `tool` is what the call means, or may be a name that was made up.
    pub(crate) fn count(
        &self,
        time: Timestamp,
        refused: Option<RejectionCode>,
        tool: Option<&ToolId>,
        probe: Option<Probe>,
        registry: &CapabilityRegistry,
    ) {
        self.session.count(time, refused);
        let raised = self.agent.row.count(time, refused, probe);
        self.stats.overall().count(time, refused);
        if let Some((row, metrics)) = tool.and_then(|tool| self.disclosed.get(tool)) {
            row.count(time, refused);
            metrics.count(refused);
        } else if let Some(tool) = tool.filter(|tool| registry.current().tool(tool).is_some()) {
            self.stats.tool_row(tool).count(time, refused);
            self.agent.row.metrics.tool(tool).count(refused);
        } else {
            self.stats.unknown_tools().count(time, refused);
            self.agent.row.metrics.unknown().count(refused);
        }
        if let Some((signal, rule)) = raised {
            self.signals.raise(time, signal, &rule);
        }
        self.signals.record(&*self.sink);
        if !self.agent.is_told() {
            // The alarm has just put it into quarantine, or another gate's did. What fails here is tried again before
            // the next answer, which is a refusal either way.
            let _ = self.stats.store().map(|store| self.agent.row.sync(store));
            let _ = self.agent.tell(self, time);
        }
    }

    /// Returns whether a tool is one of the session's or of the registry's.
    pub(crate) fn knows(&self, tool: &ToolId, registry: &CapabilityRegistry) -> bool {
        self.disclosed.contains_key(tool) || registry.current().tool(tool).is_some()
    }
}

impl RaisedSignals {
    fn raise(&self, time: Timestamp, signal: Signal, rule: &SignalRule) {
        let (session, agent) = (self.session.clone(), self.agent.clone());
        let record = SignalRecord::new(time, session, agent, signal, rule.count(), rule.within());
        let mut waiting = self.waiting.lock();
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

    /// Puts on record how the agent stands, unless it is there already. Says how that is.
    fn tell(&self, rows: &Rows, now: Timestamp) -> Result<Standing, ()> {
        let told = self.told.load(Ordering::SeqCst);
        if told == self.row.changes() {
            return Ok(standing_after(told));
        }
        // Whoever comes meanwhile waits until it is on record.
        let _telling = self.telling.lock();
        let (changes, last) = self.row.last_change();
        if let (true, Some(mut change)) = (changes != self.told.load(Ordering::SeqCst), last) {
            change.time = now;
            let record = Record::Standing(change);
            // why: an alarm that is replayed begins anew at a lift, and must not count behind it what came before.
            rows.refused.write(now).map_err(drop)?;
            let recorded = catch_unwind(AssertUnwindSafe(|| rows.sink.record(&record).is_ok()));
            if !recorded.unwrap_or(false) {
                return Err(());
            }
            self.told.store(changes, Ordering::SeqCst);
        }
        Ok(standing_after(changes))
    }
}
