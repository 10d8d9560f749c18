use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_approval_token::{MemorySpentTokens, MintTerms, mint};
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_core::*;
use countersign_keys::{Keyring, RunKeys, ServerSecret, SigningKey, TrustRoot};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::*;
use countersign_tool_gate::*;

pub(super) const GOAL: &str = "Answer ticket T-1001";

/// A real registry, signed and loaded, with a manual clock.
pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    pub(super) registry: Arc<CapabilityRegistry>,
}

impl World {
    pub(super) fn new() -> Self {
        let operator = SigningKey::from_seed([7; 32]);
        let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
        let draft = RegistryDraft::from_json(DRAFT.as_bytes()).unwrap();
        let expires = start().checked_add(Millis::from_secs(86_400)).unwrap();
        let bytes = draft.sign(start(), expires, &[&operator]).unwrap().to_json().into_bytes();
        let marks = Arc::new(MemoryHighWater::new());
        let registry = CapabilityRegistry::load(&bytes, &root, marks, LoadOptions::default(), start());
        Self { clock: Arc::new(ManualClock::new(start())), registry: Arc::new(registry.unwrap()) }
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// A gate for the session, with a goal and approvals.
    pub(super) fn gate(&self) -> ToolGate {
        self.gate_with(Arc::new(MemorySink::new()))
    }

    pub(super) fn gate_with(&self, sink: Arc<dyn AuditSink>) -> ToolGate {
        let session = SessionId::new("session-1").unwrap();
        let pin = PinnedAsk::pin(GOAL, &session, Millis::from_secs(1_800), self.clock.now().unwrap());
        let spent = Arc::new(MemorySpentTokens::new());
        let approvals = ApprovalSettings::new(run_keys(), spent, Audience::new("gate-1").unwrap());
        self.builder(sink).pinned_ask(pin.unwrap()).approvals(approvals).plan_first().open().unwrap()
    }

    /// A gate that loses every record after the first `left`.
    pub(super) fn gate_that_records(&self, left: u64) -> ToolGate {
        self.gate_with(Arc::new(Failing { sink: MemorySink::new(), left: AtomicU64::new(left) }))
    }

    /// A gate without a goal.
    pub(super) fn aimless(&self) -> ToolGate {
        self.builder(Arc::new(MemorySink::new())).open().unwrap()
    }

    fn builder(&self, sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
        let request = NegotiationRequest::new(
            SessionId::new("session-1").unwrap(),
            AgentId::new("support-bot").unwrap(),
        );
        let contract = self.registry.negotiate(&request, self.clock.now().unwrap()).unwrap();
        let principal = Principal::new("ada@example.com").unwrap();
        ToolGate::builder(Arc::clone(&self.registry), contract, principal, self.clock(), sink)
    }
}

/// Loses every record after a number of them.
#[derive(Debug)]
struct Failing {
    sink: MemorySink,
    left: AtomicU64,
}

impl AuditSink for Failing {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| AuditError::Poisoned)?;
        self.sink.record(record)
    }
}

/// The token of a person who approves.
pub(super) fn token(request: &ApprovalRequest, number: u64) -> String {
    let terms = MintTerms::new(
        TokenId::new(&format!("token-{number}")).unwrap(),
        OperatorId::new("grace@example.com").unwrap(),
        start(),
        Millis::from_secs(300),
    );
    mint(&run_keys(), request.binding(), &terms, Millis::from_secs(3_600)).unwrap().as_str().to_owned()
}

fn run_keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k1").unwrap(), &[9; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new("run-1").unwrap())
}

pub(super) fn start() -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000).unwrap()
}

pub(super) fn tool(name: &str) -> ToolId {
    ToolId::new("desk", name).unwrap()
}

const DRAFT: &str = r#"{
  "format": "countersign-registry-1", "version": 1,
  "agents": [{"agent": "support-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
    "output_tags": ["answer"],
    "tools": [{"server": "desk", "name": "read_ticket"}, {"server": "desk", "name": "read_customer"},
              {"server": "desk", "name": "note"}, {"server": "desk", "name": "send_mail"},
              {"server": "desk", "name": "refund"}, {"server": "desk", "name": "wipe"},
              {"server": "desk", "name": "twin"}, {"server": "attic", "name": "twin"}]}],
  "tools": [
    {"server": "desk", "name": "read_ticket", "impact": "read", "approval": "not_required",
      "args_schema": {"type": "object", "properties": {"id": {"type": "string"}},
                      "required": ["id"], "additionalProperties": false}},
    {"server": "desk", "name": "read_customer", "impact": "privacy", "approval": "not_required",
      "args_schema": {"type": "object", "properties": {"id": {"type": "string"}},
                      "required": ["id"], "additionalProperties": false}},
    {"server": "desk", "name": "note", "impact": "write", "approval": "not_required", "ask": "required",
      "args_schema": {"type": "object", "properties": {"text": {"type": "string"}},
                      "required": ["text"], "additionalProperties": false},
      "data_args": ["/text"]},
    {"server": "desk", "name": "send_mail", "impact": "external", "approval": "not_required", "plan": "required",
      "args_schema": {"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"},
                                                       "cc": {"type": "string"}},
                      "required": ["to", "body"], "additionalProperties": false},
      "constraints": [{"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}],
      "data_args": ["/body"]},
    {"server": "desk", "name": "refund", "impact": "money", "approval": "required",
      "args_schema": {"type": "object", "properties": {"amount": {"type": "number"}},
                      "required": ["amount"], "additionalProperties": false}},
    {"server": "desk", "name": "wipe", "impact": "irreversible", "approval": "each_call",
      "args_schema": {"type": "object"}},
    {"server": "desk", "name": "twin", "impact": "read", "approval": "not_required",
      "args_schema": {"type": "object"}},
    {"server": "attic", "name": "twin", "impact": "read", "approval": "not_required",
      "args_schema": {"type": "object"}},
    {"server": "desk", "name": "hidden", "impact": "read", "approval": "not_required",
      "args_schema": {"type": "object"}}
  ],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;
