use std::sync::Arc;

use countersign_action_proposal::ProposalVerifier;
use countersign_approval_token::{Grants, Partial, VerifyTerms};
use countersign_canonical_json::Limits;
use countersign_core::{Audience, Millis, SpentTokens};
use countersign_keys::RunKeys;

/// Limits of one call.
#[derive(Clone, Debug)]
pub struct GateLimits {
    pub(crate) args: Limits,
    pub(crate) approvals: usize,
    pub(crate) recent_records: usize,
}

/// 1 MiB of arguments, 32 levels deep, 65,536 wide: far above the needs of tools and far below any harm. Eight
/// approvals; a call needs one. The last 1,024 records in memory.
impl Default for GateLimits {
    fn default() -> Self {
        Self { args: Limits::default(), approvals: 8, recent_records: 1_024 }
    }
}

impl GateLimits {
    /// Sets the limits of the arguments' JSON text.
    #[must_use]
    pub const fn args(mut self, limits: Limits) -> Self {
        self.args = limits;
        self
    }

    /// Sets the maximum number of approval tokens of one call.
    #[must_use]
    pub const fn approvals(mut self, most: usize) -> Self {
        self.approvals = most;
        self
    }

    /// Sets the number of records that [`ToolGate::call_log`](crate::ToolGate::call_log) keeps.
    #[must_use]
    pub const fn recent_records(mut self, most: usize) -> Self {
        self.recent_records = most;
        self
    }
}

/// Terms under which approvals are verified, and the store in which they are spent. Clones share the keys: a host that opens
/// many sessions of one run clones the settings.
#[derive(Clone, Debug)]
pub struct ApprovalSettings {
    pub(crate) keys: Arc<RunKeys>,
    pub(crate) spent: Arc<dyn SpentTokens>,
    pub(crate) audience: Audience,
    /// Shared, since each session has a copy of the settings.
    pub(crate) terms: Arc<SharedTerms>,
}

/// How tokens are verified, and where grants are.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTerms {
    pub(crate) verify: VerifyTerms,
    pub(crate) grants: Option<GrantSettings>,
}

/// Where a gate looks for grants, and how it verifies them.
#[derive(Clone, Debug)]
pub(crate) struct GrantSettings {
    pub(crate) store: Arc<dyn Grants>,
    pub(crate) keys: Arc<RunKeys>,
    pub(crate) max_lifetime: Millis,
}

impl ApprovalSettings {
    /// Takes the run's keys, the store of spent tokens, and this gate's name as tokens bind it. By default the clocks
    /// of approver and gate may differ by 5 seconds, and a token's lifetime is at most one hour.
    #[must_use]
    pub fn new(keys: impl Into<Arc<RunKeys>>, spent: Arc<dyn SpentTokens>, audience: Audience) -> Self {
        Self { keys: keys.into(), spent, audience, terms: Arc::default() }
    }

    /// Copies the text that each decision clones.
    pub(crate) fn detached(self) -> Self {
        Self { audience: self.audience.detached(), ..self }
    }

    /// Sets by how much an approver's clock may be ahead of the gate's.
    #[must_use]
    pub fn skew(mut self, skew: Millis) -> Self {
        Arc::make_mut(&mut self.terms).verify.skew = skew;
        self
    }

    /// Sets the maximum lifetime of a token, from its issue to its expiry. A token with a longer lifetime is
    /// `APPROVAL_INVALID`, whatever key minted it.
    #[must_use]
    pub fn max_lifetime(mut self, most: Millis) -> Self {
        Arc::make_mut(&mut self.terms).verify.max_lifetime = most;
        self
    }

    /// Accepts grants: calls that need an approval, and came without one, are looked up in `store`. `keys` sign grants, and
    /// outlast a session. A grant with a longer lifetime than `max_lifetime` does not count. A tool whose rule is `each_call`
    /// takes no grants.
    #[must_use]
    pub fn grants(
        mut self,
        store: Arc<dyn Grants>,
        keys: impl Into<Arc<RunKeys>>,
        max_lifetime: Millis,
    ) -> Self {
        Arc::make_mut(&mut self.terms).grants =
            Some(GrantSettings { store, keys: keys.into(), max_lifetime });
        self
    }

    /// Accepts tokens that leave out optional bindings (agent, session, definition, ask, registry version, audience).
    /// Such a token is valid, once, for the same call in another session. A binding that the token does have must still
    /// match.
    #[must_use]
    pub fn dangerous_accept_partial_bindings(mut self) -> Self {
        Arc::make_mut(&mut self.terms).verify.partial = Partial::Accept;
        self
    }
}

/// Terms under which action proposals are verified, and the store in which their attestations and uses of endorsements
/// are spent.
#[derive(Clone, Debug)]
pub struct ProposalSettings {
    pub(crate) verifier: Arc<ProposalVerifier>,
    pub(crate) spent: Arc<dyn SpentTokens>,
    pub(crate) skew: Millis,
}

impl ProposalSettings {
    /// Takes the operator's verifier and the store of used tickets, which may be the one in which approvals are spent.
    /// It keeps a used attestation, and a use of an endorsement, for 5 seconds after the expiry.
    ///
    /// Endorsements outlive processes. With a store that does not, every process grants their uses again; a store that
    /// refuses tickets older than itself refuses the endorsements.
    #[must_use]
    pub fn new(verifier: Arc<ProposalVerifier>, spent: Arc<dyn SpentTokens>) -> Self {
        Self { verifier, spent, skew: Millis::from_secs(5) }
    }

    /// Sets for how long after its expiry a used attestation is kept: the maximum difference between the clocks of
    /// gates that share the store.
    #[must_use]
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.skew = skew;
        self
    }
}
