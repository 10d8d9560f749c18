use std::fmt;
use std::sync::Arc;

use countersign_approval_token::ApprovalToken;

use crate::call::ToolCall;

/// A tool call that owns its parts: it can be kept, cloned and sent to another thread. A clone shares the arguments.
///
/// ```
/// use countersign_tool_gate::OwnedToolCall;
/// let call = OwnedToolCall::new("call-1", "search", br#"{"query":"T-1001"}"#.as_slice()).server("desk");
/// let other = std::thread::spawn(move || format!("{:?}", call.as_call()));
/// # drop(other);
/// ```
#[derive(Clone)]
pub struct OwnedToolCall {
    call_id: Box<str>,
    server: Option<Box<str>>,
    name: Box<str>,
    args: Arc<[u8]>,
    ask: Option<Box<str>>,
    approvals: Vec<Box<str>>,
    proposal: Option<Arc<[u8]>>,
    request_id: Option<Box<str>>,
    plan_step: Option<u64>,
    trace: Option<Box<str>>,
    is_again: bool,
}

impl OwnedToolCall {
    /// Builds a call of the only disclosed tool of this name with `args`, the JSON text of an object.
    #[must_use]
    pub fn new(call_id: &str, name: &str, args: impl Into<Arc<[u8]>>) -> Self {
        Self {
            call_id: call_id.into(),
            server: None,
            name: name.into(),
            args: args.into(),
            ask: None,
            approvals: Vec::new(),
            proposal: None,
            request_id: None,
            plan_step: None,
            trace: None,
            is_again: false,
        }
    }

    /// Names the tool's server.
    #[must_use]
    pub fn server(self, server: &str) -> Self {
        Self { server: Some(server.into()), ..self }
    }

    /// Adds the goal as the agent restates it.
    #[must_use]
    pub fn ask(self, restated: &str) -> Self {
        Self { ask: Some(restated.into()), ..self }
    }

    /// Adds an approval: the retry of a call that waited for it. May be called several times.
    #[must_use]
    pub fn with_approval(self, token: &ApprovalToken) -> Self {
        self.with_approval_text(token.as_str())
    }

    /// Adds the text of an approval token. The gate refuses one that it cannot read.
    #[must_use]
    pub fn with_approval_text(mut self, token: &str) -> Self {
        self.approvals.push(token.into());
        self
    }

    /// Adds the action proposal, as JSON text.
    #[must_use]
    pub fn proposal(self, json: impl Into<Arc<[u8]>>) -> Self {
        Self { proposal: Some(json.into()), ..self }
    }

    /// Adds the id by which the host correlates the request.
    #[must_use]
    pub fn request_id(self, id: &str) -> Self {
        Self { request_id: Some(id.into()), ..self }
    }

    /// Sets the step of the plan that the call is, from 1 on.
    #[must_use]
    pub fn plan_step(self, index: u64) -> Self {
        Self { plan_step: Some(index), ..self }
    }

    /// Adds the call's place in a trace ([`ToolCall::trace`]).
    #[must_use]
    pub fn trace(self, traceparent: &str) -> Self {
        Self { trace: Some(traceparent.into()), ..self }
    }

    /// Says that the call's tool paused from inside and runs once more ([`ToolCall::runs_again`]).
    #[must_use]
    pub fn runs_again(self, is_again: bool) -> Self {
        Self { is_again, ..self }
    }

    /// Returns the call's id.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the call as [`ToolGate::check`](crate::ToolGate::check) takes it.
    #[must_use]
    pub fn as_call(&self) -> ToolCall<'_> {
        let mut call = match &self.server {
            Some(server) => ToolCall::new(&self.call_id, server, &self.name, &self.args),
            None => ToolCall::by_name(&self.call_id, &self.name, &self.args),
        };
        call.ask = self.ask.as_deref();
        call.proposal = self.proposal.as_deref();
        call.request_id = self.request_id.as_deref();
        call.plan_step = self.plan_step;
        call.trace = self.trace.as_deref();
        call.is_again = self.is_again;
        self.approvals.iter().fold(call, |call, token| call.approval(token))
    }
}

/// Shows what [`ToolCall`] shows.
impl fmt::Debug for OwnedToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_call().fmt(f)
    }
}
