//! Counts heap allocations of decisions in steady state, and the memory of idle sessions.
//!
//! A warmed-up gate has its list of recent records full, so that a new record takes the place of an old one. The
//! allocations left are texts of the kept record: the id of the call, a name that the session has not used before, and
//! the ids of a token and of its approver.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has to stop")]

use std::sync::Arc;

use allocation_counter::measure;
use countersign_approval_token::{MemorySpentTokens, MintTerms, mint};
use countersign_audit_log::{AuditError, AuditSink, DecisionLine, MemorySink, Record};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::*;
use countersign_keys::{Keyring, RunKeys, ServerSecret, SigningKey, TrustRoot};
use countersign_registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, RegistryDraft,
};
use countersign_tool_gate::*;

const DRAFT: &str = r#"{
  "format": "countersign-registry-1", "version": 1,
  "agents": [{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
    "tools": [{"server": "desk", "name": "refund"}, {"server": "desk", "name": "search"}]}],
  "tools": [{"server": "desk", "name": "refund", "impact": "money", "approval": "required",
    "args_schema": {"type": "object", "properties": {"ticket": {"type": "string"}}}},
   {"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
    "args_schema": {"type": "object", "properties": {"ticket": {"type": "string"}}}}],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;

const ARGS: &[u8] = br#"{"ticket":"T-1001 and more"}"#;

/// Calls that fill every list of a gate and of its record.
const WARM: usize = 1_200;

/// Calls that are counted.
const CALLS: u64 = 64;

/// A sink that keeps nothing.
#[derive(Debug)]
struct Nowhere;

impl AuditSink for Nowhere {
    fn record(&self, _: &Record) -> Result<u64, AuditError> {
        Ok(1)
    }

    fn record_decision(&self, _: &DecisionLine<'_>) -> Result<u64, AuditError> {
        Ok(1)
    }
}

struct World {
    registry: Arc<CapabilityRegistry>,
    stats: Arc<CallStats>,
    clock: Arc<ManualClock>,
    spent: Arc<MemorySpentTokens>,
}

fn start() -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000).unwrap()
}

fn keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k").unwrap(), &[9; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new("run").unwrap())
}

impl World {
    fn new() -> Self {
        let operator = SigningKey::from_seed([7; 32]);
        let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
        let draft = RegistryDraft::from_json(DRAFT.as_bytes()).unwrap();
        let end = start().checked_add(Millis::from_secs(86_400)).unwrap();
        let signed = draft.sign(start(), end, &[&operator]).unwrap();
        let marks = Arc::new(MemoryHighWater::new());
        let options = LoadOptions::default();
        let registry =
            CapabilityRegistry::load(signed.to_json().as_bytes(), &root, marks, options, start()).unwrap();
        Self {
            registry: Arc::new(registry),
            stats: Arc::new(CallStats::new()),
            clock: Arc::new(ManualClock::new(start())),
            spent: Arc::new(MemorySpentTokens::new()),
        }
    }

    fn builder(&self, session: &str, sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
        let request = NegotiationRequest::new(SessionId::new(session).unwrap(), AgentId::new("bot").unwrap());
        let contract = self.registry.negotiate(&request, start()).unwrap();
        let (registry, clock) = (Arc::clone(&self.registry), Arc::clone(&self.clock) as Arc<dyn Clock>);
        let principal = Principal::new("ada@example.com").unwrap();
        ToolGate::builder(registry, contract, principal, clock, sink).stats(Arc::clone(&self.stats))
    }

    /// A gate over a record in memory. Each refused call has an entry of its own.
    fn gate(&self) -> ToolGate {
        let spent = Arc::clone(&self.spent) as Arc<dyn SpentTokens>;
        self.builder("session-1", Arc::new(MemorySink::keeping(256)))
            .approvals(ApprovalSettings::new(keys(), spent, Audience::new("gate").unwrap()))
            .refused_calls(RefusalRate::new(10_000, 1_000).unwrap())
            .open()
            .unwrap()
    }

    fn token(&self, binding: &CallFacts, number: usize) -> String {
        let id = TokenId::new(&format!("token-{number}")).unwrap();
        let terms = MintTerms::new(id, OperatorId::new("ops").unwrap(), start(), Millis::from_secs(300));
        mint(&keys(), binding, &terms, Millis::from_secs(3_600)).unwrap().as_str().to_owned()
    }
}

/// Returns the allocations of one call in steady state.
fn each(mut call: impl FnMut()) -> u64 {
    (0..WARM).for_each(|_| call());
    // A map of spent tokens grows now and then.
    measure(|| (0..CALLS).for_each(|_| call())).count_total / CALLS
}

fn accepts(gate: &ToolGate, call: &ToolCall<'_>) {
    gate.check(call).unwrap().run(|_| Ok::<_, ()>(())).unwrap();
}

fn refuses(gate: &ToolGate, call: &ToolCall<'_>, code: RejectionCode) {
    let refused = gate.check(call).unwrap_err();
    assert_eq!((refused.code(), refused.sequence().is_some()), (code, true));
}

#[test]
fn free_call_allocates_its_id_alone() {
    let gate = World::new().gate();
    let call = ToolCall::new("call-1", "desk", "search", ARGS);
    assert_eq!(each(|| accepts(&gate, &call)), 1);
}

#[test]
fn call_by_name_allocates_its_id_alone() {
    let gate = World::new().gate();
    let call = ToolCall::by_name("call-1", "search", ARGS);
    assert_eq!(each(|| accepts(&gate, &call)), 1);
}

#[test]
fn call_with_read_arguments_allocates_its_id_alone() {
    let gate = World::new().gate();
    let args = CallArgs::new(read(ARGS, Recipe::Jcs1, &Limits::default()).unwrap());
    let call = ToolCall::from_read("call-1", Some("desk"), "search", &args);
    assert_eq!(each(|| accepts(&gate, &call)), 1);
}

#[test]
fn undisclosed_call_allocates_its_id_plus_its_name() {
    let gate = World::new().gate();
    let call = ToolCall::new("call-1", "desk", "no_such_tool", ARGS);
    assert_eq!(each(|| refuses(&gate, &call, RejectionCode::UndisclosedTool)), 2);
}

#[test]
fn summed_refusal_allocates_no_more_than_a_recorded_one() {
    let world = World::new();
    let gate = world.builder("session-1", Arc::new(MemorySink::new())).open().unwrap();
    let call = ToolCall::new("call-1", "desk", "no_such_tool", ARGS);
    let refuses = || assert!(gate.check(&call).is_err());
    assert_eq!(each(refuses), 2);
    assert!(gate.check(&call).unwrap_err().sequence().is_none());
}

#[test]
fn approved_call_allocates_its_id_plus_that_of_its_token() {
    let world = World::new();
    let gate = world.gate();
    let asked = gate.check(&ToolCall::new("call-1", "desk", "refund", ARGS)).unwrap_err();
    let binding = asked.approval_request().unwrap().binding().clone();
    let calls = WARM + usize::try_from(CALLS).unwrap();
    let tokens: Vec<String> = (0..calls).map(|number| world.token(&binding, number)).collect();
    let mut tokens = tokens.iter();
    let call = || {
        let token = tokens.next().unwrap();
        accepts(&gate, &ToolCall::new("call-1", "desk", "refund", ARGS).approval(token));
    };
    assert_eq!(each(call), 2);
}

#[test]
fn idle_session_takes_a_kibibyte() {
    const SESSIONS: usize = 64;
    let world = World::new();
    let open = |session: &str| world.builder(session, Arc::new(Nowhere));
    // The first session makes the rows that all sessions of the agent share.
    let first = open("session-0").open().unwrap();
    let builders: Vec<_> = (0..SESSIONS).map(|number| open(&format!("session-{number}"))).collect();
    let mut gates = Vec::with_capacity(SESSIONS);
    let counted = measure(|| gates.extend(builders.into_iter().map(|builder| builder.open().unwrap())));
    let bytes = usize::try_from(counted.bytes_current).unwrap() / SESSIONS;
    assert!(bytes <= 1_024, "{bytes} bytes for each of {SESSIONS} sessions");
    drop((first, gates));
}
