//! Updates of a trust root, each signed by the old root's keys and by the new one's.

use crate::dsse::{Envelope, MAX_SIGNATURES};
use crate::ed25519::{SigningKey, VerifyingKey};
use crate::root::{MAX_BYTES, RootError, TrustRoot};

/// Payload type of an envelope with the next trust root.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.countersign.trust-root+json";

impl TrustRoot {
    /// Signs this root as the next one. [`update`](Self::update) needs a threshold of the old root's keys and of this
    /// root's.
    #[must_use]
    pub fn sign(&self, keys: &[&SigningKey]) -> Envelope {
        Envelope::sign(PAYLOAD_TYPE, self.to_json().as_bytes(), keys)
    }

    /// Verifies the next root: its version is one higher, and thresholds of this root's keys and of its own signed
    /// it. No version can be skipped. A revoked key counts for neither threshold: a thief could otherwise pass trust
    /// on to new keys.
    ///
    /// # Errors
    /// [`RootError`] if the new root is invalid; this root then stays in force.
    pub fn update(
        &self,
        envelope: &Envelope,
        revoked: &dyn Fn(&VerifyingKey) -> bool,
    ) -> Result<Self, RootError> {
        // why: the keys of two roots sign, and a root is small, so verifying the maximum of signatures is little work.
        if envelope.unverified_payload().len() > MAX_BYTES {
            return Err(RootError::TooLarge { max: MAX_BYTES });
        }
        let verified = envelope.verify_among(MAX_SIGNATURES, PAYLOAD_TYPE, self, revoked)?;
        let next = Self::from_json(verified.payload())?;
        let expected = self.version().saturating_add(1);
        if next.version() != expected {
            return Err(RootError::Version { expected });
        }
        envelope.verify_among(MAX_SIGNATURES, PAYLOAD_TYPE, &next, revoked)?;
        Ok(next)
    }
}
