//! Refusals: filed with the desk, recorded or summed, counted, and returned.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{CallRecord, CallRecordRef, Escaped, ProposalRecord, RecordedTool};
use countersign_core::{ServerName, Timestamp, ToolId, ToolName};
use countersign_signals::Probe;

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::findings::{Findings, SpentIds};
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::rejection::{ApprovalDesk, ApprovalRequest, NotFiled, Refusal, Rejection, UsedUp};
use crate::steps::session::only_tool;
use crate::used_tools::UsedTool;

impl ToolGate {
    /// Refuses a call that a gateway could not parse. It is recorded and counted like any other.
    #[must_use]
    pub fn refuse_malformed(&self, call_id: &str, reason: &str) -> Rejection {
        self.parts().refuse_unseen(call_id, "?", RejectionCode::MalformedCall, reason)
    }

    /// Refuses a call of a tool that no server of a gateway has, by the name that the agent gives it. It is recorded and counted
    /// like any other.
    #[must_use]
    pub fn refuse_undisclosed(&self, call_id: &str, name: &str, reason: &str) -> Rejection {
        self.parts().refuse_unseen(call_id, name, RejectionCode::UndisclosedTool, reason)
    }

    /// Refuses a call whose id a framework has seen before with another call, or whose first try still runs
    /// (`CALL_ID_REUSED`). It is recorded and counted like any other.
    #[must_use]
    pub fn refuse_reused(&self, call_id: &str, name: &str, reason: &str) -> Rejection {
        self.parts().refuse_unseen(call_id, name, RejectionCode::CallIdReused, reason)
    }

    /// Refuses a call that a gateway did not read because it exceeds a limit. It is recorded and counted like any
    /// other.
    #[must_use]
    pub fn refuse_over_limit(&self, call_id: &str, reason: &str) -> Rejection {
        self.parts().refuse_unseen(call_id, "?", RejectionCode::LimitExceeded, reason)
    }

    /// Refuses a call that a gateway does not pass on because too many requests are outstanding. It is recorded and
    /// counted like any other, but an [`Alarm`](crate::Alarm) ignores it: its cause is a server that does not answer.
    #[must_use]
    pub fn refuse_too_many(&self, call_id: &str, reason: &str) -> Rejection {
        self.parts().refuse_unseen(call_id, "?", RejectionCode::TooManyRequests, reason)
    }
}

impl GateParts {
    /// Files the question for a missing approval, records the refusal, counts it, and builds the rejection.
    pub(crate) fn refuse(
        &self,
        call: &ToolCall<'_>,
        findings: &Findings,
        refusal: Refusal,
        desk: Option<&dyn ApprovalDesk>,
    ) -> Rejection {
        let refused = &self.recorder.rows.refused;
        let (time, reading) = (findings.time, findings.reading);
        let (used, probe) = (findings.used, findings.probe(Some(refusal.code)));
        let (spent, tool) = (findings.spent_approvals(), self.meant(findings, call));
        let Refusal { mut code, mut reason, mut approval_request, gap, halted } = refusal;
        // A host that asks for approvals alone gets no other question.
        let takes_evidence = desk.is_some_and(ApprovalDesk::takes_evidence);
        approval_request = approval_request.filter(|request| request.needs_approval || takes_evidence);
        let asks = approval_request.is_some() && refused.takes_question(time);
        let filed = match (desk, &approval_request) {
            (Some(desk), Some(request)) if asks => Some(file(desk, request)),
            _ => None,
        };
        // why: without an attestation the call lacks evidence, whether or not a person can be asked for one.
        let lacks_approval = approval_request.as_ref().is_some_and(|request| request.needs_approval);
        if let Some(Err(why)) = filed {
            let (other, text) = if lacks_approval { unfiled(why, code) } else { (code, "") };
            approval_request = approval_request.filter(|_| lacks_approval);
            if other != code {
                (code, reason, approval_request) = (other, text.into(), None);
            }
        }
        let call_id = findings.call_id.clone().map_or_else(|| call.call_id.into(), Escaped::from);
        let (named, code_text) = (findings.recorded_tool(call), Escaped::fixed(code.as_str()));
        let reason = (!reason.is_empty()).then(|| reason.into());
        let refused_as = Some((&code_text, reason.as_ref()));
        let waits = !lacks_approval && matches!(filed, Some(Ok(())));
        let mut record =
            findings.record(&self.terms, call, call_id.borrowed(), || (&named).into(), refused_as);
        record.waits = waits;
        // A refusal without a question counts among the others.
        let is_question = asks && approval_request.is_some();
        // why: a used ticket and a person's denial are recorded nowhere else.
        let takes_use =
            |proposal: &ProposalRecord| proposal.evidence().iter().any(|it| it.endorsement.is_some());
        let is_lasting = used != UsedUp::default()
            || findings.denied_by.is_some()
            || findings.proposal.as_deref().is_some_and(takes_use);
        let is_own = is_question
            || is_lasting
            || (approval_request.is_none()
                && refused.takes_at(reading.unwrap_or_else(|| refused.reading(time))));
        let recorded = self.record_or_sum(&record, tool.as_ref(), is_own);
        if code == RejectionCode::UndisclosedTool {
            self.recorder.remember_undisclosed(named);
        }
        let Ok(sequence) = recorded else {
            if let (Some(desk), Some(Ok(())), Some(request)) = (desk, filed, &approval_request) {
                // The host's desk may panic.
                let _ = catch_unwind(AssertUnwindSafe(|| desk.withdraw(request)));
            }
            let rejection = self.refuse_unrecorded(call_id, time, tool.as_ref(), spent);
            return Rejection { used, ..rejection };
        };
        self.count(time, (Some(code), waits), (tool.as_ref(), findings.used_tool()), probe);
        if refused.is_due(time) {
            // If this fails, the sum is kept; no answer depends on it.
            let _ = refused.write(time);
        }
        // Every question has an entry: beyond the rate, no question is filed.
        let approval_request = approval_request.filter(|_| sequence.is_some());
        Rejection { approval_request, gap, halted, used, ..Rejection::new(code, call_id, sequence) }
    }

    /// Records a refusal. A refusal beyond the rate is added to a sum and has no number.
    pub(crate) fn record_refusal(&self, record: &CallRecord) -> Result<Option<u64>, ()> {
        let is_own = self.recorder.rows.refused.takes(record.time);
        self.record_or_sum(&record.into(), None, is_own)
    }

    fn record_or_sum(
        &self,
        record: &CallRecordRef<'_>,
        tool: Option<&ToolId>,
        is_own: bool,
    ) -> Result<Option<u64>, ()> {
        if is_own {
            return self.recorder.record(record).map(Some);
        }
        let refused = &self.recorder.rows.refused;
        let known =
            tool.filter(|tool| self.recorder.rows.knows(tool, &self.terms.registry)).map(RecordedTool::from);
        refused.add_decision(record, known);
        self.recorder.remember(record);
        Ok(None)
    }

    /// Refuses a message that was never parsed as a call. It is recorded and counted like any other refusal.
    pub(crate) fn refuse_unseen(
        &self,
        call_id: &str,
        name: &str,
        code: RejectionCode,
        reason: &str,
    ) -> Rejection {
        let call = ToolCall::by_name(call_id, name, b"");
        let mut findings = self.findings(&self.progress.in_force());
        // The clock is the host's, and may panic.
        let read = catch_unwind(AssertUnwindSafe(|| self.progress.clock.read()));
        if let Ok(Ok((time, reading))) = read {
            (findings.time, findings.reading) = (time, Some(reading));
        }
        self.refuse(&call, &findings, Refusal::new(code, reason.to_owned()), None)
    }

    /// Returns the tool that a refused call may have meant; used only for counting.
    fn meant(&self, findings: &Findings, call: &ToolCall<'_>) -> Option<ToolId> {
        if let Some(tool) = findings.tool() {
            return Some(tool.clone());
        }
        let name = match &findings.called {
            Some(called) => called.name().clone(),
            None => ToolName::new(call.name).ok()?,
        };
        match call.server {
            None | Some("?") => only_tool(self.progress.in_force().contract.tools(), &name).cloned(),
            Some(server) => Some(ToolId::from_names(ServerName::new(server).ok()?, name)),
        }
    }

    pub(crate) fn refuse_unrecorded(
        &self,
        call_id: Escaped<256>,
        time: Timestamp,
        tool: Option<&ToolId>,
        spent: SpentIds<'_>,
    ) -> Rejection {
        let code = RejectionCode::AuditUnavailable;
        self.recorder.note_unrecorded(time, spent);
        self.count(time, (Some(code), false), (tool, None), None);
        Rejection::new(code, call_id, None)
    }

    pub(crate) fn count(
        &self,
        time: Timestamp,
        (refused, waits): (Option<RejectionCode>, bool),
        (tool, used): (Option<&ToolId>, Option<&UsedTool>),
        probe: Option<Probe>,
    ) {
        let rows = &self.recorder.rows;
        let looked_up = match (used, tool) {
            (None, Some(tool)) => rows.use_tool(tool, &self.progress.in_force().contract),
            (Some(_), _) | (None, None) => None,
        };
        let tool = (tool, used.or(looked_up.as_deref()));
        rows.count(time, (refused, waits), tool, probe, &self.terms.registry);
    }
}

/// Files a question. The host's desk may panic.
fn file(desk: &dyn ApprovalDesk, request: &ApprovalRequest) -> Result<(), NotFiled> {
    catch_unwind(AssertUnwindSafe(|| desk.file(request))).unwrap_or(Err(NotFiled::Unavailable))
}

/// Returns the code and reason of a refusal whose question was not filed.
const fn unfiled(why: NotFiled, code: RejectionCode) -> (RejectionCode, &'static str) {
    match why {
        NotFiled::Full => (RejectionCode::ApprovalsFull, "too many questions wait for an answer"),
        NotFiled::Denied => (RejectionCode::ApprovalDenied, "a person denied it before"),
        NotFiled::Unavailable => (RejectionCode::StoreUnavailable, "the question could not be filed"),
        NotFiled::IdInUse => (code, ""),
    }
}
