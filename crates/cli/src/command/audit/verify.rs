use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_audit_log::{
    Checkpoint, JoinedDisk, LogError, LogNumber, LogSummary, signed_key, verify_disk,
};
use serde_json::{Value, json};

use super::log::{LogArgs, VerifiedLog};
use crate::failure::{Exit, Failure};
use crate::look::ProgressLine;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Refuse a log that does not begin with entry 1, or does not end under a checkpoint (AUDIT_INCOMPLETE).
    #[arg(long)]
    complete: bool,
    /// The state that the log's writers keep: every log of the folder must extend it, and no log that it contains may be missing.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// An archive of the log's oldest segments: they are verified together. May be used several times.
    #[arg(long, value_name = "FOLDER")]
    archive: Vec<PathBuf>,
}

impl AuditVerifyArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let progress = ProgressLine::begin("verifying");
        let mut logs = self.log.verify_all(self.state.as_deref())?;
        self.join(&mut logs)?;
        drop(progress);
        if self.complete {
            logs.iter().try_for_each(require_complete)?;
        }
        if out.is_json() {
            let first = logs.iter().find(|log| log.number == LogNumber::FIRST).map(report);
            let mut all = json!({"ok": true, "summary": first});
            if let Some(members) = all.as_object_mut().filter(|_| is_several(&logs)) {
                let one = |log| {
                    let mut one = report(log);
                    if let Some(members) = one.as_object_mut() {
                        members.insert("log".to_owned(), json!(log.number.to_string()));
                    }
                    one
                };
                members.insert("logs".to_owned(), logs.iter().map(one).collect());
            }
            out.json(&all)?;
            return Ok(Exit::Done);
        }
        for log in &logs {
            print_result(out, log, self.state.as_deref())?;
        }
        if is_several(&logs) {
            out.line(&format!("{} logs verified", logs.len()))?;
        }
        Ok(Exit::Done)
    }
}

impl AuditVerifyArgs {
    /// Verifies each log that has archives once more, together with its archives.
    fn join(&self, logs: &mut [VerifiedLog]) -> Result<(), Failure> {
        let mut archives_of: BTreeMap<LogNumber, Vec<&PathBuf>> = BTreeMap::new();
        for archive in &self.archive {
            let of_archive = |log: &&VerifiedLog| {
                let key = signed_key(archive, log.key.verifying_key());
                key.is_ok_and(|key| key.as_ref() == Some(&log.key))
            };
            let Some(log) = logs.iter().find(of_archive) else {
                let text = "not an archive of a log in the folder";
                return Err(Failure::refused("AUDIT_SIGNATURE", text).about(archive.display()));
            };
            archives_of.entry(log.number).or_default().push(archive);
        }
        for log in logs {
            let Some(archives) = archives_of.remove(&log.number) else { continue };
            let about = |error: LogError| Failure::from(error).into_refusal().about(log.folder.display());
            let disk = JoinedDisk::existing([&log.folder].into_iter().chain(archives));
            let disk = disk.map_err(|error| about(error.into()))?;
            let known = std::slice::from_ref(&log.summary.checkpoint);
            log.summary = verify_disk(&disk, &log.key, known).map_err(about)?;
        }
        Ok(())
    }
}

fn is_several(logs: &[VerifiedLog]) -> bool {
    logs.iter().any(|log| log.name.is_some())
}

/// Refuses a log with missing entries, or with entries after its last checkpoint.
fn require_complete(log: &VerifiedLog) -> Result<(), Failure> {
    let LogSummary { first_here, tail_bytes, .. } = log.summary;
    let text = match (missing(&log.summary), tail_bytes) {
        (0, 0) => return Ok(()),
        (0, bytes) => format!("{bytes} bytes after the last checkpoint are unsigned"),
        _ => format!("incomplete: the log begins with entry {first_here}"),
    };
    Err(Failure::refused("AUDIT_INCOMPLETE", text).about(log.folder.display()))
}

/// Returns the number of missing entries.
const fn missing(summary: &LogSummary) -> u64 {
    summary.first_here.saturating_sub(1)
}

/// Returns the first and the last verified entry.
fn verified(summary: &LogSummary) -> Option<(u64, u64)> {
    (summary.first_here <= summary.records).then_some((summary.first_here, summary.records))
}

fn report(log: &VerifiedLog) -> Value {
    let VerifiedLog { key, summary, kept, state, .. } = log;
    let (first, last) = verified(summary).unzip();
    json!({
        "origin": key.origin().as_str(),
        "records": summary.records,
        "first_here": summary.first_here,
        "entries": {"first": first, "last": last, "missing": missing(summary), "unsigned": summary.unsigned},
        "segments": summary.segments,
        "checkpoints": summary.checkpoints,
        "root": root_of(&summary.checkpoint),
        "note": summary.note,
        "tail_bytes": summary.tail_bytes,
        "kept_elsewhere": kept,
        "state": state,
        "first": summary.first,
        "last": summary.last,
        "time_went_back": summary.time_went_back,
        "first_went_back": summary.first_went_back,
    })
}

fn print_result(out: &mut Output, log: &VerifiedLog, state_file: Option<&Path>) -> Result<(), Failure> {
    let VerifiedLog { key, summary, kept, state, .. } = log;
    let (origin, segments) = (key.origin(), counted(summary.segments, "segment"));
    let checkpoints = counted(summary.checkpoints, "checkpoint");
    out.line(&match (verified(summary), missing(summary)) {
        (None, _) => format!("no entry of {origin} verified, in {segments}, under {checkpoints}"),
        (Some((_, records)), 0) => {
            format!("{} of {origin} verified, in {segments}, under {checkpoints}", entries(records))
        }
        (Some((first, last)), missing) => format!(
            "{} verified, {} not here: {origin}, in {segments}, under {checkpoints}",
            range(first, last),
            if missing == 1 { "1 is".to_owned() } else { format!("1 to {missing} are") }
        ),
    })?;
    out.line(&format!("root {}", root_of(&summary.checkpoint)))?;
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        out.line(&format!("from {first}\nto   {last}"))?;
    }
    if let (Some(size), Some(file)) = (state, state_file) {
        out.line(&format!("goes on from its state `{}`, at {size} entries", file.display()))?;
    }
    match u64::try_from(*kept).unwrap_or(u64::MAX) {
        0 if state.is_some() => {}
        0 => out.line("no checkpoint that was kept elsewhere was given: a cut end would not show")?,
        kept => {
            out.line(&format!("goes on from {} kept elsewhere", counted(kept, "checkpoint")))?;
        }
    }
    if summary.tail_bytes > 0 {
        out.line(&format!("{} bytes after the last checkpoint are unsigned", summary.tail_bytes))?;
    }
    if summary.unsigned > 0 {
        let (last, unsigned) = (summary.records, summary.unsigned);
        let range = range(last.saturating_add(1), last.saturating_add(unsigned));
        out.line(&format!("{range}: not verified, since no checkpoint speaks for them"))?;
    }
    if let Some(first) = summary.first_went_back {
        let count = summary.time_went_back;
        out.line(&format!(
            "warning: {count} entries are older than the one before them, first number {first}"
        ))?;
    }
    Ok(())
}

/// Returns the root of a checkpoint in Base64, as its note has it.
pub(super) fn root_of(checkpoint: &Checkpoint) -> String {
    Base64::encode_string(checkpoint.root().as_bytes())
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

fn range(first: u64, last: u64) -> String {
    if first == last { format!("entry {first}") } else { format!("entries {first} to {last}") }
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
