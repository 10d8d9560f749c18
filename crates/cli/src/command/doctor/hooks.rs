//! The hooks of Claude Code's `settings.json`: do they refuse when they fail?

use std::path::{Path, PathBuf};

use countersign_clients::ClientPlaces;
use countersign_host::config_file::ConfigFile;
use countersign_host::files::read_file;
use countersign_host::home::{UserFolder, UserProfileName};
use serde_json::Value;

use super::diagnosis::Diagnoses;
use crate::failure::Failure;

/// Most bytes of the settings.
const SETTINGS_BYTES: u64 = 4 << 20;

/// Checks each hook in the settings of the user and of the project that starts this program.
pub(super) fn check_hooks(found: &mut Diagnoses, home: &UserFolder, places: &ClientPlaces) {
    let folders = [&places.home, &places.project];
    let mut files: Vec<_> = folders
        .into_iter()
        .flat_map(|folder| {
            ["settings.json", "settings.local.json"].map(|name| folder.join(".claude").join(name))
        })
        .collect();
    // In the home folder the user's file is the project's too.
    files.sort();
    files.dedup();
    for path in files.iter().filter(|path| path.symlink_metadata().is_ok()) {
        match read(path) {
            Ok(settings) => {
                for hook in ours(&settings) {
                    check_hook(found, home, path, hook);
                }
            }
            Err(failure) => found.failure(&path.display(), &failure, None),
        }
    }
}

fn read(path: &Path) -> Result<Value, Failure> {
    let bytes = read_file(path, SETTINGS_BYTES)?;
    let malformed = |_| Failure::new("CLIENT_FILE_MALFORMED", "not JSON").about(path.display());
    serde_json::from_slice(&bytes).map_err(malformed)
}

/// Returns the hooks before a tool call that run `countersign hook`.
fn ours(settings: &Value) -> impl Iterator<Item = &Value> {
    let lists = settings.pointer("/hooks/PreToolUse").and_then(Value::as_array).into_iter().flatten();
    let hooks = lists.filter_map(|list| list.get("hooks")?.as_array()).flatten();
    hooks.filter(|hook| {
        let words = words(hook);
        let program = words.first().and_then(|program| Path::new(program).file_name());
        program.is_some_and(|name| name == "countersign") && words.get(1).is_some_and(|verb| verb == "hook")
    })
}

fn words(hook: &Value) -> Vec<String> {
    let command = hook.get("command").and_then(Value::as_str).unwrap_or_default();
    command.split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
}

fn check_hook(found: &mut Diagnoses, home: &UserFolder, path: &Path, hook: &Value) {
    let words = words(hook);
    let before = found.faults();
    let fault = |found: &mut Diagnoses, code, text: String| found.error(&path.display(), code, text, None);
    if hook.get("onFailure").and_then(Value::as_str) != Some("block") {
        let text = "the hook lets calls run when it fails: set `\"onFailure\": \"block\"` (Claude Code 2.1.295 or newer)";
        fault(found, "HOOK_FAILS_OPEN", text.to_owned());
    }
    let program = words.first().map(PathBuf::from).unwrap_or_default();
    if program.is_absolute() && !program.exists() {
        fault(found, "HOOK_PROGRAM", format!("the hook's program is gone: {}", program.display()));
    }
    let option = |name: &str| words.iter().skip_while(|word| *word != name).nth(1);
    let config = match (option("--profile"), option("--config")) {
        (Some(profile), _) => {
            profile.parse::<UserProfileName>().and_then(|name| home.config_of(&name)).map(Some)
        }
        (None, config) => Ok(config.map(PathBuf::from)),
    };
    let read = config.and_then(|config| config.map(|config| ConfigFile::read(&config)).transpose());
    if let Err(error) = read {
        found.failure(&path.display(), &Failure::from(error), None);
    }
    let host = hook.get("timeout").and_then(Value::as_u64);
    let told: Option<countersign_core::Millis> = option("--host-timeout").and_then(|span| span.parse().ok());
    let told = told.map_or(30, |span| span.as_millis() / 1_000);
    if host.is_some_and(|host| host < told) {
        let text = format!(
            "the host waits for less time than `--host-timeout` says: {} s, {told} s",
            host.unwrap_or(0)
        );
        fault(found, "HOOK_TIMEOUT", text);
    }
    if found.faults() == before {
        found.ok(&path.display(), "the hook refuses when it fails");
    }
}
