use std::sync::Arc;

use countersign_core::{Audience, ImpactClass, Millis};

use crate::{
    ActionProposal, EndorsedDigests, EvidenceKeyring, EvidenceResolver, HighImpacts, Profile, ProposalError,
    ProposalLimits, ProposalPolicy,
};

/// Why a verifier cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifierError {
    /// The strict profile was asked to skip evidence.
    #[error("the profile `strict` cannot skip evidence")]
    SkipUnderStrict,
    /// The strict profile was asked to take trust as it is claimed.
    #[error("the profile `strict` cannot take trust as it is claimed")]
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

/// Whether evidence is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvidenceCheck {
    Verify,
    Skip,
}

/// What provenance is trusted to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartingTrust {
    Untrusted,
    AsClaimed,
}

/// How an operator has proposals judged: profile, keys, evidence, policy, limits. It holds nothing of any proposal.
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
#[derive(Debug)]
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
    /// Begins one. Without more it has no keys, no files and no policy, so that under [`Profile::Strict`] it refuses every
    /// high-impact proposal.
    pub fn builder(profile: Profile) -> ProposalVerifierBuilder {
        let (check, start) = match profile {
            Profile::Strict | Profile::Pic09 => (EvidenceCheck::Verify, StartingTrust::Untrusted),
            // The reference's defaults of that time.
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

    /// Reads a proposal's JSON text within this verifier's limits, as [`ActionProposal::parse`]. Under [`Profile::Pic08`]
    /// an input may be `semi_trusted`, which counts as untrusted.
    ///
    /// # Errors
    /// As [`ActionProposal::parse`].
    pub fn parse(&self, json: &[u8]) -> Result<ActionProposal, ProposalError> {
        ActionProposal::parse_under(json, &self.limits, self.profile)
    }

    /// How proposals are judged.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// How much one proposal may ask.
    #[must_use]
    pub const fn limits(&self) -> &ProposalLimits {
        &self.limits
    }

    /// Which impacts count as high.
    #[must_use]
    pub const fn high(&self) -> HighImpacts {
        self.high
    }

    /// The operator's policy; where none was given, one that knows no tool and asks for nothing.
    #[must_use]
    pub const fn policy(&self) -> &ProposalPolicy {
        &self.policy
    }

    /// The keys whose signatures count.
    #[must_use]
    pub const fn keyring(&self) -> &EvidenceKeyring {
        &self.keyring
    }

    /// The digests that operators signed, where there are any. Whether their signatures still count is for the caller to
    /// ask, call by call ([`EndorsedDigests::still_counts`]): the verifier was given them once and does not look again.
    #[must_use]
    pub const fn endorsed(&self) -> Option<&EndorsedDigests> {
        self.endorsed.as_ref()
    }

    /// Says whether a call of this impact needs a proposal: whatever counts as high does, whatever the policy asks a
    /// proposal or evidence of, and whatever the keyring states a threshold for. Without a proposal there would be
    /// neither evidence nor signatures.
    #[must_use]
    pub fn requires_proposal(&self, impact: ImpactClass) -> bool {
        self.high.contains(impact)
            || self.policy.requires_proposal(impact)
            || self.policy.requires_evidence(impact)
            || self.keyring.stated_threshold(impact).is_some()
    }
}

/// Says step by step how proposals are judged. What is left out has the safe value.
#[derive(Debug)]
#[must_use]
pub struct ProposalVerifierBuilder {
    verifier: ProposalVerifier,
}

impl ProposalVerifierBuilder {
    /// Sets how much one proposal may ask. By default [`ProposalLimits::default`].
    pub const fn limits(mut self, limits: ProposalLimits) -> Self {
        self.verifier.limits = limits;
        self
    }

    /// Sets the keys whose signatures count. By default none does.
    pub fn keyring(mut self, keyring: EvidenceKeyring) -> Self {
        self.verifier.keyring = keyring;
        self
    }

    /// Sets where files come from. By default from nowhere: every `hash` entry fails.
    pub fn resolver(mut self, resolver: Arc<dyn EvidenceResolver>) -> Self {
        self.verifier.resolver = Some(resolver);
        self
    }

    /// Sets the digests that an operator signed. By default there are none.
    pub fn endorsed(mut self, endorsed: EndorsedDigests) -> Self {
        self.verifier.endorsed = Some(endorsed);
        self
    }

    /// Sets the operator's policy. By default there is none.
    ///
    /// Strictly, where it lists tools, a tool that it does not list is refused, unless the call says the tool's impact: who
    /// says that, as a gate does, has a registry, and the registry is the list then. A gate denies what its registry does not
    /// have before it asks here.
    pub fn policy(mut self, policy: ProposalPolicy) -> Self {
        self.verifier.policy = policy;
        self
    }

    /// Sets which impacts count as high. By default money, privacy and irreversible.
    pub const fn high(mut self, high: HighImpacts) -> Self {
        self.verifier.high = high;
        self
    }

    /// Sets who attestations must be for. By default nobody, so that strict attestations are refused.
    pub fn audience(mut self, audience: Audience) -> Self {
        self.verifier.audience = Some(audience);
        self
    }

    /// Sets how far ahead a signer's clock may be: the time of issue of an attestation is held against it. By default 5
    /// seconds. How long the use of one is remembered has a leeway of its own
    /// ([`VerifiedProposal::spend`](crate::VerifiedProposal::spend)).
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.verifier.skew = skew;
        self
    }

    /// Sets how old an attestation with a nonce may be. By default one day.
    ///
    /// The use of an attestation is not remembered for longer than it could verify under this. So whoever has a verifier
    /// with another, longer span follow on this one at the same spent set gives it another audience as well.
    pub const fn max_attestation_age(mut self, most: Millis) -> Self {
        self.verifier.max_age = most;
        self
    }

    /// Has evidence verified: the default but under [`Profile::Pic08`].
    pub const fn verify_evidence(mut self) -> Self {
        self.verifier.check = EvidenceCheck::Verify;
        self
    }

    /// Has all provenance enter untrusted, whatever it claims: the default but under [`Profile::Pic08`].
    pub const fn sanitize_trust(mut self) -> Self {
        self.verifier.start = StartingTrust::Untrusted;
        self
    }

    /// Has evidence not looked at, as the reference's `verify_evidence=False`. Nothing then backs a claim but the claim
    /// itself. Refused under the strict profile, and without effect at a call that asks for evidence
    /// ([`ProposedCall::evidence_required`](crate::ProposedCall::evidence_required)).
    pub const fn dangerous_skip_evidence(mut self) -> Self {
        self.verifier.check = EvidenceCheck::Skip;
        self
    }

    /// Has provenance trusted as it claims, as the reference's `strict_trust=False`: whoever writes the proposal then
    /// says what is trusted. Refused under the strict profile.
    pub const fn dangerous_trust_as_claimed(mut self) -> Self {
        self.verifier.start = StartingTrust::AsClaimed;
        self
    }

    /// Makes the verifier.
    ///
    /// # Errors
    /// [`VerifierError`] when the profile does not allow what was asked.
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
