mod call;
mod guards;
mod manifest;
mod report;
mod run;
mod spans;
mod vector;

use std::path::PathBuf;

use clap::Args;
use countersign_action_proposal::Profile;
use countersign_core::escape_hidden;

use crate::failure::{Exit, Failure};
use crate::files::read_file;
use crate::output::Output;

use manifest::{Manifest, Mode, within};
use report::{Filter, Report};
use run::Runner;

/// The most bytes of a manifest.
const MANIFEST_BYTES: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The suite's folder: `manifest.json`, the vectors that it lists, and `artifacts`.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How proposals are judged: `strict`, `pic-0.9` or `pic-0.8`. Under `strict` no vector can weaken that.
    #[arg(long)]
    profile: Profile,
    /// Run the vectors of this mode; give several times for several, also with --filter-id.
    #[arg(long = "filter-mode", value_name = "MODE")]
    modes: Vec<Mode>,
    /// Run the vector of this id; give several times for several.
    #[arg(long = "filter-id", value_name = "ID")]
    ids: Vec<String>,
}

impl Conformance {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let report = match self.manifest() {
            Ok(manifest) => self.run_all(manifest),
            Err(message) => Report::invalid(self.profile, &message),
        };
        let exit = match report.diagnostic() {
            Some(_) => Exit::Usage,
            None if report.summary.failed > 0 => Exit::Failed,
            None => Exit::Done,
        };
        if out.is_json() {
            out.json(&report)?;
            return Ok(exit);
        }
        if let Some((code, message)) = report.diagnostic() {
            let code = if code == "manifest_invalid" { "MANIFEST_INVALID" } else { "NO_VECTORS_SELECTED" };
            return Err(Failure::new(code, message).ending(exit));
        }
        for outcome in &report.results {
            out.line(&escape_hidden(&outcome.line()))?;
        }
        let summary = &report.summary;
        out.line(&format!(
            "{} of {} passed under `{}`, {} failed",
            summary.passed, summary.total, self.profile, summary.failed
        ))?;
        Ok(exit)
    }

    fn manifest(&self) -> Result<Manifest, String> {
        let path = within(&self.folder, "manifest.json")?;
        let bytes = read_file(&path, MANIFEST_BYTES).map_err(|failure| failure.message().to_owned())?;
        Manifest::read(&bytes)
    }

    fn run_all(&self, manifest: Manifest) -> Report {
        let filter = Filter::new(&self.modes, &self.ids);
        let total = manifest.entries.len();
        let mut runner = Runner::new(&self.folder, self.profile);
        let chosen = manifest.entries.iter().filter(|entry| filter.takes(entry));
        let results = chosen.map(|entry| runner.run(entry)).collect();
        Report::of(self.profile, manifest.version, total, &filter, results)
    }
}
