use std::fmt;

/// Part of a call's evidence that is missing, and that a person's attestation could supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EvidenceGap {
    /// The call came without an action proposal.
    Proposal,
    /// The proposal has no evidence.
    Evidence,
    /// No claim of the proposal cites a trusted input.
    TrustedClaim,
    /// Fewer keys signed the evidence than the keyring asks for.
    Signatures,
}

impl EvidenceGap {
    /// The stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposal => "proposal",
            Self::Evidence => "evidence",
            Self::TrustedClaim => "trusted_claim",
            Self::Signatures => "signatures",
        }
    }

    /// Fixed words for the missing part, safe for a model.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Proposal => "an action proposal",
            Self::Evidence => "evidence in the action proposal",
            Self::TrustedClaim => "a claim that cites a trusted input",
            Self::Signatures => "signatures of more keys",
        }
    }
}

impl fmt::Display for EvidenceGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
