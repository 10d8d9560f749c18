use std::sync::Arc;
use std::thread::Thread;

use countersign_core::Timestamp;
use countersign_merkle::Frontier;

use super::batch::Batch;
use super::failure::Failure;
use super::gaps::Gaps;
use super::keeper::Tried;
use super::open_calls::OpenCalls;
use super::sleepers::Sleepers;
use super::writer::Writer;
use crate::{AuditError, CutBytes};

/// State of the log, shared under its lock.
pub(super) struct State {
    /// Number of failures. The time between two failures is one life of the log. A later life can assign a number
    /// again.
    pub(super) life: u64,
    /// End of the last life.
    pub(super) ended: Option<Ended>,
    /// All numbered records, including those of the open batch that are hashed already.
    pub(super) frontier: Frontier,
    /// Records that no caller writes yet.
    pub(super) open: Batch,
    /// An empty batch, kept for its buffers.
    pub(super) spare: Batch,
    /// `None` during a write.
    pub(super) writer: Option<Writer>,
    /// Acknowledged records, and the note of the last checkpoint.
    pub(super) kept: Frontier,
    pub(super) note: Arc<str>,
    /// Calls without an outcome.
    pub(super) calls: OpenCalls,
    /// Answers without an entry.
    pub(super) gaps: Gaps,
    /// Cuts that were recorded and not returned to a caller yet.
    pub(super) recovered: Vec<CutBytes>,
    /// Size and note of the last synced checkpoint.
    pub(super) synced_size: u64,
    pub(super) synced_note: Arc<str>,
    /// Number of batches written.
    pub(super) batches: u64,
    /// Latest time of a record.
    pub(super) latest: Option<Timestamp>,
    /// Progress of the log when its state was last saved.
    pub(super) tried: Tried,
    /// Number of records in flight when the last batch was done: its own and those after it.
    pub(super) crowd: u64,
    /// Whether a caller with an unkept record waits for the rest of the crowd, for one group-commit window at most.
    /// INVARIANT: never set unless such a caller exists. It may be unset while one exists: then two watch.
    pub(super) watched: bool,
    /// Sleeping callers. INVARIANT: while a caller with an unkept record sleeps, another caller writes, watches, or is
    /// awake for such a record.
    pub(super) sleepers: Sleepers,
    /// Whether a caller is reopening the log. No number is assigned until that is done.
    pub(super) reopening: bool,
}

/// End of a life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) life: u64,
    /// Last acknowledged record.
    pub(super) kept: u64,
    pub(super) failure: Failure,
}

impl State {
    /// Returns the last number assigned to a record.
    pub(super) fn given(&self) -> u64 {
        self.frontier.size().saturating_add(self.open.due())
    }

    /// Returns the number of records that have a number and are not kept.
    pub(super) fn in_flight(&self) -> u64 {
        self.given().saturating_sub(self.kept.size())
    }

    /// Returns whether more than a sixteenth of the last crowd is missing: those callers were just woken and are about
    /// to submit the next records. Always `false` without threads.
    pub(super) fn is_early(&self) -> bool {
        !cfg!(target_family = "wasm") && self.in_flight() < self.crowd.saturating_sub(self.crowd / 16)
    }

    /// Returns the result for the caller that waits for a record of a life, once it is decided.
    pub(super) fn told(&self, life: u64, seq: u64) -> Option<Result<(), AuditError>> {
        let kept = |kept: u64| (kept >= seq).then_some(Ok(()));
        if life == self.life {
            return kept(self.kept.size());
        }
        let ended = self.ended.filter(|ended| ended.life == life);
        ended.and_then(|ended| kept(ended.kept)).or_else(|| Some(Err(self.refusal())))
    }

    /// Returns the error for callers whose life has ended.
    pub(super) fn refusal(&self) -> AuditError {
        self.ended.map_or(AuditError::Poisoned, |ended| ended.failure.error())
    }

    /// Refuses all records that are not kept.
    pub(super) fn end_life(&mut self, failure: Failure) {
        self.ended = Some(Ended { life: self.life, kept: self.kept.size(), failure });
        self.life = self.life.saturating_add(1);
        self.open.clear();
        self.frontier.clone_from(&self.kept);
    }

    /// Removes the callers whose result is decided, and one more that leads the next batch; all of them after a
    /// failure.
    pub(super) fn wake(&mut self) -> Vec<Thread> {
        // The watching caller now has its result, and may never come again. After a checkpoint alone it goes on, and
        // another caller watches too.
        self.watched = false;
        let kept = self.kept.size();
        if self.given() == kept { self.sleepers.wake_all() } else { self.sleepers.wake(kept) }
    }
}
