use std::path::PathBuf;
use std::sync::Arc;

use countersign_approval_token::{PendingApproval, PendingApprovals as _, PendingError};
use countersign_core::{CallId, Millis, OperatorId, RunId, SpendError, SpentTokens as _, Ticket};
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::{ApprovalRequest, RejectionCode};
use serde_json::json;

use crate::failure::{Failure, chain, one_line};
use crate::minting::{bound, mint_words, shell_line};
use crate::output::{Output, note};
use crate::time::now;
use countersign_host::escape::shown_json;

/// How a missing approval can be obtained.
#[derive(Debug)]
pub(super) enum ApprovalRoute {
    /// Not at all: the session accepts no approvals.
    Unavailable,
    /// By minting a token with the gate's key file.
    Minting { key_file: PathBuf, run: RunId, ttl: Millis },
    /// By approving the question filed in the configuration's store.
    Filing { config: PathBuf, ttl: Millis },
}

/// A subject of approval: the plan, or one of its calls.
#[derive(Debug)]
pub(super) struct Question {
    /// Description for a person.
    pub(super) what: String,
    pub(super) request: ApprovalRequest,
    /// Verified token from the command line for this subject.
    pub(super) given: Option<String>,
    /// File that contains the arguments, if there is one.
    pub(super) args_file: Option<String>,
    /// Another call of the plan is the same act. Then only a decision on this exact id counts.
    pub(super) is_one_of_several: bool,
}

impl Question {
    pub(super) const fn new(
        what: String,
        request: ApprovalRequest,
        given: Option<String>,
        args_file: Option<String>,
    ) -> Self {
        Self { what, request, given, args_file, is_one_of_several: false }
    }
}

/// Decision on a question.
#[derive(Debug)]
pub(super) enum QuestionAnswer {
    Yes(Yes),
    /// Denial, with the operator who denied.
    No(OperatorId),
}

/// Approval that is still unused here.
#[derive(Debug)]
pub(super) struct Yes {
    pub(super) token: String,
    /// Tokens of the other persons, if the call needs several.
    pub(super) more: Vec<String>,
    /// Id that the approval binds, if it came from the store.
    filed: Option<CallId>,
}

impl Yes {
    /// Returns the id that the approval binds.
    pub(super) fn call_id<'a>(&'a self, question: &'a Question) -> &'a CallId {
        self.filed.as_ref().unwrap_or_else(|| &question.request.binding().call_id)
    }
}

/// Looks up approvals and asks for missing ones.
#[derive(Debug)]
pub(super) struct Approvals {
    asking: ApprovalRoute,
    store: Option<Arc<SqliteStore>>,
    /// The operator knows the session's id and can run the plan again with it.
    session_is_named: bool,
}

impl Approvals {
    pub(super) const fn new(
        asking: ApprovalRoute,
        store: Option<Arc<SqliteStore>>,
        session_is_named: bool,
    ) -> Self {
        Self { asking, store, session_is_named }
    }

    /// Returns the decision on exactly this question. A filed denial takes precedence over any approval.
    pub(super) fn answer(&self, question: &Question) -> Result<Option<QuestionAnswer>, Failure> {
        let binding = question.request.binding();
        let store = self.store.as_ref().filter(|_| self.are_filed());
        if let Some(store) = store
            && let Some(denial) = store.find_denied(binding, now()?)?
        {
            return Ok(Some(QuestionAnswer::No(denial.by)));
        }
        if let Some(token) = question.given.clone() {
            return Ok(Some(QuestionAnswer::Yes(Yes { token, more: Vec::new(), filed: None })));
        }
        let Some(store) = store else { return Ok(None) };
        let found = store.find_approved(binding, now()?)?;
        let found = found.filter(|(id, _)| !question.is_one_of_several || id == &binding.call_id);
        let Some((id, token)) = found else { return Ok(None) };
        let more = store.approvals(&id)?;
        let more = more.iter().skip(1).map(|token| token.as_str().to_owned()).collect();
        Ok(Some(QuestionAnswer::Yes(Yes { token: token.as_str().to_owned(), more, filed: Some(id) })))
    }

    /// Prints the missing approvals and, if possible, files them. It asks for all of them at once: nothing starts
    /// before the last one is given.
    pub(super) fn ask(&self, out: &mut Output, missing: &[&Question]) -> Result<(), Failure> {
        if !self.session_is_named {
            let text = "approvals bind one session, each run has a new one: name it with --session";
            return Err(Failure::new("PLAN_SESSION_UNNAMED", text));
        }
        for (at, question) in (1_u64..).zip(missing) {
            let default = if missing.len() > 1 { format!("args-{at}.json") } else { "args.json".to_owned() };
            match self.ask_one(out, question, &default) {
                Err(AskFailure::Full(_)) if at > 1 => {
                    note("note: too many pending approvals; the others are requested once these are decided");
                    break;
                }
                Err(AskFailure::Full(failure) | AskFailure::Other(failure)) => return Err(failure),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Returns `true` if questions are filed in a store, where others can answer them.
    pub(super) const fn are_filed(&self) -> bool {
        matches!(self.asking, ApprovalRoute::Filing { .. })
    }

    /// Returns `true` if the session accepts approvals.
    pub(super) const fn are_taken(&self) -> bool {
        self.store.is_some()
    }

    /// Checks that a token could be spent now, without spending it.
    pub(super) fn check_unspent(&self, ticket: &Ticket) -> Result<Result<(), RejectionCode>, Failure> {
        let Some(store) = &self.store else { return Ok(Ok(())) };
        Ok(match store.can_spend(ticket, now()?) {
            Ok(()) => Ok(()),
            Err(SpendError::Spent) => Err(RejectionCode::ApprovalSpent),
            Err(SpendError::ClockAhead) => Err(RejectionCode::StoreClockAhead),
            Err(SpendError::TooNew) => Err(RejectionCode::StoreTooNew),
            Err(error) => return Err(error.into()),
        })
    }

    /// Marks a filed approval as used if it was used or can no longer be. The gate's own store of spent tokens prevents
    /// a second use, so a failure here does not end the run.
    pub(super) fn retire(&self, yes: &Yes, refused: Option<RejectionCode>) {
        let Some(id) = &yes.filed else { return };
        let is_over = refused.is_none_or(|code| {
            matches!(
                code,
                RejectionCode::ApprovalSpent
                    | RejectionCode::ApprovalExpired
                    | RejectionCode::ApprovalInvalid
                    | RejectionCode::StoreTooNew
            )
        });
        let Some(store) = self.store.as_ref().filter(|_| is_over) else { return };
        match store.mark_used(id) {
            // Another process may have marked it already.
            Ok(()) | Err(PendingError::Decided) => {}
            Err(error) => {
                note(&format!(
                    "warning {}: {id} stays open in the store: {}",
                    error.code(),
                    one_line(&chain(&error))
                ));
            }
        }
    }

    fn ask_one(&self, out: &mut Output, question: &Question, default: &str) -> Result<(), AskFailure> {
        let Question { what, request, args_file, .. } = question;
        let command = self.command(request, args_file.as_deref().unwrap_or(default))?;
        if out.is_json() {
            return Ok(out.json(&json!({"approval_request": report(request), "approve_with": command}))?);
        }
        let mut text = describe(what, request);
        if let Some(command) = &command {
            text.push_str(&format!("\nto approve: {}", shell_line(command)));
            if matches!(self.asking, ApprovalRoute::Minting { .. }) && args_file.is_none() {
                text.push_str(&format!("\n({default} being the arguments above)"));
            }
        }
        Ok(out.line(&text)?)
    }

    /// Returns the command that approves the request. If approvals are filed, files the request first.
    fn command(&self, request: &ApprovalRequest, args_file: &str) -> Result<Option<Vec<String>>, AskFailure> {
        match (&self.asking, &self.store) {
            (ApprovalRoute::Unavailable, _) | (_, None) => Ok(None),
            (ApprovalRoute::Filing { config, ttl }, Some(store)) => {
                let mut pending =
                    PendingApproval::new(request.binding().clone(), request.args(), now()?, *ttl)?
                        .session_end(request.session_ends());
                if let Some(approvers) = request.approvers() {
                    pending = pending.approved_by_several(approvers.clone());
                }
                let id = store.request(&pending).map_err(|error| {
                    if matches!(error, PendingError::Conflict) {
                        let text =
                            "approval used or expired; run the plan in another session to request it again";
                        return AskFailure::Other(Failure::refused(error.code(), text));
                    }
                    let is_full = matches!(error, PendingError::Full);
                    if is_full { AskFailure::Full(error.into()) } else { AskFailure::Other(error.into()) }
                })?;
                let words = ["countersign", "approve", id.as_str(), "--config"].map(str::to_owned);
                Ok(Some(words.into_iter().chain([config.display().to_string()]).collect()))
            }
            (ApprovalRoute::Minting { .. }, Some(_))
                if request.approvers().is_some_and(|it| it.needed() > 1) =>
            {
                let text = "the plan has a call that needs several approvals: run it with --config";
                Err(Failure::refused("APPROVAL_REQUIRED", text).into())
            }
            (ApprovalRoute::Minting { key_file, run, ttl }, Some(_)) => {
                let key_file = key_file.display().to_string();
                Ok(Some(mint_words(&key_file, run.as_str(), *ttl, request.binding(), args_file)))
            }
        }
    }
}

/// Reason why a question could not be asked.
enum AskFailure {
    /// As many questions wait as can.
    Full(Failure),
    Other(Failure),
}

impl<E> From<E> for AskFailure
where
    Failure: From<E>,
{
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

fn report(request: &ApprovalRequest) -> serde_json::Value {
    let binding = request.binding();
    json!({
        "call_id": &binding.call_id,
        "server": binding.tool.server(),
        "tool": binding.tool.name(),
        "args": request.args().as_str(),
        "args_digest": &binding.args,
        "principal": &binding.principal,
        "agent": binding.agent.as_ref(),
        "session": binding.session.as_ref(),
        "audience": binding.audience.as_ref(),
        "definition": binding.definition.as_ref(),
        "ask": binding.ask.as_ref(),
        "plan": binding.plan.as_ref(),
        "registry_version": binding.registry_version,
    })
}

/// Describes the subject of approval for a person. Ids contain no invisible characters; those in the arguments are
/// escaped.
fn describe(what: &str, request: &ApprovalRequest) -> String {
    let mut text = format!("{what} must be approved:");
    for (name, value) in bound(request.binding()) {
        text.push_str(&format!("\n{name:<17}{value}"));
    }
    let (digest, args) = (&request.binding().args, shown_json(request.args().as_str()));
    text.push_str(&format!("\narguments        (sha-256 {digest})\n{args}"));
    text
}
