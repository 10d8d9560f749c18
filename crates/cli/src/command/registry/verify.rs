use std::path::PathBuf;

use clap::Args;
use countersign_core::Millis;
use countersign_host::config::DEFAULT_MAX_AGE;
use countersign_registry::{FileHighWater, HighWaterStore as _, LoadOptions, verify_registry};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::files::{REGISTRY_BYTES, read_trusted_file};
use crate::output::Output;
use crate::time::now;
use countersign_host::inputs::read_trust_root;

#[derive(Debug, Args)]
pub(crate) struct RegistryVerifyArgs {
    /// The signed registry.
    file: PathBuf,
    /// The trust root: the operators' keys whose signatures count.
    #[arg(long, value_name = "FILE")]
    trust_root: PathBuf,
    /// A gate's high-water mark: older versions are refused. The mark is not raised.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// How old the signature may be.
    #[arg(long, value_name = "SPAN", default_value = DEFAULT_MAX_AGE)]
    max_age: Millis,
}

impl RegistryVerifyArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let root = read_trust_root(&self.trust_root)?;
        let bytes = read_trusted_file(&self.file, REGISTRY_BYTES)?;
        let mark = match &self.state {
            Some(path) => FileHighWater::new(path)
                .current()
                .map_err(|error| Failure::from(error).about(path.display()))?,
            None => None,
        };
        let mut options = LoadOptions::default();
        options.max_age = self.max_age;
        let snapshot = verify_registry(&bytes, &root, mark.as_ref(), &options, now()?)
            .map_err(|error| Failure::from(error).about(self.file.display()).into_refusal())?;
        let report = json!({
            "ok": true,
            "version": snapshot.version(),
            "digest": snapshot.digest(),
            "issued": snapshot.issued(),
            "expires": snapshot.expires(),
            "agents": snapshot.agents().len(),
            "tools": snapshot.tools().len(),
        });
        let text = format!(
            "registry version {}: {} agents, {} tools\nissued  {}\nexpires {}\ndigest  {}",
            snapshot.version(),
            snapshot.agents().len(),
            snapshot.tools().len(),
            snapshot.issued(),
            snapshot.expires(),
            snapshot.digest()
        );
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }
}
