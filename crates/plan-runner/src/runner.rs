use std::fmt;
use std::sync::Arc;

use countersign_committed_plan::VerifiedTrace;
use countersign_core::{Clock, ToolId};
use countersign_tool_gate::{AcceptedCall, CallError, ToolGate};

use crate::approver::{Approval, Approver};
use crate::error::RunError;
use crate::event::RunEvent;
use crate::inspect::Inspector;
use crate::limits::RunLimits;
use crate::model::{ModelError, Planner, Responder};
use crate::stage::{Asked, Planned, RunContext, Turned};
use crate::started::PlanWatch;
use crate::task::Task;
use crate::tools::{ToolError, Tools};

/// Runs plans through a gate: it owns the control flow, and models and tools only answer.
///
/// A gate has one plan. The number of prompts that are answered without a plan is not limited. The [crate](crate)'s documentation
/// shows a whole run.
#[derive(Clone, Debug)]
pub struct PlanRunner {
    gate: ToolGate,
    clock: Arc<dyn Clock>,
    limits: RunLimits,
}

/// The end of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEnd {
    /// The planner answered without a plan; no call was made.
    Answered(String),
    /// Every step has run and the plan was verified.
    Finished {
        /// The planner's final answer, written from the trace. It is untrusted text.
        answer: String,
        /// The calls that ran.
        trace: VerifiedTrace<Vec<u8>>,
    },
}

impl RunEnd {
    /// The answer to the prompt.
    #[must_use]
    pub fn answer(&self) -> &str {
        match self {
            Self::Answered(answer) | Self::Finished { answer, .. } => answer,
        }
    }

    /// The calls that ran, if there was a plan.
    #[must_use]
    pub const fn trace(&self) -> Option<&VerifiedTrace<Vec<u8>>> {
        match self {
            Self::Answered(_) => None,
            Self::Finished { trace, .. } => Some(trace),
        }
    }
}

/// The participants of a run: the models, the inspectors, the tools, and optionally an approver and an observer.
#[must_use]
pub struct Actors<'a> {
    planner: &'a mut dyn Planner,
    inspectors: Vec<&'a mut dyn Inspector>,
    responder: &'a mut dyn Responder,
    tools: &'a mut dyn Tools,
    approver: Option<&'a mut dyn Approver>,
    observer: Option<&'a mut dyn FnMut(&RunEvent<'_>)>,
}

impl<'a> Actors<'a> {
    /// Creates a set of the required participants. Without an inspector, every plan is refused (`PLAN_UNINSPECTED`).
    pub fn new(
        planner: &'a mut dyn Planner,
        inspectors: Vec<&'a mut dyn Inspector>,
        responder: &'a mut dyn Responder,
        tools: &'a mut dyn Tools,
    ) -> Self {
        Self { planner, inspectors, responder, tools, approver: None, observer: None }
    }

    /// Sets the approver, for a gate that accepts approvals. Without one, a plan or call that needs an approval is refused.
    pub fn approver(mut self, approver: &'a mut dyn Approver) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets the observer, which receives each event as it happens.
    pub fn observer(mut self, observer: &'a mut dyn FnMut(&RunEvent<'_>)) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl fmt::Debug for Actors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actors").field("inspectors", &self.inspectors.len()).finish_non_exhaustive()
    }
}

impl PlanRunner {
    /// Creates a runner with the gate that decides every call, and the clock of the runner's own checks.
    #[must_use]
    pub fn new(gate: ToolGate, clock: Arc<dyn Clock>) -> Self {
        Self { gate, clock, limits: RunLimits::default() }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: RunLimits) -> Self {
        Self { limits, ..self }
    }

    /// The gate.
    #[must_use]
    pub const fn gate(&self) -> &ToolGate {
        &self.gate
    }

    /// Runs a task to its end.
    ///
    /// # Errors
    /// [`RunError`] with the code of the first failure; no call is made after it. A plan that was started is halted
    /// ([`ToolGate::halt_plan`]) before this returns.
    pub fn run(&self, task: &Task<'_>, actors: Actors<'_>) -> Result<RunEnd, RunError> {
        let mut actors = actors;
        let mut observer = actors.observer.take();
        let mut tell = |event: &RunEvent<'_>| {
            if let Some(observer) = observer.as_mut() {
                observer(event);
            }
        };
        let mut watch = PlanWatch::new(&self.gate);
        let end = Self::drive(self.context(task), actors, &mut watch, &mut tell);
        end.inspect_err(|error| halted(watch, error, &mut tell))
    }

    fn drive<'r>(
        context: RunContext<'r>,
        actors: Actors<'_>,
        watch: &mut PlanWatch<'r>,
        tell: &mut impl FnMut(&RunEvent<'_>),
    ) -> Result<RunEnd, RunError> {
        let Actors { planner, inspectors, responder, tools, mut approver, .. } = actors;
        let asked = Asked::new(context);
        let text = planner.plan(&asked.request()).map_err(planner_failed)?;
        let mut proposed = match asked.planned(text, tell)? {
            Planned::Answer(answer) => return Ok(RunEnd::Answered(answer)),
            Planned::Plan(proposed) => proposed,
        };
        for inspector in inspectors {
            let word = inspector.inspect(&proposed.inspection());
            proposed = proposed.inspected(inspector.name(), word, tell)?;
        }
        let token = match approver.as_mut() {
            Some(approver) => {
                let asked = proposed.approval_request()?;
                let answer = approver.approve_plan(&asked);
                proposed.answered(&asked, answer)?
            }
            None => None,
        };
        let mut running = proposed.start(token, watch, tell)?;
        while let Some(request) = running.next()? {
            let text = responder.turn(&request).map_err(responder_failed)?;
            let call = match running.turn(&text, tell)? {
                Turned::Next => continue,
                Turned::Accepted(call) => *call,
                Turned::Waiting(waiting) => {
                    let approval = match approver.as_mut() {
                        Some(approver) => approver.approve_call(waiting.request()),
                        None => Approval::Abstain,
                    };
                    running.approved(*waiting, &approval, tell)?
                }
            };
            let (tool, returned) = dispatch(call, tools);
            running.ran(tool, returned, tell)?;
        }
        let finished = running.finish(tell)?;
        let answer = planner.answer(&finished.request()).map_err(planner_failed)?;
        let (answer, trace) = finished.answered(answer, tell)?;
        Ok(RunEnd::Finished { answer, trace })
    }

    pub(crate) fn context<'r>(&'r self, task: &Task<'r>) -> RunContext<'r> {
        RunContext { gate: &self.gate, clock: &*self.clock, limits: &self.limits, task: *task }
    }
}

/// Halts the plan of a failed run, and reports it.
pub(crate) fn halted(watch: PlanWatch<'_>, error: &RunError, tell: &mut impl FnMut(&RunEvent<'_>)) {
    // A halt is effective even if it cannot be recorded.
    let _unrecorded = watch.fail(error.code());
    tell(&RunEvent::Halted { code: error.code() });
}

/// Runs the tool of an accepted call. Its result goes into the gate's trace and to the responder.
fn dispatch(call: AcceptedCall, tools: &mut dyn Tools) -> (ToolId, Result<Vec<u8>, CallError<ToolError>>) {
    let tool = call.tool().clone();
    let mut seen = Vec::new();
    let ran = call.run_step(|args| {
        let returned = tools.run(&tool, args)?;
        seen.clone_from(&returned);
        Ok(returned)
    });
    (tool, ran.map(|()| seen))
}

pub(crate) const fn planner_failed(source: ModelError) -> RunError {
    RunError::Model { role: "planner", source }
}

pub(crate) const fn responder_failed(source: ModelError) -> RunError {
    RunError::Model { role: "responder", source }
}
