//! Signed envelopes: DSSE v1 with Ed25519 signatures, read strictly.
//!
//! The envelope is JSON of `payloadType`, `payload` and `signatures` (each `keyid` and `sig`), base64 in the standard
//! alphabet. Source: secure-systems-lab/dsse, *protocol.md* and *envelope.md* of version 1. Stricter than there:
//! unknown fields, repeated names and base64url are refused, and there are at most 64 signatures. A `keyid` may be
//! missing or wrong; it is a hint and nothing is decided by it.

use std::collections::BTreeSet;
use std::fmt;

use countersign_canonical_json::{JsonError, Limits, Recipe, read};
use countersign_core::KeyId;
use serde::{Deserialize, Serialize};

use crate::base64;
use crate::ed25519::{Signature, SigningKey, VerifyingKey};
use crate::root::{TrustRoot, threshold_met};

/// The most signatures of an envelope.
pub const MAX_SIGNATURES: usize = 64;

/// The most signatures that are looked at beside a root of few keys: twice its keys, and never fewer than this.
const MIN_CONSIDERED: usize = 8;

/// The most signatures times keys that are tried where no key id says which key it is. Each try hashes the payload.
const MAX_UNNAMED_TRIES: usize = 128;

/// Why an envelope cannot be read or does not verify.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// There are more bytes than the caller allows.
    #[error("the envelope is longer than {max} bytes")]
    TooLarge {
        /// The most bytes.
        max: usize,
    },
    /// The bytes are not strict JSON.
    #[error("the envelope is not strict JSON")]
    Json(#[source] JsonError),
    /// The JSON is no envelope: a field is missing, unknown, of another type, or not base64 in its one spelling.
    #[error("the envelope is malformed")]
    Malformed,
    /// There are more signatures than an envelope may have, or than the keys at hand could account for.
    #[error("the envelope has more than {max} signatures")]
    TooManySignatures {
        /// The most signatures.
        max: usize,
    },
    /// The payload is of another type than the caller asked for.
    #[error("the envelope holds another type of payload")]
    PayloadType,
    /// Too few distinct trusted keys signed.
    #[error("{have} of the trusted keys signed, {need} are needed")]
    Threshold {
        /// How many distinct keys of the root signed and are not revoked.
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

/// Holds a payload and signatures that nobody has verified yet.
///
/// ```
/// use countersign_keys::{SigningKey, TrustRoot, dsse::Envelope};
/// let key = SigningKey::from_seed([7; 32]);
/// let root = TrustRoot::new(1, 1, [key.verifying_key()])?;
/// let text = Envelope::sign("text/plain", b"payload", &[&key]).to_json();
/// let verified = Envelope::from_json(text.as_bytes(), 1024)?.verify("text/plain", &root, &|_| false)?;
/// assert_eq!(verified.payload(), b"payload");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Envelope {
    payload_type: String,
    payload: Vec<u8>,
    signatures: Vec<SignatureEntry>,
}

#[derive(Clone)]
struct SignatureEntry {
    key_id: String,
    signature: Signature,
}

impl Envelope {
    /// Signs a payload with each of the keys.
    #[must_use]
    pub fn sign(payload_type: &str, payload: &[u8], keys: &[&SigningKey]) -> Self {
        let unsigned =
            Self { payload_type: payload_type.to_owned(), payload: payload.to_vec(), signatures: Vec::new() };
        keys.iter().fold(unsigned, |envelope, key| envelope.with_signature(key))
    }

    /// Adds one key's signature, unless it is there already. So operators can sign one after another.
    #[must_use]
    pub fn with_signature(mut self, key: &SigningKey) -> Self {
        let signature = key.sign(&self.signed_bytes());
        if self.signatures.iter().all(|entry| entry.signature != signature) {
            self.signatures.push(SignatureEntry { key_id: key.key_id().as_str().to_owned(), signature });
        }
        self
    }

    /// Reads an envelope of at most `max_bytes`.
    ///
    /// # Errors
    /// [`EnvelopeError`]; nothing is verified yet.
    pub fn from_json(json: &[u8], max_bytes: usize) -> Result<Self, EnvelopeError> {
        let too_large = EnvelopeError::TooLarge { max: max_bytes };
        if json.len() > max_bytes {
            return Err(too_large);
        }
        let limits = Limits::default().with_max_bytes(max_bytes).map_err(|_| too_large)?;
        let canonical = read(json, Recipe::Jcs1, &limits).map_err(EnvelopeError::Json)?;
        let wire = WireEnvelope::deserialize(canonical.value()).map_err(|_| EnvelopeError::Malformed)?;
        wire.try_into()
    }

    /// Writes the envelope; the same envelope is always the same bytes.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings in a struct always serialise"
    )]
    pub fn to_json(&self) -> String {
        let wire = WireEnvelope {
            payload: base64::encode(&self.payload),
            payload_type: self.payload_type.clone(),
            signatures: self
                .signatures
                .iter()
                .map(|entry| WireSignature { keyid: entry.key_id.clone(), sig: entry.signature.to_base64() })
                .collect(),
        };
        serde_json::to_string(&wire).expect("an envelope is JSON")
    }

    /// Verifies that a threshold of the root's keys, none of them revoked, signed exactly these bytes as this type of
    /// payload. Signatures of other keys count for nothing.
    ///
    /// The work is bounded, as anybody can put signatures beside a payload: more than twice as many as the root has
    /// keys (and more than eight) are refused unseen, and looking ends when the threshold is met. Signatures whose key
    /// id is that of one of the root's keys come first; of the others, 128 pairs of signature and key are tried.
    ///
    /// # Errors
    /// [`EnvelopeError::PayloadType`], [`EnvelopeError::TooManySignatures`] or [`EnvelopeError::Threshold`].
    pub fn verify(
        &self,
        payload_type: &str,
        root: &TrustRoot,
        revoked: &dyn Fn(&VerifyingKey) -> bool,
    ) -> Result<Verified, EnvelopeError> {
        let max = root.keys().count().saturating_mul(2).max(MIN_CONSIDERED);
        self.verify_among(max, payload_type, root, revoked)
    }

    /// The same, with the most signatures that there may be said by the caller.
    pub(crate) fn verify_among(
        &self,
        max: usize,
        payload_type: &str,
        root: &TrustRoot,
        revoked: &dyn Fn(&VerifyingKey) -> bool,
    ) -> Result<Verified, EnvelopeError> {
        if self.payload_type != payload_type {
            return Err(EnvelopeError::PayloadType);
        }
        if self.signatures.len() > max {
            return Err(EnvelopeError::TooManySignatures { max });
        }
        let signers = self.signers(root, revoked);
        if !threshold_met(signers.iter(), root) {
            return Err(EnvelopeError::Threshold { have: signers.len(), need: root.threshold() });
        }
        Ok(Verified { payload: self.payload.clone(), signers: signers.into_iter().collect() })
    }

    /// The distinct keys of the root that signed and are not revoked, up to the threshold.
    fn signers(&self, root: &TrustRoot, revoked: &dyn Fn(&VerifyingKey) -> bool) -> BTreeSet<VerifyingKey> {
        let signed = self.signed_bytes();
        let mut keys: Vec<(KeyId, &VerifyingKey)> =
            root.keys().filter(|key| !revoked(key)).map(|key| (key.key_id(), key)).collect();
        let mut signers = BTreeSet::new();
        for entry in &self.signatures {
            let hinted = keys.iter().position(|(id, _)| id.as_str() == entry.key_id);
            let signer = hinted.and_then(|index| keys.get(index)).map(|(_, key)| **key);
            if let Some(key) = signer.filter(|key| key.verify(&signed, &entry.signature).is_ok()) {
                keys.retain(|(_, other)| **other != key);
                signers.insert(key);
            }
            if threshold_met(signers.iter(), root) {
                return signers;
            }
        }
        // Other signers write other key ids, or none: then every key is asked.
        let mut tries = MAX_UNNAMED_TRIES;
        for entry in &self.signatures {
            let mut signer = None;
            for (_, key) in keys.iter().filter(|(id, _)| id.as_str() != entry.key_id) {
                let Some(left) = tries.checked_sub(1) else {
                    return signers;
                };
                tries = left;
                if key.verify(&signed, &entry.signature).is_ok() {
                    signer = Some(**key);
                    break;
                }
            }
            if let Some(key) = signer {
                keys.retain(|(_, other)| **other != key);
                signers.insert(key);
            }
            if threshold_met(signers.iter(), root) {
                break;
            }
        }
        signers
    }

    /// What the envelope says that its payload is.
    #[must_use]
    pub fn payload_type(&self) -> &str {
        &self.payload_type
    }

    /// The payload as it came, for showing it to a person. Nothing may be decided by it.
    #[must_use]
    pub fn unverified_payload(&self) -> &[u8] {
        &self.payload
    }

    /// The key ids as they came, for showing them to a person.
    pub fn unverified_key_ids(&self) -> impl Iterator<Item = &str> {
        self.signatures.iter().map(|entry| entry.key_id.as_str())
    }

    fn signed_bytes(&self) -> Vec<u8> {
        pre_authentication_encoding(&self.payload_type, &self.payload)
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("payload_type", &self.payload_type)
            .field("payload_bytes", &self.payload.len())
            .field("signatures", &self.signatures.len())
            .finish()
    }
}

/// Holds a payload that a threshold of trusted keys signed. Made by [`Envelope::verify`] alone.
#[derive(Clone, Debug)]
pub struct Verified {
    payload: Vec<u8>,
    signers: Vec<VerifyingKey>,
}

impl Verified {
    /// The exact bytes that were signed.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The distinct keys of the root that were found to have signed and were not revoked: as many as the threshold.
    #[must_use]
    pub fn signers(&self) -> &[VerifyingKey] {
        &self.signers
    }
}

/// DSSE's pre-authentication encoding: the bytes that are signed.
pub(crate) fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

// Members in the order of their names: what is written is canonical JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEnvelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<WireSignature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSignature {
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl TryFrom<WireEnvelope> for Envelope {
    type Error = EnvelopeError;

    fn try_from(wire: WireEnvelope) -> Result<Self, EnvelopeError> {
        if wire.signatures.len() > MAX_SIGNATURES {
            return Err(EnvelopeError::TooManySignatures { max: MAX_SIGNATURES });
        }
        let entry = |wire: WireSignature| {
            let signature = Signature::from_base64(&wire.sig).map_err(|_| EnvelopeError::Malformed)?;
            Ok(SignatureEntry { key_id: wire.keyid, signature })
        };
        Ok(Self {
            payload_type: wire.payload_type,
            payload: base64::decode(&wire.payload).ok_or(EnvelopeError::Malformed)?,
            signatures: wire.signatures.into_iter().map(entry).collect::<Result<_, _>>()?,
        })
    }
}
