use std::collections::BTreeSet;

use countersign_canonical_json::{JsonError, Limits, Recipe, read};
use countersign_core::{Digest, KeyId};
use serde::{Deserialize, Serialize};

use crate::dsse::{Envelope, EnvelopeError, MAX_SIGNATURES};
use crate::ed25519::{SigningKey, VerifyingKey};
use crate::error::KeyError;

/// What a trust root's file says that it is.
const FORMAT: &str = "countersign-trust-root-1";

/// What an envelope says that its payload is when it holds the next trust root.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.countersign.trust-root+json";

/// The most keys of a root.
const MAX_KEYS: usize = 64;

/// The most bytes of a root's file: sixty-four keys take a third of it.
const MAX_BYTES: usize = 32 * 1024;

/// The last version: JSON numbers are exact up to here.
const MAX_VERSION: u64 = (1 << 53) - 1;

/// Why a trust root cannot be made, read or replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// The file is over the limit.
    #[error("the trust root is longer than {max} bytes")]
    TooLarge {
        /// The most bytes.
        max: usize,
    },
    /// The bytes are not strict JSON.
    #[error("the trust root is not strict JSON")]
    Json(#[source] JsonError),
    /// A field is missing, unknown or of another type, or a key id is not that of its key.
    #[error("the trust root is malformed")]
    Malformed,
    /// The file is of another format, or of another version of this one.
    #[error("the trust root is not in format `countersign-trust-root-1`")]
    Format,
    /// One of the keys is not usable.
    #[error("the trust root holds a key that cannot be used")]
    Key(#[source] KeyError),
    /// There is no key, more than 64, or one of them twice.
    #[error("a trust root has 1 to {max} distinct keys")]
    Keys {
        /// The most keys.
        max: usize,
    },
    /// The threshold is zero or above the number of keys.
    #[error("the threshold is not between 1 and the number of keys")]
    Threshold,
    /// The version is not between 1 and 2^53 - 1, or does not follow the one at hand.
    #[error("the trust root does not have version {expected}")]
    Version {
        /// The version that would have been right; 1 when a first root has version 0 or one that is too large.
        expected: u64,
    },
    /// The new root is not signed by a threshold of the old root's keys and of its own.
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

/// Says whose signatures are believed: operators' keys, and how many of them must agree. Immutable; another root comes
/// from [`update`](Self::update) or from another file that a person chose.
///
/// A root has a version and no expiry: it is the one thing that is trusted because it was put there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRoot {
    version: u64,
    threshold: usize,
    keys: BTreeSet<VerifyingKey>,
}

impl TrustRoot {
    /// Makes a root of 1 to 64 distinct keys, of which `threshold` must sign.
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

    /// Reads a root's file.
    ///
    /// # Errors
    /// [`RootError`]; a root that cannot be read is no root.
    pub fn from_json(json: &[u8]) -> Result<Self, RootError> {
        let too_large = RootError::TooLarge { max: MAX_BYTES };
        if json.len() > MAX_BYTES {
            return Err(too_large);
        }
        let limits = Limits::default().with_max_bytes(MAX_BYTES).map_err(|_| too_large)?;
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

    /// Writes the root's file; the same root is always the same bytes, whatever order its keys came in.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings and integers in a struct always serialise"
    )]
    pub fn to_json(&self) -> String {
        let entry = |key: &VerifyingKey| WireKey { key_id: key.key_id(), public: key.to_base64() };
        let wire = WireRoot {
            format: FORMAT.to_owned(),
            keys: self.keys.iter().map(entry).collect(),
            threshold: self.threshold,
            version: self.version,
        };
        serde_json::to_string(&wire).expect("a trust root is JSON")
    }

    /// Signs this root as the next one. A threshold of the old root's keys and one of its own are needed.
    #[must_use]
    pub fn sign(&self, keys: &[&SigningKey]) -> Envelope {
        Envelope::sign(PAYLOAD_TYPE, self.to_json().as_bytes(), keys)
    }

    /// Takes the next root: version one higher, signed by a threshold of this root's keys and of the new root's own. No
    /// version can be skipped, so a chain of roots is walked one by one. A key that is revoked counts for neither: who
    /// stole it could otherwise hand trust on to keys of their own.
    ///
    /// # Errors
    /// [`RootError`]; this root then stays.
    pub fn update(
        &self,
        envelope: &Envelope,
        revoked: &dyn Fn(&VerifyingKey) -> bool,
    ) -> Result<Self, RootError> {
        // Two roots' keys have signed, and a root is small: a full envelope of signatures is little work.
        if envelope.unverified_payload().len() > MAX_BYTES {
            return Err(RootError::TooLarge { max: MAX_BYTES });
        }
        let verified = envelope.verify_among(MAX_SIGNATURES, PAYLOAD_TYPE, self, revoked)?;
        let next = Self::from_json(verified.payload())?;
        let expected = self.version.saturating_add(1);
        if next.version != expected {
            return Err(RootError::Version { expected });
        }
        envelope.verify_among(MAX_SIGNATURES, PAYLOAD_TYPE, &next, revoked)?;
        Ok(next)
    }

    /// The version, from 1.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// How many distinct keys must sign.
    #[must_use]
    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    /// The keys, in the order of their bytes.
    pub fn keys(&self) -> impl Iterator<Item = &VerifyingKey> {
        self.keys.iter()
    }

    /// Says whether a key is one of the root's.
    #[must_use]
    pub fn contains(&self, key: &VerifyingKey) -> bool {
        self.keys.contains(key)
    }

    /// A digest over a label and the root's file, for comparing two roots by eye.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::framed("countersign/trust-root-1").field(self.to_json().as_bytes()).finish()
    }
}

/// Says whether enough of the root's keys signed. Counts distinct public keys of the root: neither key ids nor
/// signatures, and no key twice. The only place that compares with a threshold.
pub fn threshold_met<'a>(keys_that_signed: impl Iterator<Item = &'a VerifyingKey>, root: &TrustRoot) -> bool {
    let distinct: BTreeSet<_> = keys_that_signed.filter(|key| root.contains(key)).collect();
    distinct.len() >= root.threshold
}

// Members in the order of their names: what is written is canonical JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRoot {
    format: String,
    keys: Vec<WireKey>,
    threshold: usize,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKey {
    key_id: KeyId,
    public: String,
}
