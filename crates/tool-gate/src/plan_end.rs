//! The end of a plan: finished, or halted by its host.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{CallRecord, OutcomeKind, Verdict};
use countersign_committed_plan::{FinishError, PlanRoot, VerifiedTrace};
use countersign_core::CallId;

use crate::accepted::InFlight;
use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::plan::Halting;
use crate::plan_approval::plan_entry;
use crate::plan_error::{FinishPlanError, HaltPlanError};

/// Recorded name of the end of a plan.
const FINISH: &str = "finish_plan";

/// Recorded name of a halt.
const HALT: &str = "halt_plan";

impl ToolGate {
    /// Ends the plan and returns the results of its steps ([`AcceptedCall::run_step`](crate::AcceptedCall::run_step)):
    /// once, after every step has run, its outcome is recorded, and the plan's root was found again. Every later call
    /// is refused. The success or failure of finding the root is recorded before this returns.
    ///
    /// # Errors
    /// [`FinishPlanError`] without a plan, before it is complete, after it was halted, and if the gate knows only its
    /// root. If the end cannot be recorded, the plan is over and its trace is not returned.
    pub fn finish_plan(&self) -> Result<VerifiedTrace<Vec<u8>>, FinishPlanError> {
        let inner = self.parts();
        let plan = inner.progress.plan.get().ok_or(FinishPlanError::NoPlan)?;
        let ended = plan.finish();
        let refused = match &ended {
            Ok(_) => None,
            // The steps that ran are not those that were committed.
            Err(FinishPlanError::Unfinished(error @ FinishError::Root)) => Some((error.code(), "")),
            Err(_) => return ended,
        };
        let root = plan.root();
        let entry = || {
            let record = record(inner, &root, FINISH, refused);
            let time = record.time;
            inner.recorder.record_plan(&record).map(|decision| (decision, time))
        };
        let recorded = catch_unwind(AssertUnwindSafe(entry)).unwrap_or(Err(()));
        let (decision, time) = recorded.map_err(|()| {
            inner.recorder.note_unrecorded(inner.progress.clock.latest(), (None, &[]));
            FinishPlanError::Unrecorded
        })?;
        if let (None, Ok(id)) = (refused, CallId::new(&root.to_string())) {
            InFlight::new(std::sync::Arc::clone(inner), id, decision, time, None)
                .finish(OutcomeKind::Returned);
        }
        ended
    }

    /// Halts the plan: every later call is refused (`PLAN_HALTED`), no amendment is taken, and the trace is not
    /// returned. A call that was accepted before may still run; one that is being decided is not accepted any more. A
    /// host calls this after a failed run, so that no other clone of the gate continues the plan.
    ///
    /// The halt is recorded once, before this returns, with `reason` (at most 512 bytes, with invisible characters
    /// escaped). Pass the code of the error, never text from a model or a tool. A plan that was halted already, by a
    /// breach or by this function, stays as it is, and nothing is recorded.
    ///
    /// # Errors
    /// [`HaltPlanError`] if no plan is under way, or the halt cannot be recorded; in the second case the plan is halted
    /// as well.
    pub fn halt_plan(&self, reason: &str) -> Result<(), HaltPlanError> {
        let inner = self.parts();
        let plan = inner.progress.plan.get().ok_or(HaltPlanError::NoPlan)?;
        match plan.halt() {
            Halting::Halted(root) => {
                // The clock is the embedder's. The caller may be unwinding from a panic already.
                let recorded = catch_unwind(AssertUnwindSafe(|| {
                    let why = Some((RejectionCode::PlanHalted.as_str(), reason));
                    inner.recorder.record_plan(&record(inner, &root, HALT, why)).is_ok()
                }));
                if recorded.unwrap_or(false) {
                    return Ok(());
                }
                inner.recorder.note_unrecorded(inner.progress.clock.latest(), (None, &[]));
                Err(HaltPlanError::Unrecorded)
            }
            Halting::Before => Ok(()),
            Halting::Finished => Err(HaltPlanError::NoPlan),
        }
    }
}

fn record(inner: &GateParts, root: &PlanRoot, what: &str, refused: Option<(&str, &str)>) -> CallRecord {
    let time = inner.progress.clock.now().unwrap_or_else(|_| inner.progress.clock.latest());
    let verdict = if refused.is_some() { Verdict::Reject } else { Verdict::Accept };
    let version = inner.terms.registry.view().snapshot().version();
    let mut record = plan_entry(&inner.terms, time, Some(root.digest()), what, verdict, version);
    record.code = refused.map(|(code, _)| code.into());
    record.reason = refused.filter(|(_, reason)| !reason.is_empty()).map(|(_, reason)| reason.into());
    record
}
