use std::path::PathBuf;

use clap::Subcommand;
use countersign_core::OperatorId;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Manage the people who may log in to the page of `serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Add a person to a file of users, which is made if it is missing.
    ///
    /// Asks for the password twice at a terminal, and reads one line from any other standard input. The file holds an Argon2id
    /// hash of it. A person is removed by removing their lines. `serve` reads the file when it starts.
    #[command(after_help = "Example:\n  countersign user add ada --file serve.users")]
    Add {
        /// Name of the person. The record names it as the approver.
        name: OperatorId,
        /// The file of users, `users_file` of `[serve]`.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}

impl User {
    #[cfg(feature = "serve")]
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let Self::Add { name, file } = self;
        add(out, name, file)
    }

    #[cfg(not(feature = "serve"))]
    pub(crate) fn run(&self, _: &mut Output) -> Result<Exit, Failure> {
        let Self::Add { name: _, file: _ } = self;
        Err(Failure::new("FEATURE_MISSING", "`user` needs a build with the feature `serve`"))
    }
}

#[cfg(feature = "serve")]
fn add(out: &mut Output, name: &OperatorId, file: &std::path::Path) -> Result<Exit, Failure> {
    use std::io::IsTerminal as _;

    use countersign_host::files::{read_secret_text, write_secret_file};
    use countersign_host::person::read_unseen;
    use countersign_http::password_entry;
    use serde_json::json;

    let unread = |error: std::io::Error| Failure::new("PASSWORD_UNREADABLE", format!("no password: {error}"));
    let before = if file.exists() { read_secret_text(file)? } else { String::new() };
    let quoted = json!(name).to_string();
    if before.lines().any(|line| line.strip_prefix("name = ").is_some_and(|known| known.trim() == quoted)) {
        return Err(
            Failure::new("USER_EXISTS", format!("`{name}` is in the file already")).about(file.display())
        );
    }
    let password = read_unseen("password (at least 12 characters): ").map_err(unread)?;
    if std::io::stdin().is_terminal() && *read_unseen("again: ").map_err(unread)? != *password {
        return Err(Failure::new("PASSWORD_DIFFERS", "the two passwords differ"));
    }
    let entry = password_entry(name, &password)?;
    write_secret_file(file, format!("{before}{entry}").as_bytes())?;
    out.result(
        &json!({"ok": true, "user": name, "file": file}),
        &format!("{name} may log in: {}", file.display()),
    )?;
    Ok(Exit::Done)
}
