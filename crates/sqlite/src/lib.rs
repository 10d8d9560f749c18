//! Stores spent tokens, pending approvals and quarantines in one SQLite file that all processes of a host share.
//!
//! [`SqliteStore`] implements [`SpentTokens`], [`PendingApprovals`], [`Grants`] and [`Quarantines`]. A spend is one unique insert
//! in one transaction that is synced before it counts (`WAL`, `synchronous=FULL`). Of all threads and processes that
//! try, one succeeds, and neither a `kill -9` nor a power cut afterwards undoes it. A store that is full, damaged,
//! read-only, replaced or locked for too long refuses. [`SqliteStore::alarm_state`] keeps an agent's drop alarm over
//! processes.
//!
//! This crate does not decide about approvals, reads no clock, and does not work across machines (SQLite's locks do not
//! hold on network file systems). A user who can write the file can make a spent token valid again; therefore only its
//! owner may write it. Restoring an older copy of the file while no process has it open has the same effect and is not
//! detected. A new store refuses tokens that were issued before it was created ([`SqliteStore::created`]), and has
//! another [id](countersign_core::SpentTokens::store_id). Processes share the store, so it is not locked exclusively: a
//! user who can truncate the file beside it that SQLite maps into memory (`-shm`) ends every process that has it open
//! (SIGBUS).
//!
//! [`SpentTokens`]: countersign_core::SpentTokens
//! [`PendingApprovals`]: countersign_approval_token::PendingApprovals
//! [`Grants`]: countersign_approval_token::Grants
//! [`Quarantines`]: countersign_tool_gate::Quarantines

mod error;
mod granted;
mod open;
mod pending;
mod pending_find;
mod pending_row;
mod quarantine;
mod schema;
mod spent;
mod store;

#[cfg(test)]
mod tests;

pub use error::StoreOpenError;
pub use store::{DEFAULT_BUSY_TIMEOUT, SqliteStore};
