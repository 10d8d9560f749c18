use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_approval_token::{DEFAULT_TTL_CAP, mint};
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_core::{Clock, ToolId};
use countersign_testing::TestRegistry;
use countersign_tool_gate::{ApprovalRequest, ToolGate};

pub(super) const GOAL: &str = "Answer ticket T-1001";

/// A world whose gates wait for a plan.
pub(super) struct World(countersign_testing::World);

impl Deref for World {
    type Target = countersign_testing::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    pub(super) fn new() -> Self {
        Self(countersign_testing::World::of(&TestRegistry::from_json(DRAFT)).goal(GOAL))
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// A gate for the session, with a goal and approvals.
    pub(super) fn gate(&self) -> ToolGate {
        self.gate_with(Arc::new(MemorySink::new()))
    }

    pub(super) fn gate_with(&self, sink: Arc<dyn AuditSink>) -> ToolGate {
        self.full_with(sink).plan_first().open().unwrap()
    }

    /// A gate that loses every record after the first `left`.
    pub(super) fn gate_that_records(&self, left: u64) -> ToolGate {
        self.gate_with(Arc::new(Failing { sink: MemorySink::new(), left: AtomicU64::new(left) }))
    }

    /// A gate without a goal.
    pub(super) fn aimless(&self) -> ToolGate {
        self.bare().open().unwrap()
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
    let (keys, terms) = (countersign_testing::World::keys(), World::new().terms(number));
    mint(&keys, request.binding(), &terms, DEFAULT_TTL_CAP).unwrap().as_str().to_owned()
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
