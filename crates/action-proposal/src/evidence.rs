use std::fmt;

use countersign_canonical_json::Canonical;
use countersign_core::{Digest, SpentId, Timestamp};
use countersign_keys::VerifyingKey;

use crate::endorsement::{EndorsedUses, SpentEndorsement, Unbacked};

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

/// Single use of an attestation: its id in the spent set, and its times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleUse {
    pub(crate) spent: SpentId,
    /// Time of issue.
    pub(crate) issued: Timestamp,
    /// First moment at which it no longer verifies: the end of the attestation, of its key, or of the allowed age.
    pub(crate) expires: Timestamp,
    /// End of the entry in the spent set. why: the key's expiry does not shorten it, as operators may prolong keys.
    pub(crate) keep_until: Timestamp,
}

/// Content of an entry of evidence.
pub(crate) enum Content {
    /// File and its SHA-256.
    File { digest: Digest, bytes: Vec<u8> },
    /// Signed attestation object.
    Attestation(Canonical),
    /// SHA-256 of the signed text.
    Opaque(Digest),
}

impl Content {
    pub(crate) fn digest(&self) -> Digest {
        match self {
            Self::File { digest, .. } | Self::Opaque(digest) => *digest,
            Self::Attestation(object) => object.digest(),
        }
    }

    fn file(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            Self::Attestation(_) | Self::Opaque(_) => None,
        }
    }
}

/// why: it may be confidential, so no content is printed.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.file().map(<[u8]>::len);
        f.debug_struct("Content").field("digest", &self.digest()).field("bytes", &size).finish()
    }
}

/// Verified entry of evidence. Cannot be copied.
pub struct VerifiedEvidence {
    pub(crate) id: Box<str>,
    pub(crate) content: Content,
    pub(crate) raises_trust: bool,
    pub(crate) endorsed: bool,
    pub(crate) signer: Option<(Box<str>, VerifyingKey)>,
    pub(crate) ticket: Option<SingleUse>,
    /// Uses of endorsements, of which the call takes one.
    pub(crate) uses: EndorsedUses,
    /// Use that the call took.
    pub(crate) endorsement: Option<SpentEndorsement>,
    /// Reason why an endorsement of the digest does not apply.
    pub(crate) unbacked: Option<Unbacked>,
}

impl VerifiedEvidence {
    /// The entry's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SHA-256 of the file, or of the signed bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.content.digest()
    }

    /// Bytes of the file, exactly the hashed ones; `None` for a signature.
    ///
    /// A verified file has the digest that the agent named; nothing more is proven. A trusted party vouches for it only
    /// if it [raises trust](Self::raises_trust), or if the proposal also has a strict attestation that does: such an
    /// attestation binds the id and the digest of every file of the proposal.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.content.file()
    }

    /// Returns `true` if it raises the trust of the provenance with its id. `false` without such provenance.
    #[must_use]
    pub const fn raises_trust(&self) -> bool {
        self.raises_trust
    }

    /// Returns `true` if it raises trust only because an operator signed the file's digest. When that signature no
    /// longer counts ([`EndorsedDigests::still_counts`](crate::EndorsedDigests::still_counts)), neither does this
    /// evidence.
    #[must_use]
    pub const fn endorsed(&self) -> bool {
        self.endorsed
    }

    /// Returns `true` if the call takes a use of an endorsement for it.
    #[must_use]
    pub const fn takes_endorsement(&self) -> bool {
        !self.uses.is_empty()
    }

    /// Use of an endorsement that the call took; `None` before it is [spent](crate::VerifiedProposal::spend).
    #[must_use]
    pub const fn endorsement(&self) -> Option<&SpentEndorsement> {
        self.endorsement.as_ref()
    }

    /// Signer: the id in the keyring and the key; `None` for a file.
    #[must_use]
    pub fn signer(&self) -> Option<(&str, &VerifyingKey)> {
        self.signer.as_ref().map(|(id, key)| (id.as_ref(), key))
    }

    /// Id of the attestation in the spent set, and the first moment at which it no longer verifies: its own end, its
    /// key's, or that of its allowed age. `None` if it may be used again.
    #[must_use]
    pub fn attestation(&self) -> Option<(&SpentId, Timestamp)> {
        self.ticket.as_ref().map(|ticket| (&ticket.spent, ticket.expires))
    }
}

/// why: evidence may be confidential, so neither its bytes nor its id are printed.
impl fmt::Debug for VerifiedEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedEvidence")
            .field("content", &self.content)
            .field("raises_trust", &self.raises_trust)
            .field("endorsed", &self.endorsed)
            .field("key", &self.signer.as_ref().map(|(_, key)| key))
            .finish_non_exhaustive()
    }
}
