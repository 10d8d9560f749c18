use base64ct::{Base64, Encoding as _};
use clap::Args;
use countersign_audit_log::LogSummary;
use serde_json::json;

use super::log::{LogArgs, Verified};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    log: LogArgs,
}

impl Verify {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let Verified { key, summary } = self.log.verify()?;
        let kept = self.log.kept_elsewhere();
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
            "kept_elsewhere": kept,
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
        match kept {
            0 => out.line("no checkpoint that was kept elsewhere was given: a cut end would not show")?,
            _ => {
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
