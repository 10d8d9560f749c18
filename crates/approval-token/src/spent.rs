use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use countersign_core::{
    Digest, OperatorId, RunId, SpendError, SpentId, SpentTokens, Ticket, Timestamp, TokenId,
};
use dashmap::{DashMap, Entry};

/// Fewest spends between two purges.
const MIN_ROUND: usize = 1_024;

/// Id of a token in the spent set: its id within its run.
///
/// No other field counts: a token minted again, under a newer key or for another call, is the same ticket.
pub(crate) fn spent_id(run: &RunId, token: &TokenId) -> SpentId {
    let fields = [run.as_str().as_bytes(), token.as_str().as_bytes()];
    SpentId::new(Digest::of_fields("countersign/spent-1", fields))
}

/// Id of one use of a grant in the spent set.
pub(crate) fn use_id(grant: &TokenId, number: u32) -> SpentId {
    let fields = [grant.as_str().as_bytes(), &number.to_be_bytes()];
    SpentId::new(Digest::of_fields("countersign/grant-use-1", fields))
}

/// Proof that an approval was spent on one act. Cannot be copied.
#[derive(Debug)]
#[must_use]
pub struct SpentApproval {
    token_id: TokenId,
    approver: OperatorId,
    grant_use: Option<u32>,
}

impl SpentApproval {
    pub(crate) const fn new(token_id: TokenId, approver: OperatorId) -> Self {
        Self { token_id, approver, grant_use: None }
    }

    pub(crate) fn of_grant(self, number: u32) -> Self {
        Self { grant_use: Some(number), ..self }
    }

    /// The token's id, or the grant's.
    #[must_use]
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// Operator who approved.
    #[must_use]
    pub const fn approver(&self) -> &OperatorId {
        &self.approver
    }

    /// The use of a grant that was taken, from 1; `None` for a token.
    #[must_use]
    pub const fn grant_use(&self) -> Option<u32> {
        self.grant_use
    }
}

/// In-memory set of spent tokens. Ends with the process. Created by [`since`](Self::since), it refuses tokens issued
/// earlier, so no token can be spent again after a restart.
///
/// Only verified tokens are added, so an agent cannot make it grow. It holds the tokens that approvers mint within
/// one time to live.
#[derive(Debug, Default)]
pub struct MemorySpentTokens {
    /// Tokens issued before this time are refused.
    created: Option<Timestamp>,
    spent: DashMap<SpentId, Timestamp, BuildHasherDefault<FirstBytes>>,
    /// Latest `keep_until` of the purged entries. It only rises.
    horizon: AtomicU64,
    /// Spends since the last purge.
    since_round: AtomicUsize,
    /// Entries that the last purge left.
    left: AtomicUsize,
}

/// Takes the first bytes of a digest as its hash. why: they are as even as any hash of them, and an id is made of verified
/// data only.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
    }

    /// The length of the digest.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl MemorySpentTokens {
    /// Creates an empty set that accepts tokens of any age. After a restart every unexpired token could be spent
    /// again: use it in tests, and in hosts whose tokens do not outlive the process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty set that refuses tokens issued before `created`, the time of the call.
    #[must_use]
    pub fn since(created: Timestamp) -> Self {
        Self { created: Some(created), ..Self::default() }
    }

    /// Number of remembered tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spent.len()
    }

    /// Returns `true` if no token is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spent.is_empty()
    }

    /// Returns whether a ticket is remembered as spent.
    #[must_use]
    pub fn contains(&self, id: &SpentId) -> bool {
        self.spent.contains_key(id)
    }

    /// Drops entries past their `keep_until`. Spending calls it regularly.
    pub fn forget(&self, now: Timestamp) {
        self.spent.retain(|_, keep_until| {
            let is_kept = *keep_until > now;
            if !is_kept {
                // INVARIANT: the horizon rises under the lock of the entry's shard, before the entry is removed. A
                // thread that finds the id gone took that lock after the removal, so it sees the new horizon.
                self.horizon.fetch_max(keep_until.as_millis(), Ordering::SeqCst);
            }
            is_kept
        });
    }

    fn check_issued(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        match self.created.filter(|created| ticket.issued < *created) {
            Some(created) if created > now => Err(SpendError::ClockAhead),
            Some(_) => Err(SpendError::TooNew),
            None => Ok(()),
        }
    }

    /// Refuses a ticket whose time is over, or that may have been purged.
    fn check_kept(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        if ticket.keep_until <= now {
            Err(SpendError::Spent)
        } else if ticket.keep_until.as_millis() <= self.horizon.load(Ordering::SeqCst) {
            Err(SpendError::ClockAhead)
        } else {
            Ok(())
        }
    }

    /// why: a purge runs after as many spends as the last one left entries, so the average work per spend is constant.
    fn forget_in_rounds(&self, now: Timestamp) {
        let spends = self.since_round.fetch_add(1, Ordering::Relaxed);
        if spends >= MIN_ROUND && spends >= self.left.load(Ordering::Relaxed) {
            self.since_round.store(0, Ordering::Relaxed);
            self.forget(now);
            // Counting locks every shard, so it is done once per purge.
            self.left.store(self.spent.len(), Ordering::Relaxed);
        }
    }
}

impl SpentTokens for MemorySpentTokens {
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        self.check_issued(ticket, now)?;
        match self.spent.entry(ticket.id) {
            Entry::Occupied(_) => return Err(SpendError::Spent),
            Entry::Vacant(vacant) => {
                // The lock on the id's shard is held, so no purge runs between this check and the insertion.
                self.check_kept(ticket, now)?;
                vacant.insert(ticket.keep_until);
            }
        }
        self.forget_in_rounds(now);
        Ok(())
    }

    fn can_spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        self.check_issued(ticket, now)?;
        if self.contains(&ticket.id) { Err(SpendError::Spent) } else { self.check_kept(ticket, now) }
    }
}
