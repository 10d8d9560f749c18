use std::borrow::Cow;
use std::fmt;

use countersign_core::{Coded, EvidenceGap};

/// Refusal code of a proposal. The `PIC_*` names come from the `errors` registry of PIC/1.0 and are never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProposalCode {
    /// A required proposal is missing, or the input is not an object.
    InvalidRequest,
    /// The proposal or its evidence exceeds a limit of bytes, items or time.
    LimitExceeded,
    /// The proposal is not strict JSON, or violates the PIC/1.0 schema.
    SchemaInvalid,
    /// Two inputs, or two pieces of evidence, have the same id.
    DuplicateId,
    /// The proposal is for another tool.
    ToolBindingMismatch,
    /// The proposal is for other arguments.
    ArgBindingMismatch,
    /// The operator's policy does not list the tool.
    PolicyViolation,
    /// The proposal states a lower impact than the operator does. Countersign's own code.
    ImpactUnderstated,
    /// The impact requires evidence, and the proposal has none.
    EvidenceRequired,
    /// A piece of evidence does not verify.
    EvidenceFailed,
    /// No claim of a high-impact proposal cites a trusted input.
    VerifierFailed,
    /// Internal failure. Refuses like the others.
    InternalError,
}

impl ProposalCode {
    /// Every code, in the order of the checks.
    pub const ALL: [Self; 12] = [
        Self::InvalidRequest,
        Self::LimitExceeded,
        Self::SchemaInvalid,
        Self::DuplicateId,
        Self::ToolBindingMismatch,
        Self::ArgBindingMismatch,
        Self::PolicyViolation,
        Self::ImpactUnderstated,
        Self::EvidenceRequired,
        Self::EvidenceFailed,
        Self::VerifierFailed,
        Self::InternalError,
    ];

    /// The stable text of the code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "PIC_INVALID_REQUEST",
            Self::LimitExceeded => "PIC_LIMIT_EXCEEDED",
            Self::SchemaInvalid => "PIC_SCHEMA_INVALID",
            Self::DuplicateId => "PIC_DUPLICATE_ID",
            Self::ToolBindingMismatch => "PIC_TOOL_BINDING_MISMATCH",
            Self::ArgBindingMismatch => "PIC_ARG_BINDING_MISMATCH",
            Self::PolicyViolation => "PIC_POLICY_VIOLATION",
            Self::ImpactUnderstated => "IMPACT_UNDERSTATED",
            Self::EvidenceRequired => "PIC_EVIDENCE_REQUIRED",
            Self::EvidenceFailed => "PIC_EVIDENCE_FAILED",
            Self::VerifierFailed => "PIC_VERIFIER_FAILED",
            Self::InternalError => "PIC_INTERNAL_ERROR",
        }
    }

    /// Fixed sentence, safe for a model: it names no value, key or path.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::InvalidRequest => "an action proposal is required",
            Self::LimitExceeded => "the proposal or its evidence is over a limit",
            Self::SchemaInvalid => "the proposal is not of the PIC/1.0 schema",
            Self::DuplicateId => "two entries of the proposal have one id",
            Self::ToolBindingMismatch => "the proposal is for another tool",
            Self::ArgBindingMismatch => "the proposal is for other arguments",
            Self::PolicyViolation => "the operator's policy does not list the tool",
            Self::ImpactUnderstated => "the proposal understates the impact",
            Self::EvidenceRequired => "the impact needs evidence and the proposal has none",
            Self::EvidenceFailed => "evidence does not verify",
            Self::VerifierFailed => "no claim is backed by a trusted input",
            Self::InternalError => "the proposal could not be verified",
        }
    }
}

impl fmt::Display for ProposalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Refusal: its code, and for the record the place and the broken rule. Never a value.
///
/// `Display` writes the code's fixed sentence, which a model may see. A model must not see [`detail`](Self::detail).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ProposalError {
    code: ProposalCode,
    place: Cow<'static, str>,
    rule: Cow<'static, str>,
    gap: Option<EvidenceGap>,
}

impl ProposalError {
    /// `place` is a JSON Pointer into the proposal, or the name of the checked object; `rule` states the requirement.
    pub(crate) fn new(
        code: ProposalCode,
        place: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code, place: place.into(), rule: rule.into(), gap: None }
    }

    /// Notes that an attestation could fill a gap.
    pub(crate) fn lacking(self, gap: EvidenceGap) -> Self {
        Self { gap: Some(gap), ..self }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ProposalCode {
        self.code
    }

    /// Missing part of the evidence that an attestation could supply; `None` if the refusal has another cause.
    #[must_use]
    pub const fn gap(&self) -> Option<EvidenceGap> {
        self.gap
    }

    /// JSON Pointer (RFC 6901) into the proposal, or the name of the checked object.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Requirement that was not met there.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Place and rule, for the record and for debugging. Do not show it to a model.
    #[must_use]
    pub fn detail(&self) -> String {
        format!("{}: {}", self.place, self.rule)
    }
}

impl Coded for ProposalError {
    fn code(&self) -> &'static str {
        self.code.as_str()
    }
}

impl fmt::Display for ProposalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.message())
    }
}
