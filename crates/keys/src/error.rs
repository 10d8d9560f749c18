/// Why bytes or a text are not a usable key. Never holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A secret has too few bytes.
    #[error("a secret key has at least {min} bytes")]
    TooShort {
        /// The fewest bytes that are accepted.
        min: usize,
    },
    /// A secret has too many bytes.
    #[error("a secret key has at most {max} bytes")]
    TooLong {
        /// The most bytes that are accepted.
        max: usize,
    },
    /// A secret of zeros, or a public key of small or mixed order or with a second spelling.
    #[error("the key is weak")]
    Weak,
    /// Not a key at all: not a point of the curve, or not its one base64 spelling.
    #[error("the key is malformed")]
    Malformed,
}

impl KeyError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooShort { .. } => "KEY_TOO_SHORT",
            Self::TooLong { .. } => "KEY_TOO_LONG",
            Self::Weak => "KEY_WEAK",
            Self::Malformed => "KEY_MALFORMED",
        }
    }
}

/// Says that a signature does not verify, and not why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify")]
#[non_exhaustive]
pub struct SignatureError;

impl SignatureError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "SIGNATURE_INVALID"
    }
}

/// Says that a tag does not verify, and not why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tag does not verify")]
#[non_exhaustive]
pub struct TagError;

impl TagError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "TAG_INVALID"
    }
}

/// Why a secret cannot join a keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The keyring has a secret under this id.
    #[error("the keyring has a key of this id already")]
    DuplicateId,
    /// The keyring has this secret under another id.
    #[error("the keyring has this secret already, under another id")]
    DuplicateSecret,
    /// The keyring accepts as many secrets as it may.
    #[error("a keyring accepts at most {max} keys beside the active one")]
    Full {
        /// The most accepted secrets.
        max: usize,
    },
}

impl KeyringError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::DuplicateId => "KEYRING_DUPLICATE_ID",
            Self::DuplicateSecret => "KEYRING_DUPLICATE_SECRET",
            Self::Full { .. } => "KEYRING_FULL",
        }
    }
}
