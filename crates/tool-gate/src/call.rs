use std::fmt;

use countersign_approval_token::CallBinding;
use countersign_canonical_json::Recipe;

/// The recipe by which arguments are read and digested.
pub(crate) const ARGS_RECIPE: Recipe = Recipe::Jcs1;

/// Asks for one tool call: raw strings and bytes as the agent gave them. The gate's step 0 checks every one, and reads
/// the arguments itself, once.
///
/// The principal is not among them: it is the gate's own, as the host gave it when the session was opened.
///
/// Two members of the arguments are none of the tool's: `__pic`, an action proposal, and `__pic_request_id`, by which the
/// agent's side correlates the request. Whatever the gate makes of them, they are taken off before anything else looks at
/// the arguments, and the tool never sees them.
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

/// A person's no to exactly this call.
#[derive(Clone, Copy)]
pub(crate) struct CallDenial<'a> {
    pub(crate) by: Option<&'a str>,
    /// What the person was asked; without it, the host knows that it was this call.
    pub(crate) asked: Option<&'a CallBinding>,
}

impl<'a> ToolCall<'a> {
    /// Asks to call the tool `name` of `server` with `args`, the JSON text of an object.
    #[must_use]
    pub const fn new(call_id: &'a str, server: &'a str, name: &'a str, args: &'a [u8]) -> Self {
        let mut call = Self::by_name(call_id, name, args);
        call.server = Some(server);
        call
    }

    /// Asks to call the one tool of this name that the session discloses. Where several servers have a tool of that
    /// name, it is none of them.
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

    /// Adds an approval token. May be used several times.
    #[must_use]
    pub fn approval(mut self, token: &'a str) -> Self {
        self.approvals.push(token);
        self
    }

    /// Adds the action proposal, as JSON text. It may come here or as the member `__pic` of the arguments, not as both.
    #[must_use]
    pub const fn proposal(mut self, json: &'a [u8]) -> Self {
        self.proposal = Some(json);
        self
    }

    /// Adds the id by which the host correlates the request; it goes on record and decides nothing.
    #[must_use]
    pub const fn request_id(mut self, id: &'a str) -> Self {
        self.request_id = Some(id);
        self
    }

    /// Says which step of the plan the call is, from 1 on. Left out, it is the step under way while that has calls left and
    /// the call fits it, and the next one otherwise.
    #[must_use]
    pub const fn plan_step(mut self, index: u64) -> Self {
        self.plan_step = Some(index);
        self
    }

    /// Adds the proof that the call's step is in the plan, as JSON text of at most 1 MiB ([`StepProof`]). A gate that knows the
    /// plan by its root alone takes no call without one; a gate that has the whole plan verifies what comes, and needs none.
    ///
    /// [`StepProof`]: countersign_committed_plan::StepProof
    #[must_use]
    pub const fn plan_proof(mut self, json: &'a [u8]) -> Self {
        self.plan_proof = Some(json);
        self
    }

    /// Says that a person was asked to approve exactly this call, and refused. Steps 0 to 6 are asked as ever; at step 7 the
    /// call is refused (`APPROVAL_DENIED`), whatever approval comes along and whether or not the tool's rule asks for one:
    /// the host's word can only tighten.
    #[must_use]
    pub const fn denied(mut self) -> Self {
        self.denied = Some(CallDenial { by: None, asked: None });
        self
    }

    /// Says so of the person with that name, which goes on record. At most 256 bytes of it, hidden characters spelled out.
    #[must_use]
    pub const fn denied_by(mut self, person: &'a str) -> Self {
        self.denied = Some(CallDenial { by: Some(person), asked: None });
        self
    }

    /// Says what exactly that person was asked and refused ([`ApprovalRequest::binding`]). It counts where this call would be
    /// asked about in the same words, whatever its id; under another plan, goal, definition or registry version, it does not.
    ///
    /// [`ApprovalRequest::binding`]: crate::ApprovalRequest::binding
    #[must_use]
    pub const fn denied_as(mut self, asked: &'a CallBinding, person: &'a str) -> Self {
        self.denied = Some(CallDenial { by: Some(person), asked: Some(asked) });
        self
    }

    /// Adds the call's place in a trace, as a W3C `traceparent` of version 00. It goes on record and decides nothing;
    /// what is none, is left out.
    #[must_use]
    pub const fn trace(mut self, traceparent: &'a str) -> Self {
        self.trace = Some(traceparent);
        self
    }
}

/// Shows which call it is and how much came with it: no argument, no goal, no proposal and no approval token.
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
