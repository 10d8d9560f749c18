use countersign_core::Millis;

use super::case::*;
use super::world::*;
use crate::*;

fn benign() -> Case {
    Case::new(plan(&[READ, MAIL]))
        .turn(read_turn())
        .turn(turn("send_mail", r#"{"to":"ada@customers.example","body":"It arrives on Friday."}"#))
        .returns("Where is my parcel?")
        .returns("sent")
        .answer(Ok("Ada was told.".to_owned()))
}

#[test]
fn text_without_a_plan_token_is_the_answer() {
    let outcome = Case::new("Forty-two.").run();
    assert!(matches!(outcome.end, Ok(RunEnd::Answered(ref text)) if text == "Forty-two."));
    assert_eq!(outcome.events, ["Answered"]);
    assert_eq!(outcome.gate.plan_root(), None);
    assert!(outcome.end.unwrap().trace().is_none());
}

#[test]
fn a_plan_runs_step_by_step_to_a_verified_trace_and_an_answer() {
    let outcome = benign().run();
    let end = outcome.end.unwrap();
    assert_eq!(end.answer(), "Ada was told.");
    let trace = end.trace().unwrap();
    let returned: Vec<_> = trace.steps().iter().map(|step| step.observation().as_slice()).collect();
    assert_eq!(returned, [b"Where is my parcel?".as_slice(), b"sent"]);
    assert_eq!(trace.roots(), [outcome.gate.plan_root().unwrap()]);
    assert_eq!(
        outcome.ran,
        [
            r#"desk:read_ticket {"id":"T-1001"}"#,
            r#"desk:send_mail {"body":"It arrives on Friday.","to":"ada@customers.example"}"#
        ]
    );
    let kinds: Vec<&str> = outcome.events.iter().map(|event| event.split(' ').next().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "Planned",
            "Committed",
            "Inspected",
            "Started",
            "StepVerified",
            "StepRan",
            "StepVerified",
            "StepRan",
            "Verified",
            "Finished"
        ]
    );
}

#[test]
fn events_hold_no_argument_or_tool_result() {
    let all = benign().run().events.join("\n");
    for secret in ["T-1001", "customers.example", "Friday", "parcel", "sent", "Ada", "as planned"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[test]
fn planner_sees_no_result_before_the_plan_is_verified() {
    let outcome = benign().run();
    assert_eq!(outcome.planner_saw.len(), 2, "it is asked for a plan and for an answer, and never between");
    assert!(!outcome.planner_saw[0].contains("parcel"));
    assert_eq!(outcome.planner_saw[1], "trace: Where is my parcel?|sent");
    // If the plan is halted after its first step, it never sees them.
    let halted = Case::new(plan(&[READ, MAIL])).turn(read_turn()).returns("secret").turn("nonsense").run();
    assert_eq!(halted.ran.len(), 1);
    assert_eq!(halted.planner_saw.len(), 1);
    assert!(!halted.planner_saw[0].contains("secret"));
}

#[test]
fn planner_sees_disclosed_tools_alone() {
    let outcome = Case::new("Hello.").run();
    let saw = &outcome.planner_saw[0];
    assert!(saw.contains("Please help.") && saw.contains(GOAL));
    assert!(saw.contains("read_ticket") && saw.contains("/body"));
    assert!(!saw.contains("hidden"));
}

#[test]
fn each_turn_shows_the_earlier_tool_results() {
    let outcome = benign().run();
    assert_eq!(outcome.responder_saw, [vec![], vec!["Where is my parcel?".to_owned()]]);
}

#[test]
fn responder_calls_a_step_one_to_max_calls_times() {
    let many = r#""tool":"note","args":{"text":"<DYNAMIC>"},"max_calls":3"#;
    let note = |text: &str| turn("note", &format!(r#"{{"text":"{text}"}}"#));
    let all = Case::new(plan(&[many, READ]))
        .turn(note("one"))
        .turn(note("two"))
        .turn(note("three"))
        .turn(read_turn())
        .run();
    assert_eq!((all.code(), all.ran.len()), ("", 4), "after the third call it is the next step's turn");
    let fewer =
        Case::new(plan(&[many, READ])).turn(note("one")).turn(turn("<NEXT>", "{}")).turn(read_turn()).run();
    assert_eq!((fewer.code(), fewer.ran.len()), ("", 2));
    let none = Case::new(plan(&[many, READ])).turn(turn("<NEXT>", "{}")).run();
    assert_eq!((none.code(), none.ran.len()), ("TURN_NEXT", 0), "a step has one call at least");
    let once = Case::new(plan(&[READ, READ])).turn(read_turn()).turn(turn("<NEXT>", "{}")).run();
    assert_eq!(
        (once.code(), once.ran.len()),
        ("TURN_NEXT", 1),
        "and a step that was never called is not left"
    );
}

#[test]
fn the_goal_of_a_plan_is_the_pinned_one_however_it_is_formatted() {
    let formatted = plan(&[READ]).replace(GOAL, "  answer\\tTICKET  t-1001 ");
    assert_eq!(Case::new(formatted).turn(read_turn()).run().code(), "");
    let other = Case::new(plan(&[READ]).replace(GOAL, "Delete ticket T-1001")).turn(read_turn()).run();
    assert_eq!((other.code(), other.ran.len()), ("ASK_DRIFT", 0));
    assert_eq!(other.events, [r#"Halted { code: "ASK_DRIFT" }"#]);
    let late =
        Case::new(plan(&[READ])).before(|world| world.clock.advance(Millis::from_secs(1_800)).unwrap()).run();
    assert_eq!(late.code(), "ASK_EXPIRED");
    assert_eq!(Case::new(plan(&[READ])).gate(World::aimless).run().code(), "PLAN_NO_GOAL");
    assert_eq!(
        Case::new(plan(&[READ])).before(|world| world.clock.break_down()).run().code(),
        "CLOCK_UNAVAILABLE"
    );
}

#[test]
fn disallowed_plan_is_refused_before_inspection() {
    for (step, code) in [
        (r#""tool":"desk:hidden","args":{}"#, "PLAN_TOOL_UNDISCLOSED"),
        (r#""tool":"hidden","args":{}"#, "PLAN_TEXT_TOOL_UNKNOWN"),
        (r#""tool":"twin","args":{}"#, "PLAN_TEXT_TOOL_UNKNOWN"),
        (r#""tool":"send_mail","args":{"to":"<DYNAMIC>","body":"hello"}"#, "PLAN_CONTROL_OPEN"),
        (
            r#""tool":"send_mail","args":{"to":"eve@elsewhere.example","body":"<DYNAMIC>"}"#,
            "PLAN_ARGS_SCHEMA",
        ),
        (r#""tool":"read_ticket","args":{}"#, "PLAN_ARGS_SCHEMA"),
        (r#""tool":"read_ticket","args":{"id":"T-1001"},"max_calls":0"#, "PLAN_MAX_CALLS"),
    ] {
        let outcome = Case::new(plan(&[READ, step])).run();
        assert_eq!(outcome.code(), code, "{step}");
        assert_eq!((outcome.gate.plan_root(), outcome.ran.len()), (None, 0));
        assert!(!outcome.events.iter().any(|event| event.starts_with("Inspected")));
    }
}

#[test]
fn tool_of_several_servers_needs_its_full_name() {
    let step = r#""tool":"attic:twin","args":{}"#;
    let outcome = Case::new(plan(&[step])).turn(turn("attic:twin", "{}")).run();
    assert_eq!(outcome.ran, ["attic:twin {}"]);
    assert_eq!(Case::new(plan(&[step])).turn(turn("twin", "{}")).run().code(), "UNDISCLOSED_TOOL");
    assert_eq!(Case::new(plan(&[step])).turn(turn("desk:twin", "{}")).run().code(), "PLAN_STEP_MISMATCH");
}

#[test]
fn a_gate_has_one_plan() {
    let world = World::new();
    let gate = world.gate();
    for code in ["", "PLAN_STARTED"] {
        let runner = PlanRunner::new(gate.clone(), world.clock());
        let mut planner = ModelPlanner::new(Text(plan(&[READ])));
        let mut responder = ModelResponder::new(Text(read_turn()));
        let mut inspector = ModelInspector::new(Text("SAFE".to_owned()));
        let mut tools = Nothing;
        let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
        let end = runner.run(&Task::new(GOAL), actors);
        assert_eq!(end.as_ref().map_or_else(RunError::code, |_| ""), code);
    }
}

struct Text(String);

impl Chat for Text {
    fn complete(&mut self, _messages: &[ChatMessage]) -> Result<String, ModelError> {
        Ok(self.0.clone())
    }
}

struct Nothing;

impl Tools for Nothing {
    fn run(
        &mut self,
        _tool: &countersign_core::ToolId,
        _args: &countersign_canonical_json::Canonical,
    ) -> Result<Vec<u8>, ToolError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_run_without_a_model_a_tool_or_room_ends() {
    assert_eq!(Case::new("").planner_fails().run().code(), "MODEL_DOWN");
    let silent = Case::new(plan(&[READ])).run();
    assert_eq!((silent.code(), silent.ran.len()), ("MODEL_SILENT", 0));
    let mute = Case::new(plan(&[READ])).turn(read_turn()).answer(Err("MODEL_DOWN")).run();
    assert_eq!(mute.code(), "MODEL_DOWN");
    let broken = Case::new(plan(&[READ, READ])).turn(read_turn()).tool_fails().turn(read_turn()).run();
    assert_eq!((broken.code(), broken.ran.len()), ("TOOL_FAILED", 1));
    assert_eq!(broken.gate.finish_plan().unwrap_err().code(), "PLAN_HALTED");
}

#[test]
fn each_limit_lets_its_value_pass_and_no_more() {
    let two =
        || Case::new(plan(&[READ, READ])).turn(read_turn()).turn(read_turn()).returns("12345").returns("678");
    let limits = RunLimits::default();
    assert_eq!(two().limits(RunLimits { turns: 2, ..limits }).run().code(), "");
    let tired = two().limits(RunLimits { turns: 1, ..limits }).run();
    assert_eq!((tired.code(), tired.ran.len()), ("RUN_TURNS_LIMIT", 1));
    assert_eq!(two().limits(RunLimits { observation_bytes: 8, ..limits }).run().code(), "");
    let full = two().limits(RunLimits { observation_bytes: 7, ..limits }).run();
    assert_eq!((full.code(), full.planner_saw.len()), ("RUN_OBSERVATION_LIMIT", 1));
    assert_eq!(two().limits(RunLimits { steps: 2, ..limits }).run().code(), "");
    assert_eq!(two().limits(RunLimits { steps: 1, ..limits }).run().code(), "PLAN_TEXT_STEPS");
    let bytes = plan(&[READ, READ]).len();
    let long = |length: usize| {
        two().answer(Ok("x".repeat(length))).limits(RunLimits { text_bytes: bytes, ..limits }).run()
    };
    assert_eq!((long(bytes).code(), long(bytes + 1).code()), ("", "MODEL_TEXT_TOO_LARGE"));
    assert_eq!(
        two().limits(RunLimits { text_bytes: bytes - 1, ..limits }).run().code(),
        "MODEL_TEXT_TOO_LARGE"
    );
}

#[test]
fn unrecorded_step_outcome_leads_to_no_trace() {
    // The records are session, plan's start, its outcome and the step's decision; the step's outcome is lost.
    let outcome = Case::new(plan(&[READ])).turn(read_turn()).gate(|world| world.gate_that_records(4)).run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("PLAN_OUTCOME_MISSING", 1));
    assert_eq!(outcome.planner_saw.len(), 1, "the planner is not asked for an answer");
}

#[test]
fn run_dropped_during_a_tool_call_halts_its_plan() {
    struct Never;
    impl AsyncTools for Never {
        fn run<'a>(
            &'a mut self,
            _tool: &'a countersign_core::ToolId,
            _args: &'a countersign_canonical_json::Canonical,
        ) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
            Box::pin(std::future::pending())
        }
    }
    struct Ready(String);
    impl AsyncPlanner for Ready {
        fn plan<'a>(
            &'a mut self,
            _request: &'a PlanRequest<'a>,
        ) -> BoxFuture<'a, Result<String, ModelError>> {
            Box::pin(std::future::ready(Ok(plan(&[READ]))))
        }
        fn answer<'a>(
            &'a mut self,
            _request: &'a AnswerRequest<'a>,
        ) -> BoxFuture<'a, Result<String, ModelError>> {
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }
    impl AsyncResponder for Ready {
        fn turn<'a>(
            &'a mut self,
            _request: &'a TurnRequest<'a>,
        ) -> BoxFuture<'a, Result<String, ModelError>> {
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }
    let world = World::new();
    let gate = world.gate();
    let runner = PlanRunner::new(gate.clone(), world.clock());
    let registry = world.registry.view();
    let mut rules = FlowRules::builder().forbid(tool("wipe")).build(registry.snapshot()).unwrap();
    let (mut planner, mut responder, mut tools) = (Ready(String::new()), Ready(read_turn()), Never);
    let task = Task::new(GOAL);
    let mut run = Box::pin(
        runner.run_async(&task, AsyncActors::new(&mut planner, vec![&mut rules], &mut responder, &mut tools)),
    );
    let polled = block_on(std::future::poll_fn(|context| {
        std::task::Poll::Ready(run.as_mut().poll(context).is_pending())
    }));
    assert!(polled, "the tool is waited for");
    drop(run);
    assert_eq!(gate.finish_plan().unwrap_err().code(), "PLAN_HALTED");
    let log = gate.call_log();
    assert_eq!(log.last().unwrap().reason.as_ref().unwrap().as_str(), "RUN_DROPPED");
}
