use clap::Args;
use countersign_clients::{ServerStart, Wrapping};
use countersign_host::home::UserFolder;
use serde_json::json;

use super::file::{OpenClientFile, write_client};
use super::profile::WrappedEntry;
use super::targets::targets;
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
        let files = targets(self.target.as_deref())?;
        let files = files.into_iter().map(OpenClientFile::open).collect::<Result<Vec<_>, _>>()?;
        for file in &files {
            let mut content = file.content.clone();
            for place in 0..content.servers().len() {
                let Some(server) = content.servers().get(place).cloned() else { continue };
                let ServerStart::Gateway { profile, .. } = server.start() else { continue };
                let kept = profile.parse().ok().and_then(|name| WrappedEntry::of(&home.profile(&name)));
                let wrapping = kept.and_then(|entry| entry.wrapping).unwrap_or_else(Wrapping::with_args);
                content = content.unwrap(&server, wrapping)?;
                names.push(one_line(server.name()));
            }
            write_client(file, &content)?;
        }
        let text = if names.is_empty() {
            "no server has the gateway in front of it".to_owned()
        } else {
            format!("the gateway was taken away from {}; restart the client", names.join(", "))
        };
        out.result(&json!({"ok": true, "servers": names}), &text)?;
        Ok(Exit::Done)
    }
}
