use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use countersign_core::{SpendError, SpentId, SpentTokens, Ticket, Timestamp};
use dashmap::{DashMap, Entry};

/// The fewest spends between two rounds of forgetting.
const MIN_ROUND: usize = 1_024;

/// Remembers spent tokens for as long as the process lives. Made with [`since`](Self::since), it refuses tokens that were
/// issued before it, so that a restart lets none be spent again.
///
/// Only tokens that verified get here, so an agent cannot make it grow; it holds as many as approvers mint within one
/// time to live.
#[derive(Debug, Default)]
pub struct MemorySpentTokens {
    /// Tokens that were issued before are refused.
    created: Option<Timestamp>,
    spent: DashMap<SpentId, Timestamp>,
    /// The latest `keep_until` of all that was forgotten. Only ever raised.
    horizon: AtomicU64,
    /// Spends since the last round of forgetting.
    since_round: AtomicUsize,
}

impl MemorySpentTokens {
    /// Makes an empty store that takes tokens whenever they were issued. After a restart every unexpired token could be
    /// spent again, so this is for tests and for hosts whose tokens do not outlive the process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty store that refuses tokens issued before `created`, the time of the call.
    #[must_use]
    pub fn since(created: Timestamp) -> Self {
        Self { created: Some(created), ..Self::default() }
    }

    /// How many tokens are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spent.len()
    }

    /// Says whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spent.is_empty()
    }

    /// Forgets what need not be kept at `now`. Happens by itself as tokens are spent.
    pub fn forget(&self, now: Timestamp) {
        self.spent.retain(|_, keep_until| {
            let is_kept = *keep_until > now;
            if !is_kept {
                // INVARIANT: the horizon rises under the lock of the entry's shard, before the entry is removed. Who
                // finds the id gone has taken that lock after the removal and sees the horizon.
                self.horizon.fetch_max(keep_until.as_millis(), Ordering::SeqCst);
            }
            is_kept
        });
    }

    /// Forgets once per as many spends as there were entries left last time: constant work per spend.
    fn forget_in_rounds(&self, now: Timestamp) {
        let spends = self.since_round.fetch_add(1, Ordering::Relaxed);
        if spends >= MIN_ROUND && spends >= self.spent.len() / 2 {
            self.since_round.store(0, Ordering::Relaxed);
            self.forget(now);
        }
    }
}

impl SpentTokens for MemorySpentTokens {
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        if let Some(created) = self.created.filter(|created| ticket.issued < *created) {
            return Err(if created > now { SpendError::ClockAhead } else { SpendError::TooNew });
        }
        match self.spent.entry(ticket.id) {
            Entry::Occupied(_) => return Err(SpendError::Spent),
            Entry::Vacant(vacant) => {
                // The lock on the id's shard is held: between this look and the insertion nothing is forgotten.
                if ticket.keep_until <= now {
                    return Err(SpendError::Spent);
                }
                if ticket.keep_until.as_millis() <= self.horizon.load(Ordering::SeqCst) {
                    return Err(SpendError::ClockAhead);
                }
                vacant.insert(ticket.keep_until);
            }
        }
        self.forget_in_rounds(now);
        Ok(())
    }
}
