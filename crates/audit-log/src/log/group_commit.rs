//! How callers share writes: each adds its record to the open batch, and one of them writes the batch for all.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::Duration;

use countersign_core::Timestamp;
use countersign_keys::state_file::LockWait;
use parking_lot::MutexGuard;

use super::batch::MAX_BATCH;
use super::failure::LogFailure;
use super::new_line::NewLine;
use super::options::Durability;
use super::reopen;
use super::state::LogState;
use super::writer::Writer;
use super::{Log, Pending};
use crate::AuditError;
use crate::segment::MAX_LINE;

/// Group-commit window for the callers that the last write woke. Without it they would split into two groups, each of
/// which waits for the other's write. The window covers the time that it takes to wake them. A caller waits for another
/// window while at least an eighth of them arrived in the last one, so at most eight windows.
const MOMENT: Duration = Duration::from_micros(250);

/// Number of times that a caller yields under [`Durability::System`] before it writes or sleeps: about fifty
/// microseconds if no other thread can run, and otherwise only as long as others run.
const PATIENCE: u32 = 128;

impl Log {
    pub(super) fn submit_line(&self, new: NewLine) -> Result<Pending<'_>, AuditError> {
        if self.options.durability != Durability::Every {
            return self.enqueue(new);
        }
        let _turn = self.turn.lock();
        let pending = self.enqueue(new)?;
        self.wait(pending.life, pending.seq)?;
        Ok(pending)
    }

    fn enqueue(&self, new: NewLine) -> Result<Pending<'_>, AuditError> {
        self.require_undamaged()?;
        let NewLine { mut line, time, tag, call } = new;
        if line.as_bytes().len() > MAX_LINE {
            return Err(AuditError::TooLong);
        }
        let mut guard = self.state.lock();
        let seq = self.make_room(&mut guard, time)?;
        guard.open.push(seq, line.body(), tag);
        guard.calls.note(seq, call);
        let life = guard.life;
        let leaf = MutexGuard::unlocked(&mut guard, || line.number(seq).leaf());
        // After a failure, the number may belong to another record.
        if guard.life == life {
            let LogState { open, frontier, .. } = &mut *guard;
            open.put(seq, leaf, frontier);
        }
        drop(guard);
        line.keep_spare();
        Ok(Pending { log: self, life, seq })
    }

    /// Waits until the open batch takes records, and adds those that precede any other: the entry of an outage, and the
    /// outcomes that a failure cut. Returns the next number.
    pub(super) fn make_room(
        &self,
        guard: &mut MutexGuard<'_, LogState>,
        time: Timestamp,
    ) -> Result<u64, AuditError> {
        guard.note_time(time);
        loop {
            if guard.reopening {
                Self::sleep(guard, 0, None);
            } else if guard.writer.as_ref().is_some_and(Writer::is_broken) {
                self.reopen(guard, time)?;
            } else if guard.open.len() >= MAX_BATCH {
                // If this write fails, the waiting callers are refused, and this call tries again.
                self.lead_or_sleep(guard, 0);
            } else {
                break;
            }
        }
        guard.next_number(time)
    }

    pub(super) fn wait(&self, life: u64, seq: u64) -> Result<(), AuditError> {
        // Order: a reader that sees a later life's `kept` also sees that `life`; an earlier life's `kept` ends before
        // `seq`.
        if self.kept.load(Ordering::Acquire) >= seq && self.life.load(Ordering::Acquire) == life {
            return Ok(());
        }
        let mut state = self.state.lock();
        let (mut patience, mut due) = (PATIENCE, 0);
        loop {
            if let Some(told) = state.result_for(life, seq) {
                return told;
            }
            let (free, early) = (state.writer.is_some(), state.is_early());
            let durability = self.options.durability;
            if durability == Durability::System && patience > 0 && (!free || early) {
                // Another caller's write ends sooner than a thread can sleep and wake.
                patience = patience.saturating_sub(1);
                MutexGuard::unlocked(&mut state, thread::yield_now);
            } else if durability == Durability::Group && free && early && state.watched {
                Self::sleep(&mut state, seq, None);
            } else if durability == Durability::Group && free && early && state.in_flight() >= due {
                due = state.in_flight().saturating_add(state.crowd.div_ceil(8));
                state.watched = true;
                Self::sleep(&mut state, seq, Some(MOMENT));
                state.watched = false;
            } else {
                self.lead_or_sleep(&mut state, seq);
            }
        }
    }

    /// Sleeps until a record is kept or this caller has to act on it; for number 0, until the writer is back. At most
    /// for `moment`, if given.
    fn sleep(state: &mut MutexGuard<'_, LogState>, seq: u64, moment: Option<Duration>) {
        let this = thread::current();
        state.sleepers.add(seq, this.clone());
        MutexGuard::unlocked(state, || moment.map_or_else(thread::park, thread::park_timeout));
        if moment.is_some() {
            state.sleepers.remove(&this);
        }
    }

    /// Writes the open batch if no other caller writes; otherwise sleeps until a write is done.
    pub(super) fn lead_or_sleep(&self, state: &mut MutexGuard<'_, LogState>, seq: u64) {
        let Some(mut writer) = state.writer.take() else {
            Self::sleep(state, seq, None);
            return;
        };
        let spare = std::mem::take(&mut state.spare);
        let mut batch = std::mem::replace(&mut state.open, spare);
        let complete = batch.complete(&mut state.frontier).map_err(|_| AuditError::TooLong);
        let mut frontier = std::mem::take(&mut state.written);
        frontier.clone_from(&state.frontier);
        let written = Self::write(state, &mut writer, |writer| {
            complete?;
            writer.append(&*self.disk, &self.options, &mut batch, &frontier)
        });
        state.written = frontier;
        batch.clear();
        state.spare = batch;
        state.batches = state.batches.saturating_add(1);
        self.settle(state, writer, written.err().map(|error| LogFailure::of(&error)));
        if self.keeper.is_some() && state.take_due() {
            // Done after the batch, while others write the next one. `save_state` reports a failure.
            let _ = MutexGuard::unlocked(state, || self.save(LockWait::Call));
        }
    }

    /// Runs the writer with the state unlocked. A disk that panics counts as failed, so that no waiting caller waits
    /// for ever.
    pub(super) fn write(
        state: &mut MutexGuard<'_, LogState>,
        writer: &mut Writer,
        work: impl FnOnce(&mut Writer) -> Result<(), AuditError>,
    ) -> Result<(), AuditError> {
        MutexGuard::unlocked(state, || {
            let done = catch_unwind(AssertUnwindSafe(|| work(writer)))
                .unwrap_or_else(|_| Err(AuditError::Write(io::ErrorKind::Other.into())));
            if done.is_err() {
                writer.file = None;
            }
            done
        })
    }

    /// Takes the writer back and reports its result to the waiting callers.
    pub(super) fn settle(
        &self,
        state: &mut MutexGuard<'_, LogState>,
        mut writer: Writer,
        failure: Option<LogFailure>,
    ) {
        state.recovered.append(&mut writer.recovered);
        state.crowd = state.in_flight();
        state.kept.clone_from(&writer.frontier);
        if *state.note != *writer.note {
            state.note = writer.note.as_str().into();
        }
        if let Some((size, _)) = writer.synced_checkpoint() {
            (state.synced_size, state.synced_note) = (size, Arc::clone(&state.note));
            state.calls.synced(size);
            state.gaps.synced(size);
        }
        if let Some(failure) = failure {
            state.end_life(failure);
        } else {
            let kept = state.kept.size();
            state.late.kept(kept);
        }
        state.writer = Some(writer);
        // Order: see `wait`.
        self.life.store(state.life, Ordering::Release);
        self.kept.store(state.kept.size(), Ordering::Release);
        let sleepers = state.wake();
        MutexGuard::unlocked(state, || sleepers.iter().for_each(Thread::unpark));
    }

    /// Reopens the log after a failure. INVARIANT: no caller waits for a record of the life that begins.
    fn reopen(&self, state: &mut MutexGuard<'_, LogState>, time: Timestamp) -> Result<(), AuditError> {
        let Some(mut writer) = state.writer.take() else { return Ok(()) };
        state.reopening = true;
        let mut last = None;
        let done = Self::write(state, &mut writer, |writer| {
            reopen::reopen(&*self.disk, &self.options, writer, time, &mut last)
        });
        state.reopening = false;
        if let Some(last) = last {
            state.calls.cut_behind(last);
            state.gaps.cut_behind(last);
            state.late.cut_behind(last);
        }
        state.frontier.clone_from(&writer.frontier);
        self.settle(state, writer, None);
        done
    }
}
