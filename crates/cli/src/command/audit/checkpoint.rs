use clap::Args;
use serde_json::json;

use super::log::LogArgs;
use super::verify::root_of;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct AuditCheckpointArgs {
    #[command(flatten)]
    log: LogArgs,
}

impl AuditCheckpointArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let verified = self.log.verify_to_give_out()?;
        let summary = &verified.summary;
        if out.is_json() {
            out.json(&json!({
                "ok": true,
                "origin": verified.key.origin().as_str(),
                "size": summary.records,
                "root": root_of(&summary.checkpoint),
                "note": summary.note,
            }))?;
        } else {
            out.bytes(summary.note.as_bytes())?;
        }
        Ok(Exit::Done)
    }
}
