//! Records a person's denial of a plan, or of a call of a plan that has not begun.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{CallRecord, RecordedTool, Verdict};
use countersign_core::CallFacts;

use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::plan_approval::PLAN_TOOL;
use crate::plan_approval::plan_entry;
use crate::plan_error::StartPlanError;
use crate::rejection::ApprovalRequest;

impl ToolGate {
    /// Refuses a plan or an amendment ([`plan_approval_request`](Self::plan_approval_request)), or a call of a plan
    /// that has not begun ([`step_approval_request`](Self::step_approval_request)), that a person was asked to approve
    /// and denied. The refusal is recorded before this returns, with the plan's root and, if given, the person's name
    /// (at most 256 bytes, with invisible characters escaped). The question itself is refused, so the refusal is
    /// recorded even if the session, the goal or the registry has changed since.
    ///
    /// Returns the error for the caller that wanted the plan: `APPROVAL_DENIED`; `AUDIT_UNAVAILABLE` if the refusal
    /// cannot be recorded; or `INTERNAL`, with no plan and no person recorded, if the question was not about a plan of
    /// this session. Nothing is started, amended or halted. The gate does not remember the denial: the host must not
    /// ask again.
    #[must_use]
    pub fn refuse_plan(&self, asked: &ApprovalRequest, person: Option<&str>) -> StartPlanError {
        let inner = self.parts();
        // The clock is the embedder's.
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            let (code, record) = refusal(inner, asked.binding(), person);
            if inner.recorder.is_lost() { Err(()) } else { inner.recorder.record_plan(&record).map(|_| code) }
        }));
        let code = recorded.unwrap_or(Err(())).unwrap_or_else(|()| {
            inner.recorder.note_unrecorded(inner.progress.clock.latest(), (None, &[]));
            RejectionCode::AuditUnavailable
        });
        StartPlanError::Refused(code)
    }
}

fn refusal(inner: &GateParts, asked: &CallFacts, person: Option<&str>) -> (RejectionCode, CallRecord) {
    let time = inner.progress.clock.now().unwrap_or_else(|_| inner.progress.clock.latest());
    let version = inner.terms.registry.view().snapshot().version();
    let root = asked.plan.filter(|_| is_of(inner, asked));
    let mut record = plan_entry(&inner.terms, time, root, PLAN_TOOL.1, Verdict::Reject, version);
    if root.is_none() {
        record.code = Some(RejectionCode::Internal.as_str().into());
        record.reason = Some("a person was not asked about a plan of this session".into());
        return (RejectionCode::Internal, record);
    }
    record.call_id = asked.call_id.as_str().into();
    record.tool = RecordedTool::from(&asked.tool);
    record.args = Some(asked.args);
    record.args_recipe = Some(asked.args_recipe.as_str().into());
    record.code = Some(RejectionCode::ApprovalDenied.as_str().into());
    record.reason = Some("a person refused it".into());
    record.denied_by = person.map(Into::into);
    (RejectionCode::ApprovalDenied, record)
}

/// Returns `true` if the question belongs to this session.
fn is_of(inner: &GateParts, asked: &CallFacts) -> bool {
    asked.session.as_ref() == Some(&inner.terms.session)
        && asked.agent.as_ref() == Some(&inner.terms.agent)
        && asked.principal == inner.terms.principal
}
