use std::fmt;

use countersign_approval_token::CallBinding;
use countersign_canonical_json::Recipe;

/// Recipe by which arguments are read and digested.
pub(crate) const ARGS_RECIPE: Recipe = Recipe::Jcs1;

/// A tool call as the agent made it: raw strings and bytes. The gate's step 0 checks each of them, and the gate itself
/// reads the arguments, once.
///
/// The principal is not part of it: the host gave it to the gate when the session was opened.
///
/// Two members of the arguments are reserved: `__pic`, an action proposal, and `__pic_request_id`, by which the agent's
/// side correlates the request. They are stripped before any other check sees the arguments, and the tool never sees
/// them.
#[derive(Clone)]
pub struct ToolCall<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) server: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) args: &'a [u8],
    pub(crate) ask: Option<&'a str>,
    pub(crate) approvals: Vec<&'a str>,
    pub(crate) proposal: Option<&'a [u8]>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) plan_step: Option<u64>,
    pub(crate) plan_proof: Option<&'a [u8]>,
    pub(crate) denied: Option<CallDenial<'a>>,
    pub(crate) trace: Option<&'a str>,
}

/// A person's denial of exactly this call.
#[derive(Clone, Copy)]
pub(crate) struct CallDenial<'a> {
    pub(crate) by: Option<&'a str>,
    /// The binding that the person was asked about; without it, the host vouches that it was this call.
    pub(crate) asked: Option<&'a CallBinding>,
}

impl<'a> ToolCall<'a> {
    /// Builds a call of the tool `name` of `server` with `args`, the JSON text of an object.
    #[must_use]
    pub const fn new(call_id: &'a str, server: &'a str, name: &'a str, args: &'a [u8]) -> Self {
        let mut call = Self::by_name(call_id, name, args);
        call.server = Some(server);
        call
    }

    /// Builds a call of the only disclosed tool of this name. If several servers have a tool of that name, the gate
    /// refuses it.
    #[must_use]
    pub const fn by_name(call_id: &'a str, name: &'a str, args: &'a [u8]) -> Self {
        Self {
            call_id,
            server: None,
            name,
            args,
            ask: None,
            approvals: Vec::new(),
            proposal: None,
            request_id: None,
            plan_step: None,
            plan_proof: None,
            denied: None,
            trace: None,
        }
    }

    /// Adds the goal as the agent restates it.
    #[must_use]
    pub const fn ask(mut self, restated: &'a str) -> Self {
        self.ask = Some(restated);
        self
    }

    /// Adds an approval token. May be called several times.
    #[must_use]
    pub fn approval(mut self, token: &'a str) -> Self {
        self.approvals.push(token);
        self
    }

    /// Adds the action proposal, as JSON text. It comes either here or as the member `__pic` of the arguments, not as
    /// both.
    #[must_use]
    pub const fn proposal(mut self, json: &'a [u8]) -> Self {
        self.proposal = Some(json);
        self
    }

    /// Adds the id by which the host correlates the request. It is recorded and changes no decision.
    #[must_use]
    pub const fn request_id(mut self, id: &'a str) -> Self {
        self.request_id = Some(id);
        self
    }

    /// Sets the step of the plan that the call is, from 1 on. Without it, the call is the current step while that has
    /// calls left and the call fits it, and otherwise the next one.
    #[must_use]
    pub const fn plan_step(mut self, index: u64) -> Self {
        self.plan_step = Some(index);
        self
    }

    /// Adds the proof that the call's step is in the plan, as JSON text of at most 1 MiB ([`StepProof`]). A gate that
    /// knows only the plan's root refuses a call without one. A gate that has the whole plan needs none, and verifies
    /// one that comes.
    ///
    /// [`StepProof`]: countersign_committed_plan::StepProof
    #[must_use]
    pub const fn plan_proof(mut self, json: &'a [u8]) -> Self {
        self.plan_proof = Some(json);
        self
    }

    /// Marks the call as denied by a person who was asked to approve exactly this call. Steps 0 to 6 run as usual; at
    /// step 7 the call is refused (`APPROVAL_DENIED`), whatever approval comes with it and whether or not the tool's
    /// rule requires one: the host's word can only make a decision stricter.
    #[must_use]
    pub const fn denied(mut self) -> Self {
        self.denied = Some(CallDenial { by: None, asked: None });
        self
    }

    /// Marks the call as denied by the named person. The name is recorded: at most 256 bytes, with invisible characters
    /// escaped.
    #[must_use]
    pub const fn denied_by(mut self, person: &'a str) -> Self {
        self.denied = Some(CallDenial { by: Some(person), asked: None });
        self
    }

    /// Marks the call as denied by a person who was asked about `asked` ([`ApprovalRequest::binding`]). The denial
    /// counts if an approval of this call would need the same binding, whatever the call's id. Under another plan,
    /// goal, definition or registry version it does not.
    ///
    /// [`ApprovalRequest::binding`]: crate::ApprovalRequest::binding
    #[must_use]
    pub const fn denied_as(mut self, asked: &'a CallBinding, person: &'a str) -> Self {
        self.denied = Some(CallDenial { by: Some(person), asked: Some(asked) });
        self
    }

    /// Adds the call's place in a trace, as a W3C `traceparent` of version 00. It is recorded and changes no decision;
    /// an invalid one is left out.
    #[must_use]
    pub const fn trace(mut self, traceparent: &'a str) -> Self {
        self.trace = Some(traceparent);
        self
    }
}

/// Shows the call's id and names and the sizes of its parts: no argument, goal, proposal or approval token.
impl fmt::Debug for ToolCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("call_id", &self.call_id)
            .field("server", &self.server)
            .field("name", &self.name)
            .field("args_bytes", &self.args.len())
            .field("approval_tokens", &self.approvals.len())
            .field("plan_step", &self.plan_step)
            .finish_non_exhaustive()
    }
}
