//! How a plan ends: finished, or halted by its host before it is done.

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

/// What the end of a plan is on record as.
const FINISH: &str = "finish_plan";

/// What a halt is on record as.
const HALT: &str = "halt_plan";

impl ToolGate {
    /// Ends the plan and gives out what its steps returned ([`AcceptedCall::run_step`](crate::AcceptedCall::run_step)): once, when
    /// every step has run and its outcome is on record, and the plan's root was found again. Every later call is refused. That the
    /// root was found, or was not, is on record before this returns.
    ///
    /// # Errors
    /// [`FinishPlanError`] without a plan, before it is complete, after it was halted, and where the gate has its root alone. When the
    /// end cannot be recorded, the plan is over and its trace is not given out.
    pub fn finish_plan(&self) -> Result<VerifiedTrace<Vec<u8>>, FinishPlanError> {
        let inner = self.parts();
        let plan = inner.progress.plan.get().ok_or(FinishPlanError::NoPlan)?;
        let ended = plan.finish();
        let refused = match &ended {
            Ok(_) => None,
            // What has run is not what was committed.
            Err(FinishPlanError::Unfinished(error @ FinishError::Root)) => Some((error.code(), "")),
            Err(_) => return ended,
        };
        let root = plan.root();
        let entry = || {
            let record = record(inner, &root, FINISH, refused);
            let time = record.time;
            inner.recorder.record(record).map(|decision| (decision, time))
        };
        let recorded = catch_unwind(AssertUnwindSafe(entry)).unwrap_or(Err(()));
        let (decision, time) = recorded.map_err(|()| {
            inner.recorder.note_unrecorded(inner.progress.clock.latest(), None);
            FinishPlanError::Unrecorded
        })?;
        if let (None, Ok(id)) = (refused, CallId::new(&root.to_string())) {
            InFlight::new(std::sync::Arc::clone(inner), id, decision, time, None)
                .finish(OutcomeKind::Returned);
        }
        ended
    }

    /// Halts the plan: every later call is refused (`PLAN_HALTED`), no amendment is taken, and the trace is not given out. A call
    /// that was accepted before may still run; one that is being decided is not accepted any more. For a host whose run ended
    /// badly, so that nobody who has a clone of the gate goes on with the plan.
    ///
    /// The halt is on record once, before this returns. `reason` goes on record with it (hidden characters spelled out, at most 512
    /// bytes): the code of what went wrong, and nothing that a model or a tool has said. A plan that is halted already, by a breach or
    /// by this, stays as it is, and nothing is recorded.
    ///
    /// # Errors
    /// [`HaltPlanError`] when there is no plan under way, or the record cannot be kept; the plan is halted then as well.
    pub fn halt_plan(&self, reason: &str) -> Result<(), HaltPlanError> {
        let inner = self.parts();
        let plan = inner.progress.plan.get().ok_or(HaltPlanError::NoPlan)?;
        match plan.halt() {
            Halting::Halted(root) => {
                // The clock is the embedder's. Who halts may be on the way out of a panic already.
                let recorded = catch_unwind(AssertUnwindSafe(|| {
                    inner
                        .recorder
                        .record(record(
                            inner,
                            &root,
                            HALT,
                            Some((RejectionCode::PlanHalted.as_str(), reason)),
                        ))
                        .is_ok()
                }));
                if recorded.unwrap_or(false) {
                    return Ok(());
                }
                inner.recorder.note_unrecorded(inner.progress.clock.latest(), None);
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
