use countersign_core::{Digest, Timestamp};

/// Why a goal cannot be pinned. Never holds the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// Nothing but blanks.
    #[error("the goal is empty")]
    Empty,
    /// Longer than 256 KiB as given, or than 64 KiB when normalised.
    #[error("the goal is longer than 64 KiB")]
    TooLong,
    /// A pin must live for at least a millisecond and end before the last moment that can be named.
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

/// Why a stated goal does not pass for the pinned one. Holds digests and never a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskDrift {
    /// The stated goal is another one.
    #[error("the stated goal {restated} is not the pinned one {pinned}")]
    Goal {
        /// Digest of the pinned goal.
        pinned: Digest,
        /// Digest of the stated goal. Of a text that no goal can be (blank, or too long), a digest under a label of
        /// its own, over the text as it was given.
        restated: Digest,
    },
    /// The pin has ended.
    #[error("the pin {pinned} ended at {expires}")]
    Expired {
        /// Digest of the pinned goal.
        pinned: Digest,
        /// The first moment at which it no longer counts.
        expires: Timestamp,
    },
    /// The clock stands before the moment at which the goal was pinned.
    #[error("the pin {pinned} begins at {issued}, which is still to come")]
    NotYet {
        /// Digest of the pinned goal.
        pinned: Digest,
        /// The moment at which it was made.
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
