use std::sync::Arc;

use countersign_core::{Audience, ImpactClass, Millis};

use crate::{
    ActionProposal, EndorsedDigests, EvidenceKeyring, EvidenceResolver, HighImpacts, Profile, ProposalError,
    ProposalLimits, ProposalPolicy,
};

/// Failure to build a verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifierError {
    /// The strict profile cannot skip evidence.
    #[error("profile `strict` does not allow skipping evidence")]
    SkipUnderStrict,
    /// The strict profile cannot take trust as claimed.
    #[error("profile `strict` does not accept claimed trust")]
    ClaimedUnderStrict,
}

impl VerifierError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::SkipUnderStrict => "VERIFIER_SKIPS_EVIDENCE",
            Self::ClaimedUnderStrict => "VERIFIER_TRUSTS_CLAIMS",
        }
    }
}

countersign_core::coded!(VerifierError);

/// Whether evidence is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvidenceCheck {
    Verify,
    Skip,
}

/// Initial trust in provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartingTrust {
    Untrusted,
    AsClaimed,
}

/// Operator's verifier of proposals: profile, keys, evidence, policy, limits. It keeps no state between proposals.
///
/// ```
/// use countersign_action_proposal::{Profile, ProposalVerifier, VerifierError};
/// use countersign_core::ImpactClass;
/// let verifier = ProposalVerifier::builder(Profile::Strict).build()?;
/// assert!(verifier.requires_proposal(ImpactClass::Money));
/// assert!(!verifier.requires_proposal(ImpactClass::Read));
///
/// let skipping = ProposalVerifier::builder(Profile::Strict).dangerous_skip_evidence().build();
/// assert_eq!(skipping.err(), Some(VerifierError::SkipUnderStrict));
/// # Ok::<(), VerifierError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProposalVerifier {
    pub(crate) profile: Profile,
    pub(crate) limits: ProposalLimits,
    pub(crate) keyring: EvidenceKeyring,
    pub(crate) resolver: Option<Arc<dyn EvidenceResolver>>,
    pub(crate) endorsed: Option<EndorsedDigests>,
    pub(crate) policy: ProposalPolicy,
    pub(crate) high: HighImpacts,
    pub(crate) audience: Option<Audience>,
    pub(crate) skew: Millis,
    pub(crate) max_age: Millis,
    pub(crate) check: EvidenceCheck,
    pub(crate) start: StartingTrust,
}

impl ProposalVerifier {
    /// Starts a builder without keys, files and policy. Such a verifier under [`Profile::Strict`] refuses every
    /// high-impact proposal.
    pub fn builder(profile: Profile) -> ProposalVerifierBuilder {
        let (check, start) = match profile {
            Profile::Strict | Profile::Pic09 => (EvidenceCheck::Verify, StartingTrust::Untrusted),
            // Defaults of the reference release 0.8.
            Profile::Pic08 => (EvidenceCheck::Skip, StartingTrust::AsClaimed),
        };
        ProposalVerifierBuilder {
            verifier: Self {
                profile,
                limits: ProposalLimits::default(),
                keyring: EvidenceKeyring::empty(),
                resolver: None,
                endorsed: None,
                policy: ProposalPolicy::silent(),
                high: HighImpacts::default(),
                audience: None,
                skew: Millis::from_secs(5),
                max_age: Millis::from_secs(24 * 60 * 60),
                check,
                start,
            },
        }
    }

    /// Parses a proposal's JSON text within this verifier's limits, as [`ActionProposal::parse`]. Under
    /// [`Profile::Pic08`] an input may be `semi_trusted`, which counts as untrusted.
    ///
    /// # Errors
    /// As [`ActionProposal::parse`].
    pub fn parse(&self, json: &[u8]) -> Result<ActionProposal, ProposalError> {
        ActionProposal::parse_under(json, &self.limits, self.profile)
    }

    /// Profile that proposals are judged by.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Limits of one proposal.
    #[must_use]
    pub const fn limits(&self) -> &ProposalLimits {
        &self.limits
    }

    /// Impacts that count as high.
    #[must_use]
    pub const fn high(&self) -> HighImpacts {
        self.high
    }

    /// Operator's policy; without one, a policy that lists no tool and requires nothing.
    #[must_use]
    pub const fn policy(&self) -> &ProposalPolicy {
        &self.policy
    }

    /// Keys whose signatures count.
    #[must_use]
    pub const fn keyring(&self) -> &EvidenceKeyring {
        &self.keyring
    }

    /// Endorsed digests, if any. The caller must check at every call that their signatures still count
    /// ([`EndorsedDigests::still_counts`]); the verifier does not check again.
    #[must_use]
    pub const fn endorsed(&self) -> Option<&EndorsedDigests> {
        self.endorsed.as_ref()
    }

    /// Returns whether a call of this impact needs a proposal: at a high impact, at one that the policy requires a
    /// proposal or evidence for, and at one with a threshold in the keyring. Without a proposal there would be
    /// neither evidence nor signatures.
    #[must_use]
    pub fn requires_proposal(&self, impact: ImpactClass) -> bool {
        self.high.contains(impact)
            || self.policy.requires_proposal(impact)
            || self.policy.requires_evidence(impact)
            || self.keyring.stated_threshold(impact).is_some()
    }
}

/// Builder of a verifier. Omitted settings have the safe value.
#[derive(Debug)]
#[must_use]
pub struct ProposalVerifierBuilder {
    verifier: ProposalVerifier,
}

impl ProposalVerifierBuilder {
    /// Sets the limits of one proposal. Default: [`ProposalLimits::default`].
    pub const fn limits(mut self, limits: ProposalLimits) -> Self {
        self.verifier.limits = limits;
        self
    }

    /// Sets the keys whose signatures count. Default: none.
    pub fn keyring(mut self, keyring: EvidenceKeyring) -> Self {
        self.verifier.keyring = keyring;
        self
    }

    /// Sets the source of files. Default: none, so every `hash` entry fails.
    pub fn resolver(mut self, resolver: Arc<dyn EvidenceResolver>) -> Self {
        self.verifier.resolver = Some(resolver);
        self
    }

    /// Sets the digests that operators endorsed. Default: none.
    pub fn endorsed(mut self, endorsed: EndorsedDigests) -> Self {
        self.verifier.endorsed = Some(endorsed);
        self
    }

    /// Sets the operator's policy. Default: none.
    ///
    /// Under `strict` a policy that lists tools refuses an unlisted tool, unless the call states an impact. A caller
    /// that states it, such as a gate, has a registry, and then the registry is the list of tools: a gate denies an
    /// unregistered tool before it verifies the proposal.
    pub fn policy(mut self, policy: ProposalPolicy) -> Self {
        self.verifier.policy = policy;
        self
    }

    /// Sets the impacts that count as high. Default: money, privacy and irreversible.
    pub const fn high(mut self, high: HighImpacts) -> Self {
        self.verifier.high = high;
        self
    }

    /// Sets the audience of attestations. Default: none, so strict attestations are refused.
    pub fn audience(mut self, audience: Audience) -> Self {
        self.verifier.audience = Some(audience);
        self
    }

    /// Sets the allowed lead of a signer's clock, for the time of issue of an attestation. Default: 5 seconds. The
    /// retention of spent attestations has a skew of its own
    /// ([`VerifiedProposal::spend`](crate::VerifiedProposal::spend)).
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.verifier.skew = skew;
        self
    }

    /// Sets the longest age of an attestation with a nonce. Default: one day.
    ///
    /// A spent attestation is remembered only as long as it could verify under this age. If a verifier with a longer
    /// age replaces this one on the same spent set, give it another audience.
    pub const fn max_attestation_age(mut self, most: Millis) -> Self {
        self.verifier.max_age = most;
        self
    }

    /// Enables verification of evidence: the default except under [`Profile::Pic08`].
    pub const fn verify_evidence(mut self) -> Self {
        self.verifier.check = EvidenceCheck::Verify;
        self
    }

    /// Makes all provenance start untrusted, whatever it claims: the default except under [`Profile::Pic08`].
    pub const fn sanitize_trust(mut self) -> Self {
        self.verifier.start = StartingTrust::Untrusted;
        self
    }

    /// Disables verification of evidence, like the reference's `verify_evidence=False`. A claim is then backed by
    /// nothing but itself. Refused under the strict profile, and without effect on a call that requires evidence
    /// ([`ProposedCall::evidence_required`](crate::ProposedCall::evidence_required)).
    pub const fn dangerous_skip_evidence(mut self) -> Self {
        self.verifier.check = EvidenceCheck::Skip;
        self
    }

    /// Takes the trust of provenance as claimed, like the reference's `strict_trust=False`: the author of the
    /// proposal then decides which inputs are trusted. Refused under the strict profile.
    pub const fn dangerous_trust_as_claimed(mut self) -> Self {
        self.verifier.start = StartingTrust::AsClaimed;
        self
    }

    /// Builds the verifier.
    ///
    /// # Errors
    /// [`VerifierError`] if the profile does not allow a setting.
    pub fn build(self) -> Result<ProposalVerifier, VerifierError> {
        if self.verifier.profile == Profile::Strict {
            if self.verifier.check == EvidenceCheck::Skip {
                return Err(VerifierError::SkipUnderStrict);
            }
            if self.verifier.start == StartingTrust::AsClaimed {
                return Err(VerifierError::ClaimedUnderStrict);
            }
        }
        Ok(self.verifier)
    }
}
