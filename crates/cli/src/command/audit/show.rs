use std::path::PathBuf;

use clap::{Args, ValueEnum};
use countersign_audit_log::{Record, Verdict};
use countersign_core::{AgentId, SessionId};

use super::entries::{print, unverified};
use crate::failure::{Exit, Failure};
use crate::output::{Output, note};

#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// The log's folder. Where several logs lie in it, all are read, merged by time, and each line names its log.
    folder: PathBuf,
    #[command(flatten)]
    wanted: EntryFilter,
}

/// Which entries are printed.
#[derive(Debug, Args)]
pub(super) struct EntryFilter {
    /// Only this agent's sessions, decisions and quarantines.
    #[arg(long)]
    agent: Option<AgentId>,
    /// Only what belongs to this session.
    #[arg(long)]
    session: Option<SessionId>,
    /// Only decisions with this verdict.
    #[arg(long, value_enum)]
    verdict: Option<WantedVerdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WantedVerdict {
    Accept,
    Reject,
}

impl AuditShowArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let entries = unverified(&self.folder)?;
        say_unverified();
        for read in entries {
            let entry = read?;
            if self.wanted.wants(&entry.record) {
                print(out, &entry)?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Warns that the displayed entries were not verified.
pub(super) fn say_unverified() {
    note("note: not verified; run `audit verify` with the log's public key");
}

impl EntryFilter {
    pub(super) fn wants(&self, record: &Record) -> bool {
        let (session, agent, verdict) = match record {
            Record::Session(r) => (Some(&r.session), Some(&r.agent), None),
            Record::Decision(r) => (Some(&r.session), Some(&r.agent), Some(r.verdict)),
            Record::Outcome(r) => (Some(&r.session), None, None),
            Record::Server(r) => (Some(&r.session), None, None),
            Record::Gateway(r) => (r.session.as_ref(), None, None),
            Record::Standing(r) => (None, Some(&r.agent), None),
            Record::Signal(r) => (Some(&r.session), Some(&r.agent), None),
            Record::End(r) => (Some(&r.session), Some(&r.agent), None),
            Record::Answer(r) => (r.session.as_ref(), r.agent.as_ref(), None),
            Record::Refused(r) => {
                (Some(&r.session), r.agent.as_ref(), r.agent.as_ref().map(|_| Verdict::Reject))
            }
            Record::Recovered(_) | _ => (None, None, None),
        };
        let right_verdict = |wanted| match wanted {
            WantedVerdict::Accept => verdict == Some(Verdict::Accept),
            WantedVerdict::Reject => verdict == Some(Verdict::Reject),
        };
        self.agent.as_ref().is_none_or(|wanted| agent == Some(wanted))
            && self.session.as_ref().is_none_or(|wanted| session == Some(wanted))
            && self.verdict.is_none_or(right_verdict)
    }
}
