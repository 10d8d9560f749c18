//! Several calls that are decided together.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{CallRecordRef, DecisionLine, SubmittedDecision};

use crate::accepted::AcceptedCall;
use crate::call::ToolCall;
use crate::decide::Cleared;
use crate::findings::Findings;
use crate::gate::{ToolGate, with_record};
use crate::recorder::GateRecorder;
use crate::rejection::Rejection;

/// A call that steps 0 to 10 have cleared, and its record.
type SubmittedCall<'g, 'c> = (&'c ToolCall<'c>, Findings, Option<Cleared<'g>>, Result<SubmittedDecision, ()>);

impl ToolGate {
    /// Decides about several calls in their order, as [`check`](Self::check) does about each. Their acceptances are
    /// recorded together, so that they share a sync. Each answer takes as long as all of them, and a later step of a plan
    /// is refused while an earlier one of the same batch is undecided.
    #[must_use = "an accepted call that is dropped is recorded as not run"]
    pub fn check_many(&self, calls: &[ToolCall<'_>]) -> Vec<Result<AcceptedCall, Rejection>> {
        let submit = |call| {
            let in_force = self.parts().progress.in_force();
            let (mut findings, mut cleared) = (self.parts().findings(&in_force), None);
            self.clear(call, None, &in_force, &mut findings, &mut cleared)?;
            let submitted = with_record(self.parts(), call, &findings, cleared.as_ref(), submit_record);
            Ok((call, findings, cleared, submitted))
        };
        let confirm = |submitted: Result<SubmittedCall<'_, '_>, _>| {
            let (call, findings, mut cleared, submitted) = submitted?;
            let recorded = submitted.and_then(|taken| {
                with_record(self.parts(), call, &findings, cleared.as_ref(), |recorder, record| {
                    confirm_record(recorder, taken, record)
                })
            });
            self.accept(call, &findings, &mut cleared, recorded)
        };
        let _timed = self.stats().timed(calls.len());
        // INVARIANT: all are submitted before the first is waited for.
        let submitted: Vec<_> = calls.iter().map(submit).collect();
        submitted.into_iter().map(confirm).collect()
    }
}

/// Submits a decision; it is recorded once [`confirm_record`] has returned.
fn submit_record(recorder: &GateRecorder, call: &CallRecordRef<'_>) -> Result<SubmittedDecision, ()> {
    recorder.record_refusals(call.time)?;
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
