//! The files of the user's folder and of one configuration.

use std::path::{Path, PathBuf};

use countersign_approval_token::PendingApprovals;
use countersign_core::Millis;
use countersign_host::config_file::{ConfigFile, NamedFiles};
use countersign_host::home::{UserFolder, UserProfile};
use countersign_host::inputs::read_trust_root;
use countersign_host::session::open_existing_store;
use countersign_keys::file::{KeyFileError, read_server_secret, read_signing_key};
use countersign_keys::trusted::read_trusted;
use countersign_registry::{FileHighWater, HighWaterStore as _, RegistryDraft};
use countersign_tool_gate::Quarantines;

use super::diagnosis::Diagnoses;
use super::mend::{mode_mend, quoted};
use super::record::check_record;
use crate::failure::Failure;
use crate::files::read_text_file;
use crate::output::counted;
use crate::time::now;

/// Most bytes of a file whose mode is looked at.
const FILE_BYTES: u64 = 64 << 20;
/// A registry that expires within this time is a warning.
const SOON: Millis = Millis::from_secs(14 * 24 * 60 * 60);

/// The user's folder and the profile to which a configuration belongs.
type InProfile<'p> = Option<(&'p UserFolder, &'p UserProfile)>;

/// Checks the folder and the keys that all profiles share.
pub(super) fn check_home(found: &mut Diagnoses, home: &UserFolder) {
    if home.path().symlink_metadata().is_err() {
        let mend = Some("countersign wrap --all".to_owned());
        return found.warning(&home.path().display(), "HOME_MISSING", "nothing is wrapped yet", mend);
    }
    let key = home.operator_key();
    check_key(found, &key, "ed25519", read_signing_key(&key).map(drop));
}

/// Checks the files of a configuration. Returns it if a gateway can start with them.
pub(super) fn check_config(found: &mut Diagnoses, path: &Path, profile: InProfile<'_>) -> Option<ConfigFile> {
    if let Some((home, profile)) = profile
        && let Err(error) = home.config_of(profile.name())
    {
        let failure = Failure::from(error);
        let mend = match failure.code() {
            "FILE_TOO_OPEN" => Some(format!("chmod 700 {} {}", quoted(home.path()), quoted(profile.path()))),
            _ => None,
        };
        found.failure(profile.name(), &failure, mend);
        return None;
    }
    let config = match ConfigFile::read(path) {
        Ok(config) => config,
        Err(error) => {
            let failure = Failure::from(error);
            let mend = mode_mend(failure.code(), path).or_else(|| rebuilt(path, profile));
            found.failure(&path.display(), &failure, mend);
            return None;
        }
    };
    found.ok(&path.display(), "the configuration is read");
    let files = tidy_files(config.named_files());
    let before = found.errors();
    let is_trusted = check_trust_root(found, &files.trust_root, profile);
    if let Some(approval) = &config.approval {
        let key = tidy(&approval.key_file);
        check_key(found, &key, "hmac", read_server_secret(&key).map(drop));
        check_store(found, &tidy(&approval.store), files.record.folder.exists());
    }
    if let Some(store) = &files.signals_store {
        check_signals_store(found, store);
    }
    if is_trusted {
        check_registry(found, &config, &files, profile);
    }
    check_record(found, path, &files);
    (found.errors() == before).then_some(config)
}

/// Returns the path without `..`, as far as its folder exists.
fn tidy(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    folder.zip(path.file_name()).map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name))
}

fn tidy_files(mut files: NamedFiles) -> NamedFiles {
    let NamedFiles { registry, trust_root, registry_state, record, signals_store, .. } = &mut files;
    for path in [registry, trust_root, registry_state, &mut record.folder, &mut record.key]
        .into_iter()
        .chain(&mut record.state)
        .chain(signals_store)
    {
        *path = tidy(path);
    }
    files
}

/// Returns the commands that make a profile's configuration anew, with the old one beside it.
fn rebuilt(path: &Path, profile: InProfile<'_>) -> Option<String> {
    let (_, profile) = profile?;
    let client = crate::command::wrap::client_file_of(profile)?;
    let (path, client) = (quoted(path), quoted(Path::new(&client)));
    Some(format!("mv {path} {path}.broken && countersign unwrap {client} && countersign wrap {client}"))
}

fn check_key(found: &mut Diagnoses, path: &Path, kind: &str, read: Result<(), KeyFileError>) {
    match read {
        Ok(()) => found.ok(&path.display(), "the key is read, and no one else can read it"),
        Err(error) => {
            let failure = Failure::from(error);
            let made = || format!("countersign keys generate --kind {kind} --out {}", quoted(path));
            let mend = match failure.code() {
                // Only this key can be made anew: the others are named elsewhere.
                "KEY_FILE_MISSING" if kind == "hmac" => Some(made()),
                code => mode_mend(code, path),
            };
            found.failure(&path.display(), &failure, mend);
        }
    }
}

/// Returns whether the trust root can be used.
fn check_trust_root(found: &mut Diagnoses, path: &Path, profile: InProfile<'_>) -> bool {
    match read_trust_root(path) {
        Ok(_) => {
            found.ok(&path.display(), "the trust root is read");
            true
        }
        Err(error) => {
            let failure = Failure::from(error);
            let operator = profile.map(|(home, _)| home.operator_key()).filter(|key| key.exists());
            let made = operator.map(|key| {
                let (path, key) = (quoted(path), quoted(&key));
                format!("countersign keys trust --threshold 1 --force --out {path} --signing-key {key}")
            });
            found.failure(&path.display(), &failure, mode_mend(failure.code(), path).or(made));
            false
        }
    }
}

fn check_registry(found: &mut Diagnoses, config: &ConfigFile, files: &NamedFiles, profile: InProfile<'_>) {
    let NamedFiles { registry, registry_state: state, .. } = files;
    for path in [registry, state].into_iter().filter(|path| path.exists()) {
        if let Err(error) = read_trusted(path, FILE_BYTES) {
            return found.error(
                &path.display(),
                error.code(),
                error.to_string(),
                mode_mend(error.code(), path),
            );
        }
    }
    let corrupt = match FileHighWater::new(state).current() {
        Ok(_) => None,
        Err(error) => Some(Failure::from(error)),
    };
    if let Some(failure) = corrupt {
        let aside = format!("mv {0} {0}.corrupt", quoted(state));
        return found.failure(&state.display(), &failure, Some(aside));
    }
    let signed_above = |version| signed_above(version, registry, state, profile);
    let current = match config.current_registry() {
        Ok(registry) => registry.current(),
        Err(error) => {
            return found.failure(&registry.display(), &Failure::from(error), signed_above(0));
        }
    };
    let Ok(now) = now() else {
        return found.error(&"clock", "CLOCK_UNAVAILABLE", "the clock cannot be read", None);
    };
    let about =
        format!("version {}, issued {}, expires {}", current.version(), current.issued(), current.expires());
    if now.saturating_add(SOON) >= current.expires() {
        return found.warning(
            &registry.display(),
            "REGISTRY_EXPIRES",
            about,
            signed_above(current.version()),
        );
    }
    found.ok(&registry.display(), about);
}

/// Returns the command that signs the profile's draft under a version above this one and all that were accepted.
fn signed_above(version: u64, registry: &Path, state: &Path, profile: InProfile<'_>) -> Option<String> {
    let (home, profile) = profile?;
    let draft = RegistryDraft::from_json(read_text_file(&profile.draft()).ok()?.as_bytes()).ok()?;
    let accepted = FileHighWater::new(state).current().ok().flatten().map_or(0, |mark| mark.version());
    let version = version.max(draft.version()).max(accepted).checked_add(1)?;
    Some(format!(
        "countersign registry sign {} --registry-version {version} --key {} --ttl 365d --force --out {}",
        quoted(&profile.draft()),
        quoted(&home.operator_key()),
        quoted(registry),
    ))
}

/// Checks the store of quarantines. A damaged one has no mend: without it, the agents in it could call again.
fn check_signals_store(found: &mut Diagnoses, path: &Path) {
    if path.symlink_metadata().is_err() {
        return found.ok(&path.display(), "no store of quarantines yet: the gateway makes it");
    }
    let opened = open_existing_store(path).map_err(Failure::from);
    match opened.and_then(|store| Ok(Quarantines::list(&store)?)) {
        Ok(listed) => {
            let count = counted(listed.len() as u64, "agent");
            found.ok(&path.display(), format!("the store of quarantines opens; {count} in it"));
        }
        Err(failure) => found.failure(&path.display(), &failure, mode_mend(failure.code(), path)),
    }
}

fn check_store(found: &mut Diagnoses, path: &Path, is_used: bool) {
    let made = format!("countersign store init {}", quoted(path));
    if path.symlink_metadata().is_err() && !is_used {
        return found.ok(&path.display(), "no store yet: the gateway makes it");
    }
    if path.symlink_metadata().is_err() {
        let text = "the store is missing; approvals from before it is made are refused";
        return found.warning(
            &path.display(),
            "STORE_MISSING",
            text,
            Some(format!("[ -e {} ] || {made}", quoted(path))),
        );
    }
    let opened = open_existing_store(path).map_err(Failure::from);
    let listed = opened.and_then(|store| Ok(PendingApprovals::list(&store, now()?)?));
    match listed {
        Ok(waiting) => found.ok(&path.display(), format!("the store opens; {} wait", waiting.len())),
        Err(failure) => {
            let aside = format!("mv {0} {0}.broken && {made}", quoted(path));
            let mend = mode_mend(failure.code(), path).unwrap_or(aside);
            found.failure(&path.display(), &failure, Some(mend));
        }
    }
}
