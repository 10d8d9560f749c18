use std::fmt;

use countersign_canonical_json::Canonical;
use countersign_core::{Digest, ImpactClass, Millis, SpendError, SpentId, SpentTokens, Ticket, Timestamp};
use countersign_keys::VerifyingKey;

use crate::Profile;
use crate::attestation::SingleUse;

/// Proves that a proposal was verified for one call. Made by [`ActionProposal::verify`](crate::ActionProposal::verify)
/// alone; it cannot be copied, and spending consumes it.
///
/// It says nothing yet about whether its attestations were used before, nor whether a claim is true.
#[derive(Debug)]
#[must_use]
pub struct VerifiedProposal {
    pub(crate) facts: Facts,
    pub(crate) elapsed: Millis,
}

/// What is known of a verified proposal, before and after its attestations are spent.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) digest: Digest,
    pub(crate) intent: Digest,
    pub(crate) profile: Profile,
    pub(crate) impact: ImpactClass,
    pub(crate) evidence: Vec<VerifiedEvidence>,
}

impl VerifiedProposal {
    /// SHA-256 of the proposal's canonical form.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.facts.digest
    }

    /// SHA-256 of the intent's UTF-8 bytes.
    #[must_use]
    pub const fn intent_digest(&self) -> Digest {
        self.facts.intent
    }

    /// What it was judged by.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.facts.profile
    }

    /// The effective impact: the strictest of what the proposal, the call and the policy say.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.facts.impact
    }

    /// The evidence that verified, in the proposal's order; none when no evidence was looked at.
    #[must_use]
    pub fn evidence(&self) -> &[VerifiedEvidence] {
        &self.facts.evidence
    }

    /// The keys that signed, once for each signature.
    pub fn keys(&self) -> impl Iterator<Item = VerifyingKey> {
        self.facts.evidence.iter().filter_map(|evidence| evidence.signer().map(|(_, key)| *key))
    }

    /// How long the verification took.
    #[must_use]
    pub const fn elapsed(&self) -> Millis {
        self.elapsed
    }

    /// Uses up every single-use attestation. Where there is none, nothing is asked of the store.
    ///
    /// Of several, all are looked at for expiry before the first is spent; when a later one turns out to be spent, those
    /// before it are gone, too. Each is kept until `skew` after the last moment at which it could verify: `skew` is how far
    /// the clocks of those who share the store may differ, and has nothing to do with how far a signer's may be ahead
    /// ([`ProposalVerifierBuilder::skew`](crate::ProposalVerifierBuilder::skew)).
    ///
    /// # Errors
    /// [`SpendError`]; the call must not run then, and the proposal is gone in any case.
    pub fn spend(
        self,
        store: &dyn SpentTokens,
        now: Timestamp,
        skew: Millis,
    ) -> Result<SpentProposal, SpendError> {
        let tickets = || self.facts.evidence.iter().filter_map(|evidence| evidence.ticket.as_ref());
        if tickets().any(|ticket| now >= ticket.expires) {
            return Err(SpendError::Expired);
        }
        for ticket in tickets() {
            let keep_until = ticket.keep_until.saturating_add(skew);
            store.spend(&Ticket::new(ticket.spent, ticket.issued, keep_until), now)?;
        }
        Ok(SpentProposal { facts: self.facts })
    }
}

/// Proves that a verified proposal's attestations were used up for this one act. Cannot be copied.
#[derive(Debug)]
#[must_use]
pub struct SpentProposal {
    facts: Facts,
}

impl SpentProposal {
    /// SHA-256 of the proposal's canonical form.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.facts.digest
    }

    /// SHA-256 of the intent's UTF-8 bytes.
    #[must_use]
    pub const fn intent_digest(&self) -> Digest {
        self.facts.intent
    }

    /// What it was judged by.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.facts.profile
    }

    /// The effective impact.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.facts.impact
    }

    /// The evidence that verified, in the proposal's order.
    #[must_use]
    pub fn evidence(&self) -> &[VerifiedEvidence] {
        &self.facts.evidence
    }

    /// Hands the evidence over, so that the tool works on the very bytes that were hashed.
    #[must_use]
    pub fn into_evidence(self) -> Vec<VerifiedEvidence> {
        self.facts.evidence
    }
}

/// What an entry of evidence is about.
pub(crate) enum Content {
    /// A file, and its SHA-256.
    File { digest: Digest, bytes: Vec<u8> },
    /// The attestation object that was signed.
    Attestation(Canonical),
    /// SHA-256 of the text that was signed.
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

/// It may be confidential: none of its bytes are shown.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.file().map(<[u8]>::len);
        f.debug_struct("Content").field("digest", &self.digest()).field("bytes", &size).finish()
    }
}

/// One entry of evidence that verified. Cannot be copied.
pub struct VerifiedEvidence {
    pub(crate) id: Box<str>,
    pub(crate) content: Content,
    pub(crate) raises_trust: bool,
    pub(crate) endorsed: bool,
    pub(crate) signer: Option<(Box<str>, VerifyingKey)>,
    pub(crate) ticket: Option<SingleUse>,
}

impl VerifiedEvidence {
    /// The entry's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SHA-256 of the file, or of the bytes that were signed.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.content.digest()
    }

    /// The file's bytes, exactly those that were hashed; none for a signature.
    ///
    /// That the file verified says that it has the digest which the agent named, and no more. Somebody stands behind it
    /// only where it [raises trust](Self::raises_trust) or where a strict attestation beside it is one: such an attestation
    /// binds the id and the digest of every file of the proposal.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.content.file()
    }

    /// Says whether it raises the trust of the provenance with its id. Never where there is no such provenance.
    #[must_use]
    pub const fn raises_trust(&self) -> bool {
        self.raises_trust
    }

    /// Says whether an operator signed the file's digest for this, and it raises trust by that alone. Where that no longer
    /// counts ([`EndorsedDigests::still_counts`](crate::EndorsedDigests::still_counts)), neither does this.
    #[must_use]
    pub const fn endorsed(&self) -> bool {
        self.endorsed
    }

    /// Who signed: the id in the keyring and the key; none for a file.
    #[must_use]
    pub fn signer(&self) -> Option<(&str, &VerifyingKey)> {
        self.signer.as_ref().map(|(id, key)| (id.as_ref(), key))
    }

    /// What the spent set knows the attestation by, and the first moment at which it no longer counts: its own end, its
    /// key's, or that of the age that it may have. None where it may be used again.
    #[must_use]
    pub fn attestation(&self) -> Option<(&SpentId, Timestamp)> {
        self.ticket.as_ref().map(|ticket| (&ticket.spent, ticket.expires))
    }
}

/// Evidence may be confidential: neither its bytes nor its id are shown.
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
