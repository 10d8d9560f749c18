use std::collections::{BTreeMap, HashMap};

use countersign_core::{CallFacts, CallId, Digest, OperatorId, SessionId, Timestamp};
use parking_lot::Mutex;

use crate::denial::{DenialReason, PendingDenial};
use crate::error::PendingError;
use crate::pending::asker_of_session;
use crate::pending::{PendingApproval, PendingApprovals, PendingState, SESSION_SILENCE, SessionKind};
use crate::token::ApprovalToken;

/// Most open questions: waiting, or approved and unused.
const MAX_OPEN: usize = 1_024;

/// Most bytes of arguments in the store.
const MAX_ARGS_BYTES: usize = 64 * 1024 * 1024;

/// Most waiting questions of one asker.
const MAX_WAITING_EACH: usize = 64;

/// Most bytes of arguments that one asker's waiting questions hold.
const MAX_ARGS_BYTES_EACH: usize = 4 * 1024 * 1024;

/// Most closed questions kept for later queries of their outcome.
const MAX_CLOSED: usize = 256;

/// In-memory store of pending approvals. Ends with the process.
#[derive(Debug, Default)]
pub struct MemoryPendingApprovals {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    // Keyed by arrival, so that the oldest is listed and dropped first.
    entries: BTreeMap<u64, Item>,
    /// Denials in force. A person makes each of them, so a linear search is enough.
    denied: Vec<Denial>,
    /// Reported sessions, keyed by their asker digest.
    sessions: HashMap<Digest, ReportedSession>,
}

/// Session that a gateway reported.
#[derive(Clone, Copy, Debug)]
struct ReportedSession {
    kind: SessionKind,
    /// Last sign of life; `None` once the session was ended.
    alive: Option<Timestamp>,
}

impl ReportedSession {
    fn has_ended(&self, now: Timestamp) -> bool {
        let is_silent = |alive| now.since(alive) >= SESSION_SILENCE;
        self.kind == SessionKind::Single && self.alive.is_none_or(is_silent)
    }
}

impl Kept {
    fn has_ended(&self, asker: &Digest, now: Timestamp) -> bool {
        self.sessions.get(asker).is_some_and(|session| session.has_ended(now))
    }

    /// Returns the waiting questions of ended sessions, or of the others.
    fn waiting(&self, ended: bool, now: Timestamp) -> Vec<PendingApproval> {
        let waiting = self.entries.values().filter(|item| item.is_waiting(now));
        let chosen = waiting.filter(|item| self.has_ended(&item.asker, now) == ended);
        chosen.map(|item| item.pending.clone()).collect()
    }
}

/// Denial, without the arguments.
#[derive(Clone, Debug)]
struct Denial {
    act: Digest,
    id: CallId,
    by: OperatorId,
    reason: Option<DenialReason>,
    asker: Digest,
    until: Timestamp,
}

#[derive(Clone, Debug)]
struct Item {
    pending: PendingApproval,
    act: Digest,
    asker: Digest,
    state: PendingState,
    /// Expiry of the question; once approved, of its token.
    open_until: Timestamp,
    /// Whether its session had ended at the last request.
    is_withdrawn: bool,
}

impl Item {
    const fn is_decided(&self) -> bool {
        matches!(self.state, PendingState::Denied | PendingState::Used)
    }

    fn is_open(&self, now: Timestamp) -> bool {
        !self.is_decided() && !self.is_withdrawn && now < self.open_until
    }

    fn is_waiting(&self, now: Timestamp) -> bool {
        matches!(self.state, PendingState::Waiting) && now < self.open_until
    }
}

impl MemoryPendingApprovals {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a change to one item.
    fn change(
        &self,
        id: &CallId,
        change: impl FnOnce(&mut Item) -> Result<(), PendingError>,
    ) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let item = kept.entries.values_mut().find(|item| item.pending.id() == id);
        change(item.ok_or(PendingError::Unknown)?)
    }
}

impl PendingApprovals for MemoryPendingApprovals {
    fn request(&self, pending: &PendingApproval) -> Result<CallId, PendingError> {
        let (now, act) = (pending.requested(), pending.binding().act());
        let mut kept = self.kept.lock();
        let Kept { entries, denied, sessions } = &mut *kept;
        // A request is a sign of life.
        if let Some(alive) = sessions.get_mut(&pending.asker()).and_then(|it| it.alive.as_mut()) {
            *alive = now;
        }
        // Withdrawn questions are closed and take no room.
        for item in entries.values_mut().filter(|item| matches!(item.state, PendingState::Waiting)) {
            item.is_withdrawn = sessions.get(&item.asker).is_some_and(|session| session.has_ended(now));
        }
        denied.retain(|denial| now < denial.until);
        if denied.iter().any(|denial| denial.act == act) {
            return Err(PendingError::Denied);
        }
        let open = || entries.values().filter(|item| item.is_open(now));
        if let Some(same) = open().find(|item| item.act == act) {
            return Ok(same.pending.id().clone());
        }
        if entries.values().any(|item| item.pending.id() == pending.id()) {
            return Err(PendingError::Conflict);
        }
        let asker = pending.asker();
        let of_asker = || {
            entries.values().filter(|item| item.asker == asker && item.is_waiting(now) && item.is_open(now))
        };
        let denied_of_asker = denied.iter().filter(|denial| denial.asker == asker).count();
        if of_asker().count().saturating_add(denied_of_asker) >= MAX_WAITING_EACH
            || bytes_with(of_asker(), pending) > MAX_ARGS_BYTES_EACH
            || open().count() >= MAX_OPEN
        {
            return Err(PendingError::Full);
        }
        forget_closed(entries, now, MAX_CLOSED);
        if bytes_with(entries.values(), pending) > MAX_ARGS_BYTES {
            forget_closed(entries, now, 0);
        }
        if bytes_with(entries.values(), pending) > MAX_ARGS_BYTES {
            return Err(PendingError::Full);
        }
        let next = entries.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        let (state, open_until) = (PendingState::Waiting, pending.expires());
        entries.insert(
            next,
            Item { pending: pending.clone(), act, asker, state, open_until, is_withdrawn: false },
        );
        Ok(pending.id().clone())
    }

    fn get(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError> {
        let kept = self.kept.lock();
        let item = kept.entries.values().find(|item| item.pending.id() == id);
        Ok(item.map(|item| (item.pending.clone(), item.state.clone())))
    }

    fn list(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError> {
        Ok(self.kept.lock().waiting(false, now))
    }

    fn list_ended(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError> {
        Ok(self.kept.lock().waiting(true, now))
    }

    fn note_alive(&self, session: &SessionId, kind: SessionKind, now: Timestamp) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let asker = asker_of_session(session);
        let Kept { entries, sessions, .. } = &mut *kept;
        // Keep an ended session for as long as a question of it is stored.
        sessions.retain(|of, session| {
            let is_live = session.kind == SessionKind::Single && !session.has_ended(now);
            is_live || *of == asker || entries.values().any(|item| item.asker == *of)
        });
        let session = sessions.entry(asker).or_insert(ReportedSession { kind, alive: Some(now) });
        let is_over = session.kind == SessionKind::Single && session.alive.is_none();
        if !is_over {
            *session = ReportedSession { kind, alive: Some(now) };
        }
        Ok(())
    }

    fn end_session(&self, session: &SessionId) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        if let Some(session) = kept.sessions.get_mut(&asker_of_session(session)) {
            session.alive = session.alive.filter(|_| session.kind == SessionKind::Named);
        }
        Ok(())
    }

    fn has_session_ended(&self, pending: &PendingApproval, now: Timestamp) -> Result<bool, PendingError> {
        Ok(self.kept.lock().has_ended(&pending.asker(), now))
    }

    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let Kept { entries, sessions, .. } = &mut *kept;
        let item = entries.values_mut().find(|item| item.pending.id() == id);
        let item = item.ok_or(PendingError::Unknown)?;
        if !matches!(item.state, PendingState::Waiting) {
            return Err(PendingError::Decided);
        }
        if sessions.get(&item.asker).is_some_and(|session| session.has_ended(now)) {
            return Err(PendingError::SessionEnded);
        }
        let expiry = token.claimed_expiry().ok_or(PendingError::Token)?;
        if !item.is_waiting(now) || expiry <= now {
            return Err(PendingError::Expired);
        }
        (item.open_until, item.is_withdrawn) = (expiry, false);
        item.state = PendingState::Approved(token.clone());
        Ok(())
    }

    fn deny_because(
        &self,
        id: &CallId,
        by: &OperatorId,
        reason: Option<&DenialReason>,
    ) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let item = kept.entries.values().find(|item| item.pending.id() == id).ok_or(PendingError::Unknown)?;
        if item.is_decided() {
            return Err(PendingError::Decided);
        }
        let (act, asker, until) = (item.act, item.asker, item.pending.denied_until());
        for same in kept.entries.values_mut().filter(|item| item.act == act && !item.is_decided()) {
            same.state = PendingState::Denied;
        }
        let (id, by, reason) = (id.clone(), by.clone(), reason.cloned());
        kept.denied.push(Denial { act, id, by, reason, asker, until });
        Ok(())
    }

    fn find_denied(&self, act: &CallFacts, now: Timestamp) -> Result<Option<PendingDenial>, PendingError> {
        let act = act.act();
        let kept = self.kept.lock();
        let denial = kept.denied.iter().rfind(|denial| denial.act == act && now < denial.until);
        let copy = |it: &Denial| PendingDenial::new(it.id.clone(), it.by.clone(), it.reason.clone());
        Ok(denial.map(copy))
    }

    fn find_approved(
        &self,
        act: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<(CallId, ApprovalToken)>, PendingError> {
        let act = act.act();
        let kept = self.kept.lock();
        let token = |item: &Item| match &item.state {
            PendingState::Approved(token) if item.act == act && item.is_open(now) => {
                Some((item.pending.id().clone(), token.clone()))
            }
            PendingState::Waiting | PendingState::Approved(_) | PendingState::Denied | PendingState::Used => {
                None
            }
        };
        Ok(kept.entries.values().find_map(token))
    }

    fn mark_used(&self, id: &CallId) -> Result<(), PendingError> {
        self.change(id, |item| {
            if !matches!(item.state, PendingState::Approved(_)) {
                return Err(PendingError::Decided);
            }
            item.state = PendingState::Used;
            Ok(())
        })
    }

    fn withdraw(&self, id: &CallId) -> Result<(), PendingError> {
        let entries = &mut self.kept.lock().entries;
        let found = entries.iter().find(|(_, item)| item.pending.id() == id);
        let (number, item) = found.ok_or(PendingError::Unknown)?;
        if !matches!(item.state, PendingState::Waiting) {
            return Err(PendingError::Decided);
        }
        let number = *number;
        entries.remove(&number);
        Ok(())
    }
}

/// Drops closed questions, except the newest `keep`.
fn forget_closed(entries: &mut BTreeMap<u64, Item>, now: Timestamp, keep: usize) {
    let closed = entries.values().filter(|item| !item.is_open(now)).count();
    let mut surplus = closed.saturating_sub(keep);
    entries.retain(|_, item| {
        let drop = surplus > 0 && !item.is_open(now);
        surplus = surplus.saturating_sub(usize::from(drop));
        !drop
    });
}

/// Bytes of arguments, with one more question counted.
fn bytes_with<'a>(items: impl Iterator<Item = &'a Item>, more: &PendingApproval) -> usize {
    let sizes = items.map(|item| item.pending.args().len());
    sizes.fold(more.args().len(), usize::saturating_add)
}
