//! Decides one call, and files or uses the answer of a person.

use countersign_approval_token::DenialReason;
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{CallId, Digest, SessionId, ToolId, escape_hidden};
use countersign_host::decision::DecisionText;
use countersign_host::random;
use countersign_tool_gate::{
    AcceptedCall, ApproverAnswer, CallArgs, CallDesk, EditedCall, FiledQuestion, NotFiled, Rejection,
    RejectionCode, Retry, ToolCall,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::app::App;
use crate::body::members;
use crate::problem::Problem;
use crate::served::{ServedSession, UsedSession};

/// The body of `POST /v1/check`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckBody<'a> {
    session: SessionId,
    tool: &'a str,
    server: Option<&'a str>,
    #[serde(rename = "args")]
    _args: IgnoredAny,
    call_id: Option<CallId>,
    ask: Option<&'a str>,
    plan_step: Option<u64>,
    #[serde(rename = "proposal")]
    _proposal: Option<IgnoredAny>,
    approval: Option<&'a str>,
}

/// The answer to a call. The arguments of an accepted one are added to its text.
#[derive(Serialize)]
struct CheckAnswer<'a> {
    #[serde(flatten)]
    text: DecisionText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a ToolId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_from: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'a CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    short_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<u64>,
}

/// Decides the call of the body and returns the answer as JSON.
pub(crate) fn check(app: &App, caller: &Caller, body: &Canonical) -> Result<String, Problem> {
    let asked: CheckBody<'_> = members(body)?;
    let session = app.sessions.get(&asked.session, caller)?;
    let used = session.use_it().ok_or_else(crate::sessions::unknown)?;
    used.look();
    let args = body
        .value()
        .get("args")
        .map_or_else(|| Canonical::empty_object(body.recipe()), |args| body.subtree(args));
    decide(&used, &asked, &CallArgs::new(args), body.value().get("proposal"))
}

fn decide(
    used: &UsedSession<'_>,
    asked: &CheckBody<'_>,
    args: &CallArgs,
    proposal: Option<ValueRef<'_>>,
) -> Result<String, Problem> {
    let (session, digest) = (used.session, args.own().digest());
    let answer = tool_of(session, asked).and_then(|tool| find_answer(session, &tool, digest));
    let given = answer.as_ref().and_then(ApproverAnswer::call_id);
    // An answer binds the id of the call that was refused for lack of it, whichever id the caller gives this call.
    let named = given.or(asked.call_id.as_ref());
    let call_id = named.cloned().map_or_else(random::call_id, Ok);
    let call_id = call_id.map_err(|error| Problem::fault(&error, &session.reporter))?;
    if !used.has_room() {
        let reason = "too many accepted calls have no outcome";
        return text(&refused(&session.gate.refuse_too_many(call_id.as_str(), reason), digest));
    }
    // The proposal that a person attested to takes the place of the one that came, and so do edited arguments.
    let attested = answer.as_ref().and_then(ApproverAnswer::attested);
    let edited = answer.as_ref().and_then(ApproverAnswer::edited);
    let given_args = answer.as_ref().and_then(|answer| answer.args_for(args));
    let args = given_args.as_ref().unwrap_or(args);
    let mut call = ToolCall::from_read(call_id.as_str(), asked.server, asked.tool, args);
    let proposal = proposal.map(ValueRef::canonical_text);
    if let Some(proposal) = attested.or(proposal.as_deref().filter(|_| edited.is_none())) {
        call = call.proposal(proposal.as_bytes());
    }
    if let Some(ask) = asked.ask {
        call = call.ask(ask);
    }
    if let Some(step) = asked.plan_step {
        call = call.plan_step(step);
    }
    if let Some(token) = asked.approval {
        call = call.approval(token);
    }
    if let Some(edited) = edited {
        call = call.edited_from(&edited.asked);
    }
    for token in answer.iter().flat_map(ApproverAnswer::tokens) {
        call = call.approval(token.as_str());
    }
    if let Some(ApproverAnswer::Denied(binding, denial)) = &answer {
        call = call.denied_as(binding, denial.by.as_str());
    }
    let desk = CallDesk::new(session.approvals.as_ref(), answer.as_ref(), session);
    let decision = session.gate.check_asking(&call, &desk);
    if let (Some(answer), Some(approvals)) = (&answer, &session.approvals) {
        note_store(session, approvals.retire_answer(answer, decision.as_ref().err()));
    }
    match decision {
        Ok(accepted) => accept(used, accepted, digest, edited),
        Err(rejection) => refuse(
            session,
            &rejection,
            desk.filed(),
            answer.as_ref().and_then(ApproverAnswer::reason),
            digest,
        ),
    }
}

/// The tool that the call names: with its server, or the one disclosed tool of this name.
fn tool_of(session: &ServedSession, asked: &CheckBody<'_>) -> Option<ToolId> {
    if let Some(server) = asked.server {
        return ToolId::new(server, asked.tool).ok();
    }
    let contract = session.gate.contract();
    let mut named = contract.tools().iter().filter(|tool| tool.name().as_str() == asked.tool);
    named.next().filter(|_| named.next().is_none()).cloned()
}

/// Finds the answer to exactly this call. A clock or store that fails yields `None`.
fn find_answer(session: &ServedSession, tool: &ToolId, args: Digest) -> Option<ApproverAnswer> {
    let (approvals, now) = (session.approvals.as_ref()?, session.clock.now().ok()?);
    let version = session.gate.registry().view().snapshot().version();
    note_store(session, approvals.find(tool, args, version, now))?
}

fn accept(
    used: &UsedSession<'_>,
    accepted: AcceptedCall,
    digest: Digest,
    edited: Option<&EditedCall>,
) -> Result<String, Problem> {
    let (tool, impact, decision) = (accepted.tool().clone(), accepted.impact(), accepted.sequence());
    let (call_id, plan_step) = (accepted.call_id().clone(), accepted.plan_step());
    let (args, in_flight) = match accepted.dispatch() {
        Ok(dispatched) => dispatched,
        Err(rejection) => return text(&refused(&rejection, digest)),
    };
    used.keep(decision, in_flight);
    let answer = CheckAnswer {
        handle: Some(decision.to_string()),
        tool: Some(&tool),
        impact: Some(impact.as_str()),
        plan_step,
        edited_from: edited.map(|edited| edited.asked),
        record: Some(decision),
        ..CheckAnswer::of(DecisionText::accept(call_id.as_str(), args.digest()))
    };
    let mut answer = text(&answer)?;
    // The caller gets the canonical text that was digested, not another spelling of it.
    answer.truncate(answer.len().saturating_sub(1));
    answer.extend([",\"args\":", args.as_str(), "}"]);
    Ok(answer)
}

fn refuse(
    session: &ServedSession,
    rejection: &Rejection,
    filed: Option<Result<FiledQuestion, NotFiled>>,
    reason: Option<&DenialReason>,
    digest: Digest,
) -> Result<String, Problem> {
    // A call id with an earlier question cannot be asked about again. Only the caller can choose another id.
    let in_use = matches!(filed, Some(Err(NotFiled::IdInUse)));
    let question = filed.and_then(Result::ok).filter(|_| rejection.question().is_some());
    if let Some(question) = question.as_ref().filter(|question| question.is_new) {
        notify(session, question);
    }
    let mut answer = refused(rejection, digest);
    if in_use {
        (answer.text.retry, answer.text.unlock) =
            (Some(Retry::AfterChange.as_str()), Some("the call under another call id"));
    }
    if let Some(question) = &question {
        if !question.lacks_approval {
            answer.text.decision = "needs_evidence";
        }
        (answer.question, answer.short_id) = (Some(&question.id), Some(question.short.as_str()));
    }
    if rejection.code() == RejectionCode::ApprovalDenied {
        // Invisible characters are escaped: a model reads it.
        answer.reason = reason.map(|reason| escape_hidden(reason.as_str()));
    }
    text(&answer)
}

impl<'a> CheckAnswer<'a> {
    const fn of(text: DecisionText<'a>) -> Self {
        Self {
            text,
            handle: None,
            tool: None,
            impact: None,
            plan_step: None,
            edited_from: None,
            question: None,
            short_id: None,
            reason: None,
            record: None,
        }
    }
}

/// The answer to a refused call. Its route is the remedy: a person's answer, evidence, or none.
fn refused(rejection: &Rejection, digest: Digest) -> CheckAnswer<'_> {
    let mut text = DecisionText::reject(rejection, Some(rejection.call_id()), Some(digest));
    if rejection.code() == RejectionCode::ApprovalRequired {
        text.decision = "needs_approval";
    } else if rejection.code() == RejectionCode::PicEvidenceRequired {
        text.decision = "needs_evidence";
    }
    CheckAnswer { record: rejection.sequence(), ..CheckAnswer::of(text) }
}

fn text(answer: &CheckAnswer<'_>) -> Result<String, Problem> {
    let fault =
        |_| Problem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "the answer is not JSON");
    serde_json::to_string(answer).map_err(fault)
}

/// Notifies the operator of a new question.
fn notify(session: &ServedSession, question: &FiledQuestion) {
    let Some(approvals) = &session.approvals else { return };
    if let Some(Some((pending, _))) = note_store(session, approvals.state(&question.id)) {
        session.notices.notify(&pending, &question.short);
    }
}

/// Reports a failure of the store to the operator.
fn note_store<T>(
    session: &ServedSession,
    result: Result<T, countersign_approval_token::PendingError>,
) -> Option<T> {
    result.inspect_err(|error| session.reporter.warn(error.code(), &error.to_string())).ok()
}
