use crate::{AuditError, DecisionLine, OutcomeRecord, Record, UnrecordedAnswer};

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

    /// Returns whether a record can wait for a disk, so that a thread with other work leaves it to another one. By default it
    /// can. A sink that wraps another one forwards it.
    fn waits_for_disk(&self) -> bool {
        true
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

    fn waits_for_disk(&self) -> bool {
        (**self).waits_for_disk()
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        (**self).note_unrecorded(answer);
    }
}
