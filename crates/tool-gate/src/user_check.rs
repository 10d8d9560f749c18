use countersign_canonical_json::Canonical;
use countersign_core::{AgentId, CallId, ImpactClass, Principal, SessionId, ToolId};

/// Shows an embedder's check a call that has passed every earlier step.
#[derive(Clone, Copy, Debug)]
pub struct CheckedCall<'a> {
    pub(crate) call_id: &'a CallId,
    pub(crate) tool: &'a ToolId,
    pub(crate) args: &'a Canonical,
    pub(crate) impact: ImpactClass,
    pub(crate) agent: &'a AgentId,
    pub(crate) session: &'a SessionId,
    pub(crate) principal: &'a Principal,
}

impl<'a> CheckedCall<'a> {
    /// The call's id.
    #[must_use]
    pub const fn call_id(&self) -> &'a CallId {
        self.call_id
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &'a ToolId {
        self.tool
    }

    /// The arguments, as read once and digested.
    #[must_use]
    pub const fn args(&self) -> &'a Canonical {
        self.args
    }

    /// How bad the call can be: the strictest of what the registry, the policy and the proposal say.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// The agent.
    #[must_use]
    pub const fn agent(&self) -> &'a AgentId {
        self.agent
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &'a SessionId {
        self.session
    }

    /// On whose behalf the call is made.
    #[must_use]
    pub const fn principal(&self) -> &'a Principal {
        self.principal
    }
}

/// Adds a check of the embedder's own, at step 9. It can refuse what the gate would allow and never the reverse; a
/// panic in it is a refusal.
pub trait UserCheck: Send + Sync {
    /// Looks at the call.
    ///
    /// # Errors
    /// The reason to refuse. It goes on record and not to the agent.
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
