use countersign_canonical_json::JsonError;

/// Invalid key. The error never contains the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The secret is too short.
    #[error("secret key too short: at least {min} bytes expected")]
    TooShort {
        /// Minimum length in bytes.
        min: usize,
    },
    /// The secret is too long.
    #[error("secret key too long: at most {max} bytes expected")]
    TooLong {
        /// Maximum length in bytes.
        max: usize,
    },
    /// The secret is all zeros, or the public key has small or mixed order or is not canonically encoded.
    #[error("the key is weak")]
    Weak,
    /// The bytes are not a point of the curve, or the text is not strict base64.
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

/// A signature does not verify. Gives no reason.
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

/// A tag does not verify. Gives no reason.
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

/// A secret cannot be added to a keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The keyring has a secret with this id.
    #[error("duplicate key id in the keyring")]
    DuplicateId,
    /// The keyring has this secret under another id.
    #[error("duplicate secret in the keyring, under another id")]
    DuplicateSecret,
    /// The keyring has the maximum number of accepted secrets.
    #[error("too many keys in the keyring: at most {max} beside the active one")]
    Full {
        /// Maximum number of accepted secrets.
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

/// An envelope is malformed or does not verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The envelope exceeds the caller's limit.
    #[error("the envelope is longer than {max} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        max: usize,
    },
    /// The bytes are not strict JSON.
    #[error("the envelope is not strict JSON")]
    Json(#[source] JsonError),
    /// The JSON is not an envelope: a field is missing, unknown, of another type, or not strict base64.
    #[error("the envelope is malformed")]
    Malformed,
    /// There are more signatures than an envelope may have, or than the root's keys could have made.
    #[error("the envelope has more than {max} signatures")]
    TooManySignatures {
        /// Maximum number of signatures.
        max: usize,
    },
    /// The payload type is not the requested one.
    #[error("the envelope holds another type of payload")]
    PayloadType,
    /// Too few distinct trusted keys signed.
    #[error("{have} of the trusted keys signed, {need} are needed")]
    Threshold {
        /// Number of distinct, unrevoked keys of the root that signed.
        have: usize,
        /// The root's threshold.
        need: usize,
    },
}

impl EnvelopeError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "ENVELOPE_TOO_LARGE",
            Self::Json(_) | Self::Malformed | Self::TooManySignatures { .. } => "ENVELOPE_MALFORMED",
            Self::PayloadType => "ENVELOPE_PAYLOAD_TYPE",
            Self::Threshold { .. } => "ENVELOPE_THRESHOLD",
        }
    }
}

countersign_core::coded!(KeyError, SignatureError, TagError, KeyringError, EnvelopeError);
