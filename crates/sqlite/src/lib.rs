//! Spent tokens, pending approvals and quarantines in one SQLite file that all processes of a host share.
//!
//! [`SqliteStore`] implements [`SpentTokens`], [`PendingApprovals`] and [`Quarantines`]. A spend is one unique insert in one
//! transaction that is synced before it counts (`WAL`, `synchronous=FULL`): of all who try, in whatever thread or
//! process, one succeeds, and a `kill -9` or a power cut afterwards does not undo it. A store that is full, damaged,
//! read-only, replaced or locked for too long refuses. [`SqliteStore::alarm_state`] keeps an agent's drop alarm over processes.
//!
//! What it does not do: it decides nothing about approvals, reads no clock, and does not work across machines (SQLite's
//! locks do not hold on network file systems). Whoever can write the file can bring a spent token back; that is why
//! only its owner may. An older copy of the file put back in its place while nothing runs does the same and is not
//! noticed. A store that is made anew refuses tokens that were issued before ([`SqliteStore::created`]), and has
//! another [id](countersign_core::SpentTokens::store_id). Processes share the store, so it is not locked exclusively:
//! who can cut the file beside it that SQLite maps into memory (`-shm`) ends every process that has it open (SIGBUS).
//!
//! [`SpentTokens`]: countersign_core::SpentTokens
//! [`PendingApprovals`]: countersign_approval_token::PendingApprovals
//! [`Quarantines`]: countersign_tool_gate::Quarantines

mod alarm;
mod error;
mod open;
mod pending;
mod quarantine;
mod schema;
mod spent;
mod store;
mod trouble;

#[cfg(test)]
mod tests;

pub use error::OpenError;
pub use store::{DEFAULT_BUSY_TIMEOUT, SqliteStore};
