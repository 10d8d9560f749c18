use std::error::Error;
use std::fmt;

use crate::{Digest, Timestamp};

/// What the spent set knows a single-use thing by: an approval token, or an attestation.
///
/// Make one only from what was verified, so that nobody uses up a ticket that they do not have. The digest is a framed
/// one ([`Digest::framed`]) under a label of its own for each kind of thing, so that kinds cannot collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpentId(Digest);

impl SpentId {
    /// Takes the digest that identifies the ticket.
    #[must_use]
    pub const fn new(digest: Digest) -> Self {
        Self(digest)
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

/// Remembers which tickets were spent.
///
/// An implementation answers `Ok` at most once for an id, whoever asks, and only when that answer is kept as durably as
/// the store promises. It forgets an id when its time is over and for no other reason, and then counts everything that
/// it may have forgotten as spent, so that a clock that is set back brings nothing to life.
pub trait SpentTokens: Send + Sync + fmt::Debug {
    /// Spends one id, in one atomic step. It is kept until `keep_until`.
    ///
    /// # Errors
    /// [`SpendError::Spent`] when it was or may have been spent before, [`SpendError::Unavailable`] when the store cannot
    /// say or keep it.
    fn spend(&self, id: &SpentId, keep_until: Timestamp, now: Timestamp) -> Result<(), SpendError>;
}

/// Why a ticket was not spent. Whatever the variant: the call does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// It was spent before, or may have been: what the store has forgotten counts as spent.
    #[error("the ticket was used already")]
    Spent,
    /// It expired between verifying and spending.
    #[error("the ticket has expired")]
    Expired,
    /// The store could not say, or could not keep what it was told.
    #[error("the store of used tickets is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl SpendError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Spent => "APPROVAL_SPENT",
            Self::Expired => "APPROVAL_EXPIRED",
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
        }
    }
}
