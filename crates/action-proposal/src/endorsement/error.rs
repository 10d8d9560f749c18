use countersign_canonical_json::JsonError;
use countersign_keys::dsse::EnvelopeError;

/// Failure to sign or load a list of endorsed digests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndorsementError {
    /// The envelope is too large, malformed, of another type, or lacks signatures of trusted keys.
    #[error("the envelope of endorsed digests does not verify")]
    Envelope(#[source] EnvelopeError),
    /// The list exceeds the limit of bytes.
    #[error("the list of endorsed digests is longer than {max} bytes")]
    TooLarge {
        /// Largest list, in bytes.
        max: usize,
    },
    /// The list is not strict JSON.
    #[error("the list of endorsed digests is not strict JSON")]
    Json(#[source] JsonError),
    /// The payload is not in canonical form, so two parsers could read different content.
    #[error("the list of endorsed digests is not canonical JSON")]
    NotCanonical,
    /// The list is of another format or version.
    #[error("the list is not in format `countersign-evidence-digests-1`")]
    Format,
    /// A member is missing, unknown or of another type.
    #[error("the list of endorsed digests is malformed")]
    Malformed,
    /// The list has too many digests.
    #[error("too many endorsed digests: at most {max}")]
    TooMany {
        /// Most digests.
        max: usize,
    },
    /// A scope is empty, repeats a name, or contains an impossible one.
    #[error("invalid scope of an endorsed digest: list of distinct names expected")]
    Scope,
    /// The bounds of a digest are empty or more than 64, a bound is not a rule for a place in the arguments, two
    /// bounds have the same place, or the entry states exact arguments too.
    #[error(
        "invalid bounds of an endorsed digest: 1 to 64 distinct argument pointers, each with a value, a minimum or a maximum"
    )]
    Bounds,
    /// The number of uses is 0 or above 100.
    #[error("uses of an endorsed digest out of range: 1 to 100 expected")]
    Uses,
    /// A digest that binds arguments or counts its uses does not state its own times.
    #[error("`issued` or `expires` missing in an endorsed digest that binds arguments or states its uses")]
    NoTimes,
    /// The list or an entry ends before it begins, or an entry is issued after its list.
    #[error(
        "times out of order in the list of endorsed digests: issue before expiry, no entry issued after the list"
    )]
    Times,
    /// The list was issued in the future.
    #[error("the list of endorsed digests is not valid yet")]
    NotYetValid,
    /// The list has expired.
    #[error("the list of endorsed digests has expired")]
    Expired,
}

impl EndorsementError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Envelope(error) => error.code(),
            Self::TooLarge { .. } => "ENDORSEMENT_TOO_LARGE",
            Self::Json(error) => error.code(),
            Self::NotCanonical => "ENDORSEMENT_NOT_CANONICAL",
            Self::Format => "ENDORSEMENT_FORMAT",
            Self::Malformed => "ENDORSEMENT_MALFORMED",
            Self::TooMany { .. } => "ENDORSEMENT_TOO_MANY",
            Self::Scope => "ENDORSEMENT_SCOPE",
            Self::Bounds => "ENDORSEMENT_BOUNDS",
            Self::Uses => "ENDORSEMENT_USES",
            Self::NoTimes => "ENDORSEMENT_NO_TIMES",
            Self::Times => "ENDORSEMENT_TIMES",
            Self::NotYetValid => "ENDORSEMENT_NOT_YET_VALID",
            Self::Expired => "ENDORSEMENT_EXPIRED",
        }
    }
}

countersign_core::coded!(EndorsementError);
