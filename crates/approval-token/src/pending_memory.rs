use std::collections::{BTreeMap, HashMap};

use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, CallId, Digest, OperatorId, SessionId, Timestamp};
use parking_lot::Mutex;

use crate::denial::{DenialReason, PendingDenial};
use crate::error::PendingError;
use crate::evidence_question::AttestedProposal;
use crate::pending::asker_of_session;
use crate::pending::{PendingApproval, PendingApprovals, PendingState, SESSION_SILENCE, SessionKind};
use crate::several::first_expiry;
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
    /// Tokens given for a question that needs several.
    tokens: Vec<ApprovalToken>,
    /// The attestation, once it was given.
    attested: Option<AttestedProposal>,
    /// Expiry of the question; once approved, of its token; once attested where that is all, of the attestation.
    open_until: Timestamp,
    /// Whether it lacked an answer at the last request, and its session had ended.
    is_withdrawn: bool,
}

impl Item {
    const fn is_decided(&self) -> bool {
        matches!(self.state, PendingState::Denied | PendingState::Used)
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        !self.is_decided() && now < self.open_until
    }

    fn is_open(&self, now: Timestamp) -> bool {
        self.is_valid(now) && !self.is_withdrawn
    }

    /// Returns `true` if an answer is missing.
    fn is_waiting(&self, now: Timestamp) -> bool {
        let lacks_approval = self.pending.needs_approval() && matches!(self.state, PendingState::Waiting);
        let lacks_evidence = self.pending.evidence().is_some() && self.attested.is_none();
        self.is_valid(now) && (lacks_approval || lacks_evidence)
    }

    /// Returns `true` if an attestation is all that the question asks for, and was given.
    const fn is_attested_alone(&self) -> bool {
        matches!(self.state, PendingState::Waiting)
            && !self.pending.needs_approval()
            && self.attested.is_some()
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

    fn keep_approval(
        &self,
        id: &CallId,
        token: &ApprovalToken,
        edited: Option<&Canonical>,
        now: Timestamp,
    ) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let Kept { entries, sessions, .. } = &mut *kept;
        let item = entries.values_mut().find(|item| item.pending.id() == id);
        let item = item.ok_or(PendingError::Unknown)?;
        if !matches!(item.state, PendingState::Waiting) {
            return Err(PendingError::Decided);
        }
        if !item.pending.needs_approval() {
            return Err(PendingError::Kind);
        }
        if sessions.get(&item.asker).is_some_and(|session| session.has_ended(now)) {
            return Err(PendingError::SessionEnded);
        }
        if item.open_until <= now {
            return Err(PendingError::Expired);
        }
        let edited = edited.map(|args| item.pending.edited(args)).transpose()?;
        let tokens = item.pending.add_token(item.tokens.clone(), token, now)?;
        if tokens.len() >= item.pending.needed() {
            let first = tokens.first().unwrap_or(token).clone();
            (item.open_until, item.is_withdrawn) = (first_expiry(&tokens).ok_or(PendingError::Token)?, false);
            item.state = PendingState::Approved(first);
        }
        item.tokens = tokens;
        if let Some(edited) = edited {
            item.pending = edited;
        }
        Ok(())
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
            let has_ended = sessions.get(&item.asker).is_some_and(|session| session.has_ended(now));
            item.is_withdrawn = has_ended && !item.is_attested_alone();
        }
        denied.retain(|denial| now < denial.until);
        if denied.iter().any(|denial| denial.act == act) {
            return Err(PendingError::Denied);
        }
        let same = entries.iter().find(|(_, item)| item.act == act && item.is_open(now));
        if let Some((number, same)) = same {
            let merged = same.pending.merged(pending, same.attested.is_some());
            let (number, id) = (*number, merged.id().clone());
            let grown = merged.size().saturating_sub(same.pending.size());
            if grown > 0 && !has_bytes(entries, &merged.asker(), grown, now) {
                return Err(PendingError::Full);
            }
            if let Some(same) = entries.get_mut(&number) {
                same.pending = merged;
            }
            return Ok(id);
        }
        if entries.values().any(|item| item.pending.id() == pending.id()) {
            return Err(PendingError::Conflict);
        }
        let asker = pending.asker();
        let open = || entries.values().filter(|item| item.is_open(now));
        let of_asker = open().filter(|item| item.asker == asker && item.is_waiting(now)).count();
        let denied_of_asker = denied.iter().filter(|denial| denial.asker == asker).count();
        if of_asker.saturating_add(denied_of_asker) >= MAX_WAITING_EACH
            || open().count() >= MAX_OPEN
            || !has_bytes(entries, &asker, pending.size(), now)
        {
            return Err(PendingError::Full);
        }
        forget_closed(entries, now, MAX_CLOSED);
        let next = entries.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        let (state, open_until) = (PendingState::Waiting, pending.expires());
        entries.insert(
            next,
            Item {
                pending: pending.clone(),
                act,
                asker,
                state,
                tokens: Vec::new(),
                attested: None,
                open_until,
                is_withdrawn: false,
            },
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
        self.keep_approval(id, token, None, now)
    }

    fn approve_edited(
        &self,
        id: &CallId,
        token: &ApprovalToken,
        args: &Canonical,
        now: Timestamp,
    ) -> Result<(), PendingError> {
        self.keep_approval(id, token, Some(args), now)
    }

    fn approvals(&self, id: &CallId) -> Result<Vec<ApprovalToken>, PendingError> {
        let kept = self.kept.lock();
        let item = kept.entries.values().find(|item| item.pending.id() == id);
        Ok(item.map(|item| item.tokens.clone()).unwrap_or_default())
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
            (same.state, same.attested) = (PendingState::Denied, None);
            same.tokens.clear();
        }
        let (id, by, reason) = (id.clone(), by.clone(), reason.cloned());
        kept.denied.push(Denial { act, id, by, reason, asker, until });
        Ok(())
    }

    fn cover(&self, id: &CallId) -> Result<(), PendingError> {
        self.change(id, |item| {
            if !matches!(item.state, PendingState::Waiting) {
                return Err(PendingError::Decided);
            }
            item.state = PendingState::Used;
            Ok(())
        })
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

    fn attest(&self, id: &CallId, answer: &AttestedProposal, now: Timestamp) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let Kept { entries, sessions, .. } = &mut *kept;
        let item = entries.values_mut().find(|item| item.pending.id() == id);
        let item = item.ok_or(PendingError::Unknown)?;
        if item.is_decided() || item.attested.is_some() {
            return Err(PendingError::Decided);
        }
        if item.pending.evidence().is_none() {
            return Err(PendingError::Kind);
        }
        if sessions.get(&item.asker).is_some_and(|session| session.has_ended(now)) {
            return Err(PendingError::SessionEnded);
        }
        if item.open_until <= now || answer.expires() <= now {
            return Err(PendingError::Expired);
        }
        item.attested = Some(answer.clone());
        if item.is_attested_alone() {
            (item.open_until, item.is_withdrawn) = (answer.expires(), false);
        }
        Ok(())
    }

    fn attestation(&self, id: &CallId) -> Result<Option<AttestedProposal>, PendingError> {
        let kept = self.kept.lock();
        let item = kept.entries.values().find(|item| item.pending.id() == id);
        Ok(item.and_then(|item| item.attested.clone()))
    }

    fn find_attested(
        &self,
        act: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<(CallId, AttestedProposal)>, PendingError> {
        let act = act.act();
        let kept = self.kept.lock();
        let mut valid = kept.entries.values().filter(|item| item.act == act && item.is_valid(now));
        Ok(valid.find_map(|item| {
            let attested = item.attested.clone().filter(|attested| now < attested.expires())?;
            Some((item.pending.id().clone(), attested))
        }))
    }

    fn drop_attestation(&self, id: &CallId) -> Result<(), PendingError> {
        self.change(id, |item| {
            if item.is_attested_alone() {
                item.state = PendingState::Used;
                item.tokens.clear();
            }
            item.attested = None;
            Ok(())
        })
    }

    fn mark_used(&self, id: &CallId) -> Result<(), PendingError> {
        self.change(id, |item| {
            if !matches!(item.state, PendingState::Approved(_)) && !item.is_attested_alone() {
                return Err(PendingError::Decided);
            }
            (item.state, item.attested) = (PendingState::Used, None);
            item.tokens.clear();
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

/// Returns `true` if the limits leave room for `more` bytes of this asker. Closed questions are dropped if the room of all
/// would not do.
fn has_bytes(entries: &mut BTreeMap<u64, Item>, asker: &Digest, more: usize, now: Timestamp) -> bool {
    fn bytes<'a>(items: impl Iterator<Item = &'a Item>, more: usize) -> usize {
        items.map(|item| item.pending.size()).fold(more, usize::saturating_add)
    }
    let of_asker =
        entries.values().filter(|item| item.asker == *asker && item.is_waiting(now) && item.is_open(now));
    if bytes(of_asker, more) > MAX_ARGS_BYTES_EACH {
        return false;
    }
    if bytes(entries.values(), more) > MAX_ARGS_BYTES {
        forget_closed(entries, now, 0);
    }
    bytes(entries.values(), more) <= MAX_ARGS_BYTES
}
