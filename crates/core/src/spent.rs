use std::error::Error;
use std::fmt;

use crate::{Digest, StoreId, Timestamp};

/// Identifies a ticket in the spent set: an approval token, an attestation, or one use of an endorsement.
///
/// Build one from verified data only; otherwise a caller could spend another caller's ticket. The digest is framed
/// ([`Digest::framed`]) with one label per kind of ticket, so that kinds cannot collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpentId(Digest);

impl SpentId {
    /// Wraps the digest that identifies the ticket.
    #[must_use]
    pub const fn new(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest, under which stores file the ticket.
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

/// A single-use ticket to be spent: its id and the times that the store checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// Identifies the ticket.
    pub id: SpentId,
    /// Time of issue, as signed by the issuer.
    pub issued: Timestamp,
    /// Time from which the store may forget the ticket.
    pub keep_until: Timestamp,
}

impl Ticket {
    /// Creates a ticket from verified data.
    #[must_use]
    pub const fn new(id: SpentId, issued: Timestamp, keep_until: Timestamp) -> Self {
        Self { id, issued, keep_until }
    }
}

/// The set of spent tickets.
///
/// An implementation
///
/// - returns `Ok` at most once per id, across all callers, and only after recording the id as durably as it promises;
/// - forgets an id after its `keep_until` and for no other reason;
/// - refuses every ticket up to its horizon, the latest `keep_until` of all forgotten tickets: otherwise a clock that
///   is set back would make a forgotten ticket valid again;
/// - refuses tickets issued before it was created, because an earlier store in its place may have spent them.
pub trait SpentTokens: Send + Sync + fmt::Debug {
    /// Spends one ticket, atomically.
    ///
    /// # Errors
    /// [`SpendError::Spent`] if the ticket was spent before or has reached its `keep_until`,
    /// [`SpendError::ClockAhead`] if the store may have forgotten it, [`SpendError::TooNew`] if it was issued before
    /// the store was created, and [`SpendError::Unavailable`] if the store cannot be read or written.
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError>;

    /// Returns the result that [`spend`](Self::spend) would return now, and spends nothing. Another caller may spend the
    /// ticket right after: only `spend` decides. A store that cannot look a ticket up returns `Ok`.
    ///
    /// # Errors
    /// [`SpendError`], as `spend`.
    fn can_spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        let _ = (ticket, now);
        Ok(())
    }

    /// Id of a store that outlives the process. A recreated store has a new id.
    fn store_id(&self) -> Option<StoreId> {
        None
    }
}

/// A ticket was not spent. The call does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// The ticket was spent before, or has reached its `keep_until`.
    #[error("the ticket was used already")]
    Spent,
    /// The clock was ahead when the store forgot tickets, of which this may be one, or when the store was created.
    #[error("a clock was ahead when the store was made or forgot tickets, and this may be one of them")]
    ClockAhead,
    /// The ticket was issued before the store was created, so that an earlier store may have spent it.
    #[error("the ticket was issued before the store of used tickets was made")]
    TooNew,
    /// The ticket expired between verifying and spending.
    #[error("the ticket has expired")]
    Expired,
    /// The store could not be read or written.
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

crate::coded!(SpendError);
