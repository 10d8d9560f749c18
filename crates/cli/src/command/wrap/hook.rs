//! The hook of a host's own tools: installed in the settings of the project, and removed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_clients::{ClientApp, ClientPlaces, HookApp};
use countersign_host::files::{Replace, unwritable, write_file};
use countersign_host::home::{UserFolder, UserProfile, UserProfileName};
use countersign_host::hook_event::HookHost;

use super::file::{read_client_text, write_client_text};
use super::profile::{DraftedEntry, WrappedEntry};
use super::targets::program;
use crate::failure::{Failure, one_line};
use crate::minting::shell_word;

/// Time-out that the host gets for the hook, in seconds. A person answers within a third of it.
const TIMEOUT: u32 = 600;
/// First version of Claude Code with `onFailure`.
const FAILS_CLOSED: [u32; 3] = [2, 1, 295];

/// A host with command hooks whose settings are in this project.
pub(super) struct HookSettings {
    app: HookApp,
    host: HookHost,
    pub(super) path: PathBuf,
    /// Content of the settings; `None` if there is no file.
    before: Option<String>,
    /// The hook is in the settings already.
    pub(super) is_installed: bool,
}

/// Why a host gets no hook.
pub(super) enum NoHook {
    /// The host is not installed, or has no hooks.
    NotNeeded,
    /// Its tools stay open.
    Open(String),
}

impl HookSettings {
    /// Looks whether the client has tools of its own that a hook can guard.
    pub(super) fn of(client: ClientApp, places: &ClientPlaces) -> Result<Self, NoHook> {
        let (app, host, path, command) = match client {
            ClientApp::ClaudeCode => {
                (HookApp::ClaudeCode, HookHost::ClaudeCode, ".claude/settings.local.json", "claude")
            }
            ClientApp::Cursor => (HookApp::Cursor, HookHost::Cursor, ".cursor/hooks.json", "cursor"),
            ClientApp::ClaudeDesktop | ClientApp::VsCode | ClientApp::Codex => return Err(NoHook::NotNeeded),
        };
        let Some(version) = version_of(command) else { return Err(NoHook::NotNeeded) };
        if app == HookApp::ClaudeCode && version < FAILS_CLOSED {
            let [a, b, c] = version;
            return Err(NoHook::Open(format!(
                "Claude Code {a}.{b}.{c} runs a tool whose hook fails: version 2.1.295 or newer is needed"
            )));
        }
        let path = places.project.join(path);
        let before = match path.symlink_metadata() {
            Err(_) => None,
            Ok(_) => Some(read_client_text(&path).map_err(|error| NoHook::Open(error.line()))?),
        };
        let is_installed = before.as_deref().is_some_and(|text| text.contains(" hook --profile "));
        Ok(Self { app, host, path, before, is_installed })
    }

    /// Returns whether this is the hook of that client.
    pub(super) fn is_of(&self, client: &str) -> bool {
        self.host.as_str() == client
    }

    /// The name under which the hook decides about a tool of an MCP server.
    pub(super) fn name_of(&self, server: &str, tool: &str) -> String {
        let letter =
            |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        match self.app {
            HookApp::ClaudeCode => format!("mcp__{}__{tool}", server.chars().map(letter).collect::<String>()),
            HookApp::Cursor => format!("MCP/{tool}"),
        }
    }

    /// Drafts the registry of the host's own tools. Those in `guarded` have a gateway, which decides about them.
    pub(super) fn draft(
        &self,
        home: &UserFolder,
        places: &ClientPlaces,
        guarded: &[String],
    ) -> Result<DraftedEntry, Failure> {
        let root = places.project.to_str().ok_or_else(|| Failure::usage("the folder's name is not UTF-8"))?;
        DraftedEntry::of_hook(home, self.host, &self.path, root, guarded)
    }

    /// Puts the hook in.
    pub(super) fn install(&self, home: &UserFolder, entry: &DraftedEntry) -> Result<(), Failure> {
        if self.is_installed {
            return Ok(());
        }
        let command = format!(
            "{} hook --profile {} --host {} --host-timeout {TIMEOUT}s",
            shell_word(&program()?),
            entry.profile,
            self.host.as_str()
        );
        let installed = self.app.install(self.before.as_deref(), &command, TIMEOUT);
        let installed = installed.map_err(|error| Failure::from(error).about(self.path.display()))?;
        entry.keep(home, None, Some(installed.inserted))?;
        match &self.before {
            Some(before) => write_client_text(&self.path, before, &installed.text),
            None => {
                if let Some(folder) = self.path.parent() {
                    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
                }
                Ok(write_file(&self.path, installed.text.as_bytes(), Replace::Never)?)
            }
        }
    }
}

/// Returns the hook of a profile that is still in its settings.
pub(super) fn installed_hook(profile: &UserProfile) -> Option<(WrappedEntry, String)> {
    let entry = WrappedEntry::of(profile)?;
    let hook = entry.hook.clone()?;
    Some((entry, hook))
}

/// Takes the hook of a profile out of its settings. Returns `false` if it is not there.
pub(super) fn remove_hook(
    profile: &UserProfileName,
    entry: &WrappedEntry,
    hook: &str,
) -> Result<bool, Failure> {
    let path = Path::new(&entry.file);
    if path.symlink_metadata().is_err() {
        return Ok(false);
    }
    let text = read_client_text(path)?;
    if !text.contains(hook) {
        if text.contains(&format!(" hook --profile {profile} ")) {
            let text = "the hook was changed since `wrap` put it in: take it away by hand";
            return Err(Failure::new("HOOK_CHANGED", text).about(path.display()));
        }
        return Ok(false);
    }
    let left = HookApp::remove(&text, hook).map_err(|error| Failure::from(error).about(path.display()))?;
    match left {
        Some(left) => write_client_text(path, &text, &left)?,
        None => std::fs::remove_file(path).map_err(|error| unwritable(path, &error))?,
    }
    Ok(true)
}

/// Returns the version that a host's program prints; `None` if there is no such program.
fn version_of(program: &str) -> Option<[u32; 3]> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(version_in(&one_line(&String::from_utf8_lossy(&output.stdout))))
}

/// Returns the first version in a text, or zeros.
fn version_in(text: &str) -> [u32; 3] {
    let parts = |word: &str| {
        let mut parts = word.trim_start_matches('v').split('.').map(str::parse);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(a)), Some(Ok(b)), Some(Ok(c))) => Some([a, b, c]),
            _ => None,
        }
    };
    text.split_whitespace().find_map(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn version_is_read_out_of_the_line() {
        assert_eq!(version_in("2.1.330 (Claude Code)"), [2, 1, 330]);
        assert_eq!(version_in("Claude Code v2.1.294"), [2, 1, 294]);
        assert_eq!(version_in("no version here"), [0, 0, 0]);
    }
}
