use countersign_core::Digest;

use crate::Escaped;

/// Most pieces of evidence in one record: as many as the limits of a proposal allow.
const MAX_EVIDENCE: usize = 64;

/// Basis of a call: the digest of its action proposal, and the evidence that verified. Every decision of a gate that
/// accepts proposals has one, if only for the profile.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProposalRecord {
    /// Profile by which proposals are judged.
    pub profile: Escaped<32>,
    /// Digest of the proposal; `None` if no proposal was read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
    /// Digest of the intent stated in the proposal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub intent: Option<Digest>,
    /// Effective impact: the strictest of all that apply. Set if a proposal verified, or if the policy is stricter than
    /// the registry, with or without a proposal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub impact: Option<Escaped<32>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    evidence: Vec<EvidenceRecord>,
    #[serde(skip_serializing_if = "is_zero", default)]
    omitted: u64,
}

impl ProposalRecord {
    /// Builds one that has only the profile.
    #[must_use]
    pub fn new(profile: &str) -> Self {
        Self {
            profile: profile.into(),
            digest: None,
            intent: None,
            impact: None,
            evidence: Vec::new(),
            omitted: 0,
        }
    }

    /// Sets the evidence: signed pieces first, then files, at most 64 pieces and the number of the rest.
    ///
    /// The agent chooses the order of pieces, so files alone must not push out the signers.
    pub fn set_evidence(&mut self, evidence: impl IntoIterator<Item = EvidenceRecord>) {
        let (signed, files): (Vec<_>, Vec<_>) =
            evidence.into_iter().partition(|piece| piece.kind == EvidenceKind::Sig);
        let mut all = signed.into_iter().chain(files);
        self.evidence = all.by_ref().take(MAX_EVIDENCE).collect();
        self.omitted = all.count().try_into().unwrap_or(u64::MAX);
    }

    /// Evidence that verified: signed pieces first, then files, each in the proposal's order; at most 64 pieces.
    #[must_use]
    pub fn evidence(&self) -> &[EvidenceRecord] {
        &self.evidence
    }

    /// Number of pieces left out.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Method by which a piece of evidence verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EvidenceKind {
    /// By the digest of a file's bytes.
    Hash,
    /// By a signature.
    Sig,
}

/// One piece of evidence that verified.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EvidenceRecord {
    /// Id of the piece in the proposal.
    pub id: Escaped<128>,
    /// Method by which it verified.
    pub kind: EvidenceKind,
    /// Digest of the file, or of the signed bytes.
    pub digest: Digest,
    /// Id of the signing key; `None` for a file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<Escaped<128>>,
    /// Id of the endorsement that the call used; `None` if it used no endorsement.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endorsement: Option<Digest>,
    /// Number of the endorsement's use that the call took, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endorsement_use: Option<u32>,
}

impl EvidenceRecord {
    /// Builds the record of a file.
    #[must_use]
    pub fn hash(id: &str, digest: Digest) -> Self {
        Self {
            id: id.into(),
            kind: EvidenceKind::Hash,
            digest,
            key: None,
            endorsement: None,
            endorsement_use: None,
        }
    }

    /// Builds the record of a file for which the call took a use of an endorsement.
    #[must_use]
    pub fn endorsed(id: &str, digest: Digest, endorsement: Digest, number: u32) -> Self {
        Self { endorsement: Some(endorsement), endorsement_use: Some(number), ..Self::hash(id, digest) }
    }

    /// Builds the record of a signed piece.
    #[must_use]
    pub fn signature(id: &str, digest: Digest, key: &str) -> Self {
        Self { kind: EvidenceKind::Sig, key: Some(key.into()), ..Self::hash(id, digest) }
    }
}
