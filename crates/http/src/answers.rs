//! The questions that wait for a person, and their answers.

use axum::http::StatusCode;
use countersign_approval_token::{DenialReason, PendingApproval, PendingApprovals as _, PendingState};
use countersign_audit_log::AnswerVerdict;
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{CallId, Timestamp};
use countersign_host::error::HostError;
use countersign_host::questions::{QuestionQueue, report};
use countersign_host::serve_part::Duty;
use countersign_host::time::now;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::access::Caller;
use crate::app::App;
use crate::body::members;
use crate::problem::Problem;

/// The body of `POST /v1/questions/ID/answer`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    answer: GivenAnswer,
    reason: Option<String>,
    #[serde(rename = "args")]
    _args: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum GivenAnswer {
    Approve,
    Deny,
}

/// Lists the questions that wait, oldest first.
pub(crate) fn list(app: &App) -> Result<String, Problem> {
    let list = || {
        let now = now()?;
        let Some(queue) = QuestionQueue::open(&app.config)? else { return Ok(Vec::new()) };
        let waiting = queue.store().list(now)?;
        waiting.iter().map(|pending| shown(&queue, pending, &PendingState::Waiting, now)).collect()
    };
    let questions: Vec<Value> = list().map_err(|error| problem(app, &error))?;
    Ok(json!({"questions": questions}).to_string())
}

/// Shows one question in any state. A caller that has calls decided sees the state of its own questions.
pub(crate) fn show(app: &App, caller: &Caller, typed: &str) -> Result<String, Problem> {
    let found = || -> Result<_, HostError> {
        let now = now()?;
        let queue = QuestionQueue::open(&app.config)?.ok_or_else(QuestionQueue::unknown)?;
        let (pending, state) = queue.get(&queue.find(typed, false, now)?)?;
        let shown = shown(&queue, &pending, &state, now)?;
        Ok((pending, shown))
    };
    let (pending, shown) = found().map_err(|error| problem(app, &error))?;
    if caller.may(Duty::Answer) || caller.may(Duty::Read) {
        return Ok(shown.to_string());
    }
    let session = pending.binding().session.as_ref();
    if session.is_none_or(|session| app.sessions.get(session, caller).is_err()) {
        return Err(problem(app, &QuestionQueue::unknown()));
    }
    let own = ["id", "call_id", "state", "expires", "denied_because"];
    Ok(own
        .iter()
        .map(|name| ((*name).to_owned(), shown.get(*name).cloned().unwrap_or_default()))
        .collect::<Value>()
        .to_string())
}

/// Gives the caller's answer to a question. The answer is recorded before it counts.
pub(crate) fn answer(app: &App, caller: &Caller, typed: &str, body: &Canonical) -> Result<String, Problem> {
    let given: AnswerBody = members(body)?;
    if given.answer == GivenAnswer::Approve && given.reason.is_some() {
        return Err(Problem::bad("BODY_MALFORMED", "`reason` is for a denial"));
    }
    let reason = given.reason.as_deref().map(DenialReason::new).transpose();
    let reason = reason.map_err(|error| Problem::bad(error.code(), error.to_string()))?;
    // Arguments of the approver's own, in place of the agent's.
    let edited = body.value().get("args").map(ValueRef::canonical_text);
    if given.answer == GivenAnswer::Deny && edited.is_some() {
        return Err(Problem::bad("BODY_MALFORMED", "`args` is for an approval"));
    }
    let answer = || -> Result<Value, HostError> {
        let now = now()?;
        let queue = QuestionQueue::open(&app.config)?.ok_or_else(QuestionQueue::unknown)?;
        let is_denial = given.answer == GivenAnswer::Deny;
        let id: CallId = queue.find(typed, !is_denial, now)?;
        let verdict = if is_denial { AnswerVerdict::Denied } else { AnswerVerdict::Approved };
        let mut pending = queue.answerable(&id, verdict, now)?;
        let record = queue.answer_record(&app.reporter)?;
        if is_denial {
            queue.deny(&pending, &caller.name, reason.as_ref(), record)?;
            return Ok(json!({"id": id, "state": "denied", "by": caller.name}));
        }
        queue.check_approver(&pending, &caller.name)?;
        if let Some(args) = &edited {
            pending = queue.edit(&pending, args)?;
        }
        let approval = queue.approve(&pending, &caller.name, record)?;
        Ok(json!({
            "id": id,
            "state": if approval.is_complete() { "approved" } else { "waiting" },
            "by": caller.name,
            "token_id": approval.token_id,
            "expires": approval.expires,
            "edited_to": pending.edited_digest(),
        }))
    };
    answer().map(|answer| answer.to_string()).map_err(|error| problem(app, &error))
}

fn shown(
    queue: &QuestionQueue<'_>,
    pending: &PendingApproval,
    state: &PendingState,
    now: Timestamp,
) -> Result<Value, HostError> {
    let mut question = report(pending);
    let state = queue.state(pending, state, now)?;
    let denial = queue.store().find_denied(pending.binding(), now)?;
    if let Some(members) = question.as_object_mut() {
        members.insert("id".to_owned(), json!(pending.id()));
        members.insert("short_id".to_owned(), json!(queue.store().short_id(pending.id(), now)?));
        members.insert("state".to_owned(), json!(state));
        if let Some(by) = queue.approved_by(pending)? {
            members.insert("approved_by".to_owned(), json!(by));
        }
        members.insert("goal".to_owned(), json!(queue.goal(pending.binding())));
        members.insert("denied_by".to_owned(), json!(denial.as_ref().map(|denial| &denial.by)));
        let reason = denial.as_ref().and_then(|denial| denial.reason.as_ref());
        members.insert("denied_because".to_owned(), json!(reason.map(DenialReason::as_str)));
    }
    Ok(question)
}

pub(crate) fn problem(app: &App, error: &HostError) -> Problem {
    let status = match error.code() {
        "PENDING_UNKNOWN" | "GRANT_UNKNOWN" | "CONFIG_NO_APPROVALS" => StatusCode::NOT_FOUND,
        "PENDING_AMBIGUOUS"
        | "PENDING_DECIDED"
        | "PENDING_EXPIRED"
        | "PENDING_KIND"
        | "GRANT_USED_UP"
        | "PENDING_EDIT"
        | "PENDING_DENIED"
        | "SESSION_ENDED"
        | "PENDING_SAME_APPROVER" => StatusCode::CONFLICT,
        "APPROVAL_SELF" | "PENDING_APPROVER" => StatusCode::FORBIDDEN,
        "ARGS_SCHEMA" | "ARGS_CONSTRAINT" | "GRANT_NOT_TAKEN" | "GRANT_CONDITIONS" | "GRANT_USES"
        | "APPROVAL_TTL" => StatusCode::BAD_REQUEST,
        _ => return Problem::of(error, &app.reporter),
    };
    Problem::new(status, error.code(), error.line())
}
