use std::sync::Arc;

use countersign_action_proposal::ProposalVerifier;
use countersign_approval_token::{Partial, VerifyTerms};
use countersign_canonical_json::Limits;
use countersign_core::{Audience, Millis, SpentTokens};
use countersign_keys::RunKeys;

/// How much one call may bring along.
#[derive(Clone, Debug)]
pub struct GateLimits {
    pub(crate) args: Limits,
    pub(crate) approvals: usize,
    pub(crate) recent_records: usize,
}

/// 1 MiB of arguments, 32 levels deep, 65,536 wide: far above what tools take and far below what hurts. Eight
/// approvals, since one is what a call needs. The last 1,024 records in memory.
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

    /// Sets how many approval tokens one call may bring.
    #[must_use]
    pub const fn approvals(mut self, most: usize) -> Self {
        self.approvals = most;
        self
    }

    /// Sets how many records [`ToolGate::call_log`] keeps.
    #[must_use]
    pub const fn recent_records(mut self, most: usize) -> Self {
        self.recent_records = most;
        self
    }
}

/// Says how approvals are verified and where they are spent.
#[derive(Debug)]
pub struct ApprovalSettings {
    pub(crate) keys: RunKeys,
    pub(crate) spent: Arc<dyn SpentTokens>,
    pub(crate) audience: Audience,
    pub(crate) verify: VerifyTerms,
}

impl ApprovalSettings {
    /// Takes the run's keys, the store of spent tokens, and this gate's name as tokens bind it. The clocks of
    /// approver and gate may differ by 5 seconds, and a token may count for an hour from its issue.
    #[must_use]
    pub fn new(keys: RunKeys, spent: Arc<dyn SpentTokens>, audience: Audience) -> Self {
        Self { keys, spent, audience, verify: VerifyTerms::default() }
    }

    /// Sets by how much an approver's clock may run ahead of the gate's.
    #[must_use]
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.verify.skew = skew;
        self
    }

    /// Sets the longest that a token may count, from its issue to its expiry. One that was minted for longer is
    /// `APPROVAL_INVALID`, whatever key minted it.
    #[must_use]
    pub const fn max_lifetime(mut self, most: Millis) -> Self {
        self.verify.max_lifetime = most;
        self
    }

    /// Accepts tokens whose approver left out optional bindings (agent, session, definition, ask, registry version,
    /// audience). Such a token is good for the same call in another session, once. A binding that the token does
    /// carry must still be equal.
    #[must_use]
    pub const fn dangerous_accept_partial_bindings(mut self) -> Self {
        self.verify.partial = Partial::Accept;
        self
    }
}

/// Says how action proposals are verified, and where their attestations and the uses of their endorsements are spent.
#[derive(Clone, Debug)]
pub struct ProposalSettings {
    pub(crate) verifier: Arc<ProposalVerifier>,
    pub(crate) spent: Arc<dyn SpentTokens>,
    pub(crate) skew: Millis,
}

impl ProposalSettings {
    /// Takes the operator's verifier and the store of used tickets; it may be the one in which approvals are spent. A used
    /// attestation is kept there for 5 seconds after it expires, and so is the use of an endorsement.
    ///
    /// Endorsements outlive processes. With a store that does not, every process gives their uses anew; one that refuses
    /// what is older than itself refuses the endorsements.
    #[must_use]
    pub fn new(verifier: Arc<ProposalVerifier>, spent: Arc<dyn SpentTokens>) -> Self {
        Self { verifier, spent, skew: Millis::from_secs(5) }
    }

    /// Sets for how long after its expiry a used attestation is kept: by how much the clocks of gates that share the store
    /// may differ.
    #[must_use]
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.skew = skew;
        self
    }
}
