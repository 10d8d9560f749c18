use countersign_core::{Digest, OperatorId, RunId, SpentId, TokenId};

/// Id of a token in the spent set: its id within its run.
///
/// No other field counts: a token minted again, under a newer key or for another call, is the same ticket.
pub(crate) fn spent_id(run: &RunId, token: &TokenId) -> SpentId {
    let framed = Digest::framed("countersign/spent-1");
    SpentId::new(framed.field(run.as_str().as_bytes()).field(token.as_str().as_bytes()).finish())
}

/// Proof that an approval was spent on one act. Cannot be copied.
#[derive(Debug)]
#[must_use]
pub struct SpentApproval {
    token_id: TokenId,
    approver: OperatorId,
}

impl SpentApproval {
    pub(crate) const fn new(token_id: TokenId, approver: OperatorId) -> Self {
        Self { token_id, approver }
    }

    /// The token's id.
    #[must_use]
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// Operator who approved.
    #[must_use]
    pub const fn approver(&self) -> &OperatorId {
        &self.approver
    }
}
