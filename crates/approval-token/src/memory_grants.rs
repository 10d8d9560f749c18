use std::sync::Arc;

use countersign_core::{CallFacts, Millis, SpentTokens as _, Timestamp, TokenId};
use parking_lot::Mutex;

use crate::error::PendingError;
use crate::grant::{GrantFacts, GrantToken};
use crate::grants::{Grants, MAX_GRANTS, MAX_OFFERED, REVOKED_SKEW, StoredGrant, may_cover};
use crate::spent::MemorySpentTokens;

/// In-memory store of grants, over the set in which their uses are spent. Ends with the process.
#[derive(Debug)]
pub struct MemoryGrants {
    spent: Arc<MemorySpentTokens>,
    /// Oldest first: the grant, its claims, and whether it was revoked.
    stored: Mutex<Vec<(GrantToken, GrantFacts, bool)>>,
}

impl MemoryGrants {
    /// Creates an empty store. `spent` is the set of the gates that use it.
    #[must_use]
    pub const fn new(spent: Arc<MemorySpentTokens>) -> Self {
        Self { spent, stored: Mutex::new(Vec::new()) }
    }

    fn used(&self, facts: &GrantFacts) -> u32 {
        let is_spent = |number: &u32| self.spent.contains(&facts.ticket(*number, Millis::ZERO).id);
        (1..=facts.uses).filter(is_spent).fold(0, |used, _| used.saturating_add(1))
    }
}

impl Grants for MemoryGrants {
    fn add_grant(&self, grant: &GrantToken, now: Timestamp) -> Result<(), PendingError> {
        let facts = grant.claimed().ok_or(PendingError::Token)?;
        if facts.expires <= now {
            return Err(PendingError::Expired);
        }
        let mut stored = self.stored.lock();
        stored.retain(|(_, facts, _)| now < facts.expires);
        if stored.iter().any(|(_, old, _)| old.grant_id == facts.grant_id) {
            return Err(PendingError::Conflict);
        }
        if stored.len() >= MAX_GRANTS {
            return Err(PendingError::Full);
        }
        stored.push((grant.clone(), facts, false));
        Ok(())
    }

    fn grants_for(&self, call: &CallFacts, now: Timestamp) -> Result<Vec<GrantToken>, PendingError> {
        let stored = self.stored.lock();
        let open = stored.iter().filter(|(_, facts, is_revoked)| {
            !is_revoked && now < facts.expires && may_cover(facts, call) && self.used(facts) < facts.uses
        });
        Ok(open.map(|(grant, ..)| grant.clone()).take(MAX_OFFERED).collect())
    }

    fn list_grants(&self, now: Timestamp) -> Result<Vec<StoredGrant>, PendingError> {
        let stored = self.stored.lock();
        let live = stored.iter().filter(|(_, facts, _)| now < facts.expires);
        let listed =
            live.map(|(_, facts, revoked)| StoredGrant::new(facts.clone(), self.used(facts), *revoked));
        Ok(listed.collect())
    }

    fn revoke_grant(&self, id: &TokenId, now: Timestamp) -> Result<(), PendingError> {
        let mut stored = self.stored.lock();
        let found = stored.iter_mut().find(|(_, facts, _)| facts.grant_id == *id && now < facts.expires);
        let (_, facts, is_revoked) = found.ok_or(PendingError::Unknown)?;
        if self.used(facts) >= facts.uses {
            return Err(PendingError::Decided);
        }
        for number in 1..=facts.uses {
            // A use that was spent before stays spent.
            let _ = self.spent.spend(&facts.ticket(number, REVOKED_SKEW), now);
        }
        *is_revoked = true;
        Ok(())
    }
}
