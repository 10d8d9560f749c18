use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use countersign_action_proposal::Profile;
use countersign_core::escape_hidden;
use countersign_pic_conformance::{Filter, Mode, run_suite};

use crate::failure::{Exit, Failure};
use crate::look::ProgressLine;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The suite's folder: `manifest.json`, the vectors that it lists, and `artifacts`.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How proposals are judged: `strict`, `pic-0.9` or `pic-0.8`. Under `strict` no vector can weaken that.
    #[arg(long)]
    profile: Profile,
    /// Run the vectors of this mode; give several times for several, also with --filter-id.
    #[arg(long = "filter-mode", value_name = "MODE", value_parser = modes())]
    modes: Vec<Mode>,
    /// Run the vector of this id; give several times for several.
    #[arg(long = "filter-id", value_name = "ID")]
    ids: Vec<String>,
}

fn modes() -> impl clap::builder::TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str)).try_map(|name| name.parse::<Mode>())
}

impl Conformance {
    pub(super) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let filter = Filter::new(self.modes.clone(), self.ids.clone());
        let progress = ProgressLine::begin("running the suite");
        let report = run_suite(&self.folder, self.profile, &filter);
        drop(progress);
        let exit = match report.diagnostic() {
            Some(_) => Exit::Usage,
            None if report.failed() > 0 => Exit::Failed,
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
        for outcome in report.results() {
            out.line(&escape_hidden(&outcome.line()))?;
        }
        let (passed, total) = (report.passed(), report.total());
        let profile = self.profile;
        out.line(&format!("{passed} of {total} passed under `{profile}`, {} failed", report.failed()))?;
        Ok(exit)
    }
}
