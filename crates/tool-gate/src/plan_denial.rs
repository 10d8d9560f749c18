//! A person's no to a plan, or to a call of one that has not begun, on record.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_approval_token::CallBinding;
use countersign_audit_log::{CallRecord, RecordedTool, Verdict};

use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::plan_approval::PLAN_TOOL;
use crate::plan_approval::plan_entry;
use crate::plan_error::StartPlanError;
use crate::rejection::ApprovalRequest;

impl ToolGate {
    /// Refuses what a person was asked to approve before a plan begins and said no to: the plan, an amendment
    /// ([`plan_approval_request`](Self::plan_approval_request)) or one of its calls ([`step_approval_request`](Self::step_approval_request)).
    /// The refusal is on record before this returns: it names the plan's root and, where there is a name, the
    /// person (hidden characters spelled out, at most 256 bytes). It is the question that is refused, so it is on record
    /// whatever has become of the session, the goal or the registry since.
    ///
    /// Gives what to tell whoever wanted the plan: `APPROVAL_DENIED`, `AUDIT_UNAVAILABLE` when the record cannot be kept, and
    /// `INTERNAL`, with no plan and no person on record, when what was asked was about no plan of this session. Nothing is
    /// started, amended or halted, and the gate remembers nothing of it: not to ask again is the host's part.
    #[must_use]
    pub fn refuse_plan(&self, asked: &ApprovalRequest, person: Option<&str>) -> StartPlanError {
        let inner = self.parts();
        // The clock is the embedder's.
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            let (code, record) = refusal(inner, asked.binding(), person);
            if inner.recorder.is_lost() { Err(()) } else { inner.recorder.record(record).map(|_| code) }
        }));
        let code = recorded.unwrap_or(Err(())).unwrap_or_else(|()| {
            inner.recorder.note_unrecorded(inner.progress.clock.latest(), None);
            RejectionCode::AuditUnavailable
        });
        StartPlanError::Refused(code)
    }
}

fn refusal(inner: &GateParts, asked: &CallBinding, person: Option<&str>) -> (RejectionCode, CallRecord) {
    let time = inner.progress.clock.now().unwrap_or_else(|_| inner.progress.clock.latest());
    let version = inner.terms.registry.view().snapshot().version();
    let root = asked.plan().filter(|_| is_of(inner, asked)).copied();
    let mut record = plan_entry(&inner.terms, time, root, PLAN_TOOL.1, Verdict::Reject, version);
    if root.is_none() {
        record.code = Some(RejectionCode::Internal.as_str().into());
        record.reason = Some("a person was not asked about a plan of this session".into());
        return (RejectionCode::Internal, record);
    }
    record.call_id = asked.call_id().as_str().into();
    record.tool = RecordedTool::from(asked.tool());
    record.args = Some(*asked.args());
    record.args_recipe = Some(asked.args_recipe().as_str().into());
    record.code = Some(RejectionCode::ApprovalDenied.as_str().into());
    record.reason = Some("a person refused it".into());
    record.denied_by = person.map(Into::into);
    (RejectionCode::ApprovalDenied, record)
}

/// Whether a question was one of this session.
fn is_of(inner: &GateParts, asked: &CallBinding) -> bool {
    asked.session() == Some(&inner.terms.session)
        && asked.agent() == Some(&inner.terms.agent)
        && *asked.principal() == inner.terms.principal
}
