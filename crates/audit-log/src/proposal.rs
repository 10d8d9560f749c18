use countersign_core::Digest;

use crate::Escaped;

/// The most pieces of evidence that one record holds: as many as a proposal has under its own limits.
const MAX_EVIDENCE: usize = 64;

/// What backed a call: the action proposal that came with it, by digest, and the evidence that verified. In every
/// decision of a gate that takes proposals, if only to say how they are judged there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProposalRecord {
    /// How proposals are judged.
    pub profile: Escaped<32>,
    /// Digest of the proposal; none when none was read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
    /// Digest of the intent that it states.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub intent: Option<Digest>,
    /// The effective impact, the strictest that anybody says: where a proposal verified, or where the policy says more
    /// than the registry, whether or not one came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub impact: Option<Escaped<32>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    evidence: Vec<EvidenceRecord>,
    #[serde(skip_serializing_if = "is_zero", default)]
    omitted: u64,
}

impl ProposalRecord {
    /// Makes one that says no more than how proposals are judged.
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

    /// Sets the evidence: what was signed, then files, at most 64 pieces and the number of the others.
    ///
    /// The agent says in which order they come, so files alone must not push out who signed.
    pub fn set_evidence(&mut self, evidence: impl IntoIterator<Item = EvidenceRecord>) {
        let (signed, files): (Vec<_>, Vec<_>) =
            evidence.into_iter().partition(|piece| piece.kind == EvidenceKind::Sig);
        let mut all = signed.into_iter().chain(files);
        self.evidence = all.by_ref().take(MAX_EVIDENCE).collect();
        self.omitted = all.count().try_into().unwrap_or(u64::MAX);
    }

    /// The evidence that verified: what was signed, then files, each in the proposal's order, at most 64 pieces.
    #[must_use]
    pub fn evidence(&self) -> &[EvidenceRecord] {
        &self.evidence
    }

    /// How many more pieces there were.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a piece of evidence verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EvidenceKind {
    /// A file, by the digest of its bytes.
    Hash,
    /// Something signed.
    Sig,
}

/// One piece of evidence that verified.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EvidenceRecord {
    /// Its id in the proposal.
    pub id: Escaped<128>,
    /// How it verified.
    pub kind: EvidenceKind,
    /// Digest of the file, or of the bytes that were signed.
    pub digest: Digest,
    /// Id of the key that signed; none for a file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<Escaped<128>>,
    /// Id of the endorsement of which the call took a use; none where it took none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endorsement: Option<Digest>,
    /// Which of the endorsement's uses the call took, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endorsement_use: Option<u32>,
}

impl EvidenceRecord {
    /// Makes one of a file.
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

    /// Makes one of a file for which the call took that use of an endorsement.
    #[must_use]
    pub fn endorsed(id: &str, digest: Digest, endorsement: Digest, number: u32) -> Self {
        Self { endorsement: Some(endorsement), endorsement_use: Some(number), ..Self::hash(id, digest) }
    }

    /// Makes one of something signed.
    #[must_use]
    pub fn signature(id: &str, digest: Digest, key: &str) -> Self {
        Self { kind: EvidenceKind::Sig, key: Some(key.into()), ..Self::hash(id, digest) }
    }
}
