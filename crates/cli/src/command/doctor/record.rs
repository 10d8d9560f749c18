//! The log of one configuration: its key, its folder, its state, its clock.

use std::path::Path;

use countersign_audit_log::{LogKey, LogStateFile};
use countersign_core::{Millis, Timestamp};
use countersign_host::config_file::NamedFiles;
use countersign_host::record::RecordPlan;
use countersign_keys::file::read_log_key;
use countersign_keys::trusted::read_trusted;

use super::diagnosis::Diagnoses;
use super::mend::{mode_mend, quoted};
use crate::command::audit::log::{VerifiedLog, verify_all};
use crate::failure::Failure;
use crate::minting::shell_word;
use crate::time::now;

/// Most bytes of a state.
const STATE_BYTES: u64 = 16 << 20;
/// An entry may be so far ahead of this clock.
const SKEW: Millis = Millis::from_secs(5);
/// Free space below which the disk is a warning.
#[cfg(unix)]
const SPACE: u64 = 256 << 20;

/// Checks the record that a configuration names.
pub(super) fn check_record(found: &mut Diagnoses, config: &Path, files: &NamedFiles) {
    let RecordPlan { folder, key, origin, state, .. } = &files.record;
    let secret = match read_log_key(key) {
        Ok(secret) => secret,
        Err(error) => {
            let failure = Failure::from(error);
            return found.failure(&key.display(), &failure, mode_mend(failure.code(), key));
        }
    };
    found.ok(&key.display(), "the log's key is read, and no one else can read it");
    let beside = folder.with_extension("state");
    let state = state.as_deref().unwrap_or(&beside);
    if state.exists()
        && let Err(error) = read_trusted(state, STATE_BYTES)
    {
        let mend = mode_mend(error.code(), state);
        return found.error(&state.display(), error.code(), error.to_string(), mend);
    }
    let next = next_origin(origin.as_str());
    let renamed = format!(
        "sed -i {} {}",
        shell_word(&format!("s|^origin = \"{}\"|origin = \"{next}\"|", origin.as_str())),
        quoted(config)
    );
    let states = match LogStateFile::new(state).read() {
        Ok(states) => states,
        Err(error) => {
            let aside = format!("mv {0} {0}.broken", quoted(state));
            return found.failure(&state.display(), &Failure::from(error), Some(aside));
        }
    };
    if !folder.exists() {
        if states.is_none() {
            return found.ok(&folder.display(), "no log yet: the gateway begins it");
        }
        let text = "the log is gone, and its state has entries of it: look for the folder first (docs/runbook.md, Log gone)";
        return found.error(&folder.display(), "AUDIT_MISSING", text, Some(renamed));
    }
    check_folder(found, folder);
    let public = LogKey::new(origin.clone(), secret.verifying_key());
    match verify_all(folder, &public, &[], states.as_ref()) {
        Ok(logs) => check_logs(found, folder, &logs, states.is_some()),
        Err(failure) => {
            let retired = format!(
                "countersign audit retire {} --key {} --state {} --origin {next} && {renamed}",
                quoted(folder),
                quoted(key),
                quoted(state),
            );
            let text = format!("{} (docs/runbook.md)", failure.line());
            found.error(&folder.display(), failure.code(), text, Some(retired));
        }
    }
}

fn check_logs(found: &mut Diagnoses, folder: &Path, logs: &[VerifiedLog], has_state: bool) {
    let entries: u64 = logs.iter().map(|log| log.summary.records).fold(0, u64::saturating_add);
    let last: Option<Timestamp> = logs.iter().filter_map(|log| log.summary.last).max();
    match (now(), last) {
        (Ok(now), Some(last)) if last > now.saturating_add(SKEW) => {
            let text = format!("the clock says {now}, and the record has an entry of {last}");
            found.error(&"clock", "CLOCK_BEHIND", text, Some("sudo timedatectl set-ntp true".to_owned()));
        }
        _ => {}
    }
    if has_state || entries == 0 {
        let last = last.map(|last| format!(", the last of {last}")).unwrap_or_default();
        return found.ok(&folder.display(), format!("{entries} entries verify{last}"));
    }
    let text = format!(
        "{entries} entries verify, and no state says that none is missing: the next start adopts them"
    );
    found.warning(&folder.display(), "AUDIT_STATE", text, None);
}

/// Checks that the folder can be written, and that its disk has space.
#[cfg(unix)]
fn check_folder(found: &mut Diagnoses, folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if folder.metadata().is_ok_and(|about| about.permissions().mode() & 0o300 != 0o300) {
        let mend = Some(format!("chmod u+rwx {}", quoted(folder)));
        found.error(&folder.display(), "FILE_UNWRITABLE", "the folder cannot be written", mend);
    }
    if let Ok(disk) = rustix::fs::statvfs(folder) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < SPACE {
            let text = format!("{} MiB are free on its disk; a full one refuses every call", free >> 20);
            found.warning(&folder.display(), "DISK_SPACE", text, None);
        }
    }
}

#[cfg(not(unix))]
fn check_folder(_: &mut Diagnoses, _: &Path) {}

/// Returns an origin after this one: `name-2` after `name`.
fn next_origin(origin: &str) -> String {
    match origin.rsplit_once('-').and_then(|(name, number)| Some((name, number.parse::<u32>().ok()?))) {
        Some((name, number)) => format!("{name}-{}", number.saturating_add(1)),
        None => format!("{origin}-2"),
    }
}

#[cfg(test)]
mod tests {
    use super::next_origin;

    #[test]
    fn origin_of_the_next_log_is_another_one() {
        assert_eq!(next_origin("example.com/log"), "example.com/log-2");
        assert_eq!(next_origin("example.com/log-2"), "example.com/log-3");
        assert_eq!(next_origin("localhost/cursor-desk/log-a1b2"), "localhost/cursor-desk/log-a1b2-2");
    }
}
