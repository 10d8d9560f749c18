use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use countersign_audit_log::{AuditError, EndReason, EndRecord, Record};

use crate::gate::ToolGate;

impl ToolGate {
    /// Ends the session in order, once: records the sum of its refusals, and the end behind it. Every later call is refused.
    ///
    /// The host calls it when the outcomes of the session's calls are recorded, and before it closes the record. A call that
    /// is still open then is recorded as unknown when the log is opened again, as are those of a gate that was never ended.
    ///
    /// # Errors
    /// [`AuditError`] of the sink. The session has ended all the same, and its end is not on record.
    pub fn end_session(&self, reason: EndReason) -> Result<(), AuditError> {
        let inner = self.inner();
        if inner.ended.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        inner.lose_record();
        let now = inner.now().unwrap_or_else(|_| inner.latest());
        let summed = inner.rows.refused.write(now);
        let end = EndRecord::new(now, inner.session.clone(), inner.agent.clone(), reason);
        // The sink is the embedder's.
        let recorded = catch_unwind(AssertUnwindSafe(|| inner.sink.record(&Record::End(end))));
        summed.and(recorded.unwrap_or(Err(AuditError::Poisoned)).map(drop))
    }
}
