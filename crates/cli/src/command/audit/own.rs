use std::path::{Path, PathBuf};

use clap::Args;
use countersign_audit_log::{Durability, LogKey, LogOptions, signed_key};
use countersign_core::Timestamp;
use countersign_host::error::HostError;
use countersign_host::interrupt::outlive_file_limit;
use countersign_host::states::{knowing, other_states, states_beside};
use countersign_keys::SigningKey;
use countersign_keys::file::read_log_key;
use countersign_tlog::note::KeyName;

use crate::failure::Failure;
use crate::output::note;

/// A log whose key is here, to be written.
#[derive(Debug, Args)]
pub(super) struct OwnLog {
    /// The log's folder. No process may be writing it.
    folder: PathBuf,
    /// The log's Ed25519 key file.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The state that the log's writers keep. Without this, the folder's name with `.state` behind it, or `record.state` beside the
    /// folder: the one that knows the log.
    #[arg(long, value_name = "FILE", conflicts_with = "no_state")]
    state: Option<PathBuf>,
    /// The log's writers keep no state, or it is lost.
    #[arg(long)]
    no_state: bool,
}

impl OwnLog {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn key(&self) -> Result<SigningKey, Failure> {
        outlive_file_limit()?;
        read_key(&self.key)
    }

    /// Returns the key that verifies the log, if a checkpoint in the folder is signed by its key. `None` if the folder
    /// is missing.
    pub(super) fn verifier(&self) -> Result<Option<LogKey>, Failure> {
        let key = self.key()?.verifying_key();
        match signed_key(&self.folder, &key) {
            Err(_) if self.folder.symlink_metadata().is_err() => Ok(None),
            found => found.map_err(|error| Failure::from(error).about(self.folder.display())),
        }
    }

    /// Returns the state of the log's writers. It must contain the log.
    pub(super) fn state(&self, log: Option<&LogKey>) -> Result<Option<PathBuf>, Failure> {
        if self.no_state {
            return Ok(None);
        }
        let mut found = match &self.state {
            Some(path) => vec![path.clone()],
            None => states_beside(&self.folder, log)?,
        };
        if let Some(log) = log {
            found = knowing(found, log)?;
        }
        let text = match (found.pop(), found.pop()) {
            (Some(state), None) => return Ok(Some(state)),
            (None, _) if self.state.is_some() => "log not found in the state".to_owned(),
            (None, _) => {
                "no state beside the folder contains the log: name that of its writers (--state), or confirm that none exists \
                 (--no-state)"
                    .to_owned()
            }
            (Some(second), Some(first)) => format!(
                "two states beside the folder contain the log, `{}` and `{}`: choose the one that its writers use (--state)",
                first.display(),
                second.display()
            ),
        };
        Err(Failure::new("AUDIT_STATE", text).about(self.folder.display()))
    }

    /// Lists other states beside the folder that contain the log. Warns of one that cannot be read.
    pub(super) fn other_states(&self, log: &LogKey, used: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
        let warn = |error: HostError| {
            note(&format!("warning {}: {}; the state is left unchanged", error.code(), error.line()));
        };
        Ok(used.map_or(Ok(Vec::new()), |used| other_states(&self.folder, log, used, warn))?)
    }
}

/// Builds the line that names the state that a verb used.
pub(super) fn state_line(state: Option<&Path>) -> String {
    state.map_or_else(String::new, |state| format!("\nits state is kept in `{}`", state.display()))
}

/// Options of a log that a verb opens to write entries of its own.
pub(super) fn options(origin: KeyName, key: SigningKey, state: Option<&Path>, now: Timestamp) -> LogOptions {
    // why: `system` keeps complete entries after the last checkpoint; their writers may have received a success.
    let options = LogOptions::new(origin, key).durability(Durability::System).opened_at(now);
    match state {
        Some(path) => options.state(path),
        None => options.dangerous_without_state(),
    }
}

pub(super) fn read_key(path: &Path) -> Result<SigningKey, Failure> {
    read_log_key(path).map_err(|error| Failure::from(error).about(path.display()))
}

/// Failure for a log without a checkpoint that is signed by its key.
pub(super) fn not_its_key(folder: &Path) -> Failure {
    let text = "no checkpoint in the folder is signed by the key";
    Failure::refused("AUDIT_SIGNATURE", text).about(folder.display())
}
