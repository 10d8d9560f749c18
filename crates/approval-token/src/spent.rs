use std::fmt;

use countersign_core::{Digest, OperatorId, RunId, Timestamp, TokenId};

use crate::error::SpendError;

/// What the spent set knows a token by: its id within its run. Made by verifying a token and in no other way, so that
/// nobody uses up a token that they do not have.
///
/// Neither the key nor anything else of the token counts: a token that was minted again, under a newer key or for another
/// call, is the same ticket.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpentId(Digest);

impl SpentId {
    pub(crate) fn new(run: &RunId, token: &TokenId) -> Self {
        let framed = Digest::framed("countersign/spent-1");
        Self(framed.field(run.as_str().as_bytes()).field(token.as_str().as_bytes()).finish())
    }

    /// The digest, as stores keep it.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Debug for SpentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpentId({})", self.0)
    }
}

/// Remembers which tokens were spent.
///
/// An implementation answers `Ok` at most once for an id, whoever asks, and only when that answer is kept as durably as
/// the store promises. It forgets an id when its time is over and for no other reason, and then counts everything that
/// it may have forgotten as spent, so that a clock that is set back brings no token to life.
pub trait SpentTokens: Send + Sync + fmt::Debug {
    /// Spends one id, in one atomic step. It is kept until `keep_until`.
    ///
    /// # Errors
    /// [`SpendError::Spent`] when it was or may have been spent before, [`SpendError::Unavailable`] when the store cannot
    /// say or keep it.
    fn spend(&self, id: &SpentId, keep_until: Timestamp, now: Timestamp) -> Result<(), SpendError>;
}

/// Proves that an approval was spent for this one act. Cannot be copied.
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

    /// Who approved.
    #[must_use]
    pub const fn approver(&self) -> &OperatorId {
        &self.approver
    }
}
