use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{AuditError, EndReason, EndRecord, Record};

use crate::gate::ToolGate;

impl ToolGate {
    /// Ends the session, once: records the sum of its refusals, then its end. Every later call is refused.
    ///
    /// The host calls it after the outcomes of the session's calls are recorded, and before it closes the record. A
    /// call that is still open is recorded as unknown when the log is opened again, as are the calls of a gate that was
    /// never ended.
    ///
    /// # Errors
    /// [`AuditError`] of the sink. The session has ended all the same, but its end is not recorded.
    pub fn end_session(&self, reason: EndReason) -> Result<(), AuditError> {
        let inner = self.parts();
        if !inner.recorder.end() {
            return Ok(());
        }
        inner.recorder.lose();
        let now = inner.progress.clock.now().unwrap_or_else(|_| inner.progress.clock.latest());
        let summed = inner.recorder.rows.refused.write(now);
        let end = EndRecord::new(now, inner.terms.session.clone(), inner.terms.agent.clone(), reason);
        // The sink is the embedder's.
        let recorded = catch_unwind(AssertUnwindSafe(|| inner.recorder.sink.record(&Record::End(end))));
        summed.and(recorded.unwrap_or(Err(AuditError::Poisoned)).map(drop))
    }
}
