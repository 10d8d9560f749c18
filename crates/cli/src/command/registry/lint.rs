use std::path::PathBuf;

use clap::Args;
use countersign_registry::Severity;
use serde_json::json;

use super::read::parse_draft;
use crate::failure::{Exit, Failure, one_line};
use crate::files::{REGISTRY_BYTES, read_file};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct RegistryLintArgs {
    /// The draft.
    draft: PathBuf,
    /// Make warnings exit code 3 as well.
    #[arg(long)]
    strict: bool,
}

impl RegistryLintArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let bytes = read_file(&self.draft, REGISTRY_BYTES)?;
        let draft = parse_draft(&bytes, &self.draft).map_err(Failure::into_refusal)?;
        let findings = draft.lint();
        let warned = findings.iter().any(|finding| finding.severity() > Severity::Note);
        let bad = self.strict && warned;
        if out.is_json() {
            out.json(&json!({"ok": !bad, "findings": findings}))?;
        } else {
            for finding in &findings {
                let message = one_line(finding.message());
                out.line(&format!("{} {}: {message}", finding.severity(), finding.code()))?;
            }
            if findings.is_empty() {
                out.line("nothing to report")?;
            }
        }
        Ok(if bad { Exit::Refused } else { Exit::Done })
    }
}
