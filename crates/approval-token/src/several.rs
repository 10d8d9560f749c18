//! Questions that several persons have to approve.

use countersign_core::{OperatorId, Timestamp};

use crate::error::PendingError;
use crate::pending::PendingApproval;
use crate::token::ApprovalToken;

impl PendingApproval {
    /// Number of approvals by different persons that the question needs.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.approvers().map_or(1, |approvers| approvers.needed().try_into().unwrap_or(usize::MAX))
    }

    /// Checks that a person may approve the question, after those whose tokens were `given`.
    ///
    /// # Errors
    /// [`PendingError::Approver`] if the tool lists other approvers, [`PendingError::SameApprover`] if the person has
    /// approved the question before.
    pub fn check_approver(
        &self,
        by: &OperatorId,
        given: &[ApprovalToken],
        now: Timestamp,
    ) -> Result<(), PendingError> {
        let Some(approvers) = self.approvers() else { return Ok(()) };
        if !approvers.lists(by) {
            return Err(PendingError::Approver);
        }
        let is_same = |token: &ApprovalToken| token.claimed_approver().as_ref() == Some(by);
        if given.iter().any(|token| counts(token, now) && is_same(token)) {
            return Err(PendingError::SameApprover);
        }
        Ok(())
    }

    /// Adds a token to those that were `given` before, for a store. Expired tokens no longer count. The question is
    /// approved once there are as many as [`needed`](Self::needed).
    ///
    /// # Errors
    /// As [`check_approver`](Self::check_approver); [`PendingError::Token`] if the token states no approver or expiry,
    /// [`PendingError::Expired`] if it has expired.
    pub fn add_token(
        &self,
        mut given: Vec<ApprovalToken>,
        token: &ApprovalToken,
        now: Timestamp,
    ) -> Result<Vec<ApprovalToken>, PendingError> {
        if token.claimed_expiry().ok_or(PendingError::Token)? <= now {
            return Err(PendingError::Expired);
        }
        if self.approvers().is_some() {
            let by = token.claimed_approver().ok_or(PendingError::Token)?;
            self.check_approver(&by, &given, now)?;
        }
        given.retain(|token| counts(token, now));
        given.push(token.clone());
        Ok(given)
    }

    /// Persons who have approved the question, by the tokens that were `given`.
    #[must_use]
    pub fn approved_by(&self, given: &[ApprovalToken], now: Timestamp) -> Vec<OperatorId> {
        given.iter().filter(|token| counts(token, now)).filter_map(ApprovalToken::claimed_approver).collect()
    }
}

fn counts(token: &ApprovalToken, now: Timestamp) -> bool {
    token.claimed_expiry().is_some_and(|expiry| now < expiry)
}

/// Expiry of the first of these tokens to expire.
#[must_use]
pub fn first_expiry(tokens: &[ApprovalToken]) -> Option<Timestamp> {
    tokens.iter().filter_map(ApprovalToken::claimed_expiry).min()
}
