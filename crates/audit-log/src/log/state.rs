use std::sync::Arc;
use std::thread::Thread;

use countersign_core::{Millis, Timestamp};
use countersign_merkle::{Frontier, MAX_SIZE};

use super::batch::{Batch, MAX_BATCH};
use super::failure::LogFailure;
use super::gaps::Gaps;
use super::late::LateOutcomes;
use super::open_calls::OpenCalls;
use super::writer::Writer;
use crate::line::{LINE, outcome as outcome_body, record_body};
use crate::{AuditError, CutBytes, OutcomeRecord};

/// The state is saved once it lags by this many records and batches, or by this time as measured by the records. A save
/// takes about as long as two batches, which is little in 64.
const RECORDS: u64 = 256;
const BATCHES: u64 = 64;
const AGE: Millis = Millis::from_secs(10);

/// State of the log, shared under its lock.
pub(super) struct LogState {
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
    /// The tree with the last written batch, kept for its buffer.
    pub(super) written: Frontier,
    /// `None` during a write.
    pub(super) writer: Option<Writer>,
    /// Acknowledged records, and the note of the last checkpoint.
    pub(super) kept: Frontier,
    pub(super) note: Arc<str>,
    /// Calls without an outcome.
    pub(super) calls: OpenCalls,
    /// Outcomes that no caller waits for.
    pub(super) late: LateOutcomes,
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
    pub(super) tried: SaveAttempt,
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
    pub(super) failure: LogFailure,
}

impl LogState {
    /// Builds the state of a log that was just opened.
    pub(super) fn new(mut writer: Writer, calls: OpenCalls, opened_at: Option<Timestamp>) -> Self {
        let note: Arc<str> = writer.note.as_str().into();
        Self {
            life: 0,
            ended: None,
            frontier: writer.frontier.clone(),
            open: Batch::default(),
            spare: Batch::default(),
            written: Frontier::new(),
            kept: writer.frontier.clone(),
            note: Arc::clone(&note),
            calls,
            late: LateOutcomes::default(),
            gaps: Gaps::default(),
            recovered: std::mem::take(&mut writer.recovered),
            synced_size: writer.signed_size,
            synced_note: note,
            batches: 0,
            latest: None,
            tried: SaveAttempt::new(writer.signed_size, opened_at),
            writer: Some(writer),
            crowd: 0,
            watched: false,
            sleepers: Sleepers::default(),
            reopening: false,
        }
    }

    /// Returns the last number assigned to a record.
    pub(super) fn given(&self) -> u64 {
        self.frontier.size().saturating_add(self.open.due())
    }

    /// Adds the entry of an outage and the outcomes without a number to the open batch, and returns the number of the next
    /// record.
    pub(super) fn next_number(&mut self, time: Timestamp) -> Result<u64, AuditError> {
        let seq = self.given().saturating_add(1);
        if seq.saturating_add(self.late.len() as u64) >= MAX_SIZE {
            return Err(AuditError::TooLong);
        }
        if let Some(gap) = self.gaps.take(seq, time) {
            let mut body = Vec::new();
            record_body(&gap, &mut body)?;
            self.open.push(seq, &body, 0);
        }
        self.push_late();
        Ok(self.given().saturating_add(1))
    }

    /// Adds an outcome to the open batch. If writing that batch fails, the outcome is added to the next batch that the log
    /// writes, unless the failed one turns out to be whole.
    pub(super) fn add_late(&mut self, outcome: &OutcomeRecord) {
        let mut body = Vec::with_capacity(LINE);
        outcome_body(&mut body, outcome);
        self.late.add(outcome.decision, body);
        let is_open = !self.reopening && !self.writer.as_ref().is_some_and(Writer::is_broken);
        if is_open && self.open.len() < MAX_BATCH {
            self.note_time(outcome.time);
            self.push_late();
        }
    }

    /// Adds the outcomes without a number to the open batch.
    pub(super) fn push_late(&mut self) {
        let mut seq = self.given();
        let Self { late, open, calls, .. } = self;
        for outcome in late.unnumbered() {
            seq = seq.saturating_add(1);
            outcome.seq = Some(seq);
            open.push(seq, &outcome.body, 0);
            calls.note_end(seq, outcome.decision);
        }
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
    pub(super) fn result_for(&self, life: u64, seq: u64) -> Option<Result<(), AuditError>> {
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
    pub(super) fn end_life(&mut self, failure: LogFailure) {
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

    /// Returns `true` once if the state is due to be saved. The next interval starts here, even if the save fails.
    pub(super) fn take_due(&mut self) -> bool {
        let (tried, size) = (self.tried, self.synced_size);
        let records = size.saturating_sub(tried.size);
        let batches = self.batches.saturating_sub(tried.batches);
        let age = self.latest.zip(tried.at).map_or(Millis::ZERO, |(now, at)| now.since(at));
        let is_far = records > 0 && (age >= AGE || (records >= RECORDS && batches >= BATCHES));
        let due = self.gaps.take_over() || is_far;
        if due {
            self.tried = SaveAttempt { size, batches: self.batches, at: self.latest };
        }
        due
    }

    pub(super) fn note_time(&mut self, time: Timestamp) {
        self.latest = self.latest.max(Some(time));
        self.tried.at.get_or_insert(time);
    }
}

/// Progress of the log at the last attempt to save the state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SaveAttempt {
    size: u64,
    batches: u64,
    at: Option<Timestamp>,
}

impl SaveAttempt {
    pub(super) const fn new(size: u64, at: Option<Timestamp>) -> Self {
        Self { size, batches: 0, at }
    }
}

/// Sleeping callers, each until the record of its number is kept; with number 0, until the writer is back.
///
/// A caller that wakes spuriously and is not removed is listed twice once it sleeps again. That costs one more wake.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Vec<(u64, Thread)>);

impl Sleepers {
    pub(crate) fn add(&mut self, seq: u64, thread: Thread) {
        self.0.push((seq, thread));
    }

    /// Removes a caller that woke by itself. Not by number: in a later life another caller may have it.
    pub(crate) fn remove(&mut self, thread: &Thread) {
        self.0.retain(|(_, sleeper)| sleeper.id() != thread.id());
    }

    /// Removes the callers up to a number, and one more that leads the next batch.
    pub(crate) fn wake(&mut self, kept: u64) -> Vec<Thread> {
        let mut next = true;
        let told = |(seq, _): &mut (u64, Thread)| *seq <= kept || std::mem::take(&mut next);
        self.0.extract_if(.., told).map(|(_, thread)| thread).collect()
    }

    pub(crate) fn wake_all(&mut self) -> Vec<Thread> {
        self.0.drain(..).map(|(_, thread)| thread).collect()
    }
}
