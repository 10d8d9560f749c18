//! The decisions of a gate as operations.

use std::hint::black_box;

use countersign_approval_token::ApprovalToken;
use countersign_audit_log::{AuditSink as _, CallRecord, MemorySink, Record};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{AgentId, CallFacts, Principal, SessionId};
use countersign_tool_gate::{AcceptedCall, RejectionCode, ToolCall, ToolGate};

use crate::bench_world::KEPT;
use crate::{Bare, BenchWorld, Operation, structured_args};

/// A call that a person approved.
#[derive(Debug)]
pub struct ApprovedCall {
    world: BenchWorld,
    gate: ToolGate,
    args: Vec<u8>,
    binding: CallFacts,
    tokens: Vec<ApprovalToken>,
    accepted: Option<AcceptedCall>,
}

impl ApprovedCall {
    /// Opens a gate and asks once, for the facts to approve.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self::of(BenchWorld::new(), size)
    }

    /// The same in this world.
    #[must_use]
    pub fn of(world: BenchWorld, size: usize) -> Self {
        let (gate, args) = (world.gate(), structured_args(size));
        let refused = gate.check(&ToolCall::new("call-1", "desk", "refund", &args)).unwrap_err();
        let binding = refused.approval_request().unwrap().binding().clone();
        Self { world, gate, args, binding, tokens: Vec::new(), accepted: None }
    }

    /// Performs the call once and returns its floor.
    #[must_use]
    pub fn bare(&mut self) -> Bare {
        self.prepare(1);
        let token = self.tokens.last().unwrap().as_str().to_owned();
        self.run();
        let bare = Bare::of_latest(&self.world.world).args(&self.args).token(&token);
        self.settle();
        bare
    }
}

impl Operation for ApprovedCall {
    fn prepare(&mut self, times: u32) {
        self.world.tick();
        self.tokens = (0..times).map(|_| self.world.world.approve(&self.binding)).collect();
    }

    fn run(&mut self) {
        let token = self.tokens.pop().unwrap();
        let call = ToolCall::new("call-1", "desk", "refund", &self.args).approval(token.as_str());
        self.accepted = Some(self.gate.check(&call).unwrap());
    }

    fn settle(&mut self) {
        self.accepted = None;
    }

    fn shift(&mut self) {
        self.world.extra_record();
    }
}

/// A call that needs no approval.
#[derive(Debug)]
pub struct FreeCall {
    world: BenchWorld,
    gate: ToolGate,
    args: Vec<u8>,
    accepted: Option<AcceptedCall>,
}

impl FreeCall {
    /// Opens a gate.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self::of(BenchWorld::new(), size)
    }

    /// Opens a gate in this world.
    #[must_use]
    pub fn of(world: BenchWorld, size: usize) -> Self {
        Self { gate: world.gate(), world, args: structured_args(size), accepted: None }
    }

    /// Performs the call once and returns its floor.
    #[must_use]
    pub fn bare(&mut self) -> Bare {
        self.run();
        let bare = Bare::of_latest(&self.world.world).args(&self.args);
        self.settle();
        bare
    }
}

/// The work of a call that is left without its checks: the arguments are read and digested, and the record of the call
/// is written, hashed and kept.
#[derive(Debug)]
pub struct UncheckedCall {
    /// `None` for a call that is refused before its arguments are read.
    args: Option<Vec<u8>>,
    record: Record,
    sink: MemorySink,
}

impl UncheckedCall {
    /// Takes the arguments and the record of a free call that was performed.
    #[must_use]
    pub fn free(call: &FreeCall) -> Self {
        Self::of(&call.world, Some(call.args.clone()))
    }

    /// Takes the record of a refusal.
    #[must_use]
    pub fn refused(call: &UndisclosedCall) -> Self {
        Self::of(&call.world, None)
    }

    /// Takes the record of a free call, and no arguments.
    #[must_use]
    pub fn record(call: &FreeCall) -> Self {
        Self::of(&call.world, None)
    }

    /// As [`record`](Self::record), with as little as the type allows of what all records of a session share: names of one
    /// letter, no goal and no recipe.
    #[must_use]
    pub fn short_record(call: &FreeCall) -> Self {
        let mut record = last_decision(&call.world);
        record.session = SessionId::new("s").unwrap();
        record.agent = AgentId::new("a").unwrap();
        record.principal = Principal::new("p").unwrap();
        (record.ask, record.args_recipe) = (None, None);
        Self::with(None, Record::Decision(record))
    }

    fn of(world: &BenchWorld, args: Option<Vec<u8>>) -> Self {
        Self::with(args, Record::Decision(last_decision(world)))
    }

    fn with(args: Option<Vec<u8>>, record: Record) -> Self {
        let sink = MemorySink::new();
        // A full sink drops a line for each that it takes.
        (0..=KEPT).for_each(|_| drop(sink.record(&record)));
        Self { args, record, sink }
    }
}

fn last_decision(world: &BenchWorld) -> CallRecord {
    let mut records = world.world.sink.latest().into_iter().rev();
    records
        .find_map(|(_, record)| if let Record::Decision(record) = record { Some(record) } else { None })
        .unwrap()
}

impl Operation for UncheckedCall {
    fn run(&mut self) {
        if let Some(args) = &self.args {
            let args = read(black_box(args), Recipe::Jcs1, &Limits::default()).unwrap();
            black_box(args.digest());
        }
        self.sink.record(black_box(&self.record)).unwrap();
    }
}

impl Operation for FreeCall {
    fn run(&mut self) {
        let call = ToolCall::new("call-1", "desk", "search", &self.args);
        self.accepted = Some(self.gate.check(&call).unwrap());
    }

    fn settle(&mut self) {
        self.accepted = None;
    }

    fn shift(&mut self) {
        self.world.extra_record();
    }
}

/// Calls of many open sessions in turn.
#[derive(Debug)]
pub struct ManySessions {
    world: BenchWorld,
    gates: Vec<ToolGate>,
    args: Vec<u8>,
    next: usize,
    accepted: Option<AcceptedCall>,
}

impl ManySessions {
    /// Opens this many sessions.
    #[must_use]
    pub fn new(sessions: usize) -> Self {
        let world = BenchWorld::new();
        let gates = (0..sessions).map(|at| world.gate_of(world.contract_of(at))).collect();
        world.warm();
        Self { world, gates, args: structured_args(26), next: 0, accepted: None }
    }
}

impl Operation for ManySessions {
    fn run(&mut self) {
        // A step without a common factor with any of the sizes: neighbours in memory are not asked one after another.
        self.next = (self.next + 7_919) % self.gates.len();
        let call = ToolCall::new("call-1", "desk", "search", &self.args);
        self.accepted = Some(self.gates[self.next].check(&call).unwrap());
    }

    fn settle(&mut self) {
        self.accepted = None;
    }

    fn shift(&mut self) {
        self.world.extra_record();
    }
}

/// A call of a tool that the session does not disclose.
#[derive(Debug)]
pub struct UndisclosedCall {
    world: BenchWorld,
    gate: ToolGate,
    args: Vec<u8>,
}

impl UndisclosedCall {
    /// Opens a gate.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self::of(BenchWorld::new(), size)
    }

    /// The same in this world.
    #[must_use]
    pub fn of(world: BenchWorld, size: usize) -> Self {
        Self { gate: world.gate(), world, args: structured_args(size) }
    }

    /// Performs the call once and returns its floor: SHA-256 of its record.
    #[must_use]
    pub fn bare(&mut self) -> Bare {
        self.prepare(1);
        self.run();
        Bare::of_latest(&self.world.world).record_alone()
    }
}

impl Operation for UndisclosedCall {
    /// Lets the rate of refusals recover: each of them is recorded.
    fn prepare(&mut self, times: u32) {
        for _ in 0..times.div_ceil(1_000) {
            self.world.tick();
        }
    }

    fn run(&mut self) {
        let refused = self.gate.check(&ToolCall::new("call-1", "desk", "erase", &self.args)).unwrap_err();
        debug_assert_eq!(refused.code(), RejectionCode::UndisclosedTool);
        assert!(refused.sequence().is_some(), "a refusal within the rate has an entry of its own");
    }
}
