use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_audit_log::{StandingChange, StandingRecord};
use countersign_core::{AgentId, OperatorId};
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::{BY_ALARM, BY_SIGNAL, Quarantines as _, Standing};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::time::now;
use countersign_host::session::{open_existing_store, open_store};

/// Quarantine agents, and lift quarantines.
///
/// A quarantine holds at the agent's next call, at every gateway whose `[signals]` name the same store, and until it is
/// lifted. Who can write the store can lift one.
#[derive(Debug, Subcommand)]
pub(crate) enum Quarantine {
    /// List the quarantined agents, with operator and reason.
    #[command(after_help = "Examples:\n  countersign quarantine list --store signals.sqlite")]
    List(List),
    /// Put an agent into quarantine.
    #[command(
        after_help = "Examples:\n  countersign quarantine add --store signals.sqlite --agent support-bot --by ada"
    )]
    Add(QuarantineChangeArgs),
    /// Lift an agent's quarantine. Its drop alarm starts anew.
    #[command(
        after_help = "Examples:\n  countersign quarantine lift --store signals.sqlite --agent support-bot --by ada"
    )]
    Lift(QuarantineChangeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The file that quarantines are kept in.
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct QuarantineChangeArgs {
    /// The file that quarantines are kept in.
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The agent.
    #[arg(long, value_name = "ID")]
    agent: AgentId,
    /// Name of the operator; it is recorded.
    #[arg(long, value_name = "NAME")]
    by: OperatorId,
    /// Reason; at most 512 bytes of it are recorded.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Quarantine {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::List(list) => list.run(out),
            Self::Add(change) => change.run(out, StandingChange::Quarantined),
            Self::Lift(change) => change.run(out, StandingChange::Lifted),
        }
    }
}

impl List {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let quarantined = open_existing(&self.store)?.list()?;
        if out.is_json() {
            let agents: Vec<_> = quarantined.iter().map(report).collect();
            out.json(&json!({"ok": true, "quarantined": agents}))?;
        } else if quarantined.is_empty() {
            out.line("no agent is in quarantine")?;
        } else {
            for change in &quarantined {
                out.line(&described(change))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl QuarantineChangeArgs {
    fn run(&self, out: &mut Output, standing: StandingChange) -> Result<Exit, Failure> {
        if self.by.as_str() == BY_ALARM {
            return Err(Failure::usage("`alarm` is reserved for the drop alarm: name an operator"));
        }
        if self.by.as_str() == BY_SIGNAL {
            return Err(Failure::usage("`signal` is reserved for signals: name an operator"));
        }
        let mut change = StandingRecord::new(now()?, self.agent.clone(), standing, self.by.as_str());
        change.reason = self.reason.as_deref().map(Into::into);
        let after = Standing::after(standing);
        let store = match after {
            Standing::Quarantined => open_store(&self.store)?,
            Standing::Free => open_existing(&self.store)?,
        };
        let before = store.change(&change)?;
        let (agent, by) = (&self.agent, &self.by);
        let text = match (before, after) {
            (Standing::Free, Standing::Quarantined) => format!("{agent} put into quarantine by {by}"),
            (Standing::Quarantined, Standing::Free) => format!("{agent} let out of quarantine by {by}"),
            (Standing::Quarantined, Standing::Quarantined) => format!("{agent} was in quarantine already"),
            (Standing::Free, Standing::Free) => format!("{agent} was not in quarantine"),
        };
        let report = json!({"ok": true, "agent": agent, "before": named(before), "standing": named(after)});
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}

/// Opens a store without creating it: a mistyped path must not report that no agent is in quarantine.
fn open_existing(path: &Path) -> Result<SqliteStore, Failure> {
    Ok(open_existing_store(path)?)
}

const fn named(standing: Standing) -> &'static str {
    match standing {
        Standing::Free => "free",
        Standing::Quarantined => "quarantined",
    }
}

fn report(change: &StandingRecord) -> Value {
    json!({"agent": change.agent, "since": change.time, "by": change.by, "reason": change.reason})
}

fn described(change: &StandingRecord) -> String {
    let reason = change.reason.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
    format!("{}  since {}  by {}{reason}", change.agent, change.time, change.by)
}
