use std::path::PathBuf;
use std::sync::Arc;

use countersign_approval_token::{PendingApproval, PendingApprovals as _, PendingError};
use countersign_core::{CallId, Millis, OperatorId, RunId, SpendError, Ticket};
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::{ApprovalRequest, RejectionCode};
use serde_json::json;

use crate::failure::{Failure, chain, one_line};
use crate::minting::{bound, mint_words, shell_line};
use crate::output::{Output, note};
use crate::shown::shown_json;
use crate::time::now;

/// How an approval can be had that is missing.
#[derive(Debug)]
pub(super) enum Asking {
    /// It cannot: no approval is taken.
    Nobody,
    /// By minting a token with the gate's key file.
    Minting { key_file: PathBuf, run: RunId, ttl: Millis },
    /// By approving what is filed in the configuration's store.
    Filing { config: PathBuf, ttl: Millis },
}

/// Something that has to be approved: the plan, or one of its calls.
#[derive(Debug)]
pub(super) struct Question {
    /// What it is about, for a person.
    pub(super) what: String,
    pub(super) request: ApprovalRequest,
    /// The token that came with the command line for exactly this, and verified.
    pub(super) given: Option<String>,
    /// A file that holds the arguments, if there is one.
    pub(super) args_file: Option<String>,
    /// Whether another call of the plan is the same act: only what was said to this very id counts then.
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

/// What somebody has said.
#[derive(Debug)]
pub(super) enum Answer {
    Yes(Yes),
    /// No, and who said so.
    No(OperatorId),
}

/// An approval that nobody has used here yet.
#[derive(Debug)]
pub(super) struct Yes {
    pub(super) token: String,
    /// The id that it binds, where it was found in the store.
    filed: Option<CallId>,
}

impl Yes {
    /// The id that it binds.
    pub(super) fn call_id<'a>(&'a self, question: &'a Question) -> &'a CallId {
        self.filed.as_ref().unwrap_or_else(|| question.request.binding().call_id())
    }
}

/// Finds approvals that were given, and says what has to be approved where there is none.
#[derive(Debug)]
pub(super) struct Approvals {
    asking: Asking,
    store: Option<Arc<SqliteStore>>,
    /// Whether whoever runs the plan knows the session's id and can come again with it.
    session_is_named: bool,
}

impl Approvals {
    pub(super) const fn new(asking: Asking, store: Option<Arc<SqliteStore>>, session_is_named: bool) -> Self {
        Self { asking, store, session_is_named }
    }

    /// What was said to exactly this. A no that was filed comes before any yes.
    pub(super) fn answer(&self, question: &Question) -> Result<Option<Answer>, Failure> {
        let binding = question.request.binding();
        let store = self.store.as_ref().filter(|_| self.are_filed());
        if let Some(store) = store
            && let Some(denial) = store.find_denied(binding, now()?)?
        {
            return Ok(Some(Answer::No(denial.by)));
        }
        if let Some(token) = question.given.clone() {
            return Ok(Some(Answer::Yes(Yes { token, filed: None })));
        }
        let Some(store) = store else { return Ok(None) };
        let found = store.find_approved(binding, now()?)?;
        let found = found.filter(|(id, _)| !question.is_one_of_several || id == binding.call_id());
        Ok(found.map(|(id, token)| Answer::Yes(Yes { token: token.as_str().to_owned(), filed: Some(id) })))
    }

    /// Says what has to be approved, and files it where it can be filed: everything that is missing at once, for nothing begins
    /// before all of it is there.
    pub(super) fn ask(&self, out: &mut Output, missing: &[&Question]) -> Result<(), Failure> {
        if !self.session_is_named {
            let text = "an approval is for one session, and the next run has another: name it with --session";
            return Err(Failure::new("PLAN_SESSION_UNNAMED", text));
        }
        for (at, question) in (1_u64..).zip(missing) {
            let default = if missing.len() > 1 { format!("args-{at}.json") } else { "args.json".to_owned() };
            match self.ask_one(out, question, &default) {
                Err(failure) if at > 1 && failure.code() == PendingError::Full.code() => {
                    note("note: no more questions can wait; the others are asked once these are answered");
                    break;
                }
                asked => asked?,
            }
        }
        Ok(())
    }

    /// Whether questions are filed, where others can answer them.
    pub(super) const fn are_filed(&self) -> bool {
        matches!(self.asking, Asking::Filing { .. })
    }

    /// Whether the session takes approvals at all.
    pub(super) const fn are_taken(&self) -> bool {
        self.store.is_some()
    }

    /// Checks that a token could be spent now, and spends nothing.
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

    /// Takes an approval out of the store that has been used or can never be. What keeps it from being used twice is the
    /// gate's own store of spent tokens, not this: where it fails, the run goes on.
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
            // Somebody else may have tried it as well.
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

    fn ask_one(&self, out: &mut Output, question: &Question, default: &str) -> Result<(), Failure> {
        let Question { what, request, args_file, .. } = question;
        let command = self.command(request, args_file.as_deref().unwrap_or(default))?;
        if out.is_json() {
            return out.json(&json!({"approval_request": report(request), "approve_with": command}));
        }
        let mut text = describe(what, request);
        if let Some(command) = &command {
            text.push_str(&format!("\nto approve: {}", shell_line(command)));
            if matches!(self.asking, Asking::Minting { .. }) && args_file.is_none() {
                text.push_str(&format!("\n({default} being the arguments above)"));
            }
        }
        out.line(&text)
    }

    /// The command that approves it. Where approvals are filed, it is filed first.
    fn command(&self, request: &ApprovalRequest, args_file: &str) -> Result<Option<Vec<String>>, Failure> {
        match (&self.asking, &self.store) {
            (Asking::Nobody, _) | (_, None) => Ok(None),
            (Asking::Filing { config, ttl }, Some(store)) => {
                let pending = PendingApproval::new(request.binding().clone(), request.args(), now()?, *ttl)?
                    .with_session_end(request.session_ends());
                let id = store.request(&pending).map_err(|error| {
                    if matches!(error, PendingError::Conflict) {
                        let text = "it was used or is over; the plan for another session is another question";
                        return Failure::refused(error.code(), text);
                    }
                    error.into()
                })?;
                let words = ["countersign", "approve", id.as_str(), "--config"].map(str::to_owned);
                Ok(Some(words.into_iter().chain([config.display().to_string()]).collect()))
            }
            (Asking::Minting { key_file, run, ttl }, Some(_)) => {
                let key_file = key_file.display().to_string();
                Ok(Some(mint_words(&key_file, run.as_str(), *ttl, request.binding(), args_file)))
            }
        }
    }
}

fn report(request: &ApprovalRequest) -> serde_json::Value {
    let binding = request.binding();
    json!({
        "call_id": binding.call_id(),
        "server": binding.tool().server(),
        "tool": binding.tool().name(),
        "args": request.args().as_str(),
        "args_digest": binding.args(),
        "principal": binding.principal(),
        "agent": binding.agent(),
        "session": binding.session(),
        "audience": binding.audience(),
        "definition": binding.definition(),
        "ask": binding.ask(),
        "plan": binding.plan(),
        "registry_version": binding.registry_version(),
    })
}

/// What has to be approved, for a person. Ids hold nothing hidden; the arguments are shown with it spelled out.
fn describe(what: &str, request: &ApprovalRequest) -> String {
    let mut text = format!("{what} must be approved:");
    for (name, value) in bound(request.binding()) {
        text.push_str(&format!("\n{name:<17}{value}"));
    }
    let (digest, args) = (request.binding().args(), shown_json(request.args().as_str()));
    text.push_str(&format!("\narguments        (sha-256 {digest})\n{args}"));
    text
}
