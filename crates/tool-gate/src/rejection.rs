use std::borrow::Cow;

use countersign_action_proposal::{SpentProposal, VerifiedEvidence};
use countersign_approval_token::{CallBinding, Partial, ProposalSummary, SpentApproval};
use countersign_audit_log::Escaped;
use countersign_canonical_json::Canonical;
use countersign_core::Timestamp;

use crate::code::{RejectionCode, Retry};

/// Says no to a call. All that may go back to the agent is in [`code`](Self::code), [`message`](Self::message),
/// [`retry`](Self::retry) and [`unlock`](Self::unlock); the reason in full is on the record.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub(crate) code: RejectionCode,
    pub(crate) call_id: Escaped<256>,
    pub(crate) sequence: Option<u64>,
    pub(crate) approval_request: Option<Box<ApprovalRequest>>,
    /// Whether this refusal halted the plan.
    pub(crate) halted: bool,
    pub(crate) used: UsedUp,
}

impl Rejection {
    pub(crate) fn new(code: RejectionCode, call_id: &str, sequence: Option<u64>) -> Self {
        Self {
            code,
            call_id: call_id.into(),
            sequence,
            approval_request: None,
            halted: false,
            used: UsedUp::default(),
        }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> RejectionCode {
        self.code
    }

    /// One fixed sentence for the agent.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        self.code.message()
    }

    /// Whether trying again can help. A refusal that halted the plan answers for the halted plan, not for its own code.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        self.advice().retry()
    }

    /// What would unlock the call, where anything would.
    #[must_use]
    pub const fn unlock(&self) -> Option<&'static str> {
        self.advice().unlock()
    }

    /// The code that says what the agent can do about it.
    const fn advice(&self) -> RejectionCode {
        if self.halted { RejectionCode::PlanHalted } else { self.code }
    }

    /// The call's id as the call gave it, hidden characters spelled out, at most 256 bytes of it.
    #[must_use]
    pub fn call_id(&self) -> &str {
        self.call_id.as_str()
    }

    /// The number of the decision's record; nothing when it could not be recorded, or is beyond the rate of refusals and recorded in
    /// a sum.
    #[must_use]
    pub const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Whether this call used up its approval before it was refused. It stays spent: another try needs a new one.
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

    /// What an approver would have to approve, where an approval is all that is missing. For the host that asks a
    /// person, never for the agent. Ask only where the refusal has a [number](Self::sequence): a question has an entry.
    #[must_use]
    pub fn approval_request(&self) -> Option<&ApprovalRequest> {
        self.approval_request.as_deref()
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.code.message())
    }
}

impl std::error::Error for Rejection {}

/// Names everything that an approval token for one call has to bind, with the arguments to show to the approver.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    pub(crate) binding: CallBinding,
    pub(crate) args: Canonical,
    pub(crate) session_ends: Timestamp,
    /// Whether a token may leave out optional bindings.
    pub(crate) partial: Partial,
    pub(crate) proposal: Option<Box<ProposalSummary>>,
}

impl ApprovalRequest {
    /// What the token must bind.
    #[must_use]
    pub const fn binding(&self) -> &CallBinding {
        &self.binding
    }

    /// The arguments as the gate read them.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// What the gate found of the proposal that came with the call, for the person who is asked. An approval does not bind
    /// it. None where no proposal came.
    #[must_use]
    pub fn proposal(&self) -> Option<&ProposalSummary> {
        self.proposal.as_deref()
    }

    /// When the session ends that the call is made in: until then, a no to it counts.
    #[must_use]
    pub const fn session_ends(&self) -> Timestamp {
        self.session_ends
    }
}

/// Asks a person for the approval that a call needs ([`ToolGate::check_asking`](crate::ToolGate::check_asking)).
///
/// The gate asks before it records the refusal, so that the record has the code that the agent gets.
pub trait ApprovalDesk {
    /// Files the question, where it is not filed already.
    ///
    /// # Errors
    /// [`NotFiled`], which decides the code of the refusal.
    fn file(&self, request: &ApprovalRequest) -> Result<(), NotFiled>;

    /// Takes the question back that was filed last: the refusal could not be recorded. One that was filed before stays.
    fn withdraw(&self, request: &ApprovalRequest);
}

/// Why a question is not filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFiled {
    /// So many questions wait that there is no room: `APPROVALS_FULL`.
    Full,
    /// A person denied it before: `APPROVAL_DENIED`.
    Denied,
    /// The call's id is that of another question. The code stays: another id helps.
    IdInUse,
    /// The store of questions failed: `STORE_UNAVAILABLE`.
    Unavailable,
}

/// Why [`ToolGate::call`](crate::ToolGate::call) or [`AcceptedCall::run`](crate::AcceptedCall::run) gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The gate refused; the tool was not touched.
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

    /// Words for the reason of a refusal.
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
pub(crate) struct Refusal {
    pub(crate) code: RejectionCode,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) approval_request: Option<Box<ApprovalRequest>>,
    /// Whether the refusal halted the plan.
    pub(crate) halted: bool,
}

impl Refusal {
    pub(crate) fn new(code: RejectionCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into(), approval_request: None, halted: false }
    }

    /// Notes for the record that the call had passed before.
    pub(crate) fn meanwhile(mut self, used: UsedUp) -> Self {
        self.reason = format!("meanwhile: {}{}", self.reason, used.text()).into();
        self
    }
}
