use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use countersign_audit_log::{ArchiveBefore, ArchiveError, AuditError, LogStateFile, archive_log};
use serde_json::json;

use super::own::{OwnLog, not_its_key, options, state_line};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::time::{Since, now};

#[derive(Debug, Args)]
pub(crate) struct Archive {
    #[command(flatten)]
    log: OwnLog,
    /// Archive whole segments of entries before this one: a sequence number, a moment, as 2026-01-31T12:00:00Z, or a span back from
    /// now, as 90d.
    #[arg(long, value_name = "TIME|SEQ")]
    before: Before,
    /// The archive's folder, created if it is missing. It may have earlier archives of the same log.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

#[derive(Clone, Copy, Debug)]
enum Before {
    Entry(u64),
    Time(Since),
}

impl FromStr for Before {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let neither = |text| format!("{text}, or a sequence number");
        text.parse().map(Self::Entry).or_else(|_| text.parse().map(Self::Time)).map_err(neither)
    }
}

impl Archive {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (folder, now) = (self.log.folder(), now()?);
        let before = match self.before {
            Before::Entry(seq) => ArchiveBefore::Entry(seq),
            Before::Time(since) => ArchiveBefore::Time(since.moment()?),
        };
        let key = self.log.key()?;
        let Some(log) = self.log.verifier()? else { return Err(not_its_key(folder)) };
        let state = self.log.state(Some(&log))?;
        let others = self.log.other_states(&log, state.as_deref())?;
        let other_files: Vec<_> = others.iter().map(LogStateFile::new).collect();
        let options = options(log.origin().clone(), key, state.as_deref(), now);
        let done = archive_log(folder, options, &other_files, before, &self.to, now);
        let done = done.map_err(|error| {
            let is_no =
                matches!(error, ArchiveError::Log(AuditError::Log(_) | AuditError::NotContinued { .. }));
            let failure = Failure::from(error).about(folder.display());
            if is_no { failure.into_refusal() } else { failure }
        })?;
        let (first, last, to) = (done.first, done.last, self.to.display().to_string());
        let report = json!({
            "ok": true,
            "origin": log.origin().as_str(),
            "first": first,
            "last": last,
            "files": done.files,
            "manifest": done.manifest,
            "to": to,
            "state": state,
            "other_states": others,
        });
        let segments = match done.files.len() {
            1 => "1 segment".to_owned(),
            count => format!("{count} segments"),
        };
        let text = format!(
            "entries {first} to {last} archived in {to}: {segments}, manifest {}, sha-256 {}{}{}",
            done.manifest.name,
            done.manifest.sha256,
            state_line(state.as_deref()),
            others.iter().map(|other| state_line(Some(other))).collect::<String>()
        );
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}
