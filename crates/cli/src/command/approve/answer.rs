//! A person's answer to a question: recorded first, then stored.

use countersign_approval_token::{DenialReason, MintTerms, PendingApproval, PendingApprovals as _, mint};
use countersign_audit_log::{AnswerRecord, AnswerVerdict};
use countersign_core::{OperatorId, Timestamp, TokenId};
use countersign_host::config_file::{ApprovalPart, run_of};
use countersign_host::inputs::run_keys;
use countersign_host::random;
use countersign_host::record::PreparedRecord;
use countersign_host::session::open_existing_store;
use countersign_sqlite::SqliteStore;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Output, internal};
use crate::time::now;

/// Answers in the name of one approver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answering<'a> {
    pub(super) approval: &'a ApprovalPart,
    pub(super) store: &'a SqliteStore,
    pub(super) approver: &'a OperatorId,
}

impl Answering<'_> {
    /// Denies it. The denial is recorded before it counts.
    pub(super) fn deny(
        &self,
        out: &mut Output,
        pending: &PendingApproval,
        reason: Option<&DenialReason>,
        record: PreparedRecord,
        exit: Exit,
    ) -> Result<Exit, Failure> {
        let id = pending.id();
        let mut answer = self.answer(pending, AnswerVerdict::Denied, now()?);
        answer.reason = reason.map(|reason| reason.as_str().into());
        record.answer(answer)?;
        self.store.deny_because(id, self.approver, reason)?;
        let report = json!({"ok": true, "call_id": id, "denied": true, "by": self.approver});
        out.result(&report, &format!("{id} denied by {}", self.approver))?;
        Ok(exit)
    }

    /// Approves it. The approval is recorded before it counts.
    pub(super) fn approve(
        &self,
        out: &mut Output,
        pending: &PendingApproval,
        record: PreparedRecord,
    ) -> Result<Exit, Failure> {
        let session =
            pending.binding().session.as_ref().ok_or_else(|| internal("the call has no session"))?;
        let approval = self.approval;
        let keys = run_keys(&approval.key_file, &run_of(session)?)?;
        let token_id: TokenId = random::id("token")?;
        let now = now()?;
        let terms = MintTerms::new(token_id.clone(), self.approver.clone(), now, approval.ttl());
        let token = mint(&keys, pending.binding(), &terms, approval.ttl())?;
        let expires = token.claimed_expiry().ok_or_else(|| internal("the approval has no expiry"))?;
        let mut answer = self.answer(pending, AnswerVerdict::Approved, now);
        answer.approval = Some(token_id.clone());
        answer.expires = Some(expires);
        record.answer(answer)?;
        self.store.approve(pending.id(), &token, now)?;
        let report = json!({
            "ok": true,
            "call_id": pending.id(),
            "token_id": token_id,
            "approver": self.approver,
            "expires": expires,
        });
        out.result(&report, &format!("{} approved by {} until {expires}", pending.id(), self.approver))?;
        Ok(Exit::Done)
    }

    fn answer(&self, pending: &PendingApproval, verdict: AnswerVerdict, now: Timestamp) -> AnswerRecord {
        AnswerRecord::about(now, pending.binding(), verdict, self.approver.clone())
    }
}

pub(super) fn open_existing(approval: &ApprovalPart) -> Result<SqliteStore, Failure> {
    if !approval.store.exists() {
        return Err(unknown());
    }
    Ok(open_existing_store(&approval.store)?)
}

pub(super) fn unknown() -> Failure {
    Failure::new("PENDING_UNKNOWN", "no pending approval with this id")
}
