//! Step 0: is the call well formed and within limits?

use std::borrow::Cow;

use countersign_canonical_json::{Canonical, JsonError, JsonErrorKind, Kind, Limits, ValueRef, read};
use countersign_committed_plan::{PlanError, PlanProblem};
use countersign_core::{CallId, IdError, RequestId, ToolId, ToolName};

use super::{Deciding, ParsedCall};
use crate::call::{ARGS_RECIPE, PROPOSAL_MEMBER, REQUEST_ID_MEMBER, SentArgs, ToolCall, own_arguments};
use crate::code::RejectionCode;
use crate::findings::{CalledTool, Findings};
use crate::plan::{RunningPlan, read_proof};
use crate::rejection::Refusal;
use crate::rows::Rows;

fn malformed(reason: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(RejectionCode::MalformedCall, reason)
}

/// Step 0, first part: are ids and names well formed? Names of a tool that the session has used are not copied.
pub(crate) fn read_ids(call: &ToolCall<'_>, rows: &Rows, findings: &mut Findings) -> Result<CallId, Refusal> {
    let id_error = |error: IdError| malformed(error.to_string());
    let call_id = CallId::new(call.call_id).map_err(id_error)?;
    findings.request_id = call.request_id.map(RequestId::new).transpose().map_err(id_error)?;
    let called = match call.server {
        Some(server) => match rows.used.find(server, call.name) {
            Some(used) => CalledTool::Used(used),
            None => {
                let server = rows.server(server).map_err(id_error)?;
                let name = ToolName::new(call.name).map_err(id_error)?;
                CalledTool::Named(ToolId::from_names(server, name))
            }
        },
        None => CalledTool::Unplaced(match rows.used.find_name(call.name) {
            Some(used) => used.id.name().clone(),
            None => ToolName::new(call.name).map_err(id_error)?,
        }),
    };
    // why: set only once all are well formed. A malformed call is recorded as it came.
    (findings.call_id, findings.called) = (Some(call_id.clone()), Some(called));
    Ok(call_id)
}

/// Step 0, second part, asked once the tool is known to be disclosed: is all the rest well formed and within limits?
pub(crate) fn read_call(
    deciding: &mut Deciding<'_>,
    plan: Option<&RunningPlan>,
) -> Result<ParsedCall, Refusal> {
    let Deciding { terms, call, findings, .. } = deciding;
    if call.approvals.len() > terms.limits.approvals {
        return Err(Refusal::new(RejectionCode::LimitExceeded, "too many approvals came with the call"));
    }
    let (mut reserved, args) = read_args(call.args, &terms.limits.args)?;
    findings.args = Some(args.digest());
    if args.value().kind() != Kind::Object {
        return Err(malformed("arguments are not an object"));
    }
    let among =
        reserved.request_id.take().transpose().map_err(|()| malformed("`__pic_request_id` is not an id"))?;
    findings.request_id = findings.request_id.take().or(among);
    if call.proposal.is_some() && reserved.proposal.is_some() {
        return Err(malformed("a proposal came beside the arguments and another among them"));
    }
    let proof = call
        .plan_proof
        .map(|json| read_proof(plan, json))
        .transpose()
        .map_err(|error| proof_refusal(&error))?;
    Ok(ParsedCall { args, reserved_proposal: reserved.proposal, proof })
}

/// Reads the arguments, or takes the value that the host has read, within the gate's limits.
fn read_args(sent: SentArgs<'_>, limits: &Limits) -> Result<(Reserved, Canonical), Refusal> {
    let refused = |error: JsonError| {
        use JsonErrorKind::{TooDeep, TooLarge, TooWide};
        let too_much = matches!(error.kind(), TooLarge | TooDeep | TooWide);
        let code = if too_much { RejectionCode::LimitExceeded } else { RejectionCode::MalformedCall };
        Refusal::new(code, format!("arguments: {error}"))
    };
    match sent {
        SentArgs::Text(text) => {
            let sent = read(text, ARGS_RECIPE, limits).map_err(refused)?;
            let reserved = Reserved::of(&sent);
            let args = if reserved.is_empty() { sent } else { own_arguments(sent) };
            Ok((reserved, args))
        }
        SentArgs::Value(args) if args.sent().recipe() != ARGS_RECIPE => {
            Err(malformed("arguments were read by another recipe"))
        }
        SentArgs::Value(args) => {
            args.sent().check_limits(limits).map_err(refused)?;
            // The copy has the digest, so that it is computed once.
            let _ = args.own().digest();
            Ok((Reserved::of(args.sent()), args.own().clone()))
        }
    }
}

fn proof_refusal(error: &PlanError) -> Refusal {
    let too_much = error.problem() == PlanProblem::Limit;
    let code = if too_much { RejectionCode::LimitExceeded } else { RejectionCode::MalformedCall };
    Refusal::new(code, format!("plan proof: {error}"))
}

/// Reserved members of the arguments, which are not the tool's.
struct Reserved {
    /// The proposal's canonical text.
    proposal: Option<String>,
    /// An error where it is malformed.
    request_id: Option<Result<RequestId, ()>>,
}

impl Reserved {
    const fn is_empty(&self) -> bool {
        self.proposal.is_none() && self.request_id.is_none()
    }

    fn of(sent: &Canonical) -> Self {
        let member = |name| sent.value().get(name);
        let read = |id: ValueRef<'_>| id.as_str().and_then(|id| RequestId::new(id).ok()).ok_or(());
        Self {
            proposal: member(PROPOSAL_MEMBER).map(ValueRef::canonical_text),
            request_id: member(REQUEST_ID_MEMBER).map(read),
        }
    }
}
