use std::borrow::Cow;

use countersign_action_proposal::{SpentProposal, VerifiedEvidence};
use countersign_approval_token::{Partial, PendingError, ProposalSummary, SpentApproval, WantedEvidence};
use countersign_audit_log::Escaped;
use countersign_canonical_json::Canonical;
use countersign_core::{Approvers, CallFacts, Coded, EvidenceGap, Timestamp};

use crate::code::{RejectionCode, Retry};

/// A refused call. Only [`code`](Self::code), [`message`](Self::message), [`retry`](Self::retry) and
/// [`unlock`](Self::unlock) may go back to the agent; the full reason is in the record.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub(crate) code: RejectionCode,
    pub(crate) call_id: Escaped<256>,
    pub(crate) sequence: Option<u64>,
    pub(crate) approval_request: Option<Box<ApprovalRequest>>,
    pub(crate) gap: Option<EvidenceGap>,
    /// Whether this refusal halted the plan.
    pub(crate) halted: bool,
    pub(crate) used: UsedUp,
}

impl Rejection {
    pub(crate) fn new(code: RejectionCode, call_id: impl Into<Escaped<256>>, sequence: Option<u64>) -> Self {
        Self {
            code,
            call_id: call_id.into(),
            sequence,
            approval_request: None,
            gap: None,
            halted: false,
            used: UsedUp::default(),
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> RejectionCode {
        self.code
    }

    /// Returns one fixed sentence for the agent.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        self.code.message()
    }

    /// Returns whether another try can help. A refusal that halted the plan answers as `PLAN_HALTED`.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        self.advice().retry()
    }

    /// Returns the condition that would unlock the call, if one exists.
    #[must_use]
    pub const fn unlock(&self) -> Option<&'static str> {
        self.advice().unlock()
    }

    /// Returns the code that determines the advice to the agent.
    const fn advice(&self) -> RejectionCode {
        if self.halted { RejectionCode::PlanHalted } else { self.code }
    }

    /// Returns the call's id as the call gave it: at most 256 bytes, with invisible characters escaped.
    #[must_use]
    pub fn call_id(&self) -> &str {
        self.call_id.as_str()
    }

    /// Returns the sequence number of the decision's record; `None` if it could not be recorded, or is beyond the rate
    /// of refusals and recorded in a sum.
    #[must_use]
    pub const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Returns `true` if this call used up its approval before it was refused. It stays spent: another try needs a new
    /// one.
    #[must_use]
    pub const fn approval_spent(&self) -> bool {
        self.used.approval
    }

    /// Returns `true` if this call used up its attestations before it was refused. They stay spent: another try needs new
    /// ones.
    #[must_use]
    pub const fn attestation_spent(&self) -> bool {
        self.used.attestation
    }

    /// Returns the approval request, if only an approval is missing. It is for the host that asks a person, never for
    /// the agent. Ask only if the refusal has a [number](Self::sequence): every question has an entry.
    #[must_use]
    pub fn approval_request(&self) -> Option<&ApprovalRequest> {
        self.approval_request.as_deref().filter(|request| request.needs_approval())
    }

    /// Returns the request for a person's answer of any kind: an approval, or an attestation if the desk takes those
    /// ([`ApprovalDesk::takes_evidence`]).
    #[must_use]
    pub fn question(&self) -> Option<&ApprovalRequest> {
        self.approval_request.as_deref()
    }

    /// Returns the missing part of the evidence, if the call was refused for it and an attestation would help.
    #[must_use]
    pub const fn gap(&self) -> Option<EvidenceGap> {
        self.gap
    }
}

impl Coded for Rejection {
    fn code(&self) -> &'static str {
        self.code.as_str()
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.code.message())
    }
}

impl std::error::Error for Rejection {}

/// Request for a person's answer to one call: the binding that a token must have, and the arguments to show. It asks for an
/// approval, for an attestation, or for both.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    pub(crate) binding: CallFacts,
    pub(crate) args: Canonical,
    pub(crate) session_ends: Timestamp,
    /// Whether a token may leave out optional bindings.
    pub(crate) partial: Partial,
    pub(crate) proposal: Option<Box<ProposalSummary>>,
    pub(crate) takes_grants: bool,
    pub(crate) needs_approval: bool,
    pub(crate) evidence: Option<Box<WantedEvidence>>,
    pub(crate) approvers: Option<Box<Approvers>>,
}

impl ApprovalRequest {
    /// Returns `true` if an approval is missing.
    #[must_use]
    pub const fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Returns the evidence that is missing, if an attestation would help.
    #[must_use]
    pub fn evidence(&self) -> Option<&WantedEvidence> {
        self.evidence.as_deref()
    }

    /// Returns the binding that the token must have.
    #[must_use]
    pub const fn binding(&self) -> &CallFacts {
        &self.binding
    }

    /// Returns the arguments as the gate read them.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// Returns a summary of the proposal that came with the call, for the person who is asked; `None` if the call had
    /// no proposal. An approval does not bind the proposal.
    #[must_use]
    pub fn proposal(&self) -> Option<&ProposalSummary> {
        self.proposal.as_deref()
    }

    /// Returns whether a grant can cover the call: the gate accepts grants, and the tool's rule does not ask for an approval of
    /// each call.
    #[must_use]
    pub const fn takes_grants(&self) -> bool {
        self.takes_grants
    }

    /// Returns the persons who may approve the call, and how many of them must; `None` if one approval of anyone with the
    /// gate's key is enough.
    #[must_use]
    pub fn approvers(&self) -> Option<&Approvers> {
        self.approvers.as_deref()
    }

    /// Returns the end of the call's session: until then, a denial of the call counts.
    #[must_use]
    pub const fn session_ends(&self) -> Timestamp {
        self.session_ends
    }
}

/// Asks a person for the approval that a call needs ([`ToolGate::check_asking`](crate::ToolGate::check_asking)).
///
/// The gate asks before it records the refusal, so that the record has the code that the agent gets.
pub trait ApprovalDesk {
    /// Files the question, unless it is filed already.
    ///
    /// # Errors
    /// [`NotFiled`], which decides the code of the refusal.
    fn file(&self, request: &ApprovalRequest) -> Result<(), NotFiled>;

    /// Returns `true` if the desk also asks for an attestation that alone is missing. By default it does not.
    fn takes_evidence(&self) -> bool {
        false
    }

    /// Withdraws the question that was filed last, because the refusal could not be recorded. One that was filed before
    /// stays.
    fn withdraw(&self, request: &ApprovalRequest);
}

/// Why a question was not filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFiled {
    /// Too many questions wait: `APPROVALS_FULL`.
    Full,
    /// A person denied the call before: `APPROVAL_DENIED`.
    Denied,
    /// Another question has the call's id. The code stays the same: another id helps.
    IdInUse,
    /// The store of questions failed: `STORE_UNAVAILABLE`.
    Unavailable,
}

impl From<&PendingError> for NotFiled {
    fn from(error: &PendingError) -> Self {
        match error {
            PendingError::Denied => Self::Denied,
            PendingError::Full => Self::Full,
            PendingError::Conflict => Self::IdInUse,
            PendingError::Unavailable(_) | _ => Self::Unavailable,
        }
    }
}

/// Why [`ToolGate::call`](crate::ToolGate::call) or [`AcceptedCall::run`](crate::AcceptedCall::run) returned no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The gate refused; the tool did not run.
    #[error("the call was refused")]
    Rejected(#[from] Rejection),
    /// The tool ran and failed.
    #[error("the tool failed")]
    Tool(E),
}

/// Approval and attestations that a call has used up, whether or not it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsedUp {
    pub(crate) approval: bool,
    pub(crate) attestation: bool,
}

impl UsedUp {
    pub(crate) fn of(approval: Option<&SpentApproval>, proposal: Option<&SpentProposal>) -> Self {
        let is_single_use = |evidence: &VerifiedEvidence| evidence.attestation().is_some();
        Self {
            approval: approval.is_some(),
            attestation: proposal.is_some_and(|proposal| proposal.evidence().iter().any(is_single_use)),
        }
    }

    /// Returns the addition to the reason of a refusal.
    pub(crate) const fn text(self) -> &'static str {
        match (self.approval, self.attestation) {
            (false, false) => "",
            (true, false) => "; the approval is spent",
            (false, true) => "; the attestation is spent",
            (true, true) => "; approval and attestation are spent",
        }
    }
}

impl From<RejectionCode> for Refusal {
    fn from(code: RejectionCode) -> Self {
        Self::new(code, "")
    }
}

/// A refused check, with the reason for the record.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) code: RejectionCode,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) approval_request: Option<Box<ApprovalRequest>>,
    pub(crate) gap: Option<EvidenceGap>,
    /// Whether the refusal halted the plan.
    pub(crate) halted: bool,
}

impl Refusal {
    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> RejectionCode {
        self.code
    }

    pub(crate) fn new(code: RejectionCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into(), approval_request: None, gap: None, halted: false }
    }

    /// Notes the missing part of the evidence.
    pub(crate) fn lacking(self, gap: Option<EvidenceGap>) -> Self {
        Self { gap, ..self }
    }

    /// Notes for the record that an earlier check had accepted the call.
    pub(crate) fn meanwhile(mut self, used: UsedUp) -> Self {
        self.reason = format!("meanwhile: {}{}", self.reason, used.text()).into();
        self
    }
}
