use std::path::PathBuf;

use clap::Args;
use countersign_approval_token::{
    DenialReason, MintTerms, PendingApproval, PendingApprovals as _, PendingError, PendingState, mint,
    short_id,
};
use countersign_audit_log::{AnswerRecord, AnswerVerdict};
use countersign_core::{CallFacts, CallId, OperatorId, Timestamp, TokenId};
use countersign_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::command::mcp::waiting_plan::{WaitingPlan, spelled};
use crate::command::mcp::waiting_proposal;
use crate::command::plan::goal_digest;
use crate::failure::{Exit, Failure};
use crate::output::{Output, ask_at_terminal, internal, reporter};
use crate::time::now;
use countersign_host::config_file::{ApprovalPart, ConfigFile, find_config, run_of};
use countersign_host::escape::{shown_id, shown_json};
use countersign_host::inputs::run_keys;
use countersign_host::plans::PlanPart;
use countersign_host::random;
use countersign_host::record::PreparedRecord;
use countersign_host::session::open_existing_store;

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
    countersign approve call-0f3a --config gateway.toml\n  \
    countersign approve call-0f3a --config gateway.toml --show\n  \
    countersign approve call-0f3a --config gateway.toml --deny --by ada --reason 'ask finance first'")]
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
        if self.deny {
            return self.deny(out, &store, &pending, record, Exit::Done);
        }
        if pending.expires() <= now()? {
            return Err(PendingError::Expired.into());
        }
        if !self.yes {
            match ask(&pending, goal)? {
                TypedAnswer::Yes => {}
                TypedAnswer::No => return self.deny(out, &store, &pending, record, Exit::Refused),
                TypedAnswer::Neither => {
                    let text = "no answer given: the approval is still pending";
                    return Err(Failure::refused("NOT_APPROVED", text));
                }
            }
        }
        self.approve(out, approval, &store, &pending, record)
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

    fn deny(
        &self,
        out: &mut Output,
        store: &SqliteStore,
        pending: &PendingApproval,
        record: PreparedRecord,
        exit: Exit,
    ) -> Result<Exit, Failure> {
        let id = pending.id();
        let mut answer = self.answer(pending, AnswerVerdict::Denied, now()?);
        answer.reason = self.reason.as_ref().map(|reason| reason.as_str().into());
        record.answer(answer)?;
        store.deny_because(id, &self.approver, self.reason.as_ref())?;
        let report = json!({"ok": true, "call_id": id, "denied": true, "by": self.approver});
        out.result(&report, &format!("{id} denied by {}", self.approver))?;
        Ok(exit)
    }

    fn approve(
        &self,
        out: &mut Output,
        approval: &ApprovalPart,
        store: &SqliteStore,
        pending: &PendingApproval,
        record: PreparedRecord,
    ) -> Result<Exit, Failure> {
        let session =
            pending.binding().session.as_ref().ok_or_else(|| internal("the call has no session"))?;
        let keys = run_keys(&approval.key_file, &run_of(session)?)?;
        let token_id: TokenId = random::id("token")?;
        let now = now()?;
        let terms = MintTerms::new(token_id.clone(), self.approver.clone(), now, approval.ttl());
        let token = mint(&keys, pending.binding(), &terms, approval.ttl())?;
        let expires = token.claimed_expiry().ok_or_else(|| internal("the approval has no expiry"))?;
        let mut answer = self.answer(pending, AnswerVerdict::Approved, now);
        answer.approval = Some(token_id.clone());
        answer.expires = Some(expires);
        record.answer(answer)?;
        store.approve(pending.id(), &token, now)?;
        let report = json!({
            "ok": true,
            "call_id": pending.id(),
            "token_id": token_id,
            "approver": self.approver,
            "expires": expires,
        });
        out.result(&report, &format!("{} approved by {} until {expires}", pending.id(), self.approver))?;
        Ok(Exit::Done)
    }

    fn answer(&self, pending: &PendingApproval, verdict: AnswerVerdict, now: Timestamp) -> AnswerRecord {
        AnswerRecord::about(now, pending.binding(), verdict, self.approver.clone())
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

fn report(pending: &PendingApproval) -> Value {
    let binding = pending.binding();
    let mut report = json!({
        "call_id": pending.id(),
        "server": binding.tool.server(),
        "tool": binding.tool.name(),
        "args": pending.args(),
        "args_digest": binding.args,
        "principal": binding.principal,
        "agent": binding.agent,
        "session": binding.session,
        "audience": binding.audience,
        "definition": binding.definition,
        "ask": binding.ask,
        "plan_root": binding.plan,
        "registry_version": binding.registry_version,
        "requested": pending.requested(),
        "expires": pending.expires(),
    });
    if let (Some(plan), Some(members)) = (WaitingPlan::of(pending), report.as_object_mut()) {
        members.insert("plan".to_owned(), plan.report());
    }
    if let (Some(proposal), Some(members)) = (pending.proposal(), report.as_object_mut()) {
        members.insert("proposal".to_owned(), json!(proposal));
    }
    report
}

/// Returns the state of the question in one word.
fn named(state: &PendingState, pending: &PendingApproval, now: Timestamp) -> &'static str {
    match state {
        PendingState::Waiting if pending.expires() <= now => "over",
        PendingState::Waiting => "waiting",
        PendingState::Approved(_) => "approved",
        PendingState::Denied => "denied",
        PendingState::Used => "used",
        _ => "decided",
    }
}

/// Shows the call on the terminal and asks.
fn ask(pending: &PendingApproval, goal: Option<&str>) -> Result<TypedAnswer, Failure> {
    let question = format!("{}\n{} {CHOICES} ", describe(pending, goal), question(pending));
    Ok(TypedAnswer::of(&ask_at_terminal(&question)?))
}

/// Returns the goal's text if the configuration's goal has the digest that the approval binds.
fn goal_of(config: &ConfigFile, binding: &CallFacts) -> Option<String> {
    let (session, bound) = binding.session.as_ref().zip(binding.ask.as_ref())?;
    let goal = config.config(session.clone(), &PlanPart::default()).ok()?.goal?;
    (goal_digest(&goal, session).ok()? == *bound).then_some(goal)
}

/// Describes the exact call or plan for a person: everything that the approval binds, and the result of the call's
/// proposal. Ids contain no invisible characters; those in the goal, the arguments and the proposal are escaped.
fn describe(pending: &PendingApproval, goal: Option<&str>) -> String {
    let binding = pending.binding();
    let plan = WaitingPlan::of(pending);
    let (kind, what) = match &plan {
        Some(plan) => ("plan", plan.title()),
        None => ("tool", binding.tool.to_string()),
    };
    let mut text =
        format!("call       {}\n{kind}       {what}\nprincipal  {}", pending.id(), binding.principal);
    if let Some(agent) = &binding.agent {
        text.push_str(&format!("\nagent      {agent}"));
    }
    if let Some(session) = &binding.session {
        text.push_str(&format!("\nsession    {session}"));
    }
    if let Some(bound) = &binding.ask {
        text.push_str(&format!("\ngoal       (sha-256 {bound})"));
    }
    if let Some(goal) = goal {
        text.push_str(&format!("\n           {}", spelled(goal)));
    }
    // A plan's title contains its root.
    if let Some(root) = binding.plan.as_ref().filter(|_| plan.is_none()) {
        text.push_str(&format!("\nin plan    {root}"));
    }
    if let Some(version) = binding.registry_version {
        text.push_str(&format!("\nregistry   {version}"));
    }
    if let Some(audience) = &binding.audience {
        text.push_str(&format!("\naudience   {audience}"));
    }
    if let Some(definition) = &binding.definition {
        let what = if plan.is_some() { "definitions" } else { "definition" };
        text.push_str(&format!("\n{what} (sha-256 {definition})"));
    }
    if let Some(proposal) = pending.proposal() {
        text.push_str(&waiting_proposal::describe(proposal));
    }
    text.push_str(&format!(
        "\nrequested  {}\nwaits till {}\narguments  (sha-256 {})\n",
        pending.requested(),
        pending.expires(),
        binding.args,
    ));
    text.push_str(&plan.map_or_else(|| shown_json(pending.args()), |plan| plan.describe()));
    text
}

/// Builds the question, which repeats the call: long arguments may have scrolled it off the screen.
fn question(pending: &PendingApproval) -> String {
    let binding = pending.binding();
    let (kind, what) = match WaitingPlan::of(pending) {
        Some(plan) => ("plan", plan.title()),
        None => ("call", binding.tool.to_string()),
    };
    format!(
        "Approve exactly this {kind}, once: {what} for {}, arguments sha-256 {}?",
        binding.principal, binding.args
    )
}

fn open_existing(approval: &ApprovalPart) -> Result<SqliteStore, Failure> {
    if !approval.store.exists() {
        return Err(unknown());
    }
    Ok(open_existing_store(&approval.store)?)
}

fn ambiguous(ids: &[CallId]) -> Failure {
    let ids: Vec<_> = ids.iter().map(|id| shown_id(id.as_str())).collect();
    Failure::new("PENDING_AMBIGUOUS", format!("ambiguous id prefix: {}", ids.join(", ")))
}

fn unknown() -> Failure {
    Failure::new("PENDING_UNKNOWN", "no pending approval with this id")
}

#[cfg(test)]
mod tests {
    use countersign_approval_token::PendingApproval;
    use countersign_canonical_json::{Limits, Recipe, read};
    use countersign_core::{CallFacts, CallId, Digest, Millis, Principal, Timestamp, ToolId};

    use super::{TypedAnswer, describe, question};

    fn pending(goal: Option<Digest>) -> PendingApproval {
        let text = format!("[{}]", vec!["0"; 5_000].join(","));
        let args = read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
        let (id, tool) = (CallId::new("call-1").unwrap(), ToolId::new("desk", "refund").unwrap());
        let by = Principal::new("alice").unwrap();
        let mut binding = CallFacts::new(id, tool, args.digest(), Recipe::Jcs1, by);
        if let Some(goal) = goal {
            binding = binding.ask(goal);
        }
        PendingApproval::new(binding, &args, Timestamp::EPOCH, Millis::from_secs(60)).unwrap()
    }

    #[test]
    fn question_repeats_the_call_on_one_line() {
        let pending = pending(None);
        let question = question(&pending);
        for part in ["desk:refund", "alice", &pending.binding().args.to_string()] {
            assert!(question.contains(part), "{question}");
        }
        assert_eq!(question.lines().count(), 1);
    }

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

    #[test]
    fn the_goal_is_shown_where_the_approval_binds_one() {
        let goal = Digest::of(b"Help alice");
        assert!(describe(&pending(Some(goal)), None).contains(&format!("\ngoal       (sha-256 {goal})\n")));
        assert!(!describe(&pending(None), None).contains("goal"));
        let words = describe(&pending(Some(goal)), Some("Help\nplan       \u{202e}"));
        assert!(
            words.contains(&format!("(sha-256 {goal})\n           \"Help\\nplan       \\u202e\"\n")),
            "{words}"
        );
    }
}
