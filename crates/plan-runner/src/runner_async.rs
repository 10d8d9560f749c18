use countersign_core::ToolId;
use countersign_tool_gate::{AcceptedCall, CallError};

use crate::approver::Approval;
use crate::async_actors::{AsyncActors, AsyncTools};
use crate::error::RunError;
use crate::event::RunEvent;
use crate::runner::{PlanRunner, RunEnd, halted, planner_failed, responder_failed};
use crate::stage::{Asked, Planned, RunContext, Turned};
use crate::started::PlanWatch;
use crate::task::Task;
use crate::tools::ToolError;

impl PlanRunner {
    /// Runs a task to its end, like [`run`](Self::run), with asynchronous models and tools. It needs no particular
    /// runtime, and its future is `Send`. The gate itself is synchronous: it decides and records on the polling thread.
    ///
    /// If the future is dropped early, the run stops there and its plan is halted; a call in flight is recorded with an unknown
    /// outcome.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_async(&self, task: &Task<'_>, actors: AsyncActors<'_>) -> Result<RunEnd, RunError> {
        let mut actors = actors;
        let mut observer = actors.observer.take();
        let mut tell = |event: &RunEvent<'_>| {
            if let Some(observer) = observer.as_mut() {
                observer(event);
            }
        };
        let mut watch = PlanWatch::new(self.gate());
        let end = Self::drive_async(self.context(task), actors, &mut watch, &mut tell).await;
        end.inspect_err(|error| halted(watch, error, &mut tell))
    }

    async fn drive_async<'r>(
        context: RunContext<'r>,
        actors: AsyncActors<'_>,
        watch: &mut PlanWatch<'r>,
        tell: &mut (impl FnMut(&RunEvent<'_>) + Send),
    ) -> Result<RunEnd, RunError> {
        let AsyncActors { planner, inspectors, responder, tools, mut approver, .. } = actors;
        let asked = Asked::new(context);
        let text = planner.plan(&asked.request()).await.map_err(planner_failed)?;
        let mut proposed = match asked.planned(text, tell)? {
            Planned::Answer(answer) => return Ok(RunEnd::Answered(answer)),
            Planned::Plan(proposed) => proposed,
        };
        for inspector in inspectors {
            let word = inspector.inspect(&proposed.inspection()).await;
            proposed = proposed.inspected(inspector.name(), word, tell)?;
        }
        let token = match approver.as_mut() {
            Some(approver) => {
                let asked = proposed.approval_request()?;
                let answer = approver.approve_plan(&asked).await;
                proposed.answered(&asked, answer)?
            }
            None => None,
        };
        let mut running = proposed.start(token, watch, tell)?;
        while let Some(request) = running.next()? {
            let text = responder.turn(&request).await.map_err(responder_failed)?;
            let call = match running.turn(&text, tell)? {
                Turned::Next => continue,
                Turned::Accepted(call) => *call,
                Turned::Waiting(waiting) => {
                    let approval = match approver.as_mut() {
                        Some(approver) => approver.approve_call(waiting.request()).await,
                        None => Approval::Abstain,
                    };
                    running.approved(*waiting, &approval, tell)?
                }
            };
            let (tool, returned) = dispatch(call, tools).await;
            running.ran(tool, returned, tell)?;
        }
        let finished = running.finish(tell)?;
        let answer = planner.answer(&finished.request()).await.map_err(planner_failed)?;
        let (answer, trace) = finished.answered(answer, tell)?;
        Ok(RunEnd::Finished { answer, trace })
    }
}

/// Runs the tool of an accepted call. Its result goes into the gate's trace and to the responder.
async fn dispatch(
    call: AcceptedCall,
    tools: &mut dyn AsyncTools,
) -> (ToolId, Result<Vec<u8>, CallError<ToolError>>) {
    let tool = call.tool().clone();
    let mut seen = Vec::new();
    let (asked, kept) = (&tool, &mut seen);
    let ran = call.run_step_async(|args| async move {
        let returned = tools.run(asked, &args).await?;
        kept.clone_from(&returned);
        Ok(returned)
    });
    let ran = ran.await;
    (tool, ran.map(|()| seen))
}
