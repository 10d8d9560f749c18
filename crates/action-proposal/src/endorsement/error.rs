use countersign_canonical_json::JsonError;
use countersign_keys::dsse::EnvelopeError;

/// Failure to sign or load a list of endorsed digests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndorsementError {
    /// The envelope is too large, malformed, of another type, or lacks signatures of trusted keys.
    #[error("the envelope of endorsed digests is refused")]
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
    #[error("a list has at most {max} digests")]
    TooMany {
        /// Most digests.
        max: usize,
    },
    /// A scope is empty, repeats a name, or contains an impossible one.
    #[error("the scope of a digest is not a list of distinct names")]
    Scope,
    /// The bounds of a digest are empty or more than 64, a bound is not a rule for a place in the arguments, two
    /// bounds have the same place, or the entry states exact arguments too.
    #[error(
        "the bounds of a digest are 1 to 64 distinct places in the arguments, each with a value, or with a least or a most"
    )]
    Bounds,
    /// The number of uses is 0 or above 100.
    #[error("a digest has 1 to 100 uses")]
    Uses,
    /// A digest that binds arguments or counts its uses does not state its own times.
    #[error("a digest that binds arguments or states its uses has to state `issued` and `expires` itself")]
    NoTimes,
    /// The list or an entry ends before it begins, or an entry is issued after its list.
    #[error("the list of endorsed digests ends before it begins, or a digest of it begins later")]
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
