use std::sync::Arc;

use countersign_audit_log::{AuditSink, ClaimsRecord, Record, SessionRecord};
use countersign_committed_plan::OnBreach;
use countersign_core::{Clock, Millis, OutputTag, Principal, Timestamp, ToolId};
use countersign_pinned_ask::{PinError, PinnedAsk};
use countersign_registry::{
    AgentClaims, CapabilityRegistry, NegotiateError, NegotiationRequest, SessionContract, Wanted,
};
use countersign_tool_gate::{
    ApprovalSettings, OpenError, PlanRootSettings, PlanSettings, ProposalSettings, ToolGate, ToolGateBuilder,
};

/// A change of the gate's settings.
type GateChange = Box<dyn FnOnce(ToolGateBuilder) -> ToolGateBuilder>;

/// Negotiates a session and opens its gate.
#[must_use]
pub struct SessionBuilder {
    registry: Arc<CapabilityRegistry>,
    clock: Arc<dyn Clock>,
    principal: Principal,
    request: NegotiationRequest,
    goal: Option<String>,
    changes: Vec<GateChange>,
}

/// A session that the registry allows and whose goal is pinned. It is not recorded yet, and its gate is not open.
#[must_use]
pub struct NegotiatedSession {
    registry: Arc<CapabilityRegistry>,
    clock: Arc<dyn Clock>,
    principal: Principal,
    contract: SessionContract,
    goal: Option<PinnedAsk>,
    changes: Vec<GateChange>,
}

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The registry refuses the requested session.
    #[error("the session is refused by the registry")]
    Negotiate(#[from] NegotiateError),
    /// The goal cannot be pinned.
    #[error("the goal cannot be pinned")]
    Pin(#[from] PinError),
    /// The gate cannot be opened.
    #[error("the gate cannot be opened")]
    Open(#[from] OpenError),
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
}

impl SessionError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Negotiate(error) => error.code(),
            Self::Pin(error) => error.code(),
            Self::Open(error) => error.code(),
            Self::Clock => "CLOCK_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(SessionError);

impl std::fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionBuilder").field("session", self.request.session()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for NegotiatedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NegotiatedSession").field("contract", &self.contract).finish_non_exhaustive()
    }
}

impl SessionBuilder {
    /// Starts a session under a registry that the host loaded and follows itself. From files,
    /// [`Countersign::load`](crate::Countersign::load) does both. `principal` is on whose behalf the agent acts.
    pub fn over(
        registry: Arc<CapabilityRegistry>,
        clock: Arc<dyn Clock>,
        request: NegotiationRequest,
        principal: Principal,
    ) -> Self {
        Self { registry, clock, principal, request, goal: None, changes: Vec::new() }
    }

    /// Requests only these tools. Without it, the session has all tools that the registry lists for the agent.
    pub fn tools(mut self, tools: impl IntoIterator<Item = ToolId>) -> Self {
        self.request = self.request.wanted_tools(Wanted::these(tools));
        self
    }

    /// Requests these kinds of output.
    pub fn output_tags(mut self, tags: impl IntoIterator<Item = OutputTag>) -> Self {
        self.request = self.request.wanted_tags(Wanted::these(tags));
        self
    }

    /// Requests a session of this length. Without it, the session is as long as the registry allows the agent. An
    /// expired session can be renewed ([`ToolGate::renew`]).
    pub fn ttl(mut self, ttl: Millis) -> Self {
        self.request = self.request.ttl(ttl);
        self
    }

    /// Pins the session's goal for as long as the session lasts.
    pub fn goal(mut self, goal: &str) -> Self {
        self.goal = Some(goal.to_owned());
        self
    }

    /// Enables approvals.
    pub fn approvals(self, settings: ApprovalSettings) -> Self {
        self.gate(|gate| gate.approvals(settings))
    }

    /// Enables action proposals, and requires one of every call with a high impact.
    pub fn proposals(self, settings: ProposalSettings) -> Self {
        self.gate(|gate| gate.proposals(settings))
    }

    /// Starts the session with a plan. For a plan that is made after the session is open, use [`ToolGate::start_plan`].
    pub fn plan(self, settings: PlanSettings) -> Self {
        self.gate(move |gate| gate.plan(settings))
    }

    /// Starts the session with a plan that another gate holds and of which this one knows only the root
    /// ([`ToolGate::start_plan_root`]).
    pub fn plan_root(self, settings: PlanRootSettings) -> Self {
        self.gate(move |gate| gate.plan_root(settings))
    }

    /// Refuses every call until a plan is started.
    pub fn plan_first(self) -> Self {
        self.gate(ToolGateBuilder::plan_first)
    }

    /// Sets the response to a call that is not the plan's next one. By default the first such call halts the plan.
    pub fn on_breach(self, on_breach: OnBreach) -> Self {
        self.gate(move |gate| gate.on_breach(on_breach))
    }

    /// Records the agent's claims about itself. They change no decision.
    pub fn claims(mut self, claims: AgentClaims) -> Self {
        self.request = self.request.claims(claims);
        self
    }

    /// Changes further settings of the gate: user checks, limits, tool definitions.
    pub fn gate(mut self, change: impl FnOnce(ToolGateBuilder) -> ToolGateBuilder + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Negotiates the contract and pins the goal. Records nothing: for a host that opens its record only for a session
    /// that is allowed.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn negotiate(self) -> Result<NegotiatedSession, SessionError> {
        let now = self.now()?;
        let contract = self.registry.negotiate(&self.request, now)?;
        self.agreed(contract, now)
    }

    /// Negotiates the contract, pins the goal, records the session and opens the gate. The gate sends every decision to
    /// `sink` before it returns it.
    ///
    /// # Errors
    /// [`SessionError`]; no gate is opened.
    pub fn open(self, sink: impl AuditSink + 'static) -> Result<ToolGate, SessionError> {
        let now = self.now()?;
        let contract = match self.registry.negotiate(&self.request, now) {
            Ok(contract) => contract,
            Err(error) => return Err(self.refused(&sink, error, now)),
        };
        Ok(self.agreed(contract, now)?.open(Arc::new(sink))?)
    }

    fn now(&self) -> Result<Timestamp, SessionError> {
        self.clock.now().map_err(|_| SessionError::Clock)
    }

    fn agreed(self, contract: SessionContract, now: Timestamp) -> Result<NegotiatedSession, SessionError> {
        let ttl = contract.expires().since(now);
        let pin = |goal: &String| PinnedAsk::pin(goal, self.request.session(), ttl, now);
        let goal = self.goal.as_ref().map(pin).transpose()?;
        let mut changes = self.changes;
        if let Some(claims) = self.request.agent_claims().cloned() {
            changes.insert(0, Box::new(|gate| gate.claims(claims)));
        }
        let Self { registry, clock, principal, .. } = self;
        Ok(NegotiatedSession { registry, clock, principal, contract, goal, changes })
    }

    /// Records a refused session before the caller gets the error, like a refused call. If it cannot be recorded, the
    /// caller gets the audit error instead.
    fn refused(&self, sink: &impl AuditSink, error: NegotiateError, now: Timestamp) -> SessionError {
        let agent = self.request.agent().clone();
        let version = self.registry.view().snapshot().version();
        let principal = self.principal.clone();
        let session = self.request.session().clone();
        let mut record = SessionRecord::new(now, session, agent, principal, version, Vec::new(), now);
        record.code = Some(error.code().into());
        record.claims = self.request.agent_claims().map(|claims| {
            let named = claims.tools().iter().chain(claims.tags()).map(String::as_str);
            ClaimsRecord::new(claims.digest(), named)
        });
        match sink.record(&Record::Session(record)) {
            Ok(_) => SessionError::Negotiate(error),
            Err(unrecorded) => SessionError::Open(OpenError::Audit(unrecorded)),
        }
    }
}

impl NegotiatedSession {
    /// Returns the contract.
    #[must_use]
    pub const fn contract(&self) -> &SessionContract {
        &self.contract
    }

    /// Returns the registry.
    #[must_use]
    pub const fn registry(&self) -> &Arc<CapabilityRegistry> {
        &self.registry
    }

    /// Returns the pinned goal.
    #[must_use]
    pub const fn goal(&self) -> Option<&PinnedAsk> {
        self.goal.as_ref()
    }

    /// Changes settings of the gate, after those of the builder.
    pub fn gate(mut self, change: impl FnOnce(ToolGateBuilder) -> ToolGateBuilder + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Records the session and opens the gate. The gate sends every decision to `sink` before it returns it.
    ///
    /// # Errors
    /// [`OpenError`]; no gate is opened.
    pub fn open(self, sink: Arc<dyn AuditSink>) -> Result<ToolGate, OpenError> {
        let mut gate = ToolGate::builder(self.registry, self.contract, self.principal, self.clock, sink);
        if let Some(goal) = self.goal {
            gate = gate.pinned_ask(goal);
        }
        for change in self.changes {
            gate = change(gate);
        }
        gate.open()
    }
}
