mod alarm;
mod count;
mod graph;
mod history;
mod table;
mod watch;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::Args;
use countersign_core::{Millis, Timestamp};
use countersign_tool_gate::AlarmRule;

use countersign_host::entries::Entry;

use super::audit::unverified;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::time::Since;
use alarm::RuleArgs;
use count::{Count, StatsReport, percent};
use table::{By, table};

/// Count decisions by agent: accepted, rejected by code, acceptance rate, and state of the drop alarm.
///
/// A call that waits for its approval (APPROVAL_REQUIRED) is not decided yet: it is counted apart, each time that it is asked
/// about, and left out of the acceptance rate. JSON has it in `rejected` as well. Undisclosed attempts are calls to tools that the session does not have, whether they exist or
/// not; an agent that tries fifty tools to find one that works shows here.
///
/// The alarm is the gate's own, fed with the recorded decisions: how far it has come, or when it was raised and at which
/// entry. It goes through all that is counted, and starts anew where an agent was let out of quarantine. That of a gateway
/// with `[signals]` does so too, but starts anew with the session after the one that raised it; any other is its session's
/// alone. Nothing is verified.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign stats log/\n  \
    countersign stats log/ --by tool --since 1d\n  \
    countersign stats log/ --watch --interval 10s")]
pub(crate) struct Stats {
    /// The log's folder. Where several logs lie in it, all are counted, merged by time.
    folder: PathBuf,
    /// Rows of the table. JSON has both.
    #[arg(long, value_enum, default_value_t = By::Agent)]
    by: By,
    /// Count only entries since then: a time span before now, as 2h, or a time, as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    #[command(flatten)]
    rule: RuleArgs,
    /// Follow new entries, and draw each agent's acceptance rate over time, until interrupted.
    ///
    /// A column stands for an interval, the newest on the right, and its height for the share of the calls decided in it that
    /// were accepted. Where standard output is no terminal, one line is printed for each interval.
    #[arg(long, conflicts_with = "by")]
    watch: bool,
    /// How long an interval is, from 1s to 1d.
    #[arg(long, value_name = "SPAN", requires = "watch", default_value = "5s", value_parser = interval)]
    interval: Millis,
}

/// Number of decisions in a log that nothing verifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Decided {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) waited: u64,
}

/// Counts the decisions since a time.
pub(crate) fn decided_since(folder: &Path, since: Timestamp) -> Result<Decided, Failure> {
    let total = counted(folder, AlarmRule::default(), Some(since))?.total;
    let waited = total.waiting_for_approval;
    Ok(Decided { accepted: total.accepted, refused: total.rejected.saturating_sub(waited), waited })
}

fn counted(folder: &Path, rule: AlarmRule, since: Option<Timestamp>) -> Result<StatsReport, Failure> {
    let mut count = Count::new(rule, since);
    for read in unverified(folder)? {
        let Entry { log, seq, record } = read?;
        count.add(log, seq, &record);
    }
    Ok(count.report())
}

fn interval(text: &str) -> Result<Millis, String> {
    let span: Millis = text.parse().map_err(|error: countersign_core::TimeError| error.to_string())?;
    let is_fit = (Millis::from_secs(1)..=Millis::from_secs(86_400)).contains(&span);
    if is_fit { Ok(span) } else { Err("an interval is 1s to 1d".to_owned()) }
}

impl Stats {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let rule = self.rule.rule()?;
        let since = self.since.map(Since::moment).transpose()?;
        if self.watch {
            return watch::watch(&self.folder, rule, since, self.interval, out.is_json());
        }
        out.show(|out| self.count(out, rule, since))
    }

    fn count(&self, out: &mut Output, rule: AlarmRule, since: Option<Timestamp>) -> Result<Exit, Failure> {
        let report = counted(&self.folder, rule, since)?;
        if out.is_json() {
            out.json(&report)?;
        } else {
            out.line(&table(&report, self.by))?;
        }
        Ok(Exit::Done)
    }
}
