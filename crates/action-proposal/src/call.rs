use countersign_core::{AgentId, CallId, Digest, ImpactClass, Principal, ServerName, SessionId, ToolName};

/// What is really about to be called, as the gate knows it. A proposal and its attestations are held against this and never
/// the other way round.
///
/// Under [`Profile::Strict`](crate::Profile::Strict) an attestation binds every one of these, so a fact that is left out
/// refuses every attestation. Under the other profiles an attestation binds those that it states, and is refused where
/// a stated one is left out here.
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
    /// Begins with the tool's name. It is compared byte by byte with what the proposal names.
    #[must_use]
    pub fn new(tool: &'a ToolName) -> Self {
        Self::to_tool_named(tool.as_str())
    }

    /// Begins with a tool's name that is not of the registry's grammar. PIC/1.0 lets it be any string.
    #[must_use]
    pub const fn to_tool_named(tool: &'a str) -> Self {
        let mut call = Self::unbound();
        call.tool = Some(tool);
        call
    }

    /// Begins with nothing known: for looking at a proposal outside a call. Such a verification binds it to no tool.
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

    /// Adds the server that the tool is of.
    #[must_use]
    pub const fn server(mut self, server: &'a ServerName) -> Self {
        self.server = Some(server);
        self
    }

    /// Adds the SHA-256 of the canonical arguments (RFC 8785; `jcs-1` and `pic-cjson-1` write the same text for what both
    /// read).
    #[must_use]
    pub const fn args(mut self, digest: Digest) -> Self {
        self.args = Some(digest);
        self
    }

    /// Adds the impact of the tool as the operator's registry has it.
    #[must_use]
    pub const fn impact(mut self, impact: ImpactClass) -> Self {
        self.impact = Some(impact);
        self
    }

    /// Adds the call's id.
    #[must_use]
    pub const fn call_id(mut self, id: &'a CallId) -> Self {
        self.call_id = Some(id);
        self
    }

    /// Adds on whose behalf the agent acts.
    #[must_use]
    pub const fn principal(mut self, principal: &'a Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Adds which agent calls.
    #[must_use]
    pub const fn agent(mut self, agent: &'a AgentId) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Adds in which session it calls.
    #[must_use]
    pub const fn session(mut self, session: &'a SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Adds the version of the registry that the decision is made by.
    #[must_use]
    pub const fn registry_version(mut self, version: u64) -> Self {
        self.registry_version = Some(version);
        self
    }

    /// Adds the digest of the session's pinned goal.
    #[must_use]
    pub const fn ask(mut self, digest: Digest) -> Self {
        self.ask = Some(digest);
        self
    }

    /// Adds the root of the session's committed plan.
    #[must_use]
    pub const fn plan(mut self, root: Digest) -> Self {
        self.plan = Some(root);
        self
    }

    /// Says that the tool's own rule asks for evidence, whatever the impact and the profile. Evidence must be there then
    /// and verify, and a claim must cite an input that is trusted, as where the impact is high.
    #[must_use]
    pub const fn evidence_required(mut self) -> Self {
        self.evidence_required = true;
        self
    }
}
