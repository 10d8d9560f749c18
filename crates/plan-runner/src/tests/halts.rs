//! The remains of a plan whose run ended early: no clone of the gate can continue it.

use countersign_canonical_json::Canonical;
use countersign_core::ToolId;
use countersign_tool_gate::{RejectionCode, ToolCall, ToolGate};

use super::case::*;
use super::world::*;
use crate::*;

/// The gate's codes for calls by hand, of the step that was next and of the one after it.
fn by_hand(gate: &ToolGate) -> [Option<RejectionCode>; 2] {
    let mail = br#"{"to":"ada@customers.example","body":"by hand"}"#;
    let calls = [
        ToolCall::new("by-hand-1", "desk", "read_ticket", br#"{"id":"T-1001"}"#),
        ToolCall::new("by-hand-2", "desk", "send_mail", mail),
    ];
    calls.map(|call| gate.check(&call.ask(GOAL)).err().map(|no| no.code()))
}

/// The recorded reasons of the halts.
fn halts(gate: &ToolGate) -> Vec<String> {
    let log = gate.call_log();
    let halts = log.iter().filter(|record| record.tool.name.as_str() == "halt_plan");
    halts.map(|record| record.reason.as_ref().unwrap().as_str().to_owned()).collect()
}

const HALTED: [Option<RejectionCode>; 2] = [Some(RejectionCode::PlanHalted); 2];

const FINISHED: [Option<RejectionCode>; 2] = [Some(RejectionCode::PlanExhausted); 2];

#[test]
fn failed_run_halts_its_plan_with_the_failure_code() {
    let three = || Case::new(plan(&[READ, READ, MAIL]));
    let limits = RunLimits::default();
    let cases = [
        (three(), "MODEL_SILENT"),
        (three().turn(read_turn()), "MODEL_SILENT"),
        (three().turn("no turn"), "TURN_THOUGHT"),
        (three().turn(turn("desk:hidden", "{}")), "UNDISCLOSED_TOOL"),
        (three().turn(turn("desk:read_ticket", "{}")), "ARGS_SCHEMA"),
        (three().turn(read_turn()).tool_fails(), "TOOL_FAILED"),
        (three().turn(read_turn()).limits(RunLimits { turns: 1, ..limits }), "RUN_TURNS_LIMIT"),
        (
            three().turn(read_turn()).limits(RunLimits { observation_bytes: 1, ..limits }),
            "RUN_OBSERVATION_LIMIT",
        ),
    ];
    for (case, code) in cases {
        let outcome = case.run();
        assert_eq!(outcome.code(), code);
        assert_eq!(by_hand(&outcome.gate), HALTED, "{code}");
        assert_eq!(outcome.gate.finish_plan().unwrap_err().code(), "PLAN_HALTED");
        assert_eq!(halts(&outcome.gate), [code]);
    }
}

#[test]
fn a_call_that_the_approver_denies_halts_the_plan() {
    const WIPE: &str = r#""tool":"wipe","args":{}"#;
    let outcome = Case::new(plan(&[WIPE, READ, MAIL]))
        .turn(turn("wipe", "{}"))
        .approver(|request| match request.binding().tool.name().as_str() {
            "wipe" => Approval::Deny,
            _ => Approval::Abstain,
        })
        .run();
    assert_eq!(outcome.code(), "APPROVAL_DENIED");
    assert_eq!(by_hand(&outcome.gate), HALTED);
    assert_eq!(halts(&outcome.gate), ["APPROVAL_DENIED"]);
}

#[test]
fn a_breach_of_the_plan_halts_it_by_itself() {
    let outcome = Case::new(plan(&[READ, MAIL])).turn(turn("desk:read_ticket", r#"{"id":"T-9"}"#)).run();
    assert_eq!(outcome.code(), "PLAN_STEP_MISMATCH");
    assert_eq!(by_hand(&outcome.gate), HALTED);
    assert!(halts(&outcome.gate).is_empty(), "the breach is on record as the refusal of its call");
}

#[test]
fn a_run_that_comes_to_its_plans_end_halts_nothing() {
    for answer in [Ok("done".to_owned()), Err("MODEL_DOWN")] {
        let outcome = Case::new(plan(&[READ])).turn(read_turn()).answer(answer).run();
        assert!(halts(&outcome.gate).is_empty());
        assert_eq!(by_hand(&outcome.gate), FINISHED, "the plan is finished");
    }
}

#[test]
fn a_run_that_started_no_plan_halts_none() {
    let world = World::new();
    let gate = world.gate();
    let mut planner = ModelPlanner::new(Says(plan(&[READ, MAIL])));
    let mut responder = ModelResponder::new(Says(read_turn()));
    let mut inspector = ModelInspector::new(Says("SAFE".to_owned()));
    // The gate runs another run's plan, before its first step.
    let mut tools = Nested { gate: gate.clone(), world: &world, ran: 0 };
    let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
    let error = PlanRunner::new(gate.clone(), world.clock()).run(&Task::new(GOAL), actors).unwrap_err();
    assert_eq!(error.code(), "PLAN_STEP_MISMATCH", "the outer run went on to its second step");
    assert_eq!(tools.ran, 1);
    assert!(halts(&gate).is_empty());
}

/// Runs another plan at the same gate during the first.
struct Nested<'w> {
    gate: ToolGate,
    world: &'w World,
    ran: u32,
}

impl Tools for Nested<'_> {
    fn run(&mut self, _tool: &ToolId, _args: &Canonical) -> Result<Vec<u8>, ToolError> {
        self.ran += 1;
        let mut planner = ModelPlanner::new(Says(plan(&[READ])));
        let mut responder = ModelResponder::new(Says(read_turn()));
        let mut inspector = ModelInspector::new(Says("SAFE".to_owned()));
        let mut tools = Never;
        let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
        let error = PlanRunner::new(self.gate.clone(), self.world.clock()).run(&Task::new(GOAL), actors);
        assert_eq!(error.unwrap_err().code(), "PLAN_STARTED");
        Ok(Vec::new())
    }
}

struct Never;

impl Tools for Never {
    fn run(&mut self, _tool: &ToolId, _args: &Canonical) -> Result<Vec<u8>, ToolError> {
        panic!("injected");
    }
}

struct Says(String);

impl Chat for Says {
    fn complete(&mut self, _messages: &[ChatMessage]) -> Result<String, ModelError> {
        assert_ne!(self.0, "panic", "injected");
        Ok(self.0.clone())
    }
}

#[test]
fn panic_in_an_actor_halts_the_plan() {
    for (at, observer_panics) in
        [("tool", ""), ("panic", ""), ("observer", "Started"), ("observer", "StepVerified")]
    {
        let world = World::new();
        let gate = world.gate();
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut planner = ModelPlanner::new(Says(plan(&[READ, MAIL])));
            let mut responder =
                ModelResponder::new(Says(if at == "panic" { at.into() } else { read_turn() }));
            let mut inspector = ModelInspector::new(Says("SAFE".to_owned()));
            let mut tools = Never;
            let mut observer = |event: &RunEvent<'_>| {
                let told = format!("{event:?}");
                assert!(observer_panics.is_empty() || !told.starts_with(observer_panics), "injected");
            };
            let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
            PlanRunner::new(gate.clone(), world.clock()).run(&Task::new(GOAL), actors.observer(&mut observer))
        }));
        assert!(ran.is_err(), "{at}");
        assert_eq!(by_hand(&gate), HALTED, "{at} {observer_panics}");
        assert_eq!(halts(&gate), ["RUN_DROPPED"]);
    }
}
