use std::path::Path;

use clap::Args;
use countersign_clients::{ClientApp, ServerStart, Wrapping};
use countersign_host::home::{UserFolder, UserProfile};
use serde_json::json;

use super::file::{OpenClientFile, write_client};
use super::hook::{installed_hook, remove_hook};
use super::profile::WrappedEntry;
use super::targets::{places, targets};
use crate::failure::{Exit, Failure, one_line};
use crate::output::Output;

/// Take the gateway away from in front of a client's servers.
///
/// Gives each entry of the configuration the bytes that it had before `wrap`. Keys, registries and logs stay in the user's folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  countersign unwrap claude-code\n  countersign unwrap --all")]
pub(crate) struct Unwrap {
    /// claude-code, claude-desktop, cursor, vscode, codex, or a configuration file.
    #[arg(value_name = "CLIENT|FILE", required_unless_present = "all")]
    target: Option<String>,
    /// All clients whose configurations are found.
    #[arg(long, conflicts_with = "target")]
    all: bool,
}

impl Unwrap {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let home = UserFolder::of_user()?;
        let mut names = Vec::new();
        let hooks = self.hooks(&home)?;
        let files = match targets(self.target.as_deref()) {
            Err(failure) if failure.code() == "CLIENT_FILE_MISSING" && !hooks.is_empty() => Vec::new(),
            files => files?,
        };
        let files = files.into_iter().map(OpenClientFile::open).collect::<Result<Vec<_>, _>>()?;
        for file in &files {
            let mut content = file.content.clone();
            for place in 0..content.servers().len() {
                let Some(server) = content.servers().get(place).cloned() else { continue };
                let ServerStart::Gateway { profile, .. } = server.start() else { continue };
                let kept = profile.parse().ok().and_then(|name| WrappedEntry::of(&home.profile(&name)));
                let wrapping = kept.and_then(|entry| entry.wrapping).unwrap_or_else(Wrapping::with_args);
                content = content.unwrap(&server, &wrapping)?;
                names.push(one_line(server.name()));
            }
            write_client(file, &content)?;
        }
        for (profile, entry, hook) in &hooks {
            if remove_hook(profile.name(), entry, hook)? {
                names.push(format!("{} of {}", entry.server, entry.client));
            }
        }
        let text = if names.is_empty() {
            "no server has the gateway in front of it".to_owned()
        } else {
            format!("the gateway was taken away from {}; restart the client", names.join(", "))
        };
        out.result(&json!({"ok": true, "servers": names}), &text)?;
        Ok(Exit::Done)
    }
    /// Returns the hooks of the clients that are meant.
    fn hooks(&self, home: &UserFolder) -> Result<Vec<(UserProfile, WrappedEntry, String)>, Failure> {
        let app = self.target.as_deref().map(str::parse::<ClientApp>);
        let project = places()?.project;
        let is_meant = |entry: &WrappedEntry| match app {
            None => true,
            Some(Ok(app)) => entry.client == app.name() && Path::new(&entry.file).starts_with(&project),
            Some(Err(())) => false,
        };
        let installed = home.profiles()?.into_iter().filter_map(|profile| {
            let (entry, hook) = installed_hook(&profile)?;
            is_meant(&entry).then_some((profile, entry, hook))
        });
        Ok(installed.collect())
    }
}
