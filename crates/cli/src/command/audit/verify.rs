use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_audit_log::{LogNumber, LogSummary};
use serde_json::{Value, json};

use super::log::{LogArgs, VerifiedLog};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    log: LogArgs,
}

impl Verify {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let logs = self.log.verify_all()?;
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
            tell(out, log)?;
        }
        if is_several(&logs) {
            out.line(&format!("{} logs verified", logs.len()))?;
        }
        Ok(Exit::Done)
    }
}

fn is_several(logs: &[VerifiedLog]) -> bool {
    logs.iter().any(|log| log.number != LogNumber::FIRST)
}

fn report(log: &VerifiedLog) -> Value {
    let VerifiedLog { key, summary, kept, .. } = log;
    json!({
        "origin": key.origin().as_str(),
        "records": summary.records,
        "first_here": summary.first_here,
        "segments": summary.segments,
        "checkpoints": summary.checkpoints,
        "root": root_of(summary),
        "note": summary.note,
        "tail_bytes": summary.tail_bytes,
        "kept_elsewhere": kept,
        "first": summary.first,
        "last": summary.last,
        "time_went_back": summary.time_went_back,
        "first_went_back": summary.first_went_back,
    })
}

fn tell(out: &mut Output, log: &VerifiedLog) -> Result<(), Failure> {
    let VerifiedLog { key, summary, kept, .. } = log;
    let LogSummary { records, segments, checkpoints, .. } = summary;
    out.line(&format!(
        "{records} entries of {} verified, in {}, under {}",
        key.origin(),
        counted(*segments, "segment"),
        counted(*checkpoints, "checkpoint"),
    ))?;
    out.line(&format!("root {}", root_of(summary)))?;
    if let (Some(first), Some(last)) = (summary.first, summary.last) {
        out.line(&format!("from {first}\nto   {last}"))?;
    }
    if summary.first_here > 1 {
        out.line(&format!("the log here begins with number {}", summary.first_here))?;
    }
    match u64::try_from(*kept).unwrap_or(u64::MAX) {
        0 => out.line("no checkpoint that was kept elsewhere was given: a cut end would not show")?,
        kept => {
            out.line(&format!("goes on from {} kept elsewhere", counted(kept, "checkpoint")))?;
        }
    }
    if summary.tail_bytes > 0 {
        out.line(&format!("{} bytes come behind the last checkpoint, unsigned", summary.tail_bytes))?;
    }
    if let Some(first) = summary.first_went_back {
        let count = summary.time_went_back;
        out.line(&format!(
            "warning: {count} entries are older than the one before them, first number {first}"
        ))?;
    }
    Ok(())
}

/// The root under the last checkpoint, as the checkpoint has it.
pub(super) fn root_of(summary: &LogSummary) -> String {
    Base64::encode_string(summary.checkpoint.root().as_bytes())
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
