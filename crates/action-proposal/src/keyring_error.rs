use countersign_canonical_json::JsonError;
use countersign_keys::KeyError;

/// Refusal of a keyring file. The messages name no id and no key; [`place`](Self::place) names the place, for the
/// author of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The file exceeds the limit.
    #[error("the keyring is longer than {max} bytes")]
    TooLarge {
        /// Largest file, in bytes.
        max: usize,
    },
    /// The bytes are not strict JSON, or a member is repeated.
    #[error("the keyring is not strict JSON")]
    Json(#[source] JsonError),
    /// A member is missing, unknown or of another type.
    #[error("the keyring is malformed")]
    Malformed {
        /// JSON Pointer into the file.
        place: String,
    },
    /// The file has too many keys or revocations.
    #[error("too many keys or list entries in the keyring: at most {max} each")]
    TooMany {
        /// Most entries.
        max: usize,
    },
    /// An id is empty, longer than 256 bytes, or contains invisible characters or surrounding whitespace.
    #[error("invalid key id: 1 to 256 bytes without invisible characters or surrounding whitespace expected")]
    Id {
        /// JSON Pointer into the file.
        place: String,
    },
    /// A key is weak and neither revoked nor expired, or is no Ed25519 public key in a known spelling.
    #[error("weak or malformed key in the keyring")]
    Key {
        /// JSON Pointer into the file.
        place: String,
        /// Fault of the key.
        #[source]
        source: KeyError,
    },
    /// One public key has two ids.
    #[error("duplicate public key in the keyring, under two ids")]
    DuplicateKey {
        /// JSON Pointer to its second id.
        place: String,
    },
    /// A time is not RFC 3339.
    #[error("invalid time in the keyring: RFC 3339 expected")]
    Time {
        /// JSON Pointer into the file.
        place: String,
    },
    /// The scope of a key is empty, repeats a name, or contains an impossible one.
    #[error("invalid key scope: list of distinct names expected")]
    Scope {
        /// JSON Pointer into the file.
        place: String,
    },
    /// A threshold is for an unknown impact, zero, or above the number of keys that are neither revoked nor expired.
    #[error("invalid threshold: known impact and 1 to the number of usable keys expected")]
    Threshold {
        /// JSON Pointer into the file.
        place: String,
    },
}

impl KeyringError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "KEYRING_TOO_LARGE",
            Self::Json(error) => error.code(),
            Self::Malformed { .. } => "KEYRING_MALFORMED",
            Self::TooMany { .. } => "KEYRING_TOO_MANY",
            Self::Id { .. } => "KEYRING_KEY_ID",
            Self::Key { source, .. } => source.code(),
            Self::DuplicateKey { .. } => "KEYRING_DUPLICATE_KEY",
            Self::Time { .. } => "KEYRING_TIME",
            Self::Scope { .. } => "KEYRING_SCOPE",
            Self::Threshold { .. } => "KEYRING_THRESHOLD",
        }
    }

    /// JSON Pointer into the file, with invisible characters escaped. It contains the id at that place.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::TooLarge { .. } | Self::Json(_) | Self::TooMany { .. } => None,
            Self::Malformed { place }
            | Self::Id { place }
            | Self::Key { place, .. }
            | Self::DuplicateKey { place }
            | Self::Time { place }
            | Self::Scope { place }
            | Self::Threshold { place } => Some(place),
        }
    }
}

countersign_core::coded!(KeyringError);
