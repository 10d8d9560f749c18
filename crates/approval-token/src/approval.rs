use countersign_core::{
    KeyId, Millis, OperatorId, SpendError, SpentId, SpentTokens, Ticket, Timestamp, TokenId,
};

use crate::spent::{SpentApproval, use_id};

/// Proof that a token approved this call, or that a grant covers it, and had not expired. Only [`verify`](crate::verify) and
/// [`verify_grant`](crate::verify_grant) create it; it cannot be copied, and spending consumes it. It does not prove that
/// the token is unused, or that the grant has a use left.
#[derive(Debug)]
#[must_use]
pub struct Approval {
    token_id: TokenId,
    approver: OperatorId,
    key_id: KeyId,
    issued: Timestamp,
    expires: Timestamp,
    spent_id: SpentId,
    /// Number of uses of a grant.
    uses: Option<u32>,
}

impl Approval {
    /// Of a verified token.
    pub(crate) const fn of_token(
        token_id: TokenId,
        approver: OperatorId,
        key_id: KeyId,
        (issued, expires): (Timestamp, Timestamp),
        spent_id: SpentId,
    ) -> Self {
        Self { token_id, approver, key_id, issued, expires, spent_id, uses: None }
    }

    /// Of a verified grant with that many uses.
    pub(crate) fn of_grant(
        grant_id: TokenId,
        approver: OperatorId,
        key_id: KeyId,
        times: (Timestamp, Timestamp),
        uses: u32,
    ) -> Self {
        let spent_id = use_id(&grant_id, 1);
        Self { uses: Some(uses), ..Self::of_token(grant_id, approver, key_id, times, spent_id) }
    }

    /// The token's id, or the grant's.
    #[must_use]
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// Operator who approved.
    #[must_use]
    pub const fn approver(&self) -> &OperatorId {
        &self.approver
    }

    /// Key that the token was minted with.
    #[must_use]
    pub const fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// Time of issue.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.issued
    }

    /// Expiry.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Id of the token in the spent set; of a grant, that of its first use.
    #[must_use]
    pub const fn spent_id(&self) -> &SpentId {
        &self.spent_id
    }

    /// Ticket that spending uses up. The spent set keeps it until `skew` after the expiry.
    #[must_use]
    pub const fn ticket(&self, skew: Millis) -> Ticket {
        Ticket::new(self.spent_id, self.issued, self.expires.saturating_add(skew))
    }

    /// Spends the token, or the first use of the grant that is left. Of concurrent attempts, in all threads and processes that
    /// share the store, one succeeds for each token and each use.
    ///
    /// # Errors
    /// [`SpendError`]: the call must not run, and the approval is consumed.
    pub fn spend(
        self,
        store: &dyn SpentTokens,
        now: Timestamp,
        skew: Millis,
    ) -> Result<SpentApproval, SpendError> {
        if now >= self.expires {
            return Err(SpendError::Expired);
        }
        let Some(uses) = self.uses else {
            store.spend(&self.ticket(skew), now)?;
            return Ok(SpentApproval::new(self.token_id, self.approver));
        };
        let keep_until = self.expires.saturating_add(skew);
        for number in 1..=uses {
            match store.spend(&Ticket::new(use_id(&self.token_id, number), self.issued, keep_until), now) {
                Ok(()) => return Ok(SpentApproval::new(self.token_id, self.approver).of_grant(number)),
                Err(SpendError::Spent) => {}
                Err(error) => return Err(error),
            }
        }
        Err(SpendError::Spent)
    }
}
