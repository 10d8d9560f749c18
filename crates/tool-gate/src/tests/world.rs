use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_approval_token::{ApprovalToken, MemorySpentTokens, MintTerms, mint};
use countersign_audit_log::{AuditSink, CallRecord, MemorySink, Record};
use countersign_core::SpentTokens;
use countersign_core::*;
use countersign_keys::{Keyring, RunKeys, ServerSecret, SigningKey, TrustRoot};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::*;

use crate::*;

pub(super) const GOAL: &str = "Answer ticket T-1001";
pub(super) const SEARCH: &[u8] = br#"{"query":"T-1001"}"#;
pub(super) const REFUND: &[u8] = br#"{"ticket":"T-1001","amount":49}"#;

/// A real registry, signed and loaded, with a clock that stands still.
pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    pub(super) registry: Arc<CapabilityRegistry>,
    pub(super) sink: Arc<MemorySink>,
    pub(super) spent: Arc<MemorySpentTokens>,
    next_token: AtomicU64,
}

pub(super) fn start() -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000).unwrap()
}

pub(super) fn draft(version: u64, revoked: &str) -> String {
    format!(
        r#"{{
  "format": "countersign-registry-1", "version": {version},
  "agents": [{{"agent": "support-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
    "output_tags": ["answer"],
    "tools": [{{"server": "desk", "name": "search"}}, {{"server": "desk", "name": "refund"}},
              {{"server": "desk", "name": "mail"}}, {{"server": "desk", "name": "pinned"}},
              {{"server": "desk", "name": "scarce"}}, {{"server": "desk", "name": "asking"}},
              {{"server": "desk", "name": "planned"}}, {{"server": "desk", "name": "proven"}},
              {{"server": "desk", "name": "wire"}}, {{"server": "desk", "name": "wipe"}},
              {{"server": "desk", "name": "twin"}}, {{"server": "attic", "name": "twin"}}]}},
    {{"agent": "capped-bot", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
      "limits": {{"max_calls": 2}},
      "tools": [{{"server": "desk", "name": "search"}}, {{"server": "desk", "name": "mail"}}]}}],
  "tools": [
    {{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
      "args_schema": {{"type": "object", "properties": {{"query": {{"type": "string"}}}},
                       "additionalProperties": false}}}},
    {{"server": "desk", "name": "refund", "impact": "money", "approval": "required",
      "args_schema": {{"type": "object", "properties": {{"ticket": {{"type": "string"}}, "amount": {{"type": "number"}}}},
                       "required": ["ticket", "amount"]}}}},
    {{"server": "desk", "name": "mail", "impact": "external", "approval": "not_required",
      "args_schema": {{"type": "object"}},
      "constraints": [{{"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}}],
      "data_args": ["/body"]}},
    {{"server": "desk", "name": "wipe", "impact": "irreversible", "approval": "each_call",
      "args_schema": {{"type": "object"}}}},
    {{"server": "desk", "name": "pinned", "impact": "read", "approval": "not_required",
      "definition": "{definition}", "args_schema": {{"type": "object"}}}},
    {{"server": "desk", "name": "scarce", "impact": "read", "approval": "not_required",
      "args_schema": {{"type": "object"}}, "limits": {{"max_calls": 3, "rate": {{"calls": 2, "per": "1m"}}}}}},
    {{"server": "desk", "name": "asking", "impact": "write", "approval": "not_required", "ask": "required",
      "args_schema": {{"type": "object"}}}},
    {{"server": "desk", "name": "planned", "impact": "write", "approval": "not_required", "plan": "required",
      "args_schema": {{"type": "object"}}}},
    {{"server": "desk", "name": "proven", "impact": "write", "approval": "not_required", "evidence": "required",
      "args_schema": {{"type": "object"}}}},
    {{"server": "desk", "name": "wire", "impact": "money", "approval": "not_required",
      "args_schema": {{"type": "object", "properties": {{"to": {{"type": "string"}}, "amount": {{"type": "number"}}}},
                       "required": ["to", "amount"], "additionalProperties": false}}}},
    {{"server": "desk", "name": "twin", "impact": "read", "approval": "not_required",
      "args_schema": {{"type": "object"}}}},
    {{"server": "attic", "name": "twin", "impact": "read", "approval": "not_required",
      "args_schema": {{"type": "object"}}}},
    {{"server": "desk", "name": "delete_ticket", "impact": "irreversible", "approval": "required",
      "args_schema": {{"type": "object"}}}}
  ],
  "revoked": {revoked}
}}"#,
        definition = Digest::of(b"the pinned definition"),
    )
}

pub(super) const NONE_REVOKED: &str = r#"{"agents": [], "keys": [], "snapshots": []}"#;

pub(super) fn sign(version: u64, revoked: &str, ttl: Millis) -> Vec<u8> {
    sign_draft(&draft(version, revoked), ttl)
}

fn sign_draft(draft: &str, ttl: Millis) -> Vec<u8> {
    let draft = RegistryDraft::from_json(draft.as_bytes()).unwrap();
    let operator = SigningKey::from_seed([7; 32]);
    let expires = start().checked_add(ttl).unwrap();
    draft.sign(start(), expires, &[&operator]).unwrap().to_json().into_bytes()
}

impl World {
    pub(super) fn new() -> Self {
        Self::of_draft(&draft(1, NONE_REVOKED))
    }

    /// A world with the registry of this draft. Its agent is `support-bot`.
    pub(super) fn of_draft(draft: &str) -> Self {
        let root = TrustRoot::new(1, 1, vec![SigningKey::from_seed([7; 32]).verifying_key()]).unwrap();
        let bytes = sign_draft(draft, Millis::from_secs(86_400));
        let marks = Arc::new(MemoryHighWater::new());
        let registry =
            CapabilityRegistry::load(&bytes, &root, marks, LoadOptions::default(), start()).unwrap();
        Self {
            clock: Arc::new(ManualClock::new(start())),
            registry: Arc::new(registry),
            sink: Arc::new(MemorySink::new()),
            spent: Arc::new(MemorySpentTokens::new()),
            next_token: AtomicU64::new(0),
        }
    }

    pub(super) fn reload(&self, version: u64, revoked: &str) {
        self.registry
            .reload(&sign(version, revoked, Millis::from_secs(86_400)), self.clock.now().unwrap())
            .unwrap();
    }

    fn contract_of(&self, agent: &str, session: &str) -> SessionContract {
        let request = NegotiationRequest::new(SessionId::new(session).unwrap(), AgentId::new(agent).unwrap());
        self.registry.negotiate(&request, self.clock.now().unwrap()).unwrap()
    }

    pub(super) fn contract(&self, session: &str) -> SessionContract {
        self.contract_of("support-bot", session)
    }

    /// A gate for an agent with two calls in total.
    pub(super) fn capped(&self) -> ToolGate {
        ToolGate::builder(
            Arc::clone(&self.registry),
            self.contract_of("capped-bot", "session-1"),
            Principal::new("ada@example.com").unwrap(),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.sink) as Arc<dyn AuditSink>,
        )
        .open()
        .unwrap()
    }

    pub(super) fn builder_with(&self, sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
        self.builder_for("session-1", sink)
    }

    pub(super) fn builder_for(&self, session: &str, sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
        ToolGate::builder(
            Arc::clone(&self.registry),
            self.contract(session),
            Principal::new("ada@example.com").unwrap(),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            sink,
        )
    }

    /// A gate without goal or approvals.
    pub(super) fn bare(&self) -> ToolGateBuilder {
        self.builder_with(Arc::clone(&self.sink) as Arc<dyn AuditSink>)
    }

    pub(super) fn settings(&self, spent: Arc<dyn SpentTokens>) -> ApprovalSettings {
        ApprovalSettings::new(keys("run-1"), spent, Audience::new("gate-1").unwrap())
    }

    /// A gate with every setting.
    pub(super) fn full(&self) -> ToolGateBuilder {
        self.bare()
            .pinned_ask(self.pin())
            .approvals(self.settings(Arc::clone(&self.spent) as Arc<dyn SpentTokens>))
    }

    pub(super) fn gate(&self) -> ToolGate {
        self.full().open().unwrap()
    }

    pub(super) fn pin(&self) -> PinnedAsk {
        let session = SessionId::new("session-1").unwrap();
        PinnedAsk::pin(GOAL, &session, Millis::from_secs(1_800), self.clock.now().unwrap()).unwrap()
    }

    /// Makes the call without an approval, and approves the refused call.
    pub(super) fn approve(&self, gate: &ToolGate, call: &ToolCall<'_>) -> ApprovalToken {
        let refused = gate.check(call).unwrap_err();
        assert_eq!(refused.code(), RejectionCode::ApprovalRequired);
        let number = self.next_token.fetch_add(1, Ordering::Relaxed);
        mint(&keys("run-1"), refused.approval_request().unwrap().binding(), &self.terms(number), hour())
            .unwrap()
    }

    pub(super) fn terms(&self, number: u64) -> MintTerms {
        MintTerms::new(
            TokenId::new(&format!("token-{number}")).unwrap(),
            OperatorId::new("grace@example.com").unwrap(),
            self.clock.now().unwrap(),
            Millis::from_secs(300),
        )
    }
}

/// Mints a token over a binding.
pub(super) fn mint_for(world: &World, binding: &countersign_core::CallFacts, number: u64) -> String {
    mint(&keys("run-1"), binding, &world.terms(number), hour()).unwrap().as_str().to_owned()
}

pub(super) const fn hour() -> Millis {
    Millis::from_secs(3_600)
}

pub(super) fn keys(run: &str) -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k1").unwrap(), &[9; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new(run).unwrap())
}

pub(super) const fn search(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "search", SEARCH)
}

pub(super) const fn refund(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "refund", REFUND)
}

/// The last recorded decision.
pub(super) fn last_decision(world: &World) -> CallRecord {
    let latest = world.sink.latest().into_iter().rev();
    let mut decisions = latest.filter_map(|(_, record)| {
        let Record::Decision(call) = record else { return None };
        Some(call)
    });
    decisions.next().unwrap()
}

/// Checks the call and runs it if it is accepted; otherwise returns the code.
pub(super) fn code(gate: &ToolGate, call: &ToolCall<'_>) -> Option<RejectionCode> {
    match gate.check(call) {
        Ok(call) => {
            call.run(|_| Ok::<(), ()>(())).unwrap();
            None
        }
        Err(no) => Some(no.code()),
    }
}
