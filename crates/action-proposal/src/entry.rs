use std::fmt;

use countersign_core::Digest;

/// Entry of a proposal's `evidence`, parsed and unverified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvidenceEntry {
    /// `type: hash`: a file and its claimed SHA-256.
    Hash(HashEntry),
    /// `type: sig`: a signed payload.
    Signature(SignatureEntry),
}

impl EvidenceEntry {
    /// Id of the entry. It can raise the trust of the provenance with the same id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Hash(entry) => &entry.id,
            Self::Signature(entry) => &entry.id,
        }
    }
}

/// Reference to a file, with its claimed digest.
#[derive(Clone, PartialEq, Eq)]
pub struct HashEntry {
    pub(crate) id: Box<str>,
    pub(crate) reference: Box<str>,
    pub(crate) sha256: Digest,
}

impl HashEntry {
    /// Reference, `file://...`.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Claimed SHA-256 of the file.
    #[must_use]
    pub const fn sha256(&self) -> Digest {
        self.sha256
    }
}

/// Payload and its signature. Ed25519 is the only algorithm.
#[derive(Clone, PartialEq, Eq)]
pub struct SignatureEntry {
    pub(crate) id: Box<str>,
    pub(crate) payload: Box<str>,
    pub(crate) signature: Box<str>,
    pub(crate) key_id: Box<str>,
}

impl SignatureEntry {
    /// Signed payload: an attestation object as JSON text, or opaque text.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// Signature in base64.
    #[must_use]
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// Claimed id of the signing key in the keyring.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }
}

/// why: the agent wrote it, so reference and id are not printed.
impl fmt::Debug for HashEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashEntry").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

/// why: the agent wrote it, so only the payload's size is printed.
impl fmt::Debug for SignatureEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignatureEntry").field("payload_bytes", &self.payload.len()).finish_non_exhaustive()
    }
}
