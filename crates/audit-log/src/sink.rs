use crate::{AuditError, Record, UnrecordedAnswer};

/// Keeps records. A decision counts only once its record is kept.
///
/// A sink numbers what it keeps from 1 upwards, without gaps. It may be called from many threads.
pub trait AuditSink: Send + Sync + std::fmt::Debug {
    /// Keeps one record and returns its sequence number.
    ///
    /// # Errors
    /// [`AuditError`] when it cannot say that the record is kept. The caller must then refuse whatever the record
    /// allowed; it must not try the same record again.
    fn record(&self, record: &Record) -> Result<u64, AuditError>;

    /// Counts an answer that was given although [`record`](Self::record) had failed, for the entry of the outage
    /// ([`GapRecord`](crate::GapRecord)). A sink around another one passes it on; one that keeps nothing leaves it out.
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
