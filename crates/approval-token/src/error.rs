use std::error::Error;

/// Failure to mint a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The time to live is zero or above the cap.
    #[error("time to live is zero or above the cap")]
    Ttl,
    /// The approver is the agent whose call it is.
    #[error("an agent cannot approve its own call")]
    SelfApproval,
    /// The expiry exceeds the largest [`Timestamp`](countersign_core::Timestamp).
    #[error("the approval's expiry is out of range")]
    Time,
    /// The registry version is above 2^53 - 1, the largest integer that JSON numbers hold exactly; or the call lacks a fact
    /// that a grant binds.
    #[error("the call has no registry version up to 2^53 - 1, or lacks a fact that a grant binds")]
    Binding,
    /// The number of uses is zero or above [`MAX_GRANT_USES`](crate::MAX_GRANT_USES).
    #[error("number of uses out of range: 1 to 100 expected")]
    Uses,
    /// The conditions of a grant are too long.
    #[error("the conditions of the grant are too long: at most 8,192 bytes")]
    Conditions,
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
            Self::Uses => "GRANT_USES",
            Self::Conditions => "GRANT_CONDITIONS",
        }
    }
}

/// Refusal of a token for this call. Message and code may be shown to an agent. The reason is for the record only: it
/// would show a forger which check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The token is for another run or another call, or its tag does not verify.
    #[error("the approval is not valid for this call")]
    Invalid {
        /// Failed comparison, such as `other-args`.
        reason: &'static str,
    },
    /// The token is valid in every other respect, but past its expiry.
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

    /// Failed comparison, for the record. Do not show it to a model.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { reason } => reason,
            Self::Expired => "expired",
        }
    }
}

/// Failure to request, list or decide a pending approval.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PendingError {
    /// The arguments do not have the digest that the binding names.
    #[error("arguments do not match the digest in the binding")]
    Args,
    /// The time to live is zero or out of range.
    #[error("time to live of a pending approval is zero or out of range")]
    Ttl,
    /// The session or the store holds its maximum of pending approvals.
    #[error("too many approvals are pending")]
    Full,
    /// Another call is pending under this id.
    #[error("another call is pending under this id")]
    Conflict,
    /// The same act was denied, and the denial is still in force.
    #[error("approval of the same act was requested before and denied")]
    Denied,
    /// Nothing is pending under this id.
    #[error("no approval is pending under this id")]
    Unknown,
    /// The question was approved, denied or used before.
    #[error("the pending approval was decided already")]
    Decided,
    /// The question, or the token left for it, has expired.
    #[error("the pending approval or the token for it has expired")]
    Expired,
    /// The session that asked has ended, and cannot resume.
    #[error("the requesting session has ended")]
    SessionEnded,
    /// The reason for a denial is empty or longer than 200 bytes.
    #[error("denial reason out of range: 1 to 200 bytes expected")]
    Reason,
    /// The token left for a question states no expiry.
    #[error("the token has no expiry")]
    Token,
    /// The question asks for another kind of answer: an approval where an attestation was given, or the reverse.
    #[error("the question asks for another kind of answer")]
    Kind,
    /// The approver is not one of those that the tool's registry entry lists.
    #[error("the approver is not listed for this tool")]
    Approver,
    /// The same approver has approved the question before.
    #[error("this approver has approved it already; another one must")]
    SameApprover,
    /// A proposal, or the id of the key that signed it, is empty or too long.
    #[error("proposal or key id out of range")]
    Proposal,
    /// The question takes no edited arguments, or they are the same or too long.
    #[error("the call takes no edited arguments, or they are the same or longer than 256 KiB")]
    Edit,
    /// The store failed to read or to write.
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
            Self::Kind => "PENDING_KIND",
            Self::Approver => "PENDING_APPROVER",
            Self::SameApprover => "PENDING_SAME_APPROVER",
            Self::Proposal => "PENDING_PROPOSAL",
            Self::Edit => "PENDING_EDIT",
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(MintError, ApprovalError, PendingError);
