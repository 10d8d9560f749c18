use std::path::PathBuf;

use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_audit_log::{LogSummary, ReadError, Summary, verify};
use countersign_core::Timestamp;
use serde_json::json;

use super::entries::Entries;
use super::log::{self, KeySource};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The record: a file, or the folder of a log.
    path: PathBuf,
    /// The log's public key, `origin+id+key`, or a file that holds it.
    #[arg(long, value_name = "KEY")]
    key: Option<KeySource>,
    /// A checkpoint of the log that was kept elsewhere: the log has to go on from it. May be used several times.
    #[arg(long, value_name = "FILE", requires = "key")]
    checkpoint: Vec<PathBuf>,
}

impl Verify {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match &self.key {
            Some(key) => self.log(out, key),
            None if self.path.is_dir() => {
                Entries::read(&self.path)?;
                Err(Failure::usage("a log is verified with its public key: give it with --key"))
            }
            None => self.file(out),
        }
    }

    fn file(&self, out: &mut Output) -> Result<Exit, Failure> {
        let summary = verify(&self.path).map_err(|error| {
            let damaged = !matches!(error, ReadError::Io(_) | ReadError::NotAFile);
            let failure = Failure::from(error).about(self.path.display());
            if damaged { failure.into_refusal() } else { failure }
        })?;
        let report = json!({"ok": true, "summary": summary});
        out.result(&report, &summed_up(&summary))?;
        Ok(Exit::Done)
    }

    fn log(&self, out: &mut Output, key: &KeySource) -> Result<Exit, Failure> {
        let key = key.read()?;
        let summary = log::verify(&self.path, &key, &self.checkpoint)?;
        let root = root_of(&summary);
        let report = json!({"ok": true, "summary": {
            "origin": key.origin().as_str(),
            "records": summary.records,
            "first_here": summary.first_here,
            "segments": summary.segments,
            "checkpoints": summary.checkpoints,
            "root": root,
            "note": summary.note,
            "tail_bytes": summary.tail_bytes,
            "kept_elsewhere": self.checkpoint.len(),
            "first": summary.first,
            "last": summary.last,
            "time_went_back": summary.time_went_back,
            "first_went_back": summary.first_went_back,
        }});
        if out.is_json() {
            out.json(&report)?;
            return Ok(Exit::Done);
        }
        let LogSummary { records, segments, checkpoints, .. } = &summary;
        out.line(&format!(
            "{records} entries of {} verified, in {}, under {}",
            key.origin(),
            counted(*segments, "segment"),
            counted(*checkpoints, "checkpoint"),
        ))?;
        out.line(&format!("root {root}"))?;
        if let (Some(first), Some(last)) = (summary.first, summary.last) {
            out.line(&format!("from {first}\nto   {last}"))?;
        }
        if summary.first_here > 1 {
            out.line(&format!("the log here begins with number {}", summary.first_here))?;
        }
        match self.checkpoint.len() as u64 {
            0 => out.line("no checkpoint that was kept elsewhere was given: a cut end would not show")?,
            kept => {
                out.line(&format!("goes on from {} kept elsewhere", counted(kept, "checkpoint")))?;
            }
        }
        if summary.tail_bytes > 0 {
            out.line(&format!("{} bytes come behind the last checkpoint, unsigned", summary.tail_bytes))?;
        }
        warn_of_clock(out, summary.time_went_back, summary.first_went_back)?;
        Ok(Exit::Done)
    }
}

/// The root under the last checkpoint, as the checkpoint has it.
pub(super) fn root_of(summary: &LogSummary) -> String {
    Base64::encode_string(summary.checkpoint.root().as_bytes())
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn warn_of_clock(out: &mut Output, count: u64, first: Option<u64>) -> Result<(), Failure> {
    match first {
        Some(first) => out.line(&clock_warning(count, first)),
        None => Ok(()),
    }
}

fn clock_warning(count: u64, first: u64) -> String {
    format!("warning: {count} entries are older than the one before them, first number {first}")
}

fn summed_up(summary: &Summary) -> String {
    let at = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    if summary.records == 0 {
        return "0 entries".to_owned();
    }
    let mut text = format!(
        "{} entries, none missing between the first and the last\nfrom {}\nto   {}",
        summary.records,
        at(summary.first),
        at(summary.last)
    );
    if let Some(first) = summary.first_went_back {
        text.push('\n');
        text.push_str(&clock_warning(summary.time_went_back, first));
    }
    text
}
