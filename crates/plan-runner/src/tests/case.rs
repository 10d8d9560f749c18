//! One scripted run through both drivers: each assertion of a test holds for both.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use countersign_canonical_json::Canonical;
use countersign_core::ToolId;
use countersign_tool_gate::{ApprovalRequest, ToolGate};

use super::world::*;
use crate::*;

/// Findings after a run has ended.
pub(super) struct Outcome {
    pub(super) end: Result<RunEnd, RunError>,
    pub(super) events: Vec<String>,
    /// The calls that reached a tool.
    pub(super) ran: Vec<String>,
    /// The planner's inputs, in order.
    pub(super) planner_saw: Vec<String>,
    /// The earlier results in each turn's request.
    pub(super) responder_saw: Vec<Vec<String>>,
    pub(super) approver_saw: Vec<String>,
    pub(super) gate: ToolGate,
}

impl Outcome {
    pub(super) fn code(&self) -> &'static str {
        self.end.as_ref().map_or_else(RunError::code, |_| "")
    }
}

/// A scripted run.
#[derive(Clone)]
pub(super) struct Case {
    plan: Result<String, &'static str>,
    answer: Result<String, &'static str>,
    turns: VecDeque<String>,
    returns: VecDeque<Result<String, &'static str>>,
    words: Vec<Result<(), Halt>>,
    approvals: Option<fn(&ApprovalRequest) -> Approval>,
    goal: &'static str,
    limits: RunLimits,
    gate: fn(&World) -> ToolGate,
    before: fn(&World),
}

impl Case {
    pub(super) fn new(plan: impl Into<String>) -> Self {
        Self {
            plan: Ok(plan.into()),
            answer: Ok("done".to_owned()),
            turns: VecDeque::new(),
            returns: VecDeque::new(),
            words: vec![Ok(())],
            approvals: None,
            goal: GOAL,
            limits: RunLimits::default(),
            gate: World::gate,
            before: |_| {},
        }
    }

    pub(super) fn turn(mut self, turn: impl Into<String>) -> Self {
        self.turns.push_back(turn.into());
        self
    }

    pub(super) fn returns(mut self, bytes: &str) -> Self {
        self.returns.push_back(Ok(bytes.to_owned()));
        self
    }

    pub(super) fn tool_fails(mut self) -> Self {
        self.returns.push_back(Err("the disk is full"));
        self
    }

    pub(super) fn planner_fails(mut self) -> Self {
        self.plan = Err("MODEL_DOWN");
        self
    }

    pub(super) fn answer(mut self, answer: Result<String, &'static str>) -> Self {
        self.answer = answer;
        self
    }

    pub(super) fn inspectors(mut self, words: Vec<Result<(), Halt>>) -> Self {
        self.words = words;
        self
    }

    pub(super) fn approver(mut self, approver: fn(&ApprovalRequest) -> Approval) -> Self {
        self.approvals = Some(approver);
        self
    }

    pub(super) fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(super) fn gate(mut self, gate: fn(&World) -> ToolGate) -> Self {
        self.gate = gate;
        self
    }

    /// Changes the world between the opening of the gate and the run.
    pub(super) fn before(mut self, before: fn(&World)) -> Self {
        self.before = before;
        self
    }

    /// Runs the case through both drivers, whose outcomes must be equal.
    pub(super) fn run(self) -> Outcome {
        let waited =
            self.clone().drive(|runner, task, cast, events| block_on(run_async(runner, task, cast, events)));
        let outcome = self.drive(run_sync);
        assert_eq!(outcome.events, waited.events);
        assert_eq!(outcome.ran, waited.ran);
        assert_eq!(outcome.code(), waited.code());
        assert_eq!(outcome.planner_saw, waited.planner_saw);
        assert_eq!(outcome.responder_saw, waited.responder_saw);
        assert_eq!(outcome.approver_saw, waited.approver_saw);
        outcome
    }

    fn drive(
        self,
        run: fn(&PlanRunner, &Task<'_>, &mut Cast, &mut Vec<String>) -> Result<RunEnd, RunError>,
    ) -> Outcome {
        let world = World::new();
        let gate = (self.gate)(&world);
        (self.before)(&world);
        let runner = PlanRunner::new(gate.clone(), world.clock()).limits(self.limits);
        let mut cast = Cast {
            planner: Plans { plan: self.plan, answer: self.answer, saw: Vec::new() },
            inspectors: self.words.into_iter().map(Word).collect(),
            responder: Turns { turns: self.turns, saw: Vec::new() },
            tools: Recorder { returns: self.returns, ran: Vec::new() },
            approver: self.approvals.map(|says| Says { says, saw: Vec::new() }),
        };
        let mut events = Vec::new();
        let end = run(&runner, &Task::new("Please help.").goal(self.goal), &mut cast, &mut events);
        Outcome {
            end,
            events,
            ran: cast.tools.ran,
            planner_saw: cast.planner.saw,
            responder_saw: cast.responder.saw,
            approver_saw: cast.approver.map(|says| says.saw).unwrap_or_default(),
            gate,
        }
    }
}

/// All participants of a run.
struct Cast {
    planner: Plans,
    inspectors: Vec<Word>,
    responder: Turns,
    tools: Recorder,
    approver: Option<Says>,
}

fn run_sync(
    runner: &PlanRunner,
    task: &Task<'_>,
    cast: &mut Cast,
    events: &mut Vec<String>,
) -> Result<RunEnd, RunError> {
    let inspectors = cast.inspectors.iter_mut().map(|word| word as &mut dyn Inspector).collect();
    let mut observer = |event: &RunEvent<'_>| events.push(format!("{event:?}"));
    let actors = Actors::new(&mut cast.planner, inspectors, &mut cast.responder, &mut cast.tools);
    let actors = actors.observer(&mut observer);
    match &mut cast.approver {
        Some(approver) => runner.run(task, actors.approver(approver)),
        None => runner.run(task, actors),
    }
}

/// The return type requires a `Send` future.
fn run_async<'a>(
    runner: &'a PlanRunner,
    task: &'a Task<'a>,
    cast: &'a mut Cast,
    events: &'a mut Vec<String>,
) -> Pin<Box<dyn Future<Output = Result<RunEnd, RunError>> + Send + 'a>> {
    Box::pin(async move {
        let inspectors = cast.inspectors.iter_mut().map(|word| word as &mut dyn AsyncInspector).collect();
        let mut observer = |event: &RunEvent<'_>| events.push(format!("{event:?}"));
        let actors = AsyncActors::new(&mut cast.planner, inspectors, &mut cast.responder, &mut cast.tools);
        let actors = actors.observer(&mut observer);
        match &mut cast.approver {
            Some(approver) => runner.run_async(task, actors.approver(approver)).await,
            None => runner.run_async(task, actors).await,
        }
    })
}

/// Polls on this thread until the future is done.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Is pending once, like a real asynchronous operation.
fn later<'a, T: Send + Unpin + 'a>(value: T) -> BoxFuture<'a, T> {
    let mut value = Some(value);
    let mut polled = false;
    Box::pin(std::future::poll_fn(move |context| {
        if polled {
            return Poll::Ready(value.take().unwrap());
        }
        polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }))
}

struct Plans {
    plan: Result<String, &'static str>,
    answer: Result<String, &'static str>,
    saw: Vec<String>,
}

fn failed(code: &'static str) -> ModelError {
    ModelError::new(code, "scripted")
}

impl Planner for Plans {
    fn plan(&mut self, request: &PlanRequest<'_>) -> Result<String, ModelError> {
        let task = request.task();
        self.saw.push(format!("{} {} {:?}", task.prompt(), task.stated_goal(), request.tools()));
        self.plan.clone().map_err(failed)
    }

    fn answer(&mut self, request: &AnswerRequest<'_>) -> Result<String, ModelError> {
        let returned = request.trace().steps().iter().map(|step| String::from_utf8_lossy(step.observation()));
        self.saw.push(format!("trace: {}", returned.collect::<Vec<_>>().join("|")));
        self.answer.clone().map_err(failed)
    }
}

impl AsyncPlanner for Plans {
    fn plan<'a>(&'a mut self, request: &'a PlanRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>> {
        later(Planner::plan(self, request))
    }

    fn answer<'a>(&'a mut self, request: &'a AnswerRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>> {
        later(Planner::answer(self, request))
    }
}

struct Word(Result<(), Halt>);

impl Inspector for Word {
    fn name(&self) -> &str {
        "scripted"
    }

    fn inspect(&mut self, _plan: &Inspection<'_>) -> Result<(), Halt> {
        self.0.clone()
    }
}

impl AsyncInspector for Word {
    fn name(&self) -> &str {
        "scripted"
    }

    fn inspect<'a>(&'a mut self, _plan: &'a Inspection<'a>) -> BoxFuture<'a, Result<(), Halt>> {
        later(self.0.clone())
    }
}

struct Turns {
    turns: VecDeque<String>,
    saw: Vec<Vec<String>>,
}

impl Responder for Turns {
    fn turn(&mut self, request: &TurnRequest<'_>) -> Result<String, ModelError> {
        let seen = request.observations().iter();
        self.saw.push(seen.map(|seen| String::from_utf8_lossy(seen.bytes()).into_owned()).collect());
        self.turns.pop_front().ok_or_else(|| failed("MODEL_SILENT"))
    }
}

impl AsyncResponder for Turns {
    fn turn<'a>(&'a mut self, request: &'a TurnRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>> {
        later(Responder::turn(self, request))
    }
}

struct Recorder {
    returns: VecDeque<Result<String, &'static str>>,
    ran: Vec<String>,
}

impl Tools for Recorder {
    fn run(&mut self, tool: &ToolId, args: &Canonical) -> Result<Vec<u8>, ToolError> {
        self.ran.push(format!("{tool} {}", args.as_str()));
        let returned = self.returns.pop_front().unwrap_or_else(|| Ok(format!("result {}", self.ran.len())));
        returned.map(String::into_bytes).map_err(ToolError::new)
    }
}

impl AsyncTools for Recorder {
    fn run<'a>(
        &'a mut self,
        tool: &'a ToolId,
        args: &'a Canonical,
    ) -> BoxFuture<'a, Result<Vec<u8>, ToolError>> {
        later(Tools::run(self, tool, args))
    }
}

/// An approver with the same decision for plans and calls.
struct Says {
    says: fn(&ApprovalRequest) -> Approval,
    saw: Vec<String>,
}

impl Approver for Says {
    fn approve_plan(&mut self, request: &ApprovalRequest) -> Approval {
        self.saw.push(request.binding().tool.to_string());
        (self.says)(request)
    }

    fn approve_call(&mut self, request: &ApprovalRequest) -> Approval {
        self.saw.push(request.binding().tool.to_string());
        (self.says)(request)
    }
}

impl AsyncApprover for Says {
    fn approve_plan<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        later(Approver::approve_plan(self, request))
    }

    fn approve_call<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        later(Approver::approve_call(self, request))
    }
}

/// A planner's text with these steps, for the pinned goal.
pub(super) fn plan(steps: &[&str]) -> String {
    let numbered =
        steps.iter().zip(1..).map(|(step, id)| format!(r#"{{"id":{id},"description":"step {id}",{step}}}"#));
    let steps = numbered.collect::<Vec<_>>().join(",");
    format!(r#"<planthenexecute>{{"goal":"{GOAL}","steps":[{steps}]}}</planthenexecute>"#)
}

pub(super) const READ: &str = r#""tool":"desk:read_ticket","args":{"id":"T-1001"}"#;
pub(super) const MAIL: &str =
    r#""tool":"send_mail","args":{"to":"ada@customers.example","body":"<DYNAMIC>"}"#;

pub(super) fn turn(action: &str, args: &str) -> String {
    format!("Thought: as planned\nAction: {action}\nArgs: {args}")
}

pub(super) fn read_turn() -> String {
    turn("desk:read_ticket", r#"{"id":"T-1001"}"#)
}
