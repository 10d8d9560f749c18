use std::path::PathBuf;

use clap::Args;
use countersign_approval_token::{
    DenialReason, PendingApproval, PendingApprovals as _, PendingError, PendingState, short_id,
};
use countersign_core::{CallId, OperatorId, Timestamp};
use countersign_sqlite::SqliteStore;
use serde_json::json;

use crate::command::mcp::waiting_plan::{WaitingPlan, spelled};
use crate::failure::{Exit, Failure};
use crate::output::{Output, ask_at_terminal, reporter};
use crate::time::now;
use countersign_host::config_file::{ApprovalPart, ConfigFile, find_config};
use countersign_host::escape::shown_id;

mod answer;
mod shown;
mod watch;

use answer::{Answering, open_existing, unknown};
use shown::{describe, goal_of, named, question, report};
use watch::watch;

/// Fewest characters of an id prefix that can name a call.
const MIN_PREFIX: usize = 4;

/// Answers accepted at the prompt.
const CHOICES: &str = "[y: approve, n: deny, anything else: leave it waiting]";

/// Approve a call, or a plan, that waits at a gateway, or deny it.
///
/// Shows the exact call, or every step of the plan, with invisible characters escaped, and asks. Of an action proposal that
/// came with the call it shows claims, evidence and signers, and whether they verified. The approval is of the call alone:
/// the client's next try of the same tool with the same arguments, or of the same steps, uses it up. The answer is recorded,
/// in a log of its own beside the gateway's, before it counts. Who can read the configuration's key files can approve.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign approve list --config gateway.toml\n  \
    countersign approve --watch --by ada\n  \
    countersign approve k3f9 --by ada\n  \
    countersign approve k3f9 --show\n  \
    countersign approve k3f9 --deny --by ada --reason 'ask finance first'")]
pub(crate) struct ApproveArgs {
    /// The approval id that the client received, or a unique prefix of four or more characters; `list` for all
    /// that wait.
    #[arg(default_value = "list")]
    id: String,
    /// The gateway's configuration; without it `gateway.toml` in this folder, or else `countersign/gateway.toml` in the user's
    /// configuration folder.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Deny it instead, without asking. A denial counts until the session ends: the client cannot ask for the same again.
    #[arg(long)]
    deny: bool,
    /// Reason for the denial, at most 200 bytes. It is recorded, and the agent reads it.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    reason: Option<DenialReason>,
    /// Also list the approvals of sessions that have ended. They cannot be granted.
    #[arg(long, conflicts_with_all = ["yes", "deny", "show"])]
    all: bool,
    /// Show it and ask nothing.
    #[arg(long, conflicts_with_all = ["yes", "deny"])]
    show: bool,
    /// Ask about each call or plan as it comes, with a bell, until `q` or Ctrl-C.
    #[arg(long, conflicts_with_all = ["yes", "deny", "show", "all"])]
    watch: bool,
    /// Name of the approver; it is recorded.
    #[arg(long, visible_alias = "by", value_name = "NAME", default_value = "operator")]
    approver: OperatorId,
}

/// The answer of a person at a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypedAnswer {
    Yes,
    No,
    Neither,
}

impl TypedAnswer {
    fn of(line: &str) -> Self {
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Self::Yes,
            "n" | "no" => Self::No,
            _ => Self::Neither,
        }
    }
}

impl ApproveArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let path = find_config(self.config.as_deref())?;
        let config = ConfigFile::read(&path)?;
        let approval = config.approval.as_ref().ok_or_else(|| {
            Failure::new("CONFIG_NO_APPROVALS", "`approval` missing in the configuration")
                .about(path.display())
        })?;
        if self.watch {
            if self.id != "list" {
                return Err(Failure::usage("--watch takes no id"));
            }
            return watch(out, &config, approval, &self.approver);
        }
        if self.id == "list" {
            if self.yes || self.deny || self.show {
                return Err(Failure::usage("--yes, --deny and --show need the id of a call"));
            }
            return list(out, approval, self.all);
        }
        if self.all {
            return Err(Failure::usage("--all is only valid with `list`"));
        }
        let store = open_existing(approval)?;
        let id = self.find(&store, now()?)?;
        let (pending, state) = store.get(&id)?.ok_or_else(unknown)?;
        let goal = goal_of(&config, pending.binding());
        let goal = goal.as_deref();
        if self.show {
            return show(out, &store, &pending, &state, goal);
        }
        if !self.deny && store.has_session_ended(&pending, now()?)? {
            return Err(PendingError::SessionEnded.into());
        }
        let is_open = match state {
            PendingState::Waiting => true,
            // An unused approval can be withdrawn.
            PendingState::Approved(_) => self.deny,
            PendingState::Denied | PendingState::Used | _ => false,
        };
        if !is_open {
            return Err(PendingError::Decided.into());
        }
        let record = config.answer_record(now()?, &reporter())?;
        let answering = Answering { approval, store: &store, approver: &self.approver };
        if self.deny {
            return answering.deny(out, &pending, self.reason.as_ref(), record, Exit::Done);
        }
        if pending.expires() <= now()? {
            return Err(PendingError::Expired.into());
        }
        if !self.yes {
            match ask(&pending, goal)? {
                TypedAnswer::Yes => {}
                TypedAnswer::No => return answering.deny(out, &pending, None, record, Exit::Refused),
                TypedAnswer::Neither => {
                    let text = "no answer given: the approval is still pending";
                    return Err(Failure::refused("NOT_APPROVED", text));
                }
            }
        }
        answering.approve(out, &pending, record)
    }

    /// Resolves the given id: a full id in any state, or else a unique prefix. Calls that wait take precedence over
    /// closed ones.
    fn find(&self, store: &SqliteStore, now: Timestamp) -> Result<CallId, Failure> {
        let whole = CallId::new(&self.id).map_or(Ok(None), |id| store.get(&id))?;
        let (waiting, closed) = store.ids_beginning_with(&self.id, now)?;
        if let Some((pending, state)) = whole {
            // why: a client can choose an id that is a prefix of another call's id, and `--yes` shows the call to no
            // one. A client's id contains no `/`; the ids with a `/` are steps of the plan that the full id names.
            let is_longer = |id: &CallId| {
                id.as_str()
                    .strip_prefix(&self.id)
                    .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            };
            let is_unseen = self.yes && !self.deny && matches!(state, PendingState::Waiting);
            return if is_unseen && waiting.iter().any(is_longer) {
                Err(ambiguous(&waiting))
            } else {
                Ok(pending.id().clone())
            };
        }
        let found = if waiting.is_empty() { &closed } else { &waiting };
        match found.as_slice() {
            [] => Err(unknown()),
            _ if self.id.chars().count() < MIN_PREFIX => Err(unknown()),
            [id] => Ok(id.clone()),
            several => Err(ambiguous(several)),
        }
    }
}

fn show(
    out: &mut Output,
    store: &SqliteStore,
    pending: &PendingApproval,
    state: &PendingState,
    goal: Option<&str>,
) -> Result<Exit, Failure> {
    let now = now()?;
    let (mut report, mut state) = (report(pending), named(state, pending, now));
    if state == "waiting" && store.has_session_ended(pending, now)? {
        state = "session ended";
    }
    let denial = store.find_denied(pending.binding(), now)?;
    let reason = denial.as_ref().and_then(|denial| denial.reason.as_ref()).map(DenialReason::as_str);
    let denier = denial.as_ref().map(|denial| &denial.by);
    if let Some(members) = report.as_object_mut() {
        members.insert("state".to_owned(), json!(state));
        members.insert("denied_by".to_owned(), json!(denier));
        members.insert("denied_because".to_owned(), json!(reason));
        members.insert("goal".to_owned(), json!(goal));
    }
    let by = denier.map(|by| format!(" by {by}")).unwrap_or_default();
    let because = reason.map(|reason| format!(": {}", spelled(reason))).unwrap_or_default();
    out.result(&report, &format!("state      {state}{by}{because}\n{}", describe(pending, goal)))?;
    Ok(Exit::Done)
}

fn list(out: &mut Output, approval: &ApprovalPart, all: bool) -> Result<Exit, Failure> {
    let (mut waiting, mut ended) = (Vec::new(), Vec::new());
    // Before the first call the store is missing; listing must not create it.
    if approval.store.exists() {
        let (store, now) = (open_existing(approval)?, now()?);
        waiting = store.list(now)?;
        if all {
            ended = store.list_ended(now)?;
        }
    }
    if out.is_json() {
        let mut lists = json!({"ok": true, "pending": waiting.iter().map(report).collect::<Vec<_>>()});
        if let Some(members) = lists.as_object_mut().filter(|_| all) {
            members.insert("ended".to_owned(), ended.iter().map(report).collect());
        }
        out.json(&lists)?;
    } else if waiting.is_empty() && ended.is_empty() {
        out.line("nothing waits for approval")?;
    } else {
        let ids = || waiting.iter().map(|it| it.id().as_str());
        let short =
            |id: &CallId| short_id(id.as_str(), ids().filter(|other| *other != id.as_str())).to_owned();
        let notes = waiting.iter().map(|it| (it, short(it.id()), ""));
        let ended = ended.iter().map(|it| (it, it.id().to_string(), "  session ended"));
        for (pending, id, note) in notes.chain(ended) {
            let binding = pending.binding();
            let agent = binding.agent.as_ref().map(ToString::to_string).unwrap_or_default();
            let what = WaitingPlan::of(pending).map_or_else(|| binding.tool.to_string(), |plan| plan.title());
            out.line(&format!(
                "{id}  {what}  {agent} for {}  until {}{note}",
                binding.principal,
                pending.expires()
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// Shows the call on the terminal and asks.
fn ask(pending: &PendingApproval, goal: Option<&str>) -> Result<TypedAnswer, Failure> {
    let question = format!("{}\n{} {CHOICES} ", describe(pending, goal), question(pending));
    Ok(TypedAnswer::of(&ask_at_terminal(&question)?))
}

fn ambiguous(ids: &[CallId]) -> Failure {
    let ids: Vec<_> = ids.iter().map(|id| shown_id(id.as_str())).collect();
    Failure::new("PENDING_AMBIGUOUS", format!("ambiguous id prefix: {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::TypedAnswer;

    #[test]
    fn a_letter_or_a_word_is_an_answer() {
        for (typed, answer) in [
            ("y\n", TypedAnswer::Yes),
            (" Yes \r\n", TypedAnswer::Yes),
            ("n\n", TypedAnswer::No),
            ("NO", TypedAnswer::No),
            ("", TypedAnswer::Neither),
            ("yess\n", TypedAnswer::Neither),
            ("y n\n", TypedAnswer::Neither),
        ] {
            assert_eq!(TypedAnswer::of(typed), answer, "{typed:?}");
        }
    }
}
