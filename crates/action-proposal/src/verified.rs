use std::collections::BTreeMap;

use countersign_core::{Digest, ImpactClass, Millis, SpendError, SpentTokens, Ticket, Timestamp};
use countersign_keys::VerifyingKey;

use crate::{Profile, ProposalCode, VerifiedEvidence};

/// Proof that a proposal was verified for one call. Only [`ActionProposal::verify`](crate::ActionProposal::verify)
/// creates it; it cannot be copied, and spending consumes it.
///
/// Does not prove that its attestations are unused, nor that a claim is true.
#[derive(Debug)]
#[must_use]
pub struct VerifiedProposal {
    pub(crate) facts: Box<ProposalFindings>,
    pub(crate) elapsed: Millis,
}

/// Facts of a verified proposal, before and after its attestations are spent.
#[derive(Debug)]
pub(crate) struct ProposalFindings {
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
    #[error("the attestation could not be spent")]
    Attestation(#[source] SpendError),
    /// An endorsement has no use left, has expired, or the store failed.
    #[error("the endorsement could not be spent")]
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

countersign_core::coded!(ProposalSpendError);

/// Proof that a verified proposal's attestations, and a use of each endorsement, were spent on one act. Cannot be
/// copied.
#[derive(Debug)]
#[must_use]
pub struct SpentProposal {
    /// In a box, as most calls come without a proposal and the gate moves this with each.
    facts: Box<ProposalFindings>,
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
