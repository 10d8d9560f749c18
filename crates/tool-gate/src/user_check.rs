use countersign_canonical_json::Canonical;
use countersign_core::{AgentId, CallFacts, CallId, ImpactClass, Principal, SessionId, ToolId};

/// A call that has passed every earlier step, as an embedder's check sees it.
#[derive(Clone, Copy, Debug)]
pub struct CheckedCall<'a> {
    pub(crate) facts: &'a CallFacts,
    pub(crate) args: &'a Canonical,
    pub(crate) impact: ImpactClass,
    pub(crate) agent: &'a AgentId,
    pub(crate) session: &'a SessionId,
}

impl<'a> CheckedCall<'a> {
    /// Returns the facts of the call: those that an approval binds.
    #[must_use]
    pub const fn facts(&self) -> &'a CallFacts {
        self.facts
    }

    /// Returns the call's id.
    #[must_use]
    pub const fn call_id(&self) -> &'a CallId {
        &self.facts.call_id
    }

    /// Returns the tool.
    #[must_use]
    pub const fn tool(&self) -> &'a ToolId {
        &self.facts.tool
    }

    /// Returns the arguments, as read once and digested.
    #[must_use]
    pub const fn args(&self) -> &'a Canonical {
        self.args
    }

    /// Returns the impact of the call: the strictest of those in the registry, the policy and the proposal.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// Returns the agent.
    #[must_use]
    pub const fn agent(&self) -> &'a AgentId {
        self.agent
    }

    /// Returns the session.
    #[must_use]
    pub const fn session(&self) -> &'a SessionId {
        self.session
    }

    /// Returns the principal on whose behalf the call is made.
    #[must_use]
    pub const fn principal(&self) -> &'a Principal {
        &self.facts.principal
    }
}

/// A check of the embedder's own, run at step 9. It can refuse a call that the gate would accept, but never the
/// reverse. A panic in it is a refusal.
pub trait UserCheck: Send + Sync {
    /// Checks the call.
    ///
    /// # Errors
    /// The reason of the refusal. It is recorded, and not shown to the agent.
    fn check(&self, call: &CheckedCall<'_>) -> Result<(), String>;
}

impl<F> UserCheck for F
where
    F: Fn(&CheckedCall<'_>) -> Result<(), String> + Send + Sync,
{
    fn check(&self, call: &CheckedCall<'_>) -> Result<(), String> {
        self(call)
    }
}
