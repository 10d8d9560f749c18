use std::fmt;

use countersign_core::Digest;

/// One entry of a proposal's `evidence`, as it was read and before anything of it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvidenceEntry {
    /// `type: hash`: a file and the SHA-256 that it is said to have.
    Hash(HashEntry),
    /// `type: sig`: a signed payload.
    Signature(SignatureEntry),
}

impl EvidenceEntry {
    /// The entry's id. Provenance of the same id is what it can raise.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Hash(entry) => &entry.id,
            Self::Signature(entry) => &entry.id,
        }
    }
}

/// A file by reference, with the digest that it is said to have.
#[derive(Clone, PartialEq, Eq)]
pub struct HashEntry {
    pub(crate) id: Box<str>,
    pub(crate) reference: Box<str>,
    pub(crate) sha256: Digest,
}

impl HashEntry {
    /// The reference, `file://...`.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// The SHA-256 that the file is said to have.
    #[must_use]
    pub const fn sha256(&self) -> Digest {
        self.sha256
    }
}

/// A payload and a signature over it. The one algorithm is Ed25519.
#[derive(Clone, PartialEq, Eq)]
pub struct SignatureEntry {
    pub(crate) id: Box<str>,
    pub(crate) payload: Box<str>,
    pub(crate) signature: Box<str>,
    pub(crate) key_id: Box<str>,
}

impl SignatureEntry {
    /// What was signed: an attestation object as JSON text, or opaque text.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The signature in base64.
    #[must_use]
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// Which key of the keyring is said to have signed.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }
}

/// The agent wrote it: the reference and the id are not shown.
impl fmt::Debug for HashEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashEntry").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

/// The agent wrote it: only the payload's size is shown.
impl fmt::Debug for SignatureEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignatureEntry").field("payload_bytes", &self.payload.len()).finish_non_exhaustive()
    }
}
