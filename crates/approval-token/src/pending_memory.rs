use std::collections::BTreeMap;

use countersign_core::{CallId, Digest, OperatorId, Timestamp};
use parking_lot::Mutex;

use crate::binding::CallBinding;
use crate::error::PendingError;
use crate::pending::{PendingApproval, PendingApprovals, PendingState};
use crate::token::ApprovalToken;

/// The most questions that are open (waiting, or approved and unused).
const MAX_OPEN: usize = 1_024;

/// The most bytes of arguments that all of them hold.
const MAX_ARGS_BYTES: usize = 64 * 1024 * 1024;

/// The most questions that wait for one asker.
const MAX_WAITING_EACH: usize = 64;

/// The most bytes of arguments that those hold.
const MAX_ARGS_BYTES_EACH: usize = 4 * 1024 * 1024;

/// The most decided ones that are kept for whoever asks how they ended.
const MAX_CLOSED: usize = 256;

/// Keeps pending approvals for as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryPendingApprovals {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    // By the order in which they came, so that the oldest is listed and forgotten first.
    entries: BTreeMap<u64, Item>,
    /// What somebody said no to. People make these, one at a time.
    denied: Vec<Denial>,
}

/// A no, without the arguments.
#[derive(Clone, Debug)]
struct Denial {
    act: Digest,
    id: CallId,
    by: OperatorId,
    asker: Digest,
    until: Timestamp,
}

#[derive(Clone, Debug)]
struct Item {
    pending: PendingApproval,
    act: Digest,
    asker: Digest,
    state: PendingState,
    /// When the question expires; once it was approved, when the token does that was left for it.
    open_until: Timestamp,
}

impl Item {
    const fn is_decided(&self) -> bool {
        matches!(self.state, PendingState::Denied | PendingState::Used)
    }

    fn is_open(&self, now: Timestamp) -> bool {
        !self.is_decided() && now < self.open_until
    }

    fn is_waiting(&self, now: Timestamp) -> bool {
        matches!(self.state, PendingState::Waiting) && self.is_open(now)
    }
}

impl MemoryPendingApprovals {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a change on one item.
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
        let Kept { entries, denied } = &mut *kept;
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
        let asker = pending.binding().asker();
        let of_asker = || entries.values().filter(|item| item.asker == asker && item.is_waiting(now));
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
        entries.insert(next, Item { pending: pending.clone(), act, asker, state, open_until });
        Ok(pending.id().clone())
    }

    fn get(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError> {
        let kept = self.kept.lock();
        let item = kept.entries.values().find(|item| item.pending.id() == id);
        Ok(item.map(|item| (item.pending.clone(), item.state.clone())))
    }

    fn list(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError> {
        let kept = self.kept.lock();
        let waiting = kept.entries.values().filter(|item| item.is_waiting(now));
        Ok(waiting.map(|item| item.pending.clone()).collect())
    }

    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError> {
        self.change(id, |item| {
            if !matches!(item.state, PendingState::Waiting) {
                return Err(PendingError::Decided);
            }
            let expiry = token.claimed_expiry().ok_or(PendingError::Token)?;
            if !item.is_open(now) || expiry <= now {
                return Err(PendingError::Expired);
            }
            item.open_until = expiry;
            item.state = PendingState::Approved(token.clone());
            Ok(())
        })
    }

    fn deny(&self, id: &CallId, by: &OperatorId) -> Result<(), PendingError> {
        let mut kept = self.kept.lock();
        let item = kept.entries.values().find(|item| item.pending.id() == id).ok_or(PendingError::Unknown)?;
        if item.is_decided() {
            return Err(PendingError::Decided);
        }
        let (act, asker, until) = (item.act, item.asker, item.pending.denied_until());
        for same in kept.entries.values_mut().filter(|item| item.act == act && !item.is_decided()) {
            same.state = PendingState::Denied;
        }
        kept.denied.push(Denial { act, id: id.clone(), by: by.clone(), asker, until });
        Ok(())
    }

    fn find_denied(
        &self,
        act: &CallBinding,
        now: Timestamp,
    ) -> Result<Option<(CallId, OperatorId)>, PendingError> {
        let act = act.act();
        let kept = self.kept.lock();
        let denial = kept.denied.iter().rfind(|denial| denial.act == act && now < denial.until);
        Ok(denial.map(|denial| (denial.id.clone(), denial.by.clone())))
    }

    fn find_approved(
        &self,
        act: &CallBinding,
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
}

/// Drops what was decided or has expired, but for the newest `keep`.
fn forget_closed(entries: &mut BTreeMap<u64, Item>, now: Timestamp, keep: usize) {
    let closed = entries.values().filter(|item| !item.is_open(now)).count();
    let mut surplus = closed.saturating_sub(keep);
    entries.retain(|_, item| {
        let drop = surplus > 0 && !item.is_open(now);
        surplus = surplus.saturating_sub(usize::from(drop));
        !drop
    });
}

/// How many bytes of arguments there would be with one more.
fn bytes_with<'a>(items: impl Iterator<Item = &'a Item>, more: &PendingApproval) -> usize {
    let sizes = items.map(|item| item.pending.args().len());
    sizes.fold(more.args().len(), usize::saturating_add)
}
