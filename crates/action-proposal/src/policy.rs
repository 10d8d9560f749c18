use std::collections::{BTreeMap, BTreeSet};

use countersign_canonical_json::{JsonError, Kind, Limits, Recipe, ValueRef, read};
use countersign_core::ImpactClass;

/// Refusal of a policy file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The bytes are not strict JSON, or exceed the limit.
    #[error("the policy is not strict JSON")]
    Json(#[source] JsonError),
    /// A member is unknown or of another type, or a tool's name is empty.
    #[error("the policy is malformed")]
    Malformed,
    /// An impact class is unknown.
    #[error("unknown impact class in policy")]
    Impact,
}

impl PolicyError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(_) | Self::Malformed => "POLICY_MALFORMED",
            Self::Impact => "POLICY_IMPACT",
        }
    }
}

countersign_core::coded!(PolicyError);

/// Operator's policy: the impact of each tool, and the impacts that need a proposal or evidence.
///
/// The format is PIC/1.0's policy file. It can only tighten: money, privacy and irreversible always need a proposal
/// ([`ProposalVerifier::requires_proposal`](crate::ProposalVerifier::requires_proposal)).
///
/// ```
/// use countersign_action_proposal::ProposalPolicy;
/// use countersign_core::ImpactClass;
/// let policy = ProposalPolicy::from_json(br#"{"impact_by_tool": {"payments_send": "money"}}"#)?;
/// assert_eq!(policy.impact_of("payments_send"), Some(ImpactClass::Money));
/// assert!(policy.requires_evidence(ImpactClass::Money));
/// # Ok::<(), countersign_action_proposal::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalPolicy {
    impacts: BTreeMap<Box<str>, ImpactClass>,
    proposals: BTreeSet<ImpactClass>,
    evidence: BTreeSet<ImpactClass>,
}

/// Lists no tool, and requires a proposal and evidence at money, privacy and irreversible.
impl Default for ProposalPolicy {
    fn default() -> Self {
        Self { impacts: BTreeMap::new(), proposals: high(), evidence: high() }
    }
}

fn high() -> BTreeSet<ImpactClass> {
    ImpactClass::ALL.into_iter().filter(|impact| impact.is_high()).collect()
}

impl ProposalPolicy {
    /// Reads a policy file: an object with any of `impact_by_tool`, `require_pic_for_impacts` and
    /// `require_evidence_for_impacts`. An absent or empty list means the default.
    ///
    /// # Errors
    /// [`PolicyError`] if it is not strict JSON, has other members, or names an unknown impact.
    pub fn from_json(bytes: &[u8]) -> Result<Self, PolicyError> {
        let canonical = read(bytes, Recipe::Jcs1, &Limits::default()).map_err(PolicyError::Json)?;
        let value = canonical.value();
        if value.kind() != Kind::Object {
            return Err(PolicyError::Malformed);
        }
        let mut policy = Self::default();
        for (name, member) in value.members() {
            match name {
                "impact_by_tool" => policy.impacts = impact_by_tool(member)?,
                "require_pic_for_impacts" => policy.proposals = impacts(member)?,
                "require_evidence_for_impacts" => policy.evidence = impacts(member)?,
                _ => return Err(PolicyError::Malformed),
            }
        }
        Ok(policy)
    }

    /// Policy of a verifier without one: lists no tool and requires nothing.
    pub(crate) const fn silent() -> Self {
        Self { impacts: BTreeMap::new(), proposals: BTreeSet::new(), evidence: BTreeSet::new() }
    }

    /// Impact of a tool, if listed. Names are compared byte by byte.
    #[must_use]
    pub fn impact_of(&self, tool: &str) -> Option<ImpactClass> {
        self.impacts.get(tool).copied()
    }

    /// Returns `true` if the policy lists a tool.
    #[must_use]
    pub fn lists_tools(&self) -> bool {
        !self.impacts.is_empty()
    }

    /// Returns `true` if the policy requires a proposal at this impact.
    #[must_use]
    pub fn requires_proposal(&self, impact: ImpactClass) -> bool {
        self.proposals.contains(&impact)
    }

    /// Returns `true` if the policy requires evidence at this impact.
    #[must_use]
    pub fn requires_evidence(&self, impact: ImpactClass) -> bool {
        self.evidence.contains(&impact)
    }
}

fn impact_by_tool(value: ValueRef<'_>) -> Result<BTreeMap<Box<str>, ImpactClass>, PolicyError> {
    if value.kind() != Kind::Object {
        return Err(PolicyError::Malformed);
    }
    let entry = |(tool, impact): (&str, ValueRef<'_>)| {
        if tool.is_empty() {
            return Err(PolicyError::Malformed);
        }
        Ok((Box::from(tool), one_impact(impact)?))
    };
    value.members().map(entry).collect()
}

/// Reads a list of impacts. An empty list means the default, as for the reference, and never *none*.
fn impacts(value: ValueRef<'_>) -> Result<BTreeSet<ImpactClass>, PolicyError> {
    if value.kind() != Kind::Array {
        return Err(PolicyError::Malformed);
    }
    let read: BTreeSet<_> = value.elements().map(one_impact).collect::<Result<_, _>>()?;
    Ok(if read.is_empty() { high() } else { read })
}

fn one_impact(value: ValueRef<'_>) -> Result<ImpactClass, PolicyError> {
    value.as_str().ok_or(PolicyError::Malformed)?.parse().map_err(|_| PolicyError::Impact)
}
