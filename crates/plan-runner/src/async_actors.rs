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

/// Future of the asynchronous traits. It is `Send`, so that a run can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asynchronous [`Planner`](crate::Planner).
pub trait AsyncPlanner: Send {
    /// Like [`Planner::plan`](crate::Planner::plan).
    ///
    /// # Errors
    /// [`ModelError`] if there is no text; the run then ends.
    fn plan<'a>(&'a mut self, request: &'a PlanRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>>;

    /// Like [`Planner::answer`](crate::Planner::answer).
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    fn answer<'a>(&'a mut self, request: &'a AnswerRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>>;
}

/// Asynchronous [`Responder`](crate::Responder).
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
    /// Like [`Responder::turn`](crate::Responder::turn).
    ///
    /// # Errors
    /// [`ModelError`] if there is no text; the run then ends.
    fn turn<'a>(&'a mut self, request: &'a TurnRequest<'a>) -> BoxFuture<'a, Result<String, ModelError>>;
}

/// Asynchronous [`Inspector`](crate::Inspector).
pub trait AsyncInspector: Send {
    /// The inspector's name in events and errors.
    fn name(&self) -> &str;

    /// Like [`Inspector::inspect`](crate::Inspector::inspect).
    ///
    /// # Errors
    /// [`Halt`] if the plan must not be started.
    fn inspect<'a>(&'a mut self, plan: &'a Inspection<'a>) -> BoxFuture<'a, Result<(), Halt>>;
}

/// Asynchronous [`Approver`](crate::Approver), for people who need time to decide.
pub trait AsyncApprover: Send {
    /// Like [`Approver::approve_plan`](crate::Approver::approve_plan).
    fn approve_plan<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval>;

    /// Like [`Approver::approve_call`](crate::Approver::approve_call).
    fn approve_call<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, Approval> {
        let _ = request;
        Box::pin(std::future::ready(Approval::Abstain))
    }
}

/// Asynchronous [`Tools`](crate::Tools).
pub trait AsyncTools: Send {
    /// Like [`Tools::run`](crate::Tools::run). If the run is dropped during this call, the call's outcome is recorded as unknown.
    ///
    /// # Errors
    /// [`ToolError`] if the tool failed; the run then ends.
    fn run<'a>(
        &'a mut self,
        tool: &'a ToolId,
        args: &'a Canonical,
    ) -> BoxFuture<'a, Result<Vec<u8>, ToolError>>;
}

/// Observer of a run, called from any thread that the run is on.
type Observer<'a> = dyn FnMut(&RunEvent<'_>) + Send + 'a;

/// Like [`Actors`](crate::Actors), for an asynchronous run. All of them are `Send`, so the run is too.
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
    /// Creates a set of the required participants. Without an inspector, every plan is refused (`PLAN_UNINSPECTED`).
    pub fn new(
        planner: &'a mut dyn AsyncPlanner,
        inspectors: Vec<&'a mut dyn AsyncInspector>,
        responder: &'a mut dyn AsyncResponder,
        tools: &'a mut dyn AsyncTools,
    ) -> Self {
        Self { planner, inspectors, responder, tools, approver: None, observer: None }
    }

    /// Sets the approver. Without one, a plan or call that needs an approval is refused.
    pub fn approver(mut self, approver: &'a mut dyn AsyncApprover) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets the observer, which receives each event as it happens.
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
