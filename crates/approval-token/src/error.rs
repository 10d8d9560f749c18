use std::error::Error;

/// Why a token cannot be minted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The time to live is zero or above the cap.
    #[error("an approval lives longer than no time and at most as long as the cap says")]
    Ttl,
    /// The approver is the agent whose call it is.
    #[error("an agent cannot approve its own call")]
    SelfApproval,
    /// The approval would expire after the last time that can be told.
    #[error("the approval's expiry is out of range")]
    Time,
    /// The registry version is above 2^53 - 1 and cannot be written exactly.
    #[error("the call cannot be written into an approval")]
    Binding,
}

impl MintError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Ttl => "APPROVAL_TTL",
            Self::SelfApproval => "APPROVAL_SELF",
            Self::Time => "APPROVAL_TIME",
            Self::Binding => "APPROVAL_BINDING",
        }
    }
}

/// Why a token does not approve the call at hand. The message and the code are for everybody; the reason is for the
/// record alone, because it would tell a forger how far a forgery came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The token is not one of this run's, or is one for another call.
    #[error("the approval is not valid for this call")]
    Invalid {
        /// What differs, such as `other-args`.
        reason: &'static str,
    },
    /// The token is good in every other way and its time is over.
    #[error("the approval has expired")]
    Expired,
}

impl ApprovalError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "APPROVAL_INVALID",
            Self::Expired => "APPROVAL_EXPIRED",
        }
    }

    /// What differs, for the record. Never for a model.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { reason } => reason,
            Self::Expired => "expired",
        }
    }
}

/// Why a pending approval cannot be asked for, shown or decided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PendingError {
    /// The arguments are not those of the binding's digest.
    #[error("the arguments are not those that the call names")]
    Args,
    /// The time to live is zero or out of range.
    #[error("a pending approval needs a time to live within range")]
    Ttl,
    /// As many approvals are pending as may be, for the session or for all.
    #[error("too many approvals are pending")]
    Full,
    /// Another call is pending under this id.
    #[error("another call is pending under this id")]
    Conflict,
    /// Somebody said no to the same act, and is not asked again.
    #[error("the same was asked before and denied")]
    Denied,
    /// Nothing is pending under this id.
    #[error("no approval is pending under this id")]
    Unknown,
    /// It was approved, denied or used before.
    #[error("the pending approval was decided already")]
    Decided,
    /// Its time is over, or that of the token that was to be left for it.
    #[error("the pending approval or the token for it has expired")]
    Expired,
    /// The session that asked has ended, and cannot come back.
    #[error("the session that asked has ended")]
    SessionEnded,
    /// The reason for a denial is empty or longer than 200 bytes.
    #[error("a reason has 1 to 200 bytes")]
    Reason,
    /// What was to be left for it is no token that says when it expires.
    #[error("the token does not say when it expires")]
    Token,
    /// The store could not say, or could not keep what it was told.
    #[error("the store of pending approvals is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl PendingError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Args => "PENDING_ARGS",
            Self::Ttl => "PENDING_TTL",
            Self::Full => "PENDING_FULL",
            Self::Conflict => "PENDING_CONFLICT",
            Self::Denied => "PENDING_DENIED",
            Self::Unknown => "PENDING_UNKNOWN",
            Self::Decided => "PENDING_DECIDED",
            Self::Expired => "PENDING_EXPIRED",
            Self::SessionEnded => "SESSION_ENDED",
            Self::Reason => "PENDING_REASON",
            Self::Token => "PENDING_TOKEN",
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
        }
    }
}
