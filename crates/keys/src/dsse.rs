//! Signed envelopes: DSSE v1 with Ed25519 signatures, parsed strictly.
//!
//! An envelope is a JSON object with `payloadType`, `payload` and `signatures` (each `keyid` and `sig`), base64 in the
//! standard alphabet. Source: secure-systems-lab/dsse, *protocol.md* and *envelope.md* of version 1. Stricter than the
//! source: unknown fields, repeated names, base64url and more than 64 signatures are refused. A `keyid` is only a hint
//! and may be missing or wrong.

use std::collections::BTreeSet;
use std::fmt;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::KeyId;
use serde::{Deserialize, Serialize};

use crate::base64;
use crate::ed25519::{Signature, SigningKey, VerifyingKey};
use crate::root::{TrustRoot, threshold_met};

pub use crate::error::EnvelopeError;

/// Maximum number of signatures in an envelope.
pub const MAX_SIGNATURES: usize = 64;

/// Least value of the maximum number of signatures against a root, which is twice the number of its keys.
const MIN_CONSIDERED: usize = 8;

/// Maximum number of pairs of signature and key to try without a matching key id. Each try hashes the payload.
const MAX_UNNAMED_TRIES: usize = 128;

/// A payload with unverified signatures.
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
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Clone)]
struct EnvelopeSignature {
    key_id: String,
    signature: Signature,
}

impl Envelope {
    /// Signs a payload with each key.
    #[must_use]
    pub fn sign(payload_type: &str, payload: &[u8], keys: &[&SigningKey]) -> Self {
        let unsigned =
            Self { payload_type: payload_type.to_owned(), payload: payload.to_vec(), signatures: Vec::new() };
        keys.iter().fold(unsigned, |envelope, key| envelope.add_signature(key))
    }

    /// Adds one key's signature, unless the envelope has it already. Operators can thus sign one after another.
    #[must_use]
    pub fn add_signature(mut self, key: &SigningKey) -> Self {
        let signature = key.sign(&self.signed_bytes());
        if self.signatures.iter().all(|entry| entry.signature != signature) {
            self.signatures.push(EnvelopeSignature { key_id: key.key_id().as_str().to_owned(), signature });
        }
        self
    }

    /// Reads an envelope of at most `max_bytes`.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the envelope is malformed. Signatures are not verified here.
    pub fn from_json(json: &[u8], max_bytes: usize) -> Result<Self, EnvelopeError> {
        let too_large = EnvelopeError::TooLarge { max: max_bytes };
        if json.len() > max_bytes {
            return Err(too_large);
        }
        let limits = Limits::default().bytes(max_bytes).map_err(|_| too_large)?;
        let canonical = read(json, Recipe::Jcs1, &limits).map_err(EnvelopeError::Json)?;
        let wire = WireEnvelope::deserialize(canonical.value()).map_err(|_| EnvelopeError::Malformed)?;
        wire.try_into()
    }

    /// Serialises the envelope deterministically.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings in a struct always serialise"
    )]
    pub fn to_json(&self) -> String {
        let payload = base64::encode(&self.payload);
        let wire = WireEnvelope {
            payload: &payload,
            payload_type: &self.payload_type,
            signatures: self
                .signatures
                .iter()
                .map(|entry| WireSignature { keyid: entry.key_id.clone(), sig: entry.signature.to_base64() })
                .collect(),
        };
        serde_json::to_string(&wire).expect("an envelope is JSON")
    }

    /// Verifies that a threshold of the root's unrevoked keys signed exactly these bytes as this payload type.
    /// Signatures of other keys are ignored.
    ///
    /// The work is bounded, because anyone can add signatures to an envelope. More signatures than twice the root's
    /// keys (and more than eight) are refused without verifying any. Verifying stops at the threshold. Signatures
    /// with the key id of one of the root's keys come first; of the others, 128 pairs of signature and key are tried.
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

    /// As [`verify`](Self::verify), with at most `max` signatures.
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

    /// The distinct, unrevoked keys of the root that signed, up to the threshold.
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
        // Other implementations write other key ids or leave them out: try every key.
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

    /// The payload type.
    #[must_use]
    pub fn payload_type(&self) -> &str {
        &self.payload_type
    }

    /// The payload before verification, for display only.
    #[must_use]
    pub fn unverified_payload(&self) -> &[u8] {
        &self.payload
    }

    /// The key ids before verification, for display only.
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

/// A payload signed by a threshold of trusted keys. Only [`Envelope::verify`] creates one.
#[derive(Clone, Debug)]
pub struct Verified {
    payload: Vec<u8>,
    signers: Vec<VerifyingKey>,
}

impl Verified {
    /// The exact signed bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Distinct, unrevoked keys of the root that signed, as many as the threshold.
    #[must_use]
    pub fn signers(&self) -> &[VerifyingKey] {
        &self.signers
    }
}

/// DSSE's pre-authentication encoding, the bytes to sign.
pub(crate) fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

// Fields are sorted by name, so that the output is canonical JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEnvelope<'a> {
    payload: &'a str,
    #[serde(rename = "payloadType")]
    payload_type: &'a str,
    signatures: Vec<WireSignature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSignature {
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl TryFrom<WireEnvelope<'_>> for Envelope {
    type Error = EnvelopeError;

    fn try_from(wire: WireEnvelope<'_>) -> Result<Self, EnvelopeError> {
        if wire.signatures.len() > MAX_SIGNATURES {
            return Err(EnvelopeError::TooManySignatures { max: MAX_SIGNATURES });
        }
        let entry = |wire: WireSignature| {
            let signature = Signature::from_base64(&wire.sig).map_err(|_| EnvelopeError::Malformed)?;
            Ok(EnvelopeSignature { key_id: wire.keyid, signature })
        };
        Ok(Self {
            payload_type: wire.payload_type.to_owned(),
            payload: base64::decode(wire.payload).ok_or(EnvelopeError::Malformed)?,
            signatures: wire.signatures.into_iter().map(entry).collect::<Result<_, _>>()?,
        })
    }
}
