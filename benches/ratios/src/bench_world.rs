use std::sync::Arc;

use countersign_audit_log::{AuditSink as _, Direction, GatewayRecord, MemorySink, Record};
use countersign_core::{Clock, Millis, Principal, SessionId};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{NegotiationRequest, SessionContract};
use countersign_testing::{TestRegistry, TestTool, World};
use countersign_tool_gate::{ApprovalSettings, CallStats, RefusalRate, ToolCall, ToolGate, ToolGateBuilder};
use serde_json::{Value, json};

use crate::structured_args;

/// Sizes of the arguments in bytes.
pub const SIZES: [usize; 3] = [26, 1 << 10, 64 << 10];

/// Number of records that a sink in memory keeps by default.
pub(crate) const KEPT: usize = 4_096;

/// Schema of [`structured_args`](crate::structured_args): it names each member and its type.
fn schema() -> Value {
    let (text, number, truth) =
        (json!({ "type": "string" }), json!({ "type": "number" }), json!({ "type": "boolean" }));
    let integer = json!({ "type": "integer" });
    let texts = json!({ "type": "array", "items": text });
    let object = |properties: Value| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let row = object(json!({
        "id": integer, "name": { "type": "string", "maxLength": 64 }, "price": number, "in_stock": truth, "tags": texts,
        "at": object(json!({ "lat": number, "lon": number })), "kind": { "enum": ["visit", "call"] }, "note": text,
        "to": object(json!({ "street": text, "city": text, "zip": text })), "weight": { "type": "number", "minimum": 0 },
        "fragile": truth, "refs": { "type": "array", "items": { "type": ["number", "null"] } },
        "amount": integer, "currency": { "enum": ["EUR", "USD"] }, "delta": number, "path": text, "score": number,
    }));
    object(json!({
        "query": text, "limit": integer, "to": texts, "rows": { "type": "array", "items": row }, "memo": text,
    }))
}

/// A world of two tools, `refund` (money, after an approval) and `search` (read, free), and gates in it.
#[derive(Debug)]
pub struct BenchWorld {
    /// The world.
    pub world: World,
    stats: Arc<CallStats>,
    approvals: ApprovalSettings,
    kept: usize,
}

impl Default for BenchWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl BenchWorld {
    /// World whose sessions last for most of its day.
    #[must_use]
    pub fn new() -> Self {
        Self::of(0, 0, "ada@example.com")
    }

    /// The same with further agents, further tools of each agent, and another principal.
    #[must_use]
    pub fn of(agents: usize, tools: usize, principal: &str) -> Self {
        let further: Vec<String> = (0..tools).map(|at| format!("tool-{at}")).collect();
        let two =
            [TestTool::money("refund"), TestTool::read("search")].map(|tool| tool.args_schema(&schema()));
        let all = two.into_iter().chain(further.iter().map(|name| TestTool::read(name)));
        let registry = TestRegistry::of(all).edit(|draft| {
            let mut agent = draft["agents"][0].clone();
            for at in 0..agents {
                agent["agent"] = json!(format!("agent-{at}"));
                draft["agents"].as_array_mut().unwrap().push(agent.clone());
            }
            draft["agents"][0]["max_session"] = json!("23h");
        });
        let world = World::of(&registry).principal(principal);
        Self { stats: Arc::new(CallStats::new()), approvals: world.approvals(), kept: KEPT, world }
    }

    /// The same with a sink that keeps few records, which is soon in its steady state: where time does not count.
    #[must_use]
    pub fn small() -> Self {
        let mut small = Self { kept: 64, ..Self::new() };
        small.world.sink = Arc::new(MemorySink::keeping(small.kept));
        small
    }

    /// Gate with a goal, approvals, and the highest rate of refusals with an entry of their own.
    pub fn builder(&self) -> ToolGateBuilder {
        let contract = self.world.contract();
        let ttl = Millis::from_secs(80_000);
        let pin = PinnedAsk::pin("Answer ticket T-1001", contract.session(), ttl, self.world.now()).unwrap();
        let rate = RefusalRate::new(10_000, 1_000).unwrap();
        self.world.bare().pinned_ask(pin).approvals(self.world.approvals()).refused_calls(rate)
    }

    /// Opens a gate and fills the sink, so that it is in its steady state.
    #[must_use]
    pub fn gate(&self) -> ToolGate {
        let gate = self.builder().open().unwrap();
        self.warm();
        let args = structured_args(26);
        for _ in 0..64 {
            drop(gate.check(&ToolCall::new("warm", "desk", "search", &args)).unwrap());
        }
        gate
    }

    /// Fills the sink: from then on it reuses the lines of its oldest records.
    pub fn warm(&self) {
        (0..self.kept + 64).for_each(|_| self.extra_record());
    }

    /// Contract of a session of its own.
    #[must_use]
    pub fn contract_of(&self, session: usize) -> SessionContract {
        let agent = self.world.contract().agent().clone();
        let session = SessionId::new(&format!("session-{session}")).unwrap();
        self.world.registry.negotiate(&NegotiationRequest::new(session, agent), self.world.now()).unwrap()
    }

    /// Opens the gate of a session that shares statistics, keys and spent tokens, registry, clock and sink with the others.
    #[must_use]
    pub fn gate_of(&self, contract: SessionContract) -> ToolGate {
        let (registry, sink) = (Arc::clone(&self.world.registry), Arc::clone(&self.world.sink));
        let principal = Principal::new("ada@example.com").unwrap();
        let clock = Arc::clone(&self.world.clock) as Arc<dyn Clock>;
        let builder = ToolGate::builder(registry, contract, principal, clock, sink);
        builder.approvals(self.approvals.clone()).stats(Arc::clone(&self.stats)).open().unwrap()
    }

    /// Lets the time go on by a second.
    pub fn tick(&self) {
        self.world.clock.advance(Millis::from_secs(1)).unwrap();
    }

    /// Records something else. why: a decision and its outcome alternate, so without it every decision would be an
    /// even leaf, which completes no subtree: the outcome would do all of the tree's hashing.
    pub fn extra_record(&self) {
        let record = GatewayRecord::new(World::start(), Direction::ToServer, "MALFORMED_CALL");
        self.world.sink.record(&Record::Gateway(record)).unwrap();
    }
}
