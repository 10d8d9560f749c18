use std::collections::BTreeMap;

use countersign_core::{CallId, Digest, Timestamp};
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
    // By the order in which they came, so that the oldest is listed and forgotten first.
    entries: Mutex<BTreeMap<u64, Item>>,
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
    fn is_open(&self, now: Timestamp) -> bool {
        let decided = matches!(self.state, PendingState::Denied | PendingState::Used);
        !decided && now < self.open_until
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
        let mut entries = self.entries.lock();
        let item = entries.values_mut().find(|item| item.pending.id() == id);
        change(item.ok_or(PendingError::Unknown)?)
    }
}

impl PendingApprovals for MemoryPendingApprovals {
    fn request(&self, pending: &PendingApproval) -> Result<CallId, PendingError> {
        let (now, act) = (pending.requested(), pending.binding().act());
        let mut entries = self.entries.lock();
        let open = || entries.values().filter(|item| item.is_open(now));
        if let Some(same) = open().find(|item| item.act == act) {
            return Ok(same.pending.id().clone());
        }
        if entries.values().any(|item| item.pending.id() == pending.id()) {
            return Err(PendingError::Conflict);
        }
        let asker = pending.binding().asker();
        let of_asker = || entries.values().filter(|item| item.asker == asker && item.is_waiting(now));
        if of_asker().count() >= MAX_WAITING_EACH
            || bytes_with(of_asker(), pending) > MAX_ARGS_BYTES_EACH
            || open().count() >= MAX_OPEN
        {
            return Err(PendingError::Full);
        }
        forget_closed(&mut entries, now, MAX_CLOSED);
        if bytes_with(entries.values(), pending) > MAX_ARGS_BYTES {
            forget_closed(&mut entries, now, 0);
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
        let entries = self.entries.lock();
        let item = entries.values().find(|item| item.pending.id() == id);
        Ok(item.map(|item| (item.pending.clone(), item.state.clone())))
    }

    fn list(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError> {
        let entries = self.entries.lock();
        Ok(entries.values().filter(|item| item.is_waiting(now)).map(|item| item.pending.clone()).collect())
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

    fn deny(&self, id: &CallId) -> Result<(), PendingError> {
        self.change(id, |item| {
            if matches!(item.state, PendingState::Denied | PendingState::Used) {
                return Err(PendingError::Decided);
            }
            item.state = PendingState::Denied;
            Ok(())
        })
    }

    fn find_approved(
        &self,
        act: &CallBinding,
        now: Timestamp,
    ) -> Result<Option<(CallId, ApprovalToken)>, PendingError> {
        let act = act.act();
        let entries = self.entries.lock();
        let token = |item: &Item| match &item.state {
            PendingState::Approved(token) if item.act == act && item.is_open(now) => {
                Some((item.pending.id().clone(), token.clone()))
            }
            PendingState::Waiting | PendingState::Approved(_) | PendingState::Denied | PendingState::Used => {
                None
            }
        };
        Ok(entries.values().find_map(token))
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
