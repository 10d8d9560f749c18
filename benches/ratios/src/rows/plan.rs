use countersign_committed_plan::{Plan, Step};
use countersign_core::ToolId;
use countersign_tool_gate::{AcceptedCall, PlanRootSettings, PlanSettings, ToolCall, ToolGate, commit_plan};

use crate::{BenchWorld, Bound, Operation, Row, Sampling, Unit, interleave, laps, structured_args};

/// Maximum number of calls of each step.
const CALLS: u32 = 1_000;

/// Steps of the plan.
const STEPS: u32 = 16;

/// Size of the arguments.
const SIZE: usize = 256;

/// A call without a plan, the same one as a step of a plan that the gate has, and the same one with a proof at a gate
/// that has the plan's root.
pub(super) fn plan(sampling: Sampling) -> Vec<Row> {
    let mut sides =
        [Kind::Free, Kind::Whole, Kind::Root].map(|kind| PlannedCall::new(kind, BenchWorld::new()));
    let [free, whole, root] = &mut sides;
    let rounds = interleave(
        sampling,
        &mut [&mut |times| laps(free, times), &mut |times| laps(whole, times), &mut |times| {
            laps(root, times)
        }],
    );
    let row = |side: usize, name: &str, goal: f64| {
        let note = format!(
            "{:.0} and {:.0} ns; {CALLS} calls a step, of which the first verifies it",
            rounds.nanos(side).median,
            rounds.nanos(0).median
        );
        let name = format!("plan step, {name}, over the same call without a plan");
        Row::new(name, rounds.difference(side, 0).per(1_000.0), Unit::Micros)
            .goal(Bound::AtMost(goal))
            .note(note)
    };
    vec![row(1, "whole plan", 0.4), row(2, "root only", 1.2)]
}

#[derive(Clone, Copy)]
enum Kind {
    Free,
    Whole,
    Root,
}

/// A call at a gate, which is replaced by a new one after all calls of the plan were made.
pub(crate) struct PlannedCall {
    kind: Kind,
    world: BenchWorld,
    gate: ToolGate,
    args: Vec<u8>,
    proofs: Vec<String>,
    made: u32,
    accepted: Option<AcceptedCall>,
}

impl PlannedCall {
    /// A step of a plan that the gate has whole.
    pub(crate) fn whole() -> Self {
        Self::new(Kind::Whole, BenchWorld::small())
    }

    /// A step of a plan of which the gate has the root.
    pub(crate) fn root() -> Self {
        Self::new(Kind::Root, BenchWorld::small())
    }

    fn new(kind: Kind, world: BenchWorld) -> Self {
        let mut call = Self {
            gate: world.gate(),
            args: structured_args(SIZE),
            kind,
            world,
            proofs: Vec::new(),
            made: 0,
            accepted: None,
        };
        call.start();
        call
    }

    fn plan(&self) -> Plan {
        let step = Step::new(ToolId::new("desk", "search").unwrap(), &self.args, &[]).unwrap();
        let steps = vec![step.calls(CALLS).unwrap(); STEPS as usize];
        Plan::new(self.gate.plan_context().unwrap(), steps).unwrap()
    }

    fn start(&mut self) {
        match self.kind {
            Kind::Free => {}
            Kind::Whole => drop(self.gate.start_plan(PlanSettings::new(self.plan())).unwrap()),
            Kind::Root => {
                let view = self.gate.registry().view();
                let committed = commit_plan(self.plan(), &self.gate.contract(), &view).unwrap();
                self.proofs =
                    (1..=STEPS.into()).map(|step| committed.prove_step(step).unwrap().to_json()).collect();
                let header = committed.header_proof().unwrap();
                self.gate.start_plan_root(PlanRootSettings::new(*committed.root(), header)).unwrap();
            }
        }
    }
}

impl Operation for PlannedCall {
    fn prepare(&mut self, times: u32) {
        if self.made + times > STEPS * CALLS {
            self.gate = self.world.builder().open().unwrap();
            self.made = 0;
            self.start();
        }
    }

    fn run(&mut self) {
        let step = self.made / CALLS;
        let call = ToolCall::new("call-1", "desk", "search", &self.args);
        let call = match self.kind {
            Kind::Free => call,
            Kind::Whole => call.plan_step(u64::from(step) + 1),
            Kind::Root => call.plan_proof(self.proofs[step as usize].as_bytes()),
        };
        self.accepted = Some(self.gate.check(&call).unwrap());
        self.made += 1;
    }

    fn settle(&mut self) {
        self.accepted = None;
    }

    fn shift(&mut self) {
        self.world.extra_record();
    }
}
