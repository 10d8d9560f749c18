use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use countersign_merkle::{Frontier, LeafHash, MAX_SIZE, TreeHead};
use parking_lot::{Mutex, MutexGuard};

use crate::line::{LateLine, parse_line};
use crate::{AuditError, DecisionLine, OutcomeRecord, Record, UnrecordedAnswer};

/// Number of records kept by default: a few minutes of a busy host, and a few megabytes at most.
const DEFAULT_KEPT: usize = 4_096;

/// Keeps records. A decision counts only once its record is kept.
///
/// A sink numbers its records from 1 upwards, without gaps. It may be called from many threads.
pub trait AuditSink: Send + Sync + std::fmt::Debug {
    /// Keeps one record and returns its sequence number.
    ///
    /// # Errors
    /// [`AuditError`] if the sink cannot confirm that the record is kept. The caller must then refuse the action that
    /// the record allowed, and must not submit the same record again.
    fn record(&self, record: &Record) -> Result<u64, AuditError>;

    /// Keeps a decision whose line is written already, as [`record`](Self::record) does. By default it is copied into a
    /// record. A sink that wraps another one forwards both.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn record_decision(&self, decision: &DecisionLine<'_>) -> Result<u64, AuditError> {
        self.record(&Record::Decision(decision.call().to_record()))
    }

    /// Takes a decision without waiting until it is kept, so that several of one caller share a sync. It counts once
    /// [`wait_decision`](Self::wait_decision) has returned. By default it is kept at once. A sink that wraps another one
    /// forwards both.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn submit_decision(&self, decision: &DecisionLine<'_>) -> Result<SubmittedDecision, AuditError> {
        self.record_decision(decision).map(SubmittedDecision::kept)
    }

    /// Waits until a decision is kept that this sink took, and returns its number.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn wait_decision(&self, submitted: SubmittedDecision) -> Result<u64, AuditError> {
        Ok(submitted.seq)
    }

    /// Takes an outcome on which no answer depends, without waiting for a disk. It is kept at the latest with the next record
    /// that is waited for, and by [`flush`](Self::flush). A sink that wraps another one forwards both.
    ///
    /// # Errors
    /// [`AuditError`] if the sink will not keep it. A later failure to keep it is an error of [`flush`](Self::flush) and of
    /// later records, as long as it lasts.
    fn record_later(&self, outcome: &OutcomeRecord) -> Result<(), AuditError> {
        self.record(&Record::Outcome(outcome.clone())).map(drop)
    }

    /// Waits until all outcomes are kept that were [taken](Self::record_later).
    ///
    /// # Errors
    /// [`AuditError`] if some are not kept yet.
    fn flush(&self) -> Result<(), AuditError> {
        Ok(())
    }

    /// Counts an answer that was given although [`record`](Self::record) had failed, for the entry of the outage
    /// ([`GapRecord`](crate::GapRecord)). A sink that wraps another one forwards it; a sink that keeps nothing ignores
    /// it.
    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let _ = answer;
    }
}

/// Decision that a sink has numbered, and may still have to keep. If dropped, it is kept with the next record that is
/// waited for.
#[derive(Debug)]
#[must_use = "a decision counts once `wait_decision` has returned"]
pub struct SubmittedDecision {
    pub(crate) seq: u64,
    /// Life of the [`Log`](crate::Log) that numbered it; 0 for other sinks.
    pub(crate) life: u64,
}

impl SubmittedDecision {
    /// Returns a decision that is kept already, under this number.
    pub const fn kept(seq: u64) -> Self {
        Self { seq, life: 0 }
    }
}

impl<S: AuditSink + ?Sized> AuditSink for std::sync::Arc<S> {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        (**self).record(record)
    }

    fn record_decision(&self, decision: &DecisionLine<'_>) -> Result<u64, AuditError> {
        (**self).record_decision(decision)
    }

    fn submit_decision(&self, decision: &DecisionLine<'_>) -> Result<SubmittedDecision, AuditError> {
        (**self).submit_decision(decision)
    }

    fn wait_decision(&self, submitted: SubmittedDecision) -> Result<u64, AuditError> {
        (**self).wait_decision(submitted)
    }

    fn record_later(&self, outcome: &OutcomeRecord) -> Result<(), AuditError> {
        (**self).record_later(outcome)
    }

    fn flush(&self) -> Result<(), AuditError> {
        (**self).flush()
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        (**self).note_unrecorded(answer);
    }
}

/// Keeps the latest records in memory, and the exact number and the tree of all records. The tree's leaves are the
/// lines that a [`Log`](crate::Log) would hold. For tests and for hosts that keep no file.
///
/// Nothing in it survives the process. For records that must outlive it, use a [`Log`](crate::Log).
///
/// ```
/// use countersign_audit_log::{AuditSink, Direction, GatewayRecord, MemorySink, Record};
/// use countersign_core::Timestamp;
/// let sink = MemorySink::new();
/// let record = GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, "MALFORMED_CALL");
/// assert_eq!(sink.record(&Record::Gateway(record))?, 1);
/// assert_eq!(sink.count(), 1);
/// # Ok::<(), countersign_audit_log::AuditError>(())
/// ```
#[derive(Debug)]
pub struct MemorySink {
    kept: usize,
    /// Number of the last record, in the tree or about to be.
    given: AtomicU64,
    state: Mutex<LatestRecords>,
}

#[derive(Debug, Default)]
struct LatestRecords {
    frontier: Frontier,
    /// Number of records before the kept ones.
    dropped: u64,
    /// Lines of the latest records: a copy of a record would need an allocation for each of its members.
    latest: VecDeque<KeptLine>,
    /// Lines that are not kept any more, for later records.
    spare: Vec<LateLine>,
}

/// The line of a record; empty, and without a hash, until its caller has hashed it.
#[derive(Debug, Default)]
struct KeptLine {
    line: LateLine,
    leaf: Option<LeafHash>,
}

impl MemorySink {
    /// Builds a sink that keeps the latest 4,096 records.
    #[must_use]
    pub fn new() -> Self {
        Self::keeping(DEFAULT_KEPT)
    }

    /// Builds a sink that keeps the latest `kept` records.
    #[must_use]
    pub fn keeping(kept: usize) -> Self {
        Self { kept, given: AtomicU64::new(0), state: Mutex::default() }
    }

    /// Number of all records so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.settled().frontier.size()
    }

    /// Number of all records so far, and their root hash.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        self.settled().frontier.head()
    }

    /// Latest records with their sequence numbers, oldest first.
    #[must_use]
    pub fn latest(&self) -> Vec<(u64, Record)> {
        let state = self.settled();
        let lines = state.latest.iter().filter(|kept| kept.leaf.is_some()).map(|kept| kept.line.as_bytes());
        lines.take(self.kept).filter_map(parse_line).collect()
    }

    /// Waits until the tree has every record that has a number now.
    fn settled(&self) -> MutexGuard<'_, LatestRecords> {
        let last = self.given.load(Ordering::SeqCst);
        let mut state = self.state.lock();
        while state.frontier.size() < last {
            MutexGuard::unlocked(&mut state, thread::yield_now);
        }
        state
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditSink for MemorySink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let mut line = LateLine::take_spare();
        line.write(record)?;
        self.keep(line)
    }

    fn record_decision(&self, decision: &DecisionLine<'_>) -> Result<u64, AuditError> {
        let mut line = LateLine::take_spare();
        line.copy(decision.body());
        self.keep(line)
    }
}

impl MemorySink {
    /// Hashes the line without the lock, which other threads take meanwhile. The tree gets the lines in the order of
    /// their numbers, each as soon as those before it are hashed.
    fn keep(&self, mut line: LateLine) -> Result<u64, AuditError> {
        // INVARIANT: each number gets a line, since later lines wait for it.
        let next = |given: u64| given.checked_add(1).filter(|next| *next < MAX_SIZE);
        let given = self.given.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        let sequence = given.map_err(|_| AuditError::TooLong)?.saturating_add(1);
        let leaf = Some(line.number(sequence).leaf());
        let spare = self.state.lock().put(sequence, KeptLine { line, leaf }, self.kept);
        spare.keep_spare();
        Ok(sequence)
    }
}

impl LatestRecords {
    /// Keeps a line, and adds the lines that are next to the tree. Returns one that need not be kept any more.
    fn put(&mut self, sequence: u64, kept: KeptLine, most: usize) -> LateLine {
        self.place(sequence, kept);
        let mut next = self.frontier.size().saturating_add(1);
        while let Some(leaf) = self.slot(next).and_then(|kept| kept.leaf)
            && self.frontier.append(leaf).is_ok()
        {
            next = next.saturating_add(1);
            if self.latest.len() > most.max(1) {
                self.spare.extend(self.latest.pop_front().map(|kept| kept.line));
                self.dropped = self.dropped.saturating_add(1);
            }
        }
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a line at its place, behind room for those of lower numbers that are still hashed.
    fn place(&mut self, sequence: u64, kept: KeptLine) {
        while self.dropped.saturating_add(self.latest.len() as u64) < sequence.saturating_sub(1) {
            self.latest.push_back(KeptLine::default());
        }
        match self.slot(sequence) {
            Some(slot) => *slot = kept,
            None => self.latest.push_back(kept),
        }
    }

    /// Returns the slot of a record; `None` if it is not kept any more or has none yet.
    fn slot(&mut self, sequence: u64) -> Option<&mut KeptLine> {
        let place = sequence.checked_sub(self.dropped)?.checked_sub(1)?;
        self.latest.get_mut(usize::try_from(place).ok()?)
    }
}
