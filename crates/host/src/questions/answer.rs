//! A person's answer to a question: recorded first, then stored.

use countersign_approval_token::{DenialReason, MintTerms, PendingApproval, PendingApprovals as _, mint};
use countersign_audit_log::{AnswerRecord, AnswerVerdict};
use countersign_canonical_json::Canonical;
use countersign_core::{OperatorId, Timestamp, TokenId};

use super::find::QuestionQueue;
use crate::config_file::run_of;
use crate::error::HostError;
use crate::escape::shown_id;
use crate::inputs::run_keys;
use crate::random;
use crate::record::PreparedRecord;
use crate::report::Reporter;
use crate::time::now;

/// An approval that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenApproval {
    /// Id of its token.
    pub token_id: TokenId,
    /// Expiry of the token.
    pub expires: Timestamp,
    /// Approvals that the question has with this one, and the number that it needs.
    pub progress: (usize, usize),
}

impl GivenApproval {
    /// Returns `true` if the question needs no further approval.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.progress.0 >= self.progress.1
    }
}

impl QuestionQueue<'_> {
    /// Prepares the log that an answer is recorded in. Done before a person is asked, a faulty configuration costs no answer.
    ///
    /// # Errors
    /// A trust root, a key or a checkpoint that cannot be read.
    pub fn answer_record(&self, reporter: &Reporter) -> Result<PreparedRecord, HostError> {
        self.config.answer_record(now()?, reporter)
    }

    /// Denies a question in the name of `by`. The denial is recorded before it counts.
    ///
    /// # Errors
    /// `AUDIT_*`: the answer does not count. `PENDING_DECIDED`, and a store that fails.
    pub fn deny(
        &self,
        pending: &PendingApproval,
        by: &OperatorId,
        reason: Option<&DenialReason>,
        record: PreparedRecord,
    ) -> Result<(), HostError> {
        let mut answer = about(pending, AnswerVerdict::Denied, by, now()?);
        answer.reason = reason.map(|reason| reason.as_str().into());
        record.answer(answer)?;
        Ok(self.store.deny_because(pending.id(), by, reason)?)
    }

    /// Checks that a person may approve a question.
    ///
    /// # Errors
    /// `PENDING_APPROVER`, `PENDING_SAME_APPROVER`, and a store that fails.
    pub fn check_approver(&self, pending: &PendingApproval, by: &OperatorId) -> Result<(), HostError> {
        Ok(pending.check_approver(by, &self.store.approvals(pending.id())?, now()?)?)
    }

    /// Returns the persons who have approved a question so far; `None` if it needs one approval.
    ///
    /// # Errors
    /// A store that fails.
    pub fn approved_by(&self, pending: &PendingApproval) -> Result<Option<Vec<OperatorId>>, HostError> {
        if pending.needed() < 2 {
            return Ok(None);
        }
        Ok(Some(pending.approved_by(&self.store.approvals(pending.id())?, now()?)))
    }

    /// Returns how many approvals a question has and who gave them, such as `1 of 2 approvals (ada)`; `None` if it needs one.
    ///
    /// # Errors
    /// A store that fails.
    pub fn approvals_so_far(&self, pending: &PendingApproval) -> Result<Option<String>, HostError> {
        let Some(by) = self.approved_by(pending)? else { return Ok(None) };
        let names: Vec<_> = by.iter().map(|name| shown_id(name.as_str())).collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        Ok(Some(format!("{} of {} approvals{names}", by.len(), pending.needed())))
    }

    /// Approves a question in the name of `by`, with the arguments that [`edit`](Self::edit) put in it. The approval is
    /// recorded before it counts.
    ///
    /// # Errors
    /// `AUDIT_*`: the answer does not count. A key that cannot be read, `PENDING_DECIDED`, `PENDING_EXPIRED`,
    /// `PENDING_APPROVER`, `PENDING_SAME_APPROVER`, `SESSION_ENDED`, and a store that fails.
    pub fn approve(
        &self,
        pending: &PendingApproval,
        by: &OperatorId,
        record: PreparedRecord,
    ) -> Result<GivenApproval, HostError> {
        let internal = HostError::internal;
        let session = pending.binding().session.as_ref();
        let session = session.ok_or_else(|| internal("the call has no session"))?;
        let keys = run_keys(&self.approval.key_file, &run_of(session)?)?;
        let (token_id, ttl): (TokenId, _) = (random::id("token")?, self.approval.ttl());
        let now = now()?;
        let terms = MintTerms::new(token_id.clone(), by.clone(), now, ttl);
        let token = mint(&keys, &pending.edited_binding(), &terms, ttl)?;
        let expires = token.claimed_expiry().ok_or_else(|| internal("the approval has no expiry"))?;
        // An answer that the store would refuse is not recorded.
        let given = pending.add_token(self.store.approvals(pending.id())?, &token, now)?;
        let mut answer = about(pending, AnswerVerdict::Approved, by, now);
        answer.approval = Some(token_id.clone());
        answer.expires = Some(expires);
        let edited = pending.edited_args();
        answer.edited_to = edited.as_ref().map(Canonical::digest);
        record.answer(answer)?;
        match edited {
            Some(args) => self.store.approve_edited(pending.id(), &token, &args, now)?,
            None => self.store.approve(pending.id(), &token, now)?,
        }
        Ok(GivenApproval { token_id, expires, progress: (given.len(), pending.needed()) })
    }
}

fn about(pending: &PendingApproval, verdict: AnswerVerdict, by: &OperatorId, now: Timestamp) -> AnswerRecord {
    AnswerRecord::about(now, pending.binding(), verdict, by.clone())
}
