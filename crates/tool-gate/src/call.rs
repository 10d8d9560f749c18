use std::fmt;

use countersign_canonical_json::{Canonical, Recipe};
use countersign_core::{CallFacts, Digest};

/// Recipe by which arguments are read and digested.
pub const ARGS_RECIPE: Recipe = Recipe::Jcs1;

/// A tool call as the agent made it. The gate's step 0 checks each part of it: ids and names first, and the rest once the
/// tool is known to be disclosed. A host that has read the arguments hands
/// over the value ([`from_read`](Self::from_read)), and they are not read again. From a host with their text
/// ([`new`](Self::new)) the gate reads them, once.
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
    pub(crate) args: SentArgs<'a>,
    pub(crate) ask: Option<&'a str>,
    pub(crate) approvals: SentTokens<'a>,
    pub(crate) proposal: Option<&'a [u8]>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) plan_step: Option<u64>,
    pub(crate) plan_proof: Option<&'a [u8]>,
    pub(crate) denied: Option<CallDenial<'a>>,
    pub(crate) trace: Option<&'a str>,
    pub(crate) edited_from: Option<&'a Digest>,
    pub(crate) is_again: bool,
}

/// Approval tokens of a call. Most calls have one at most, which needs no list.
#[derive(Clone)]
pub(crate) struct SentTokens<'a> {
    first: Option<&'a str>,
    others: Vec<&'a str>,
}

impl<'a> SentTokens<'a> {
    pub(crate) fn len(&self) -> usize {
        self.others.len().saturating_add(usize::from(self.first.is_some()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.first.into_iter().chain(self.others.iter().copied())
    }
}

/// Arguments as they come with a call.
#[derive(Clone, Copy)]
pub(crate) enum SentArgs<'a> {
    /// JSON text, which the gate reads.
    Text(&'a [u8]),
    /// The value that the host has read.
    Value(&'a CallArgs),
}

impl SentArgs<'_> {
    fn len(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Value(args) => args.sent.bytes().len(),
        }
    }
}

/// Member of the arguments that holds a proposal.
pub const PROPOSAL_MEMBER: &str = "__pic";

/// Member of the arguments by which the agent's side correlates the request.
pub const REQUEST_ID_MEMBER: &str = "__pic_request_id";

/// Strips the reserved members from the arguments of a call. Tool, schemas, approvals, proposals and records see the rest.
/// Members of those names further down are the tool's own.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let sent = br#"{"to":"bob","__pic_request_id":"r-7","__pic":{"protocol":"PIC/1.0"}}"#;
/// let sent = read(sent, Recipe::Jcs1, &Limits::default())?;
/// assert_eq!(countersign_tool_gate::own_arguments(sent).as_str(), r#"{"to":"bob"}"#);
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
#[must_use]
pub fn own_arguments(sent: Canonical) -> Canonical {
    sent.without(&[PROPOSAL_MEMBER, REQUEST_ID_MEMBER])
}

/// Arguments of a call as a host read them, once, by the recipe `jcs-1`. Their digest is computed once, for the host and
/// the gate.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// use countersign_tool_gate::{CallArgs, ToolCall};
/// let args = read(br#"{"to":"bob","__pic_request_id":"r-7"}"#, Recipe::Jcs1, &Limits::default())?;
/// let args = CallArgs::new(args);
/// assert_eq!(args.own().as_str(), r#"{"to":"bob"}"#);
/// let call = ToolCall::from_read("call-1", Some("mail"), "send", &args);
/// # let _ = call;
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CallArgs {
    sent: Canonical,
    /// The arguments without their reserved members, if there were any.
    stripped: Option<Canonical>,
}

impl CallArgs {
    /// Sets the reserved members apart.
    #[must_use]
    pub fn new(sent: Canonical) -> Self {
        let is_reserved = |name| sent.value().get(name).is_some();
        let has_reserved = is_reserved(PROPOSAL_MEMBER) || is_reserved(REQUEST_ID_MEMBER);
        Self { stripped: has_reserved.then(|| own_arguments(sent.clone())), sent }
    }

    /// Returns the arguments as they were sent, reserved members included.
    #[must_use]
    pub const fn sent(&self) -> &Canonical {
        &self.sent
    }

    /// Returns the tool's own arguments: without the reserved members.
    #[must_use]
    pub fn own(&self) -> &Canonical {
        self.stripped.as_ref().unwrap_or(&self.sent)
    }
}

/// A person's denial of exactly this call.
#[derive(Clone, Copy)]
pub(crate) struct CallDenial<'a> {
    pub(crate) by: Option<&'a str>,
    /// The binding that the person was asked about; without it, the host vouches that it was this call.
    pub(crate) asked: Option<&'a CallFacts>,
}

impl CallDenial<'_> {
    /// Returns `true` if the person was asked about this call.
    pub(crate) fn is_of(&self, call: &CallFacts) -> bool {
        self.asked.is_none_or(|asked| call.act() == asked.act())
    }
}

impl<'a> ToolCall<'a> {
    /// Builds a call with arguments that the host has read. Without a server it means the only disclosed tool of this
    /// name, as for [`by_name`](Self::by_name).
    #[must_use]
    pub const fn from_read(
        call_id: &'a str,
        server: Option<&'a str>,
        name: &'a str,
        args: &'a CallArgs,
    ) -> Self {
        Self::of(call_id, server, name, SentArgs::Value(args))
    }

    /// Builds a call of the tool `name` of `server` with `args`, the JSON text of an object.
    #[must_use]
    pub const fn new(call_id: &'a str, server: &'a str, name: &'a str, args: &'a [u8]) -> Self {
        Self::of(call_id, Some(server), name, SentArgs::Text(args))
    }

    /// Builds a call of the only disclosed tool of this name. If several servers have a tool of that name, the gate
    /// refuses it.
    #[must_use]
    pub const fn by_name(call_id: &'a str, name: &'a str, args: &'a [u8]) -> Self {
        Self::of(call_id, None, name, SentArgs::Text(args))
    }

    const fn of(call_id: &'a str, server: Option<&'a str>, name: &'a str, args: SentArgs<'a>) -> Self {
        Self {
            call_id,
            server,
            name,
            args,
            ask: None,
            approvals: SentTokens { first: None, others: Vec::new() },
            proposal: None,
            request_id: None,
            plan_step: None,
            plan_proof: None,
            denied: None,
            trace: None,
            edited_from: None,
            is_again: false,
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
        if self.approvals.first.is_none() {
            self.approvals.first = Some(token);
        } else {
            self.approvals.others.push(token);
        }
        self
    }

    /// Adds the action proposal, as JSON text. It comes either here or as the member `__pic` of the arguments, not as
    /// both.
    #[must_use]
    pub const fn proposal(mut self, json: &'a [u8]) -> Self {
        self.proposal = Some(json);
        self
    }

    /// Says that the call's tool paused from inside and runs once more under the same id, which a gate that
    /// [runs each id once](crate::ToolGateBuilder::call_ids_once) would refuse. Tool and arguments must be the same as long as
    /// the gate remembers them.
    #[must_use]
    pub const fn runs_again(mut self, is_again: bool) -> Self {
        self.is_again = is_again;
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
    pub const fn denied_as(mut self, asked: &'a CallFacts, person: &'a str) -> Self {
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

    /// States that a person put these arguments in the place of those that the agent asked for, whose digest is `asked`. The
    /// decision is one about these arguments, from step 0 on, and needs an approval of them whatever the tool's rule says.
    #[must_use]
    pub const fn edited_from(mut self, asked: &'a Digest) -> Self {
        self.edited_from = Some(asked);
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
