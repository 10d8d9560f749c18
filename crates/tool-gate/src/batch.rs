//! Several calls that are decided together.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{CallRecordRef, DecisionLine, SubmittedDecision};

use crate::accepted::AcceptedCall;
use crate::call::ToolCall;
use crate::gate::{ClearedCall, ToolGate, with_record};
use crate::recorder::GateRecorder;
use crate::rejection::Rejection;

impl ToolGate {
    /// Decides about several calls in their order, as [`check`](Self::check) does about each. Their acceptances are
    /// recorded together, so that they share a sync. Each answer takes as long as all of them, and a later step of a plan
    /// is refused while an earlier one of the same batch is undecided.
    #[must_use = "an accepted call that is dropped is recorded as not run"]
    pub fn check_many(&self, calls: &[ToolCall<'_>]) -> Vec<Result<AcceptedCall, Rejection>> {
        let submit = |call| self.clear(call, None, submit_record);
        let confirm = |(call, cleared): (_, Result<ClearedCall<'_, _>, _>)| {
            let ClearedCall { cleared, findings, recorded, probe } = cleared?;
            let confirm = |taken| {
                with_record(self.parts(), call, &findings, &cleared.facts, |record| {
                    confirm_record(&self.parts().recorder, taken, record)
                })
            };
            let recorded = recorded.and_then(confirm);
            self.accept(ClearedCall { cleared, findings, recorded, probe })
        };
        self.stats().timed_batch(calls.len(), || {
            // INVARIANT: all are submitted before the first is waited for.
            let submitted: Vec<_> = calls.iter().map(|call| (call, submit(call))).collect();
            submitted.into_iter().map(confirm).collect()
        })
    }
}

/// Submits a decision; it is recorded once [`confirm_record`] has returned.
fn submit_record(recorder: &GateRecorder, call: &CallRecordRef<'_>) -> Result<SubmittedDecision, ()> {
    let line = DecisionLine::new(call).map_err(drop)?;
    let submitted = catch_unwind(AssertUnwindSafe(|| recorder.sink.submit_decision(&line)));
    submitted.map_err(drop)?.map_err(drop)
}

/// Waits until a submitted decision is recorded, and remembers it.
fn confirm_record(
    recorder: &GateRecorder,
    submitted: SubmittedDecision,
    call: &CallRecordRef<'_>,
) -> Result<u64, ()> {
    let kept = catch_unwind(AssertUnwindSafe(|| recorder.sink.wait_decision(submitted)));
    let sequence = kept.map_err(drop)?.map_err(drop)?;
    recorder.remember(call);
    Ok(sequence)
}
