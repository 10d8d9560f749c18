use std::fmt;
use std::pin::Pin;

use countersign_canonical_json::Canonical;
use countersign_core::ToolId;
use countersign_tool_gate::ApprovalRequest;

use crate::approver::Approval;
use crate::event::RunEvent;
use crate::inspect::{Halt, Inspection};
use crate::model::{AnswerRequest, ModelError, PlanRequest, TurnRequest};
use crate::tools::ToolError;

/// What the asynchronous traits return. It is `Send`, so that a run can be moved between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// As [`Planner`](crate::Planner), for models that are waited for.
pub trait AsyncPlanner: Send {
    /// As [`Planner::plan`](crate::Planner::plan).
    ///
    /// # Errors
    /// [`ModelError`] when there is no text; the run then ends.
    fn plan<'a>(&'a mut self, request: &'a PlanRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>>;

    /// As [`Planner::answer`](crate::Planner::answer).
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    fn answer<'a>(&'a mut self, request: &'a AnswerRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>>;
}

/// As [`Responder`](crate::Responder), for models that are waited for.
///
/// ```
/// use countersign_plan_runner::{AsyncResponder, BoxFuture, ModelError, TurnRequest};
/// struct Remote;
/// impl AsyncResponder for Remote {
///     fn turn<'a>(&'a mut self, request: &'a TurnRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>> {
///         Box::pin(async move {
///             let step = request.step().step();
///             Ok(format!("Thought: as planned\nAction: {}\nArgs: {}", step.tool(), step.args().as_str()))
///         })
///     }
/// }
/// ```
pub trait AsyncResponder: Send {
    /// As [`Responder::turn`](crate::Responder::turn).
    ///
    /// # Errors
    /// [`ModelError`] when there is no text; the run then ends.
    fn turn<'a>(&'a mut self, request: &'a TurnRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>>;
}

/// As [`Inspector`](crate::Inspector), for inspectors that are waited for.
pub trait AsyncInspector: Send {
    /// What the inspector is called in events and errors.
    fn name(&self) -> &str;

    /// As [`Inspector::inspect`](crate::Inspector::inspect).
    ///
    /// # Errors
    /// [`Halt`] when the plan must not be started.
    fn inspect<'a>(&'a mut self, plan: &'a Inspection<'a>) -> BoxFuture<'a, Result<(), Halt>>;
}

/// As [`Approver`](crate::Approver), for people who take their time.
pub trait AsyncApprover: Send {
    /// As [`Approver::approve_plan`](crate::Approver::approve_plan).
    fn approve_plan<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval>;

    /// As [`Approver::approve_call`](crate::Approver::approve_call).
    fn approve_call<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        let _ = request;
        Box::pin(std::future::ready(Approval::Abstain))
    }
}

/// As [`Tools`](crate::Tools), for tools that are waited for.
pub trait AsyncTools: Send {
    /// As [`Tools::run`](crate::Tools::run). If the run is dropped while it waits here, the call's outcome is on record as unknown.
    ///
    /// # Errors
    /// [`ToolError`] when the tool failed; the run then ends.
    fn run<'a>(
        &'a mut self,
        tool: &'a ToolId,
        args: &'a Canonical,
    ) -> BoxFuture<'a, Result<Vec<u8>, ToolError>>;
}

/// Who is told what happens, from whichever thread the run is on.
type Observer<'a> = dyn FnMut(&RunEvent<'_>) + Send + 'a;

/// As [`Actors`](crate::Actors), for a run that waits. All of them are `Send`, so that the run is.
#[must_use]
pub struct AsyncActors<'a> {
    pub(crate) planner: &'a mut dyn AsyncPlanner,
    pub(crate) inspectors: Vec<&'a mut dyn AsyncInspector>,
    pub(crate) responder: &'a mut dyn AsyncResponder,
    pub(crate) tools: &'a mut dyn AsyncTools,
    pub(crate) approver: Option<&'a mut dyn AsyncApprover>,
    pub(crate) observer: Option<&'a mut Observer<'a>>,
}

impl<'a> AsyncActors<'a> {
    /// Takes those that no run does without. Without an inspector, every plan is refused (`PLAN_UNINSPECTED`).
    pub fn new(
        planner: &'a mut dyn AsyncPlanner,
        inspectors: Vec<&'a mut dyn AsyncInspector>,
        responder: &'a mut dyn AsyncResponder,
        tools: &'a mut dyn AsyncTools,
    ) -> Self {
        Self { planner, inspectors, responder, tools, approver: None, observer: None }
    }

    /// Adds who is asked for approvals. Without one, what needs an approval is refused.
    pub fn approver(mut self, approver: &'a mut dyn AsyncApprover) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Adds who is told what happens, as it happens.
    pub fn observer(mut self, observer: &'a mut (dyn FnMut(&RunEvent<'_>) + Send + 'a)) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl fmt::Debug for AsyncActors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncActors").field("inspectors", &self.inspectors.len()).finish_non_exhaustive()
    }
}
