//! The decisions of a gate as operations.

use countersign_approval_token::ApprovalToken;
use countersign_core::CallFacts;
use countersign_tool_gate::{AcceptedCall, RejectionCode, ToolCall, ToolGate};

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
