use std::path::PathBuf;

use clap::Args;
use clap_mangen::{Man as Page, generate_to};
use serde_json::json;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::{Output, internal};
use countersign_host::files::unwritable;

/// Print the manual page, or write a page for each verb into a folder.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  countersign man | man -l -\n  countersign man --out ~/.local/share/man/man1"
)]
pub(crate) struct Man {
    /// Folder for a page of each verb. It must exist; pages in it are replaced.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        if let Some(folder) = &self.out {
            generate_to(Cli::tree(), folder).map_err(|error| unwritable(folder, &error))?;
            let text = format!("pages written to {}", folder.display());
            out.result(&json!({"ok": true, "out": folder.display().to_string()}), &text)?;
            return Ok(Exit::Done);
        }
        let mut page = Vec::new();
        Page::new(Cli::tree()).render(&mut page).map_err(|_| internal("the page cannot be rendered"))?;
        if out.is_json() {
            out.json(&json!({"ok": true, "page": String::from_utf8_lossy(&page)}))?;
        } else {
            out.bytes(&page)?;
        }
        Ok(Exit::Done)
    }
}
