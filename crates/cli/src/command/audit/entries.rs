use std::path::{Path, PathBuf};

use countersign_audit_log::{LogKey, Record};
use countersign_host::entries::{Entries, Entry, LogPart, Logs, ReadTo, open};
use countersign_merkle::Frontier;
use serde::Serialize;

use super::describe::describe;
use super::log::{VerifiedLog, require_all, verify_all};
use crate::failure::Failure;
use crate::output::{Output, note};

/// Reads all logs of the folder without verifying anything.
pub(crate) fn unverified(folder: &Path) -> Result<Entries, Failure> {
    let logs = Logs::of(folder)?;
    if logs.lacks_first() {
        let folder = folder.display();
        note(&format!(
            "warning AUDIT_MISSING: {folder}: the folder's own log is missing, numbered logs are present"
        ));
    }
    Ok(Entries::read(&logs)?)
}

/// Verifies all logs, then reads the entries under their last checkpoints. The entries are known to be the verified
/// ones only after the last one was read.
pub(crate) fn verified(folder: &Path, key: &LogKey, kept: &[PathBuf]) -> Result<Entries, Failure> {
    let kept: Vec<_> = kept.iter().map(|path| (None, path.clone())).collect();
    let verified = verify_all(folder, key, &kept, None)?;
    let part = |log: VerifiedLog| {
        require_all(&log.folder, &log.summary)?;
        Ok(LogPart {
            name: log.name,
            entries: open(&log.folder)?,
            folder: log.folder,
            frontier: Frontier::new(),
            heads: vec![*log.summary.checkpoint.head()],
            end: ReadTo::Entry(log.summary.records),
        })
    };
    let parts = verified.into_iter().map(part).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Entries::of_parts(parts))
}

/// JSON form of one entry.
#[derive(Serialize)]
struct EntryLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    seq: u64,
    #[serde(flatten)]
    record: &'a Record,
}

/// Prints one entry in the requested output format.
pub(super) fn print(out: &mut Output, entry: &Entry) -> Result<(), Failure> {
    let Entry { log, seq, record } = entry;
    if out.is_json() {
        return out.json(&EntryLine { log: log.map(|log| log.to_string()), seq: *seq, record });
    }
    let name = log.map(|log| format!("{log:<3} ")).unwrap_or_default();
    out.line(&format!("{name}{}", describe(*seq, record)))
}
