use crate::{AuditError, Record, UnrecordedAnswer};

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

    /// Counts an answer that was given although [`record`](Self::record) had failed, for the entry of the outage
    /// ([`GapRecord`](crate::GapRecord)). A sink that wraps another one forwards it; a sink that keeps nothing ignores
    /// it.
    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let _ = answer;
    }
}

impl<S: AuditSink + ?Sized> AuditSink for std::sync::Arc<S> {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        (**self).record(record)
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        (**self).note_unrecorded(answer);
    }
}
