use countersign_core::{Digest, Timestamp};

/// A goal cannot be pinned. The error never contains the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The goal is empty or whitespace.
    #[error("the goal is empty")]
    Empty,
    /// The goal is longer than 256 KiB, or longer than 64 KiB when normalised.
    #[error("the goal is longer than 64 KiB")]
    TooLong,
    /// The time to live is zero, or the pin would end after the last [`Timestamp`].
    #[error("the pin's time to live is zero or too long")]
    Ttl,
}

impl PinError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "ASK_EMPTY",
            Self::TooLong => "ASK_TOO_LONG",
            Self::Ttl => "ASK_TTL",
        }
    }
}

/// A stated goal does not match the pinned one. Contains digests, never a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskDrift {
    /// The stated goal differs.
    #[error("the stated goal {restated} is not the pinned one {pinned}")]
    Goal {
        /// Digest of the pinned goal.
        pinned: Digest,
        /// Digest of the stated goal. A text that cannot be a goal (blank or too long) is digested unnormalised under a
        /// separate label.
        restated: Digest,
    },
    /// The pin has expired.
    #[error("the pin {pinned} ended at {expires}")]
    Expired {
        /// Digest of the pinned goal.
        pinned: Digest,
        /// Time of expiry; the pin is valid before it.
        expires: Timestamp,
    },
    /// The clock is before the time of pinning.
    #[error("the pin {pinned} begins at {issued}, which is still to come")]
    NotYet {
        /// Digest of the pinned goal.
        pinned: Digest,
        /// Time of pinning.
        issued: Timestamp,
    },
    /// The pin was made for another session.
    #[error("the pin {pinned} belongs to another session")]
    OtherSession {
        /// Digest of the pinned goal.
        pinned: Digest,
    },
}

impl AskDrift {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Goal { .. } => "ASK_DRIFT",
            Self::Expired { .. } => "ASK_EXPIRED",
            Self::NotYet { .. } => "ASK_NOT_YET",
            Self::OtherSession { .. } => "ASK_OTHER_SESSION",
        }
    }

    /// Digest of the stated goal, where goals were compared.
    #[must_use]
    pub const fn restated(&self) -> Option<Digest> {
        match self {
            Self::Goal { restated, .. } => Some(*restated),
            Self::Expired { .. } | Self::NotYet { .. } | Self::OtherSession { .. } => None,
        }
    }
}

countersign_core::coded!(PinError, AskDrift);
