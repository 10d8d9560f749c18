use clap::{Args, Subcommand};
use countersign_approval_token::StoredGrant;
use countersign_audit_log::AnswerVerdict;
use countersign_core::{Millis, TokenId};
use countersign_host::escape::shown_line;
use countersign_host::questions::{GrantWish, describe, grant_report};
use serde_json::json;

use crate::approver::ApproverArgs;
use crate::config_args::ConfigArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, ask_at_terminal, reporter};
use crate::time::now;

/// Grant a few calls like one that waits, list the grants that count, and revoke them.
///
/// A grant is for one tool, agent, principal, session, gate and registry version, with the same arguments or with arguments
/// that meet conditions. It counts for a number of calls until a time. Each use is recorded. A tool whose rule is
/// `each_call` takes no grants.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantCommand {
    /// Grant the call that waits, and others like it. The call that waits takes the first use.
    #[command(after_help = "Examples:\n  countersign grant new k3f9 --uses 5 --for 1h\n  \
        countersign grant new k3f9 --uses 20 --for 8h \\\n    \
        --where '[{\"kind\":\"email_domain\",\"at\":\"/to\",\"domains\":[\"example.com\"]}]'")]
    New(NewGrant),
    /// List the grants that have not expired, with the number of their uses.
    #[command(after_help = "Example:\n  countersign grant list --config gateway.toml")]
    List(ListGrants),
    /// Revoke a grant, at every gateway that shares the store.
    #[command(
        after_help = "Example:\n  countersign grant revoke grant-5d41402abc4b2a76b9719d911017c592 --by ada"
    )]
    Revoke(RevokeGrant),
}

#[derive(Debug, Args)]
pub(crate) struct NewGrant {
    /// The approval id of the call that waits, or a unique prefix of four or more characters.
    id: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// Number of calls, the one that waits included: 1 to 100.
    #[arg(long, value_name = "N")]
    uses: u32,
    /// How long the grant counts, such as 1h. The configuration's `max_grant` is the longest.
    #[arg(long = "for", value_name = "SPAN")]
    ttl: Millis,
    /// Conditions on the arguments: a JSON list of constraints, as in a registry. All must hold. Without it the grant covers
    /// exactly the arguments of the call that waits.
    #[arg(long = "where", value_name = "JSON")]
    conditions: Option<String>,
    /// Let the grant count in the agent's other sessions too.
    #[arg(long)]
    any_session: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    approver: ApproverArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListGrants {
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeGrant {
    /// The grant's id.
    id: TokenId,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    approver: ApproverArgs,
}

impl GrantCommand {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::New(verb) => verb.run(out),
            Self::List(verb) => verb.run(out),
            Self::Revoke(verb) => verb.run(out),
        }
    }
}

impl NewGrant {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let configs = self.config.read_all()?;
        let queues = configs.queues()?;
        let (queue, id) = queues.find(&self.id, self.yes)?;
        let pending = queue.answerable(&id, AnswerVerdict::Granted, now()?)?;
        let mut wish = GrantWish::new(self.uses, self.ttl);
        (wish.conditions, wish.any_session) = (self.conditions.clone(), self.any_session);
        let record = queue.answer_record(&reporter())?;
        if !self.yes {
            let question = format!(
                "{}\nGrant {} calls like this one for {}, {}{}? [y: grant, anything else: leave it waiting] ",
                describe(&pending, &queue.context(&pending)?),
                self.uses,
                self.ttl,
                match &self.conditions {
                    Some(conditions) => format!("with arguments that meet {}", shown_line(conditions)),
                    None => "with exactly these arguments".to_owned(),
                },
                if self.any_session { ", in any session" } else { "" },
            );
            let answer = ask_at_terminal(&question)?;
            if !matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
                return Err(Failure::refused(
                    "NOT_APPROVED",
                    "no answer given: the approval is still pending",
                ));
            }
        }
        let approver = self.approver.name()?;
        let given = queue.grant(&pending, &approver, &wish, record)?;
        let (id, expires, uses) = (pending.id(), given.expires, self.uses);
        let report = json!({
            "ok": true, "call_id": id, "grant_id": given.grant_id, "approver": approver, "uses": uses, "expires": expires,
        });
        let text =
            format!("{} granted by {approver}: {uses} calls like {id} until {expires}", given.grant_id);
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}

impl ListGrants {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let configs = self.config.read_all()?;
        let queues = configs.queues()?;
        let grants: Vec<_> = queues.grants()?.into_iter().map(|(_, grant)| grant).collect();
        if out.is_json() {
            let grants: Vec<_> = grants.iter().map(grant_report).collect();
            out.json(&json!({"ok": true, "grants": grants}))?;
        } else if grants.is_empty() {
            out.line("no grant counts")?;
        } else {
            for grant in &grants {
                out.line(&described(grant))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl RevokeGrant {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let configs = self.config.read_all()?;
        let queues = configs.queues()?;
        let found = queues.grants()?.into_iter().find(|(_, grant)| grant.facts.grant_id == self.id);
        let unknown = || Failure::new("GRANT_UNKNOWN", "no grant with this id counts");
        let (queue, _) = found.ok_or_else(unknown)?;
        let (record, approver) = (queue.answer_record(&reporter())?, self.approver.name()?);
        queue.revoke(&self.id, &approver, record)?;
        let id = &self.id;
        let report = json!({"ok": true, "grant_id": id, "revoked": true, "by": approver});
        out.result(&report, &format!("{id} revoked by {approver}"))?;
        Ok(Exit::Done)
    }
}

fn described(grant: &StoredGrant) -> String {
    let facts = &grant.facts;
    let scope = match &facts.conditions {
        Some(conditions) => format!("where {}", shown_line(conditions)),
        None => format!("arguments sha-256 {}", facts.args),
    };
    let state = if grant.is_revoked {
        "revoked".to_owned()
    } else {
        format!("{} of {} used", grant.used, facts.uses)
    };
    let session = facts.session.as_ref().map_or_else(|| "any session".to_owned(), ToString::to_string);
    format!(
        "{}  {}  {} for {}  {session}  {state}  until {}  by {}  {scope}",
        facts.grant_id, facts.tool, facts.agent, facts.principal, facts.expires, facts.approver
    )
}
