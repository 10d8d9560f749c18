use std::error::Error;
use std::fmt;

use crate::{Digest, StoreId, Timestamp};

/// What the spent set knows a single-use thing by: an approval token, an attestation, or one use of an endorsement.
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

/// One single-use thing that is to be spent: what identifies it, and the times that a store decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// Identifies the ticket.
    pub id: SpentId,
    /// When it was issued, as its issuer signed it.
    pub issued: Timestamp,
    /// First moment at which its use need not be remembered any more.
    pub keep_until: Timestamp,
}

impl Ticket {
    /// Makes one, of a ticket that was verified.
    #[must_use]
    pub const fn new(id: SpentId, issued: Timestamp, keep_until: Timestamp) -> Self {
        Self { id, issued, keep_until }
    }
}

/// Remembers which tickets were spent.
///
/// An implementation answers `Ok` at most once for an id, whoever asks, and only when that answer is kept as durably as
/// the store promises. It forgets an id when its time is over and for no other reason. The latest `keep_until` of all
/// forgotten tickets is the store's horizon: a ticket up to it may have been forgotten and is refused, so that a clock
/// that is set back brings nothing to life. A store knows when it was made and refuses tickets that were issued before,
/// because an earlier store in its place may have spent them.
pub trait SpentTokens: Send + Sync + fmt::Debug {
    /// Spends one ticket, in one atomic step.
    ///
    /// # Errors
    /// [`SpendError::Spent`] when it was spent before or its time is over, [`SpendError::ClockAhead`] when it may have
    /// been forgotten, [`SpendError::TooNew`] when it was issued before the store was made, and
    /// [`SpendError::Unavailable`] when the store cannot say or keep it.
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError>;

    /// Identifies the store, where it outlives the process: a store that is made anew has another id.
    fn store_id(&self) -> Option<StoreId> {
        None
    }
}

/// Why a ticket was not spent. Whatever the variant: the call does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// It was spent before, or need not be kept any more at the time of the call.
    #[error("the ticket was used already")]
    Spent,
    /// A clock was ahead when the store forgot tickets whose time was not over, and this can be one of them; or it was
    /// ahead when the store was made.
    #[error("a clock was ahead when the store was made or forgot tickets, and this may be one of them")]
    ClockAhead,
    /// It was issued before the store was made, so that an earlier store may have spent it.
    #[error("the ticket was issued before the store of used tickets was made")]
    TooNew,
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
            Self::ClockAhead => "STORE_CLOCK_AHEAD",
            Self::TooNew => "STORE_TOO_NEW",
            Self::Expired => "APPROVAL_EXPIRED",
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
        }
    }
}
