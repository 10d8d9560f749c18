use std::sync::Arc;

use countersign::audit_log::AuditSink;
use countersign::core::{AgentId, Clock, Digest, ManualClock, Millis, Principal, SessionId, Timestamp};
use countersign::keys::{SigningKey, TrustRoot};
use countersign::registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, RegistryDraft,
};
use countersign::tool_gate::{ToolGate, ToolGateBuilder};

const DRAFT: &str = r#"{
  "format": "countersign-registry-1", "version": 1,
  "agents": [{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
    "tools": [{"server": "desk", "name": "search"}]}],
  "tools": [{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
    "args_schema": {"type": "object"}}],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;

/// A gate over a registry with one agent and one harmless tool.
pub(crate) fn gate(sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
    let now = Timestamp::from_millis(1_790_000_000_000).unwrap();
    let operator = SigningKey::from_seed(*Digest::of(b"operator").as_bytes());
    let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
    let expires = now.checked_add(Millis::from_secs(86_400)).unwrap();
    let draft = RegistryDraft::from_json(DRAFT.as_bytes()).unwrap();
    let signed = draft.sign(now, expires, &[&operator]).unwrap().to_json();
    let marks = Arc::new(MemoryHighWater::new());
    let registry =
        CapabilityRegistry::load(signed.as_bytes(), &root, marks, LoadOptions::default(), now).unwrap();
    let request = NegotiationRequest::new(SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
    let contract = registry.negotiate(&request, now).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(now));
    ToolGate::builder(Arc::new(registry), contract, Principal::new("ada").unwrap(), clock, sink)
}
