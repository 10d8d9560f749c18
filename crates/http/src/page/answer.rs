//! Answers of a person who is logged in.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign_approval_token::{DenialReason, PendingApproval};
use countersign_audit_log::AnswerVerdict;
use countersign_core::{CallId, Millis};
use countersign_host::questions::{GrantWish, QuestionQueue};
use countersign_host::time::now;

use super::form::Form;
use super::frame::{PageState, failed, redirect, worked};
use super::person::Person;
use super::queue::path_text;
use crate::answers::problem;
use crate::app::App;
use crate::people::Login;
use crate::problem::Problem;

pub(super) async fn give(
    State(app): PageState,
    Person(login): Person,
    Path((id, answer)): Path<(String, String)>,
    given: Result<Form, Problem>,
) -> Response {
    let form = match given.and_then(|form| login.check(form.field("csrf")).map(|()| form)) {
        Ok(form) => form,
        Err(problem) => return failed(&problem, Some(&login)),
    };
    worked(app, login, move |app, login| {
        let unknown = || Problem::new(StatusCode::NOT_FOUND, "PATH_UNKNOWN", "the page has no such answer");
        let verdict = verdict_of(&answer).ok_or_else(unknown)?;
        let edited = (answer == "edit").then(|| form.field("edited"));
        answered(app, login, &id, (verdict, edited), &form)?;
        Ok(redirect(&format!("/page/q/{}", path_text(&id))))
    })
    .await
}

/// Gives the answer. It is recorded before it counts.
fn answered(
    app: &App,
    login: &Login,
    id: &str,
    (verdict, edited): (AnswerVerdict, Option<&str>),
    form: &Form,
) -> Result<(), Problem> {
    let failure = |error| problem(app, &error);
    let bad = |code, text: String| Problem::bad(code, text);
    let queue = QuestionQueue::open(&app.config).map_err(failure)?;
    let queue = queue.ok_or_else(|| failure(QuestionQueue::unknown()))?;
    // The whole id: a form names one question.
    let id = CallId::new(id).map_err(|_| failure(QuestionQueue::unknown()))?;
    let pending = queue.answerable(&id, verdict, now().map_err(failure)?).map_err(failure)?;
    still_shown(&pending, form.field("args"))?;
    let record = queue.answer_record(&app.reporter).map_err(failure)?;
    let by = &login.user;
    match verdict {
        AnswerVerdict::Denied => {
            let reason = Some(form.field("reason").trim()).filter(|reason| !reason.is_empty());
            let reason = reason.map(DenialReason::new).transpose();
            let reason = reason.map_err(|error| bad(error.code(), error.to_string()))?;
            queue.deny(&pending, by, reason.as_ref(), record).map_err(failure)
        }
        AnswerVerdict::Granted => {
            let uses = form.field("uses").trim().parse();
            let uses =
                uses.map_err(|_| bad("GRANT_USES", "the number of calls is not a number".to_owned()))?;
            let ttl: Result<Millis, _> = form.field("ttl").trim().parse();
            let ttl = ttl.map_err(|_| bad("APPROVAL_TTL", "the time is not a span such as 1h".to_owned()))?;
            let mut wish = GrantWish::new(uses, ttl);
            let conditions = form.field("where").trim();
            wish.conditions = Some(conditions.to_owned()).filter(|text| !text.is_empty());
            queue.grant(&pending, by, &wish, record).map(drop).map_err(failure)
        }
        AnswerVerdict::Approved => {
            let edited = edited.map(|text| queue.edit(&pending, text)).transpose().map_err(failure)?;
            let pending = edited.as_ref().unwrap_or(&pending);
            queue.approve(pending, by, record).map(drop).map_err(failure)
        }
        AnswerVerdict::Revoked | _ => Err(failure(QuestionQueue::unknown())),
    }
}

/// Checks that the question is still the one that the form showed.
fn still_shown(pending: &PendingApproval, digest: &str) -> Result<(), Problem> {
    if pending.binding().args.to_string() == digest {
        return Ok(());
    }
    let text = "the form is of other arguments: open the question again";
    Err(Problem::new(StatusCode::CONFLICT, "FORM_FOREIGN", text))
}

/// Verdict of an answer in a path.
fn verdict_of(answer: &str) -> Option<AnswerVerdict> {
    match answer {
        "approve" | "edit" => Some(AnswerVerdict::Approved),
        "deny" => Some(AnswerVerdict::Denied),
        "grant" => Some(AnswerVerdict::Granted),
        _ => None,
    }
}
