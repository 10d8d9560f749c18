use std::sync::Arc;

use countersign_audit_log::{AuditSink, ClaimsRecord, Record, SessionRecord};
use countersign_committed_plan::OnBreach;
use countersign_core::{AgentId, Millis, OutputTag, Principal, SessionId, Timestamp, ToolId};
use countersign_pinned_ask::{PinError, PinnedAsk};
use countersign_registry::{AgentClaims, NegotiateError, NegotiationRequest, Wanted};
use countersign_tool_gate::{
    ApprovalSettings, OpenError, PlanRootSettings, PlanSettings, ProposalSettings, ToolGate, ToolGateBuilder,
};

use crate::load::Countersign;

/// Negotiates a session and opens its gate.
#[must_use]
pub struct SessionBuilder {
    countersign: Countersign,
    principal: Principal,
    request: NegotiationRequest,
    goal: Option<String>,
    approvals: Option<ApprovalSettings>,
    proposals: Option<ProposalSettings>,
    more: Vec<Box<dyn FnOnce(ToolGateBuilder) -> ToolGateBuilder>>,
}

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The registry refuses the requested session.
    #[error("the registry refuses the session")]
    Negotiate(#[from] NegotiateError),
    /// The goal cannot be pinned.
    #[error("the goal cannot be pinned")]
    Pin(#[from] PinError),
    /// The gate cannot be opened.
    #[error("the gate cannot be opened")]
    Open(#[from] OpenError),
    /// The clock is unavailable.
    #[error("the time cannot be told")]
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

impl SessionBuilder {
    pub(crate) fn new(
        countersign: Countersign,
        agent: AgentId,
        session: SessionId,
        principal: Principal,
    ) -> Self {
        Self {
            countersign,
            principal,
            request: NegotiationRequest::new(session, agent),
            goal: None,
            approvals: None,
            proposals: None,
            more: Vec::new(),
        }
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
    pub fn approvals(mut self, settings: ApprovalSettings) -> Self {
        self.approvals = Some(settings);
        self
    }

    /// Enables action proposals, and requires one of every call with a high impact.
    pub fn proposals(mut self, settings: ProposalSettings) -> Self {
        self.proposals = Some(settings);
        self
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
        self.more.push(Box::new(change));
        self
    }

    /// Negotiates the contract, pins the goal, records the session and opens the gate. The gate sends every decision to
    /// `sink` before it returns it.
    ///
    /// # Errors
    /// [`SessionError`]; no gate is opened.
    pub fn open(self, sink: impl AuditSink + 'static) -> Result<ToolGate, SessionError> {
        let Countersign { clock, .. } = &self.countersign;
        let now = clock.now().map_err(|_| SessionError::Clock)?;
        let registry = self.countersign.registry();
        let contract = match registry.negotiate(&self.request, now) {
            Ok(contract) => contract,
            Err(error) => return Err(self.refused(&sink, error, now)),
        };
        let ask = match &self.goal {
            Some(goal) => {
                Some(PinnedAsk::pin(goal, self.request.session(), contract.expires().since(now), now)?)
            }
            None => None,
        };
        let mut builder = ToolGate::builder(
            Arc::clone(registry),
            contract,
            self.principal,
            Arc::clone(clock),
            Arc::new(sink),
        )
        .stats(Arc::clone(self.countersign.stats()));
        if let Some(ask) = ask {
            builder = builder.pinned_ask(ask);
        }
        if let Some(settings) = self.approvals {
            builder = builder.approvals(settings);
        }
        if let Some(settings) = self.proposals {
            builder = builder.proposals(settings);
        }
        if let Some(claims) = self.request.agent_claims() {
            builder = builder.claims(claims.clone());
        }
        for change in self.more {
            builder = change(builder);
        }
        Ok(builder.open()?)
    }

    /// Records a refused session before the caller gets the error, like a refused call. If it cannot be recorded, the
    /// caller gets the audit error instead.
    fn refused(&self, sink: &impl AuditSink, error: NegotiateError, now: Timestamp) -> SessionError {
        let agent = self.request.agent().clone();
        let version = self.countersign.registry().view().snapshot().version();
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
