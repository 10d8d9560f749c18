use clap::Args;
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  countersign completions bash > ~/.local/share/bash-completion/completions/countersign"
)]
pub(crate) struct Completions {
    /// The shell to complete in.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::tree(), "countersign", &mut script);
        if out.is_json() {
            let script = String::from_utf8_lossy(&script);
            out.json(&json!({"ok": true, "shell": self.shell.to_string(), "script": script}))?;
        } else {
            out.bytes(&script)?;
        }
        Ok(Exit::Done)
    }
}
