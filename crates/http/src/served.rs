//! One open session, and its calls that are under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_approval_token::{PendingApprovals, PendingError, SessionKind};
use countersign_audit_log::{AuditSink, EndReason, LogNumber, OutcomeKind};
use countersign_core::{Clock, Millis, OperatorId, Timestamp};
use countersign_host::alive::LiveSession;
use countersign_host::error::HostError;
use countersign_host::notices::Notices;
use countersign_host::report::Reporter;
use countersign_host::session::{OpenSession, SessionEnd};
use countersign_host::signals::AgentWatch;
use countersign_tool_gate::{CallApprovals, DeskHost, InFlight, ToolGate};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// Most accepted calls of a session without an outcome.
pub(crate) const MAX_UNDER_WAY: usize = 1_024;

/// An open session of one caller.
///
/// Lock order: `life`, then `under_way`.
#[derive(Debug)]
pub(crate) struct ServedSession {
    pub(crate) gate: ToolGate,
    pub(crate) approvals: Option<CallApprovals>,
    pub(crate) notices: Notices,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reporter: Reporter,
    /// Name of its log.
    pub(crate) log: Option<LogNumber>,
    owner: OperatorId,
    sink: Arc<dyn AuditSink>,
    watch: AgentWatch,
    /// Accepted calls without an outcome, by the number of their decision.
    under_way: Mutex<BTreeMap<u64, InFlight>>,
    /// Time of the last request, in Unix milliseconds.
    used: AtomicU64,
    /// Locked for reading during each request, so that the session's end waits for it. Empty once the session has ended.
    life: RwLock<Option<SessionLife>>,
}

#[derive(Debug)]
struct SessionLife {
    alive: Option<LiveSession>,
    end: SessionEnd,
}

/// A session during one request: it does not end meanwhile.
#[derive(Debug)]
pub(crate) struct UsedSession<'s> {
    pub(crate) session: &'s ServedSession,
    _life: RwLockReadGuard<'s, Option<SessionLife>>,
}

/// Parts of a session besides its gate.
pub(crate) struct SessionParts {
    pub(crate) owner: OperatorId,
    pub(crate) kind: SessionKind,
    pub(crate) approval_ttl: Millis,
    pub(crate) notices: Notices,
    pub(crate) reporter: Reporter,
}

impl ServedSession {
    pub(crate) fn begin(opened: OpenSession, parts: SessionParts) -> Result<Self, HostError> {
        let SessionParts { owner, kind, approval_ttl, notices, reporter } = parts;
        // A failure from here on ends the session.
        let end = SessionEnd::new(&opened);
        let OpenSession { gate, sink, clock, pending, log_number, .. } = opened;
        let id = gate.contract().session().clone();
        let begin = |store| LiveSession::begin(store, id, kind, reporter.clone());
        let alive = pending.clone().map(begin).transpose()?;
        let store = pending.map(|store| -> Arc<dyn PendingApprovals> { store });
        Ok(Self {
            approvals: store.map(|store| CallApprovals::new(store, approval_ttl)),
            notices,
            log: log_number,
            owner,
            sink,
            watch: AgentWatch::new(gate.clone(), reporter.clone()),
            reporter,
            under_way: Mutex::default(),
            used: AtomicU64::new(clock.now().map_or(0, Timestamp::as_millis)),
            clock,
            gate,
            life: RwLock::new(Some(SessionLife { alive, end })),
        })
    }

    pub(crate) fn is_owned_by(&self, caller: &OperatorId) -> bool {
        self.owner == *caller
    }

    /// Uses the session for a request; `None` if it has ended.
    pub(crate) fn use_it(&self) -> Option<UsedSession<'_>> {
        let life = self.life.read();
        if life.is_none() {
            return None;
        }
        self.used.store(self.clock.now().map_or(0, Timestamp::as_millis), Ordering::Relaxed);
        Some(UsedSession { session: self, _life: life })
    }

    /// Returns whether the session has expired, or was not used for `idle`.
    pub(crate) fn is_over(&self, idle: Millis, now: Timestamp) -> bool {
        let unused = now.as_millis().saturating_sub(self.used.load(Ordering::Relaxed));
        now >= self.gate.contract().expires() || unused >= idle.as_millis()
    }

    /// Records outcomes that wait and sums that are due, because a call that would trigger it may never come.
    pub(crate) fn record_late(&self, now: Timestamp) {
        // On failure the sink keeps them.
        let _ = self.sink.flush();
        if self.gate.refusals().is_due(now) {
            let _ = self.gate.refusals().write(now);
        }
    }

    /// Ends the session behind the requests under way. A call without an outcome is recorded as unknown.
    pub(crate) fn end(&self, reason: EndReason) {
        let Some(SessionLife { alive, mut end }) = self.life.write().take() else { return };
        // One sync keeps them all, with the session's end.
        for (_, call) in std::mem::take(&mut *self.under_way.lock()) {
            call.finish_later(OutcomeKind::Unknown);
        }
        if let Ok(now) = self.clock.now() {
            let _ = self.gate.refusals().write(now);
        }
        drop(alive);
        self.watch.end();
        end.set(reason);
        if let Err(error) = end.end() {
            self.reporter.warn_of(&error);
        }
    }
}

impl DeskHost for ServedSession {
    fn now(&self) -> Option<Timestamp> {
        self.clock.now().ok()
    }

    fn store_failed(&self, error: &PendingError) {
        self.reporter.warn(error.code(), &error.to_string());
    }
}

impl UsedSession<'_> {
    /// Looks at the agent's standing. Done before each decision.
    pub(crate) fn look(&self) {
        self.session.watch.look();
    }

    pub(crate) fn has_room(&self) -> bool {
        self.session.under_way.lock().len() < MAX_UNDER_WAY
    }

    /// Keeps an accepted call until its outcome is reported.
    pub(crate) fn keep(&self, decision: u64, call: InFlight) {
        self.session.under_way.lock().insert(decision, call);
    }

    /// Takes an accepted call for its outcome.
    pub(crate) fn take(&self, decision: u64) -> Option<InFlight> {
        self.session.under_way.lock().remove(&decision)
    }
}
