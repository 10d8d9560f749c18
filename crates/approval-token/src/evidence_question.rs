use std::fmt;

use countersign_core::{EvidenceGap, ImpactClass, OperatorId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::PendingError;

/// Longest proposal of a question or of its answer, in bytes: that of PIC/1.0.
const MAX_PROPOSAL: usize = 64_000;

/// Longest id of a signing key, in bytes.
const MAX_KEY: usize = 256;

/// Evidence that a waiting call lacks: the missing part, and the action proposal as it came. The agent wrote the proposal.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WireWanted")]
pub struct WantedEvidence {
    missing: EvidenceGap,
    impact: ImpactClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<Box<str>>,
}

impl WantedEvidence {
    /// Names the missing part and the operator's impact of the tool.
    #[must_use]
    pub const fn new(missing: EvidenceGap, impact: ImpactClass) -> Self {
        Self { missing, impact, proposal: None }
    }

    /// Adds the text of the proposal that came with the call. A text over the limit of PIC/1.0 is left out.
    #[must_use]
    pub fn proposal(self, text: &str) -> Self {
        Self { proposal: (text.len() <= MAX_PROPOSAL).then(|| text.into()), ..self }
    }

    /// Missing part of the evidence.
    #[must_use]
    pub const fn missing(&self) -> EvidenceGap {
        self.missing
    }

    /// Impact of the tool, as the operator states it.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// Proposal that came with the call; `None` if none came.
    #[must_use]
    pub fn proposal_text(&self) -> Option<&str> {
        self.proposal.as_deref()
    }

    pub(crate) fn len(&self) -> usize {
        self.proposal.as_deref().map_or(0, str::len)
    }
}

/// why: the agent wrote the proposal, so it is not printed.
impl fmt::Debug for WantedEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedEvidence")
            .field("missing", &self.missing)
            .field("impact", &self.impact)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireWanted {
    missing: EvidenceGap,
    impact: ImpactClass,
    #[serde(default)]
    proposal: Option<Box<str>>,
}

/// why: a store is untrusted input, so its text keeps the same limits.
impl TryFrom<WireWanted> for WantedEvidence {
    type Error = PendingError;

    fn try_from(wire: WireWanted) -> Result<Self, PendingError> {
        let WireWanted { missing, impact, proposal } = wire;
        if proposal.as_deref().is_some_and(|text| text.len() > MAX_PROPOSAL) {
            return Err(PendingError::Proposal);
        }
        Ok(Self { missing, impact, proposal })
    }
}

/// A person's answer to a question for evidence: the whole proposal, with a signed attestation to this call in it.
///
/// A store decides nothing: the gate verifies the proposal like any other.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WireAttested")]
pub struct AttestedProposal {
    proposal: Box<str>,
    expires: Timestamp,
    key: Box<str>,
    by: OperatorId,
}

impl AttestedProposal {
    /// Takes the proposal, the end of its attestation, the id of the key that signed it, and the person who answered.
    ///
    /// # Errors
    /// [`PendingError::Proposal`] if a text is empty or over its limit.
    pub fn new(proposal: &str, expires: Timestamp, key: &str, by: OperatorId) -> Result<Self, PendingError> {
        let fits = |text: &str, most| (1..=most).contains(&text.len());
        if !fits(proposal, MAX_PROPOSAL) || !fits(key, MAX_KEY) {
            return Err(PendingError::Proposal);
        }
        Ok(Self { proposal: proposal.into(), expires, key: key.into(), by })
    }

    /// The whole proposal.
    #[must_use]
    pub fn proposal(&self) -> &str {
        &self.proposal
    }

    /// First moment at which the attestation no longer counts.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Id of the key that signed it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Person who answered.
    #[must_use]
    pub const fn by(&self) -> &OperatorId {
        &self.by
    }
}

/// why: the proposal may hold personal data.
impl fmt::Debug for AttestedProposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttestedProposal")
            .field("expires", &self.expires)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireAttested {
    proposal: Box<str>,
    expires: Timestamp,
    key: Box<str>,
    by: OperatorId,
}

impl TryFrom<WireAttested> for AttestedProposal {
    type Error = PendingError;

    fn try_from(wire: WireAttested) -> Result<Self, PendingError> {
        Self::new(&wire.proposal, wire.expires, &wire.key, wire.by)
    }
}
