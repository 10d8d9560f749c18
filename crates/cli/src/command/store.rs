use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_core::{SpentTokens as _, Timestamp};
use countersign_sqlite::SqliteStore;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::time::now;
use countersign_host::session::open_existing_store;

/// Create and show the store in which approvals, attestations and endorsements are spent.
///
/// A store refuses what was issued before it was made, because an earlier store in its place may have spent it. A gate
/// makes its store when it starts first; make it here to mint approvals before that.
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Create an empty store. An existing file is left unchanged.
    #[command(after_help = "Examples:\n  countersign store init approvals.sqlite")]
    Init(StoreFileArgs),
    /// Show a store's id, which the record of each session names, and when it was made.
    #[command(after_help = "Examples:\n  countersign store show approvals.sqlite")]
    Show(StoreFileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StoreFileArgs {
    /// The store's file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Store {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let store = match self {
            Self::Init(place) => SqliteStore::create(&place.file, now()?)
                .map_err(|error| Failure::from(error).about(place.file.display()))?,
            Self::Show(place) => open_existing_store(&place.file)?,
        };
        let (id, created) = (store.store_id(), store.created());
        let made = created.as_ref().map_or_else(|| "at an unknown time".to_owned(), Timestamp::to_string);
        let shown = id.as_ref().map(ToString::to_string).unwrap_or_default();
        out.result(&json!({"ok": true, "id": id, "created": created}), &format!("{shown}  made {made}"))?;
        Ok(Exit::Done)
    }
}
