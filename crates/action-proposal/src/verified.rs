use std::collections::BTreeMap;
use std::fmt;

use countersign_canonical_json::Canonical;
use countersign_core::{Digest, ImpactClass, Millis, SpendError, SpentId, SpentTokens, Ticket, Timestamp};
use countersign_keys::VerifyingKey;

use crate::attestation::SingleUse;
use crate::endorsement::{EndorsedUses, SpentEndorsement, Unbacked};
use crate::{Profile, ProposalCode};

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

    /// Uses up every single-use attestation, and then one use of each endorsed digest that a claim cites, however many
    /// entries of evidence have the digest. Where there is nothing of either, the store is not asked.
    ///
    /// Of several, all are looked at for expiry before the first is spent; when a later one turns out to be spent, those
    /// before it are gone, too. Each is kept until `skew` after the last moment at which it could verify: `skew` is how far
    /// the clocks of those who share the store may differ, and has nothing to do with how far a signer's may be ahead
    /// ([`ProposalVerifierBuilder::skew`](crate::ProposalVerifierBuilder::skew)).
    ///
    /// # Errors
    /// [`ProposalSpendError`]; the call must not run then, and the proposal is gone in any case.
    pub fn spend(
        mut self,
        store: &dyn SpentTokens,
        now: Timestamp,
        skew: Millis,
    ) -> Result<SpentProposal, ProposalSpendError> {
        let evidence = &mut self.facts.evidence;
        let tickets = || evidence.iter().filter_map(|evidence| evidence.ticket.as_ref());
        if tickets().any(|ticket| now >= ticket.expires) {
            return Err(ProposalSpendError::Attestation(SpendError::Expired));
        }
        // Attestations first: they are good for this call alone, endorsements for others as well.
        for ticket in tickets() {
            let keep_until = ticket.keep_until.saturating_add(skew);
            let ticket = Ticket::new(ticket.spent, ticket.issued, keep_until);
            store.spend(&ticket, now).map_err(ProposalSpendError::Attestation)?;
        }
        // One file backs one call: entries of evidence with the same digest take one use.
        let (mut by_digest, mut failed) = (BTreeMap::new(), None);
        for evidence in evidence.iter_mut().filter(|evidence| !evidence.uses.is_empty()) {
            let digest = *evidence.content.digest().as_bytes();
            let spent = match by_digest.get(&digest) {
                Some(spent) => *spent,
                None => match evidence.uses.spend(store, now, skew) {
                    Ok(spent) => spent,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                },
            };
            by_digest.insert(digest, spent);
            evidence.endorsement = Some(spent);
        }
        match failed {
            Some(source) => Err(ProposalSpendError::Endorsement { source, evidence: self.facts.evidence }),
            None => Ok(SpentProposal { facts: self.facts }),
        }
    }
}

/// Why a verified proposal cannot be spent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposalSpendError {
    /// An attestation was used before, has expired, or the store cannot say.
    #[error("the attestation is not spent")]
    Attestation(#[source] SpendError),
    /// An endorsement has no use left, has expired, or the store cannot say.
    #[error("the endorsement is not spent")]
    Endorsement {
        /// The store's answer.
        source: SpendError,
        /// The proposal's evidence, with the uses of other endorsements that were taken before.
        evidence: Vec<VerifiedEvidence>,
    },
}

impl ProposalSpendError {
    /// The store's answer.
    #[must_use]
    pub const fn cause(&self) -> &SpendError {
        match self {
            Self::Attestation(error) | Self::Endorsement { source: error, .. } => error,
        }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Attestation(SpendError::Spent | SpendError::Expired) => {
                ProposalCode::EvidenceFailed.as_str()
            }
            Self::Endorsement { source: SpendError::Spent | SpendError::Expired, .. } => {
                ProposalCode::VerifierFailed.as_str()
            }
            Self::Attestation(error) | Self::Endorsement { source: error, .. } => error.code(),
        }
    }
}

/// Proves that a verified proposal's attestations, and a use of each endorsement, were used up for this one act. Cannot be copied.
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
    /// Uses of endorsements, of which the call takes one.
    pub(crate) uses: EndorsedUses,
    /// The one that it took.
    pub(crate) endorsement: Option<SpentEndorsement>,
    /// Why an endorsement of the digest backs nothing here.
    pub(crate) unbacked: Option<Unbacked>,
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

    /// Says whether the call takes a use of an endorsement for it.
    #[must_use]
    pub const fn takes_endorsement(&self) -> bool {
        !self.uses.is_empty()
    }

    /// The use of an endorsement that the call took; none before it is [spent](VerifiedProposal::spend).
    #[must_use]
    pub const fn endorsement(&self) -> Option<&SpentEndorsement> {
        self.endorsement.as_ref()
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
