use std::path::PathBuf;

use clap::Args;
use countersign_approval_token::{DenialReason, PendingApproval, PendingApprovals as _, short_id};
use countersign_audit_log::AnswerVerdict;
use countersign_core::{CallId, OperatorId};
use countersign_host::escape::spelled;
use countersign_host::questions::{QuestionQueue, WaitingPlan, describe, question, report};
use countersign_host::record::PreparedRecord;
use serde_json::json;

use crate::approver::ApproverArgs;
use crate::config_args::{ConfigArgs, QuestionQueues};
use crate::failure::{Exit, Failure};
use crate::files::read_text_file;
use crate::output::{Output, ask_at_terminal, reporter};
use crate::time::now;

mod editor;
mod watch;

use watch::watch;

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
    countersign approve k3f9\n  \
    countersign approve k3f9 --show\n  \
    countersign approve k3f9 --edit args.json\n  \
    countersign approve k3f9 --deny --by ada --reason 'ask finance first'")]
pub(crate) struct ApproveArgs {
    /// The approval id that the client received, or a unique prefix of four or more characters; `list` for all
    /// that wait.
    #[arg(default_value = "list")]
    id: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Deny it instead, without asking. A denial counts until the session ends: the client cannot ask for the same again.
    #[arg(long)]
    deny: bool,
    /// Reason for the denial, at most 200 bytes. It is recorded, and the agent reads it.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    reason: Option<DenialReason>,
    /// Approve other arguments than the agent's: those in this file, a JSON object. The gate decides the call anew with them, and
    /// the agent reads what ran. Not for a plan, a call with a proposal, or one that several persons approve.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["deny"])]
    edit: Option<PathBuf>,
    /// Also list the approvals of sessions that have ended. They cannot be granted.
    #[arg(long, conflicts_with_all = ["yes", "deny", "show", "edit"])]
    all: bool,
    /// Show it and ask nothing.
    #[arg(long, conflicts_with_all = ["yes", "deny", "edit"])]
    show: bool,
    /// Ask about each call or plan as it comes, with a bell, until `q` or Ctrl-C.
    #[arg(long, conflicts_with_all = ["yes", "deny", "show", "all", "edit"])]
    watch: bool,
    #[command(flatten)]
    approver: ApproverArgs,
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
        let configs = self.config.read_all()?;
        let queues = configs.queues()?;
        if self.watch {
            if self.id != "list" {
                return Err(Failure::usage("--watch takes no id"));
            }
            return watch(out, &configs, &self.approver.name()?);
        }
        if self.id == "list" {
            if self.yes || self.deny || self.show || self.edit.is_some() {
                return Err(Failure::usage("--yes, --deny, --show and --edit need the id of a call"));
            }
            return list(out, &queues, self.all);
        }
        if self.all {
            return Err(Failure::usage("--all is only valid with `list`"));
        }
        let (queue, id) = queues.find(&self.id, self.yes && !self.deny)?;
        if self.show {
            return show(out, queue, &id);
        }
        let verdict = if self.deny { AnswerVerdict::Denied } else { AnswerVerdict::Approved };
        let mut pending = queue.answerable(&id, verdict, now()?)?;
        let approver = self.approver.name()?;
        if !self.deny {
            queue.check_approver(&pending, &approver)?;
        }
        if let Some(file) = &self.edit {
            pending = queue.edit(&pending, &read_text_file(file)?)?;
        }
        let answering = Answering { queue, pending: &pending, approver: &approver };
        let record = queue.answer_record(&reporter())?;
        if self.deny {
            return answering.deny(out, self.reason.as_ref(), record, Exit::Done);
        }
        if !self.yes {
            match ask(queue, &pending)? {
                TypedAnswer::Yes => {}
                TypedAnswer::No => return answering.deny(out, None, record, Exit::Refused),
                TypedAnswer::Neither => {
                    let text = "no answer given: the approval is still pending";
                    return Err(Failure::refused("NOT_APPROVED", text));
                }
            }
        }
        answering.approve(out, record)
    }
}

/// One question, and the person who answers it.
struct Answering<'a> {
    queue: &'a QuestionQueue<'a>,
    pending: &'a PendingApproval,
    approver: &'a OperatorId,
}

impl Answering<'_> {
    fn deny(
        &self,
        out: &mut Output,
        reason: Option<&DenialReason>,
        record: PreparedRecord,
        exit: Exit,
    ) -> Result<Exit, Failure> {
        self.queue.deny(self.pending, self.approver, reason, record)?;
        let id = self.pending.id();
        let report = json!({"ok": true, "call_id": id, "denied": true, "by": self.approver});
        out.result(&report, &format!("{id} denied by {}", self.approver))?;
        Ok(exit)
    }

    fn approve(&self, out: &mut Output, record: PreparedRecord) -> Result<Exit, Failure> {
        let given = self.queue.approve(self.pending, self.approver, record)?;
        let (id, approver, expires) = (self.pending.id(), self.approver, given.expires);
        let (so_far, needed) = given.progress;
        let report = json!({
            "ok": true,
            "call_id": id,
            "token_id": given.token_id,
            "approver": approver,
            "expires": expires,
            "approvals": so_far,
            "needed": needed,
            "edited_to": self.pending.edited_digest(),
        });
        let edited = if self.pending.edited_text().is_some() { " with edited arguments" } else { "" };
        let waits = if so_far < needed { format!("; {so_far} of {needed} approvals") } else { String::new() };
        out.result(&report, &format!("{id} approved by {approver}{edited} until {expires}{waits}"))?;
        Ok(Exit::Done)
    }
}

fn show(out: &mut Output, queue: &QuestionQueue<'_>, id: &CallId) -> Result<Exit, Failure> {
    let now = now()?;
    let (pending, state) = queue.get(id)?;
    let (store, context) = (queue.store(), queue.context(&pending)?);
    let mut report = report(&pending);
    let state = queue.state(&pending, &state, now)?;
    let denial = store.find_denied(pending.binding(), now)?;
    let reason = denial.as_ref().and_then(|denial| denial.reason.as_ref()).map(DenialReason::as_str);
    let denier = denial.as_ref().map(|denial| &denial.by);
    if let Some(members) = report.as_object_mut() {
        members.insert("state".to_owned(), json!(state));
        members.insert("denied_by".to_owned(), json!(denier));
        members.insert("denied_because".to_owned(), json!(reason));
        members.extend(context.report(&pending).as_object().cloned().unwrap_or_default());
    }
    let so_far = queue.approvals_so_far(&pending)?;
    if let (Some(members), Some(by)) = (report.as_object_mut(), queue.approved_by(&pending)?) {
        members.insert("approved_by".to_owned(), json!(by));
    }
    let so_far = so_far.map(|so_far| format!(", {so_far}")).unwrap_or_default();
    let by = denier.map(|by| format!(" by {by}")).unwrap_or_default();
    let because = reason.map(|reason| format!(": {}", spelled(reason))).unwrap_or_default();
    out.result(
        &report,
        &format!("state      {state}{so_far}{by}{because}\n{}", describe(&pending, &context)),
    )?;
    Ok(Exit::Done)
}

fn list(out: &mut Output, queues: &QuestionQueues<'_>, all: bool) -> Result<Exit, Failure> {
    let now = now()?;
    let waiting = queues.collect(|queue| Ok(queue.store().list(now)?))?;
    let ended = if all { queues.collect(|queue| Ok(queue.store().list_ended(now)?))? } else { Vec::new() };
    if out.is_json() {
        let reports = |questions: &[(_, PendingApproval)]| -> Vec<_> {
            questions.iter().map(|(_, pending)| report(pending)).collect()
        };
        let mut lists = json!({"ok": true, "pending": reports(&waiting)});
        if let Some(members) = lists.as_object_mut().filter(|_| all) {
            members.insert("ended".to_owned(), json!(reports(&ended)));
        }
        out.json(&lists)?;
    } else if waiting.is_empty() && ended.is_empty() {
        out.line("nothing waits for approval")?;
    } else {
        let ids = || waiting.iter().map(|(_, it)| it.id().as_str());
        let short =
            |id: &CallId| short_id(id.as_str(), ids().filter(|other| *other != id.as_str())).to_owned();
        let notes = waiting.iter().map(|(queue, it)| (queue, it, short(it.id()), ""));
        let ended = ended.iter().map(|(queue, it)| (queue, it, it.id().to_string(), "  session ended"));
        for (queue, pending, id, note) in notes.chain(ended) {
            let so_far = queue.approvals_so_far(pending)?;
            let so_far = so_far.map(|so_far| format!("  {so_far}")).unwrap_or_default();
            let binding = pending.binding();
            let kind =
                pending.evidence().map(|_| format!("  waits for {} ({})", pending.kind(), attest_line(&id)));
            let kind = kind.unwrap_or_default();
            let agent = binding.agent.as_ref().map(ToString::to_string).unwrap_or_default();
            let what = WaitingPlan::of(pending).map_or_else(|| binding.tool.to_string(), |plan| plan.title());
            out.line(&format!(
                "{id}  {what}  {agent} for {}  until {}{kind}{so_far}{note}",
                binding.principal,
                pending.expires()
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// The command that attests to a call.
fn attest_line(id: &str) -> String {
    format!("countersign attest {id} --key-id ID")
}

/// Shows the call on the terminal and asks.
fn ask(queue: &QuestionQueue<'_>, pending: &PendingApproval) -> Result<TypedAnswer, Failure> {
    let context = queue.context(pending)?;
    let question = format!("{}\n{} {CHOICES} ", describe(pending, &context), question(pending));
    Ok(TypedAnswer::of(&ask_at_terminal(&question)?))
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
