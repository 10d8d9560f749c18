use std::collections::BTreeSet;

use countersign_canonical_json::{JsonError, Limits, Recipe, read};
use countersign_core::{Digest, KeyId};
use serde::{Deserialize, Serialize};

use crate::ed25519::VerifyingKey;
use crate::error::{EnvelopeError, KeyError};

/// Value of `format`.
const FORMAT: &str = "countersign-trust-root-1";

/// Maximum number of keys in a root.
const MAX_KEYS: usize = 64;

/// Maximum size of a root's file. Sixty-four keys take a third of it.
pub(crate) const MAX_BYTES: usize = 32 * 1024;

/// Maximum version: 2^53 - 1, up to which JSON numbers are exact.
const MAX_VERSION: u64 = (1 << 53) - 1;

/// A trust root is invalid or cannot be updated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// The file exceeds the limit.
    #[error("the trust root is longer than {max} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        max: usize,
    },
    /// The bytes are not strict JSON.
    #[error("the trust root is not strict JSON")]
    Json(#[source] JsonError),
    /// A field is missing, unknown or of another type, or a key id does not match its key.
    #[error("the trust root is malformed")]
    Malformed,
    /// The file has another format or another version of this one.
    #[error("the trust root is not in format `countersign-trust-root-1`")]
    Format,
    /// A key is invalid.
    #[error("the trust root holds a key that cannot be used")]
    Key(#[source] KeyError),
    /// There are no keys, more than 64, or a repeated one.
    #[error("a trust root has 1 to {max} distinct keys")]
    Keys {
        /// Maximum number of keys.
        max: usize,
    },
    /// The threshold is zero or above the number of keys.
    #[error("the threshold is not between 1 and the number of keys")]
    Threshold,
    /// The version is not between 1 and 2^53 - 1, or does not follow the present one.
    #[error("the trust root does not have version {expected}")]
    Version {
        /// The expected version; 1 if a new root has version 0 or one that is too large.
        expected: u64,
    },
    /// The new root lacks the threshold of signatures of the old root's keys or of its own.
    #[error("the new trust root is not signed as it must be")]
    Envelope(#[from] EnvelopeError),
}

impl RootError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "ROOT_TOO_LARGE",
            Self::Json(_) | Self::Malformed => "ROOT_MALFORMED",
            Self::Format => "ROOT_FORMAT",
            Self::Key(source) => source.code(),
            Self::Keys { .. } => "ROOT_KEYS",
            Self::Threshold => "ROOT_THRESHOLD",
            Self::Version { .. } => "ROOT_VERSION",
            Self::Envelope(source) => source.code(),
        }
    }
}

countersign_core::coded!(RootError);

/// The trusted operators' keys and the number of them that must sign. Immutable: another root comes from
/// [`update`](Self::update) or from another file that a person chose.
///
/// A root has a version and no expiry. Its trust comes from its installation alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRoot {
    version: u64,
    threshold: usize,
    keys: BTreeSet<VerifyingKey>,
}

impl TrustRoot {
    /// Creates a root of 1 to 64 distinct keys, of which `threshold` must sign.
    ///
    /// # Errors
    /// [`RootError::Version`], [`RootError::Keys`] or [`RootError::Threshold`].
    pub fn new(
        version: u64,
        threshold: usize,
        keys: impl IntoIterator<Item = VerifyingKey>,
    ) -> Result<Self, RootError> {
        if version == 0 || version > MAX_VERSION {
            return Err(RootError::Version { expected: 1 });
        }
        let mut distinct = BTreeSet::new();
        for key in keys {
            if !distinct.insert(key) || distinct.len() > MAX_KEYS {
                return Err(RootError::Keys { max: MAX_KEYS });
            }
        }
        if distinct.is_empty() {
            return Err(RootError::Keys { max: MAX_KEYS });
        }
        if threshold == 0 || threshold > distinct.len() {
            return Err(RootError::Threshold);
        }
        Ok(Self { version, threshold, keys: distinct })
    }

    /// Parses a root's file.
    ///
    /// # Errors
    /// [`RootError`] if the file is malformed or the root invalid.
    pub fn from_json(json: &[u8]) -> Result<Self, RootError> {
        let too_large = RootError::TooLarge { max: MAX_BYTES };
        if json.len() > MAX_BYTES {
            return Err(too_large);
        }
        let limits = Limits::default().bytes(MAX_BYTES).map_err(|_| too_large)?;
        let canonical = read(json, Recipe::Jcs1, &limits).map_err(RootError::Json)?;
        let format = canonical.value().get("format").and_then(|format| format.as_str());
        if format.is_some_and(|format| format != FORMAT) {
            return Err(RootError::Format);
        }
        let wire = WireRoot::deserialize(canonical.value()).map_err(|_| RootError::Malformed)?;
        let mut keys = Vec::with_capacity(wire.keys.len().min(MAX_KEYS));
        for entry in &wire.keys {
            let key = VerifyingKey::from_base64(&entry.public).map_err(RootError::Key)?;
            if key.key_id() != entry.key_id {
                return Err(RootError::Malformed);
            }
            keys.push(key);
        }
        Self::new(wire.version, wire.threshold, keys)
    }

    /// Serialises the root deterministically: keys are sorted.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings and integers in a struct always serialise"
    )]
    pub fn to_json(&self) -> String {
        let entry = |key: &VerifyingKey| WireRootKey { key_id: key.key_id(), public: key.to_base64() };
        let wire = WireRoot {
            format: FORMAT.to_owned(),
            keys: self.keys.iter().map(entry).collect(),
            threshold: self.threshold,
            version: self.version,
        };
        serde_json::to_string(&wire).expect("a trust root is JSON")
    }

    /// The version, from 1.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Number of distinct keys that must sign.
    #[must_use]
    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    /// The keys, in the order of their bytes.
    pub fn keys(&self) -> impl Iterator<Item = &VerifyingKey> {
        self.keys.iter()
    }

    /// Returns whether a key is one of the root's.
    #[must_use]
    pub fn contains(&self, key: &VerifyingKey) -> bool {
        self.keys.contains(key)
    }

    /// A digest over a label and the root's file, for people to compare.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::framed("countersign/trust-root-1").field(self.to_json().as_bytes()).finish()
    }
}

/// Returns whether enough of the root's keys signed. Counts distinct public keys, not key ids or signatures. The only
/// comparison with a threshold.
pub fn threshold_met<'a>(keys_that_signed: impl Iterator<Item = &'a VerifyingKey>, root: &TrustRoot) -> bool {
    let distinct: BTreeSet<_> = keys_that_signed.filter(|key| root.contains(key)).collect();
    distinct.len() >= root.threshold
}

// Fields are sorted by name, so that the output is canonical JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRoot {
    format: String,
    keys: Vec<WireRootKey>,
    threshold: usize,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRootKey {
    key_id: KeyId,
    public: String,
}
