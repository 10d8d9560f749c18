use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign::approval_token::{ApprovalToken, DEFAULT_TTL_CAP, MemorySpentTokens, MintTerms, mint};
use countersign::audit_log::{AuditSink, CallRecord, MemorySink, Record};
use countersign::core::{
    AgentId, Audience, CallFacts, CallId, Clock, KeyId, ManualClock, Millis, OperatorId, Principal, RunId,
    SessionId, Timestamp, TokenId,
};
use countersign::keys::{Keyring, RunKeys, ServerSecret};
use countersign::pinned_ask::PinnedAsk;
use countersign::registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, SessionContract,
};
use countersign::tool_gate::{ApprovalSettings, RejectionCode, ToolCall, ToolGate, ToolGateBuilder};
use countersign::{Countersign, SessionBuilder};

use crate::TestRegistry;

/// A loaded registry, a manual clock, keys, stores in memory and a sink in memory: the parts from which a host opens a
/// gate.
///
/// Gates are for the registry's first agent in session `session-1`, for the principal `ada@example.com`. The setters
/// change the names.
///
/// ```
/// use countersign::core::Millis;
/// use countersign::tool_gate::{RejectionCode, ToolCall};
/// use countersign_testing::World;
///
/// let world = World::new();
/// let gate = world.gate();
/// let refund = ToolCall::new("call-1", "desk", "refund", br#"{"ticket":"T-1","amount":5}"#);
///
/// let refused = gate.check(&refund).unwrap_err();
/// let token = world.approve(refused.approval_request().unwrap().binding());
/// gate.check(&refund.clone().approval(token.as_str())).unwrap().run(|_| Ok::<_, ()>(())).unwrap();
///
/// world.clock.advance(Millis::from_secs(3_600)).unwrap();
/// assert_eq!(gate.check(&refund).unwrap_err().code(), RejectionCode::ContractExpired);
/// ```
#[derive(Debug)]
pub struct World {
    /// Clock of every gate. It begins at [`World::start`].
    pub clock: Arc<ManualClock>,
    /// The loaded registry.
    pub registry: Arc<CapabilityRegistry>,
    /// Sink of every gate, unless the gate was built with another one.
    pub sink: Arc<MemorySink>,
    /// Spent approvals.
    pub spent: Arc<MemorySpentTokens>,
    agent: AgentId,
    session: SessionId,
    principal: Principal,
    goal: String,
    audience: Audience,
    tokens: AtomicU64,
    calls: AtomicU64,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// World of [`TestRegistry::desk`].
    #[must_use]
    pub fn new() -> Self {
        Self::of(&TestRegistry::desk())
    }

    /// World of this registry, signed at [`World::start`].
    #[must_use]
    pub fn of(registry: &TestRegistry) -> Self {
        let (now, marks) = (Self::start(), Arc::new(MemoryHighWater::new()));
        let (bytes, root) = (registry.sign(now), TestRegistry::trust_root());
        let loaded = CapabilityRegistry::load(&bytes, &root, marks, LoadOptions::default(), now);
        Self {
            clock: Arc::new(ManualClock::new(now)),
            registry: Arc::new(loaded.expect("a registry that verifies")),
            sink: Arc::new(MemorySink::new()),
            spent: Arc::new(MemorySpentTokens::new()),
            agent: AgentId::new(registry.first_agent()).expect("an agent's id"),
            session: SessionId::new("session-1").expect("an id"),
            principal: Principal::new("ada@example.com").expect("an id"),
            goal: "Answer ticket T-1001".to_owned(),
            audience: Audience::new("gate-1").expect("an id"),
            tokens: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        }
    }

    /// Time at which every world begins.
    #[must_use]
    pub fn start() -> Timestamp {
        Timestamp::from_millis(1_790_000_000_000).expect("a time in range")
    }

    /// Sets the agent of the gates that are opened from now on.
    #[must_use]
    pub fn agent(mut self, agent: &str) -> Self {
        self.agent = AgentId::new(agent).expect("an agent's id");
        self
    }

    /// Sets the session of the gates that are opened from now on.
    #[must_use]
    pub fn session(mut self, session: &str) -> Self {
        self.session = SessionId::new(session).expect("a session's id");
        self
    }

    /// Sets the principal of the gates that are opened from now on.
    #[must_use]
    pub fn principal(mut self, principal: &str) -> Self {
        self.principal = Principal::new(principal).expect("a principal's id");
        self
    }

    /// Sets the goal of the gates that are opened from now on.
    #[must_use]
    pub fn goal(mut self, goal: &str) -> Self {
        goal.clone_into(&mut self.goal);
        self
    }

    /// Sets the name of the gates that are opened from now on, which approvals bind.
    #[must_use]
    pub fn audience(mut self, audience: &str) -> Self {
        self.audience = Audience::new(audience).expect("an audience");
        self
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now().expect("the clock runs")
    }

    /// Installs another version of the registry, signed now.
    pub fn reload(&self, registry: &TestRegistry) {
        let now = self.now();
        self.registry.reload(&registry.sign(now), now).expect("a registry that verifies");
    }

    /// Negotiates a contract for the agent and the session.
    #[must_use]
    pub fn contract(&self) -> SessionContract {
        let request = NegotiationRequest::new(self.session.clone(), self.agent.clone());
        self.registry.negotiate(&request, self.now()).expect("a session of a registered agent")
    }

    /// Session of the facade, for the agent, the session and the principal.
    pub fn session_at(&self, countersign: &Countersign) -> SessionBuilder {
        countersign.session(self.agent.clone(), self.session.clone(), self.principal.clone())
    }

    /// Pins the goal for half an hour.
    #[must_use]
    pub fn pin(&self) -> PinnedAsk {
        let pinned = PinnedAsk::pin(&self.goal, &self.session, Millis::from_secs(1_800), self.now());
        pinned.expect("a goal")
    }

    /// Settings under which a gate takes approvals of [`World::approve`].
    #[must_use]
    pub fn approvals(&self) -> ApprovalSettings {
        ApprovalSettings::new(Self::keys(), Arc::clone(&self.spent) as _, self.audience.clone())
    }

    /// Keys of approvals in the run `run-1`.
    #[must_use]
    pub fn keys() -> RunKeys {
        Keyring::new(Self::secret()).for_run(&RunId::new("run-1").expect("an id"))
    }

    /// Secret of the gate, from which the keys of approvals are derived. It is public.
    #[must_use]
    pub fn secret() -> ServerSecret {
        ServerSecret::new(KeyId::new("k1").expect("an id"), &[9; 32]).expect("a secret of 32 bytes")
    }

    /// Gate without goal or approvals.
    pub fn bare(&self) -> ToolGateBuilder {
        self.bare_with(Arc::clone(&self.sink) as Arc<dyn AuditSink>)
    }

    /// Gate without goal or approvals that records into `sink`.
    pub fn bare_with(&self, sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        ToolGate::builder(Arc::clone(&self.registry), self.contract(), self.principal.clone(), clock, sink)
    }

    /// Gate with the goal pinned and approvals.
    pub fn full(&self) -> ToolGateBuilder {
        self.full_with(Arc::clone(&self.sink) as Arc<dyn AuditSink>)
    }

    /// Gate with the goal pinned and approvals that records into `sink`.
    pub fn full_with(&self, sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
        self.bare_with(sink).pinned_ask(self.pin()).approvals(self.approvals())
    }

    /// Opens a gate with the goal pinned and approvals.
    #[must_use]
    pub fn gate(&self) -> ToolGate {
        self.full().open().expect("a gate that opens")
    }

    /// Approves a call, or a plan, as `grace@example.com`, for five minutes.
    #[must_use]
    pub fn approve(&self, binding: &CallFacts) -> ApprovalToken {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        mint(&Self::keys(), binding, &self.terms(number), DEFAULT_TTL_CAP).expect("a binding with every fact")
    }

    /// Terms of an approval: the token's id is `token-N`.
    pub fn terms(&self, number: u64) -> MintTerms {
        MintTerms::new(
            TokenId::new(&format!("token-{number}")).expect("an id"),
            OperatorId::new("grace@example.com").expect("an id"),
            self.now(),
            Millis::from_secs(300),
        )
    }

    /// Calls a tool of the server `desk` under an id of its own, and runs the call if it is accepted. Returns the code
    /// of a refusal.
    #[must_use]
    pub fn code(&self, gate: &ToolGate, tool: &str, args: &str) -> Option<RejectionCode> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let id = CallId::new(&format!("call-{number}")).expect("an id");
        match gate.check(&ToolCall::new(id.as_str(), "desk", tool, args.as_bytes())) {
            Ok(accepted) => {
                accepted.run(|_| Ok::<(), ()>(())).expect("a call that is still accepted");
                None
            }
            Err(refused) => Some(refused.code()),
        }
    }

    /// The last decision in the sink.
    #[must_use]
    pub fn last_decision(&self) -> Option<CallRecord> {
        let latest = self.sink.latest().into_iter().rev();
        let mut decisions = latest.filter_map(|(_, record)| {
            let Record::Decision(call) = record else { return None };
            Some(call)
        });
        decisions.next()
    }
}
