//! Approval of one exact tool call, as a token that can be spent once.
//!
//! An approver mints a token over the facts that identify the call ([`mint`]). The gate verifies it against the actual
//! call ([`verify`], pure) and spends it at dispatch ([`Approval::spend`]). A token approves one act: for another
//! call id, tool, argument, principal or run it is invalid.
//!
//! A grant ([`grant()`]) approves a number of calls of one tool in advance, with arguments in its scope. Each use is spent by itself.
//!
//! This crate does not decide which calls need approval, does not authenticate the approver, and runs nothing. Time,
//! token ids and keys are arguments, so an engine that replays its workflow mints the same bytes again. A token does
//! not protect against a holder of the run's key, nor against an approver who does not read the arguments.

mod approval;
mod denial;
mod edited;
mod error;
mod evidence_question;
mod grant;
mod grants;
mod memory_grants;
mod payload;
mod pending;
mod pending_memory;
mod proposal_summary;
mod several;
mod spent;
mod token;
mod verify;

#[cfg(test)]
mod tests;

pub use approval::Approval;
pub use denial::{DenialReason, PendingDenial};
pub use error::{ApprovalError, MintError, PendingError};
pub use evidence_question::{AttestedProposal, WantedEvidence};
pub use grant::{DEFAULT_GRANT_CAP, GrantFacts, GrantTerms, GrantToken, MAX_GRANT_USES, grant, verify_grant};
pub use grants::{Grants, REVOKED_SKEW, StoredGrant, may_cover};
pub use memory_grants::MemoryGrants;
pub use pending::{
    PendingApproval, PendingApprovals, PendingState, SESSION_SILENCE, SessionKind, asker_of_session, short_id,
};
pub use pending_memory::MemoryPendingApprovals;
pub use proposal_summary::{ClaimSummary, EvidenceForm, EvidenceSummary, ProposalSummary};
pub use several::first_expiry;
pub use spent::{MemorySpentTokens, SpentApproval};
pub use token::{ApprovalToken, DEFAULT_TTL_CAP, MintTerms, mint};
pub use verify::{Partial, VerifyTerms, verify, verify_text};
