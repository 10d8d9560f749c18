//! Approval of one exact tool call, as a token that can be spent once.
//!
//! Whoever approves mints a token over everything that identifies the call ([`mint`]); the gate verifies it against
//! the call at hand ([`verify`], pure) and burns it at dispatch ([`Approval::spend`]). A token is a ticket for one act:
//! another call id, tool, argument, principal or run, and it is worth nothing.
//!
//! This crate does not decide which calls need approval, does not authenticate the approver, and does not run anything.
//! Time, token ids and keys are arguments, so that an engine that replays its workflow mints the same bytes again. A
//! token does not protect against somebody who has the run's key, nor against an approver who does not read what is
//! shown.

mod binding;
mod denial;
mod error;
mod payload;
mod pending;
mod pending_memory;
mod proposal_summary;
mod spent;
mod spent_memory;
mod token;
mod verify;

#[cfg(test)]
mod tests;

pub use binding::{CallBinding, asker_of_session};
pub use denial::{DenialReason, PendingDenial};
pub use error::{ApprovalError, MintError, PendingError};
pub use pending::{PendingApproval, PendingApprovals, PendingState, SESSION_SILENCE, SessionKind};
pub use pending_memory::MemoryPendingApprovals;
pub use proposal_summary::{ClaimSummary, EvidenceForm, EvidenceSummary, ProposalSummary};
pub use spent::SpentApproval;
pub use spent_memory::MemorySpentTokens;
pub use token::{ApprovalToken, DEFAULT_TTL_CAP, MintTerms, mint};
pub use verify::{Approval, Partial, VerifyTerms, verify};
