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

/// What callers have under the lock.
pub(super) struct State {
    /// How many failures there were: what comes between two of them is a life of the log. A number can be given again in a
    /// later one.
    pub(super) life: u64,
    /// How the last life ended.
    pub(super) ended: Option<Ended>,
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
    /// Calls without an outcome.
    pub(super) calls: OpenCalls,
    /// Answers without an entry.
    pub(super) gaps: Gaps,
    /// What was cut, recorded, and not asked for yet.
    pub(super) recovered: Vec<CutBytes>,
    /// Size and note of the last checkpoint that is synced.
    pub(super) synced_size: u64,
    pub(super) synced_note: Arc<str>,
    /// How many batches were written.
    pub(super) batches: u64,
    /// The latest time of a record.
    pub(super) latest: Option<Timestamp>,
    /// How far the log was when its state was last saved.
    pub(super) tried: Tried,
    /// How many records were in flight when the last batch was done, its own and those behind it.
    pub(super) crowd: u64,
    /// Somebody whose record is not kept waits for the rest of the crowd, and no longer than for a moment. INVARIANT: never set
    /// when nobody does. It may be unset while somebody does: then two watch.
    pub(super) watched: bool,
    /// Who sleeps, and until the record of which number is kept. INVARIANT: while somebody sleeps whose record is not kept,
    /// somebody writes, or watches, or is awake for such a record.
    pub(super) sleepers: Sleepers,
    /// Somebody opens the log anew: numbers are not given until that is done.
    pub(super) reopening: bool,
}

/// How a life ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) life: u64,
    /// The last record that was acknowledged.
    pub(super) kept: u64,
    pub(super) failure: Failure,
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

    /// Says whether more than a sixteenth of the records are missing that were in flight when the last batch was done: their
    /// callers were told then, and are about to come with the next. Where there are no threads, nobody comes.
    pub(super) fn is_early(&self) -> bool {
        !cfg!(target_family = "wasm") && self.in_flight() < self.crowd.saturating_sub(self.crowd / 16)
    }

    /// What whoever waits for a record of a life is told, if that is settled.
    pub(super) fn told(&self, life: u64, seq: u64) -> Option<Result<(), AuditError>> {
        let kept = |kept: u64| (kept >= seq).then_some(Ok(()));
        if life == self.life {
            return kept(self.kept.size());
        }
        let ended = self.ended.filter(|ended| ended.life == life);
        ended.and_then(|ended| kept(ended.kept)).or_else(|| Some(Err(self.refusal())))
    }

    /// What those are told whose life has ended.
    pub(super) fn refusal(&self) -> AuditError {
        self.ended.map_or(AuditError::Poisoned, |ended| ended.failure.error())
    }

    /// Refuses whatever is not kept.
    pub(super) fn end_life(&mut self, failure: Failure) {
        self.ended = Some(Ended { life: self.life, kept: self.kept.size(), failure });
        self.life = self.life.saturating_add(1);
        self.open.clear();
        self.frontier.clone_from(&self.kept);
    }

    /// Takes out those who are told how it went, and one more, who sees to the next batch; everybody after a failure.
    pub(super) fn wake(&mut self) -> Vec<Thread> {
        // Whoever watched is told, and may never come again; behind a mere checkpoint it goes on, and another watches too.
        self.watched = false;
        let kept = self.kept.size();
        if self.given() == kept { self.sleepers.wake_all() } else { self.sleepers.wake(kept) }
    }
}
