use countersign_core::{
    AgentId, CallFacts, CallId, Digest, ImpactClass, Principal, ServerName, SessionId, ToolName,
};

/// Facts of the actual call against which proposal and attestations are checked. A gate knows all of them
/// ([`of`](Self::of)); an inspection may know some.
///
/// Under [`Profile::Strict`](crate::Profile::Strict) an attestation binds every one of these facts, so a missing fact
/// refuses every attestation. Under the other profiles an attestation binds the facts that it states, and is refused
/// if one of them is missing here.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProposedCall<'a> {
    pub(crate) tool: Option<&'a str>,
    pub(crate) server: Option<&'a ServerName>,
    pub(crate) args: Option<Digest>,
    pub(crate) impact: Option<ImpactClass>,
    pub(crate) call_id: Option<&'a CallId>,
    pub(crate) principal: Option<&'a Principal>,
    pub(crate) agent: Option<&'a AgentId>,
    pub(crate) session: Option<&'a SessionId>,
    pub(crate) registry_version: Option<u64>,
    pub(crate) ask: Option<Digest>,
    pub(crate) plan: Option<Digest>,
    pub(crate) evidence_required: bool,
}

impl<'a> ProposedCall<'a> {
    /// Takes the facts of a call that a gate decides.
    #[must_use]
    pub fn of(facts: &'a CallFacts) -> Self {
        Self {
            tool: Some(facts.tool.name().as_str()),
            server: Some(facts.tool.server()),
            args: Some(facts.args),
            impact: None,
            call_id: Some(&facts.call_id),
            principal: Some(&facts.principal),
            agent: facts.agent.as_ref(),
            session: facts.session.as_ref(),
            registry_version: facts.registry_version,
            ask: facts.ask,
            plan: facts.plan,
            evidence_required: false,
        }
    }

    /// Starts with the tool's name. It is compared byte by byte with the proposal's.
    #[must_use]
    pub fn new(tool: &'a ToolName) -> Self {
        Self::to_tool_named(tool.as_str())
    }

    /// Starts with a tool's name outside of the registry's grammar. PIC/1.0 allows any string.
    #[must_use]
    pub const fn to_tool_named(tool: &'a str) -> Self {
        let mut call = Self::unbound();
        call.tool = Some(tool);
        call
    }

    /// Starts without facts, to inspect a proposal outside of a call. The verification then binds it to no tool.
    #[must_use]
    pub const fn unbound() -> Self {
        Self {
            tool: None,
            server: None,
            args: None,
            impact: None,
            call_id: None,
            principal: None,
            agent: None,
            session: None,
            registry_version: None,
            ask: None,
            plan: None,
            evidence_required: false,
        }
    }

    /// Sets the server of the tool.
    #[must_use]
    pub const fn server(mut self, server: &'a ServerName) -> Self {
        self.server = Some(server);
        self
    }

    /// Sets the SHA-256 of the canonical arguments (RFC 8785; `jcs-1` and `pic-cjson-1` write the same text for input
    /// that both accept).
    #[must_use]
    pub const fn args(mut self, digest: Digest) -> Self {
        self.args = Some(digest);
        self
    }

    /// Sets the impact of the tool in the operator's registry.
    #[must_use]
    pub const fn impact(mut self, impact: ImpactClass) -> Self {
        self.impact = Some(impact);
        self
    }

    /// Sets the call's id.
    #[must_use]
    pub const fn call_id(mut self, id: &'a CallId) -> Self {
        self.call_id = Some(id);
        self
    }

    /// Sets the principal on whose behalf the agent acts.
    #[must_use]
    pub const fn principal(mut self, principal: &'a Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Sets the agent.
    #[must_use]
    pub const fn agent(mut self, agent: &'a AgentId) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets the session.
    #[must_use]
    pub const fn session(mut self, session: &'a SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Sets the version of the registry that the decision uses.
    #[must_use]
    pub const fn registry_version(mut self, version: u64) -> Self {
        self.registry_version = Some(version);
        self
    }

    /// Sets the digest of the session's pinned goal.
    #[must_use]
    pub const fn ask(mut self, digest: Digest) -> Self {
        self.ask = Some(digest);
        self
    }

    /// Sets the root of the session's committed plan.
    #[must_use]
    pub const fn plan(mut self, root: Digest) -> Self {
        self.plan = Some(root);
        self
    }

    /// Requires evidence for this call, whatever the impact and the profile, because the tool's own rule does.
    /// Evidence must be present and verify, and a claim must cite a trusted input, as for a high impact.
    #[must_use]
    pub const fn evidence_required(mut self) -> Self {
        self.evidence_required = true;
        self
    }
}
