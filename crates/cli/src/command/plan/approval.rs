use std::path::PathBuf;
use std::sync::Arc;

use countersign_approval_token::{
    ApprovalToken, CallBinding, PendingApproval, PendingApprovals as _, PendingError,
};
use countersign_core::{CallId, Millis, OperatorId, RunId};
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::{ApprovalRequest, RejectionCode};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;
use crate::shown::shown_json;
use crate::time::now;

/// How an approval can be had that is missing.
#[derive(Debug)]
pub(super) enum Asking {
    /// It cannot: no approval is taken.
    Nobody,
    /// By minting a token with the gate's key file.
    Minting { key_file: PathBuf, run: RunId },
    /// By approving what is filed in the configuration's store.
    Filing { config: PathBuf, ttl: Millis },
}

/// What somebody has said.
#[derive(Debug)]
pub(super) enum Answer {
    /// Yes: the token, with the call id that it binds.
    Approved(CallId, ApprovalToken),
    /// No, and who said so.
    Denied(OperatorId),
}

/// Finds approvals that were given, and says what has to be approved where there is none.
#[derive(Debug)]
pub(super) struct Approvals {
    asking: Asking,
    store: Option<Arc<SqliteStore>>,
}

impl Approvals {
    pub(super) const fn new(asking: Asking, store: Option<Arc<SqliteStore>>) -> Self {
        Self { asking, store }
    }

    /// What was said to exactly this. Where nobody has said anything, it prints what has to be approved, files it where it can be
    /// filed, and gives the refusal. `args_file` is a file that holds the arguments, if there is one.
    pub(super) fn answer(
        &self,
        out: &mut Output,
        what: &str,
        request: &ApprovalRequest,
        args_file: Option<&str>,
    ) -> Result<Answer, Failure> {
        if let Some(answer) = self.find(request.binding())? {
            return Ok(answer);
        }
        let refused = self.ask(out, what, request, args_file);
        // Somebody may have said something between the look and the question.
        self.find(request.binding()).ok().flatten().ok_or(refused)
    }

    /// Who said no to exactly this, if anybody did.
    pub(super) fn denied(&self, request: &ApprovalRequest) -> Result<Option<OperatorId>, Failure> {
        Ok(match self.find(request.binding())? {
            Some(Answer::Denied(by)) => Some(by),
            Some(Answer::Approved(..)) | None => None,
        })
    }

    /// Whether questions are filed, where an answer may have been given already.
    pub(super) const fn are_filed(&self) -> bool {
        matches!((&self.asking, &self.store), (Asking::Filing { .. }, Some(_)))
    }

    /// A no comes before a yes, and both are of exactly this.
    fn find(&self, binding: &CallBinding) -> Result<Option<Answer>, Failure> {
        let (Asking::Filing { .. }, Some(store)) = (&self.asking, &self.store) else {
            return Ok(None);
        };
        if let Some((_, by)) = store.find_denied(binding, now()?)? {
            return Ok(Some(Answer::Denied(by)));
        }
        let approved = store.find_approved(binding, now()?)?;
        Ok(approved.map(|(id, token)| Answer::Approved(id, token)))
    }

    /// Whether the session takes approvals at all.
    pub(super) const fn are_taken(&self) -> bool {
        self.store.is_some()
    }

    /// Takes an approval out of the store that has been used or can never be. What keeps it from being used twice is the
    /// gate's own store of spent tokens, not this.
    pub(super) fn retire(&self, id: &CallId, refused: Option<RejectionCode>) -> Result<(), Failure> {
        let is_over = refused.is_none_or(|code| {
            matches!(
                code,
                RejectionCode::ApprovalSpent
                    | RejectionCode::ApprovalExpired
                    | RejectionCode::ApprovalInvalid
            )
        });
        match self.store.as_ref().filter(|_| is_over) {
            Some(store) => Ok(store.mark_used(id)?),
            None => Ok(()),
        }
    }

    fn ask(
        &self,
        out: &mut Output,
        what: &str,
        request: &ApprovalRequest,
        args_file: Option<&str>,
    ) -> Failure {
        let command = match self.command(request, args_file) {
            Ok(command) => command,
            Err(failure) => return failure,
        };
        let told = if out.is_json() {
            out.json(&json!({"approval_request": report(request), "approve_with": command}))
        } else {
            let mut text = describe(what, request);
            if let Some(command) = &command {
                let command: Vec<_> = command.iter().map(|word| shell_word(word)).collect();
                text.push_str(&format!("\nto approve: {}", command.join(" ")));
                if matches!(self.asking, Asking::Minting { .. }) && args_file.is_none() {
                    text.push_str("\n(args.json being the arguments above)");
                }
            }
            out.line(&text)
        };
        told.err()
            .unwrap_or_else(|| Failure::refused("APPROVAL_REQUIRED", format!("{what} must be approved")))
    }

    /// The command that approves it. Where approvals are filed, it is filed first.
    fn command(
        &self,
        request: &ApprovalRequest,
        args_file: Option<&str>,
    ) -> Result<Option<Vec<String>>, Failure> {
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
            (Asking::Minting { key_file, run }, Some(_)) => {
                let key_file = key_file.display().to_string();
                let mut words = vec!["countersign".to_owned(), "token".to_owned(), "mint".to_owned()];
                let options = bound(request.binding());
                let first = [("key-file", key_file), ("run", run.to_string())].into_iter();
                let last = [("args", args_file.unwrap_or("args.json").to_owned()), ("ttl", "10m".to_owned())];
                for (name, value) in first.chain(options).chain(last) {
                    words.extend([format!("--{name}"), value]);
                }
                Ok(Some(words))
            }
        }
    }
}

/// Everything that a token has to bind but the arguments, by the names of `token mint`.
fn bound(binding: &CallBinding) -> Vec<(&'static str, String)> {
    let mut bound = vec![
        ("call-id", binding.call_id().to_string()),
        ("server", binding.tool().server().to_string()),
        ("tool", binding.tool().name().to_string()),
        ("principal", binding.principal().to_string()),
    ];
    bound.extend(binding.agent().map(|agent| ("agent", agent.to_string())));
    bound.extend(binding.session().map(|session| ("session", session.to_string())));
    bound.extend(binding.audience().map(|audience| ("audience", audience.to_string())));
    bound.extend(binding.definition().map(|definition| ("definition", definition.to_string())));
    bound.extend(binding.ask().map(|goal| ("ask", goal.to_string())));
    bound.extend(binding.plan().map(|plan| ("plan", plan.to_string())));
    bound.extend(binding.registry_version().map(|version| ("registry-version", version.to_string())));
    bound
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

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
