use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{CallId, RequestId, Timestamp};
use countersign_tool_gate::{CallArgs, PROPOSAL_MEMBER, REQUEST_ID_MEMBER};

use crate::era_2025::{self, CallMeta};
use crate::message::RpcId;
use crate::reads::ReadMethod;

/// A call that waits for its decision.
#[derive(Debug)]
pub(crate) struct HeldCall {
    pub(crate) id: RpcId,
    pub(crate) serial: u64,
    /// Length of its line, in bytes.
    pub(crate) weight: usize,
    /// The tool's name at the server, or the read's in the registry.
    pub(crate) name: String,
    /// The method of a read. A call of a tool has none.
    pub(crate) read: Option<ReadMethod>,
    pub(crate) args: CallArgs,
    /// Canonical text of the action proposal in the call's metadata.
    pub(crate) proposal: Option<String>,
    /// The metadata that the server receives.
    pub(crate) meta: Option<String>,
    pub(crate) ask: Option<String>,
    /// The call id that the client chose.
    pub(crate) call_id: Option<CallId>,
    pub(crate) plan_step: Option<u64>,
    /// The call's position in a trace, as the client states it.
    pub(crate) trace: Option<String>,
    /// The client's token for progress notifications, as JSON.
    pub(crate) progress: Option<String>,
    /// End of the wait for a person's answer, once it has begun.
    pub(crate) waits_until: Option<Timestamp>,
}

impl HeldCall {
    /// Creates a held call with these arguments and the metadata of its request. `name` is the tool's name at the server, and
    /// `weight` the length of the line.
    pub(crate) fn new(
        id: RpcId,
        serial: u64,
        weight: usize,
        name: String,
        args: Canonical,
        call: CallMeta<'_>,
    ) -> Self {
        let meta = call.object.and_then(|meta| match era_2025::outside_call(meta) {
            Some(rest) if rest == "{}" => None,
            Some(rest) => Some(rest),
            None => Some(meta.canonical_text()),
        });
        Self {
            id,
            serial,
            weight,
            name,
            read: None,
            args: CallArgs::new(args),
            proposal: call.proposal.map(ValueRef::canonical_text),
            meta,
            ask: call.ask.map(Into::into),
            call_id: call.call_id,
            plan_step: call.plan_step,
            trace: call.trace.map(Into::into),
            progress: call.object.and_then(era_2025::progress_token),
            waits_until: None,
        }
    }

    /// The arguments that the tool would receive. Approvals bind their digest.
    pub(crate) fn own_args(&self) -> &Canonical {
        self.args.own()
    }

    /// Returns whether the call came with a proposal.
    pub(crate) fn brings_proposal(&self) -> bool {
        self.proposal.is_some() || self.args.sent().value().get(PROPOSAL_MEMBER).is_some()
    }

    /// The request id, for a call that is decided without its reserved members.
    pub(crate) fn any_request_id(&self) -> Option<String> {
        let named = self.args.sent().value().get(REQUEST_ID_MEMBER).and_then(ValueRef::as_str);
        let named = named.filter(|id| RequestId::new(id).is_ok()).map(Into::into);
        named.or_else(|| self.request_id())
    }

    /// The JSON-RPC id, if it is a valid request id and the arguments contain no `__pic_request_id`.
    ///
    /// `__pic_request_id` takes precedence: its sender correlates by it across systems and retries, while the
    /// JSON-RPC id is a number on this one connection and differs at each retry. The gate finds it among the
    /// arguments and refuses an invalid one.
    pub(crate) fn request_id(&self) -> Option<String> {
        let id = match &self.id {
            _ if self.args.sent().value().get(REQUEST_ID_MEMBER).is_some() => return None,
            RpcId::Number(number) => number.to_string(),
            RpcId::Text(text) => text.to_string(),
        };
        RequestId::new(&id).is_ok().then_some(id)
    }
}
