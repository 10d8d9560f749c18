use std::collections::BTreeMap;
use std::fmt;

use countersign_canonical_json::Canonical;
use countersign_core::{Digest, ImpactClass, Millis, SpendError, SpentId, SpentTokens, Ticket, Timestamp};
use countersign_keys::VerifyingKey;

use crate::attestation::SingleUse;
use crate::endorsement::{EndorsedUses, SpentEndorsement, Unbacked};
use crate::{Profile, ProposalCode};

/// Proof that a proposal was verified for one call. Only [`ActionProposal::verify`](crate::ActionProposal::verify)
/// creates it; it cannot be copied, and spending consumes it.
///
/// Does not prove that its attestations are unused, nor that a claim is true.
#[derive(Debug)]
#[must_use]
pub struct VerifiedProposal {
    pub(crate) facts: Facts,
    pub(crate) elapsed: Millis,
}

/// Facts of a verified proposal, before and after its attestations are spent.
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

    /// Profile that judged it.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.facts.profile
    }

    /// Effective impact: the strictest of the proposal's, the call's and the policy's.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.facts.impact
    }

    /// Verified evidence, in the proposal's order; empty if evidence was skipped.
    #[must_use]
    pub fn evidence(&self) -> &[VerifiedEvidence] {
        &self.facts.evidence
    }

    /// Signing keys, once per signature.
    pub fn keys(&self) -> impl Iterator<Item = VerifyingKey> {
        self.facts.evidence.iter().filter_map(|evidence| evidence.signer().map(|(_, key)| *key))
    }

    /// Duration of the verification.
    #[must_use]
    pub const fn elapsed(&self) -> Millis {
        self.elapsed
    }

    /// Spends every single-use attestation, then one use of each endorsed digest that a claim cites, however many
    /// entries of evidence have the digest. If there are neither, the store is not used.
    ///
    /// The expiry of all attestations is checked before the first is spent. If a later one is already spent, the
    /// earlier ones are lost. The store keeps each until `skew` after the last moment at which it could verify:
    /// `skew` is the clock difference between users of the store, and independent of the allowed lead of a signer's
    /// clock ([`ProposalVerifierBuilder::skew`](crate::ProposalVerifierBuilder::skew)).
    ///
    /// # Errors
    /// [`ProposalSpendError`]: the call must not run, and the proposal is consumed.
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
        // why: attestations first. They serve this call only, while endorsements serve other calls too.
        for ticket in tickets() {
            let keep_until = ticket.keep_until.saturating_add(skew);
            let ticket = Ticket::new(ticket.spent, ticket.issued, keep_until);
            store.spend(&ticket, now).map_err(ProposalSpendError::Attestation)?;
        }
        // One file backs one call: evidence entries with the same digest take one use.
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

/// Failure to spend a verified proposal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposalSpendError {
    /// An attestation was used before, has expired, or the store failed.
    #[error("the attestation is not spent")]
    Attestation(#[source] SpendError),
    /// An endorsement has no use left, has expired, or the store failed.
    #[error("the endorsement is not spent")]
    Endorsement {
        /// Answer of the store.
        source: SpendError,
        /// Evidence of the proposal, with the endorsement uses taken before the failure.
        evidence: Vec<VerifiedEvidence>,
    },
}

impl ProposalSpendError {
    /// Answer of the store.
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

/// Proof that a verified proposal's attestations, and a use of each endorsement, were spent on one act. Cannot be
/// copied.
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

    /// Profile that judged it.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.facts.profile
    }

    /// Effective impact.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.facts.impact
    }

    /// Verified evidence, in the proposal's order.
    #[must_use]
    pub fn evidence(&self) -> &[VerifiedEvidence] {
        &self.facts.evidence
    }

    /// Returns the evidence, so that the tool can use the very bytes that were hashed.
    #[must_use]
    pub fn into_evidence(self) -> Vec<VerifiedEvidence> {
        self.facts.evidence
    }
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
    /// A verified file has the digest that the agent named, and nothing more is proven. A trusted party vouches for
    /// it only if it [raises trust](Self::raises_trust), or if a strict attestation beside it does: such an
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

    /// Use of an endorsement that the call took; `None` before it is [spent](VerifiedProposal::spend).
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
