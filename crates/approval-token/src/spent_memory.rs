use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use countersign_core::{SpendError, SpentId, SpentTokens, Timestamp};
use dashmap::{DashMap, Entry};

/// The fewest spends between two rounds of forgetting.
const MIN_ROUND: usize = 1_024;

/// Remembers spent tokens for as long as the process lives. After a restart everything could be spent again, so this
/// is for tests and for hosts whose tokens do not outlive the process.
///
/// Only tokens that verified get here, so an agent cannot make it grow; it holds as many as approvers mint within one
/// time to live.
#[derive(Debug, Default)]
pub struct MemorySpentTokens {
    spent: DashMap<SpentId, Timestamp>,
    /// What was to be kept until this moment or less may have been forgotten. Only ever raised.
    horizon: AtomicU64,
    /// Spends since the last round of forgetting.
    since_round: AtomicUsize,
}

impl MemorySpentTokens {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
        // INVARIANT: the horizon rises before anything is removed. Whoever then finds an id gone has taken its shard's
        // lock after the removal and sees the horizon.
        self.horizon.fetch_max(now.as_millis(), Ordering::SeqCst);
        self.spent.retain(|_, keep_until| *keep_until > now);
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
    fn spend(&self, id: &SpentId, keep_until: Timestamp, now: Timestamp) -> Result<(), SpendError> {
        match self.spent.entry(*id) {
            Entry::Occupied(_) => return Err(SpendError::Spent),
            Entry::Vacant(vacant) => {
                // The lock on the id's shard is held: between this look and the insertion nothing is forgotten.
                let horizon = self.horizon.load(Ordering::SeqCst).max(now.as_millis());
                if keep_until.as_millis() <= horizon {
                    return Err(SpendError::Spent);
                }
                vacant.insert(keep_until);
            }
        }
        self.forget_in_rounds(now);
        Ok(())
    }
}
