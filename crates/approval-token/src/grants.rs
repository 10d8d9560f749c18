use std::fmt;

use countersign_core::{CallFacts, Millis, Timestamp, TokenId};

use crate::error::PendingError;
use crate::grant::{GrantFacts, GrantToken};

/// Maximum number of grants that have not expired.
pub(crate) const MAX_GRANTS: usize = 1_024;

/// Maximum number of grants that a gate is given for one call.
pub(crate) const MAX_OFFERED: usize = 4;

/// Time for which a revoked use is kept after the grant's expiry: longer than the skew of any gate.
pub const REVOKED_SKEW: Millis = Millis::from_secs(3_600);

/// A grant in a store, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredGrant {
    /// What the grant claims. Unverified.
    pub facts: GrantFacts,
    /// Number of uses that were taken. A revoked grant has none left.
    pub used: u32,
    /// Whether it was revoked.
    pub is_revoked: bool,
}

impl StoredGrant {
    /// Combines the parts.
    #[must_use]
    pub const fn new(facts: GrantFacts, used: u32, is_revoked: bool) -> Self {
        Self { facts, used, is_revoked }
    }
}

/// Store of grants, shared by gates and approvers. It decides nothing: a grant taken from it is verified and spent like any
/// other. It keeps the uses in the same set of spent tickets as the gates that share it, so that a revoked grant counts for
/// none of them.
///
/// It holds at most 1,024 grants that have not expired.
pub trait Grants: Send + Sync + fmt::Debug {
    /// Stores a grant.
    ///
    /// # Errors
    /// [`PendingError::Token`] if its claims cannot be read, [`PendingError::Expired`], [`PendingError::Conflict`] if its id is
    /// stored, [`PendingError::Full`], or [`PendingError::Unavailable`].
    fn add_grant(&self, grant: &GrantToken, now: Timestamp) -> Result<(), PendingError>;

    /// Returns the grants that may cover a call, oldest first, at most four: by what they claim, and without regard to the
    /// arguments of those with conditions. None is expired, revoked or used up.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn grants_for(&self, call: &CallFacts, now: Timestamp) -> Result<Vec<GrantToken>, PendingError>;

    /// Lists the grants that have not expired, oldest first.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    fn list_grants(&self, now: Timestamp) -> Result<Vec<StoredGrant>, PendingError>;

    /// Revokes a grant: spends all uses that are left, in one step.
    ///
    /// # Errors
    /// [`PendingError::Unknown`], [`PendingError::Decided`] if no use is left, or [`PendingError::Unavailable`].
    fn revoke_grant(&self, id: &TokenId, now: Timestamp) -> Result<(), PendingError>;
}

/// Returns whether a grant may cover a call, by what it claims and without regard to conditions on the arguments. For stores.
#[must_use]
pub fn may_cover(grant: &GrantFacts, call: &CallFacts) -> bool {
    grant.tool == call.tool
        && Some(&grant.agent) == call.agent.as_ref()
        && grant.principal == call.principal
        && grant.session.as_ref().is_none_or(|session| Some(session) == call.session.as_ref())
        && Some(grant.registry_version) == call.registry_version
        && Some(&grant.audience) == call.audience.as_ref()
        && grant.definition == call.definition
        && grant.covers(call, |_| true)
}
