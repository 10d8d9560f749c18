use std::sync::Arc;

use countersign_merkle::Frontier;

use super::batch::Batch;
use super::life::Life;
use super::writer::Writer;

/// What callers have under the lock.
pub(super) struct State {
    pub(super) life: Arc<Life>,
    /// All records that have a number, in the open batch too, but for those of it that are not hashed yet.
    pub(super) frontier: Frontier,
    /// Records that nobody writes yet.
    pub(super) open: Batch,
    /// An empty batch, kept for its buffers.
    pub(super) spare: Batch,
    /// None while somebody writes.
    pub(super) writer: Option<Writer>,
    /// What is acknowledged, and the note of the last checkpoint.
    pub(super) kept: Frontier,
    pub(super) note: Arc<str>,
    /// How many records were in flight when the last batch was done, its own and those behind it.
    pub(super) crowd: u64,
    /// Somebody opens the log anew: numbers are not given until that is done.
    pub(super) reopening: bool,
}

impl State {
    /// The last number that was given to a record.
    pub(super) fn given(&self) -> u64 {
        self.frontier.size().saturating_add(self.open.due())
    }

    /// How many records have a number and are not kept.
    pub(super) fn in_flight(&self) -> u64 {
        self.given().saturating_sub(self.kept.size())
    }

    /// Says whether fewer than three quarters of the records are here that were in flight when the last batch was done:
    /// their callers were told then, and are about to come with the next. Where there are no threads, nobody comes.
    pub(super) fn is_early(&self) -> bool {
        !cfg!(target_family = "wasm") && self.in_flight().saturating_mul(4) < self.crowd.saturating_mul(3)
    }
}
