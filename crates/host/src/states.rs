//! States of a log's writers: the files that name its last synced checkpoint.

use std::path::{Path, PathBuf};

use countersign_audit_log::{LogKey, LogNumber, LogStateFile, RebuiltSide};

use crate::error::{HostError, one_line};

/// Lists the states beside a log's folder that contain the log, except `used`. Passes those that cannot be read, which
/// concern only their own writers, to `unreadable`.
///
/// # Errors
/// `AUDIT_UNAVAILABLE`.
pub fn other_states(
    folder: &Path,
    log: &LogKey,
    used: &Path,
    mut unreadable: impl FnMut(HostError),
) -> Result<Vec<PathBuf>, HostError> {
    let used = used.canonicalize().ok();
    let mut others = states_beside(folder, Some(log))?;
    others.retain(|path| path.canonicalize().ok() != used);
    others.retain(|path| {
        knows(path, log).unwrap_or_else(|failure| {
            unreadable(failure);
            false
        })
    });
    Ok(others)
}

/// Keeps the states that contain the log.
///
/// # Errors
/// A state that cannot be read.
pub fn knowing(states: Vec<PathBuf>, log: &LogKey) -> Result<Vec<PathBuf>, HostError> {
    let mut knowing = Vec::new();
    for path in states {
        if knows(&path, log)? {
            knowing.push(path);
        }
    }
    Ok(knowing)
}

/// Returns whether a state contains the log.
fn knows(path: &Path, log: &LogKey) -> Result<bool, HostError> {
    let states = LogStateFile::new(path).read();
    let known = states.and_then(|states| states.map_or(Ok(None), |states| states.log(log)));
    known.map(|known| known.is_some()).map_err(|error| HostError::from(error).about(path.display()))
}

/// Lists the existing states at the default places of a log's writers.
///
/// # Errors
/// `AUDIT_UNAVAILABLE`.
pub fn states_beside(folder: &Path, log: Option<&LogKey>) -> Result<Vec<PathBuf>, HostError> {
    let folder = std::path::absolute(folder);
    let mut folder = folder.map_err(|error| HostError::new("AUDIT_UNAVAILABLE", error.to_string()))?;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.parse::<LogNumber>().is_ok()
        && log.is_some_and(|log| log.origin().as_str().ends_with(&format!("/{name}")));
    if number {
        // One state covers all logs of the parent folder.
        folder.pop();
    }
    let mut beside = folder.file_name().unwrap_or_default().to_owned();
    beside.push(".state");
    let paths = [folder.with_file_name(beside), folder.with_file_name("record.state")];
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

/// Builds the line that reports a side file that was missing, short or wrong.
#[must_use]
pub fn side_rebuilt(folder: &Path, side: &RebuiltSide) -> String {
    let path = folder.join(&side.file);
    let failure = side.failure.as_ref().map(|error| format!(", and cannot be written: {error}"));
    one_line(&format!("side file `{}` rebuilt{}", path.display(), failure.unwrap_or_default()))
}
