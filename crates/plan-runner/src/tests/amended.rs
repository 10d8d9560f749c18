//! A person amends the gate's plan while a runner executes the previous one.

use countersign_canonical_json::Canonical;
use countersign_committed_plan::{Plan, Step};
use countersign_core::ToolId;
use countersign_tool_gate::{PlanSettings, ToolCall, ToolGate};

use super::case::*;
use super::world::*;
use crate::*;

/// Its first call amends the plan.
struct Amending {
    gate: ToolGate,
    ran: u32,
}

impl Tools for Amending {
    fn run(&mut self, _tool: &ToolId, _args: &Canonical) -> Result<Vec<u8>, ToolError> {
        self.ran += 1;
        let step = Step::new(tool("read_ticket"), br#"{"id":"T-1002"}"#, &[]).unwrap();
        let plan = Plan::new(self.gate.plan_context().unwrap(), vec![step]).unwrap();
        let plan = plan.amending(self.gate.plan_root().unwrap(), 1);
        let token = token(&self.gate.plan_approval_request(&plan).unwrap(), 7);
        self.gate.amend_plan(PlanSettings::new(plan).approval(&token)).unwrap();
        Ok(Vec::new())
    }
}

struct Says(String);

impl Chat for Says {
    fn complete(&mut self, _messages: &[ChatMessage]) -> Result<String, ModelError> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_runner_whose_plan_was_amended_under_it_stops() {
    let world = World::new();
    let gate = world.gate();
    let mut planner = ModelPlanner::new(Says(plan(&[READ, READ])));
    let mut inspector = ModelInspector::new(Says("SAFE".to_owned()));
    let mut responder = ModelResponder::new(Says(read_turn()));
    let mut tools = Amending { gate: gate.clone(), ran: 0 };
    let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
    let error = PlanRunner::new(gate.clone(), world.clock()).run(&Task::new(GOAL), actors).unwrap_err();
    assert_eq!((error.code(), error.step(), tools.ran), ("RUN_PLAN_CHANGED", Some(2), 1));
    // The run must not halt the amendment: it has its own approval.
    let call = ToolCall::new("by-hand", "desk", "read_ticket", br#"{"id":"T-1002"}"#);
    assert!(gate.check(&call).is_ok());
}
