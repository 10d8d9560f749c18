//! The gate: decides about every tool call, in one fixed order, fails closed, and puts the decision on record before
//! the caller hears it.
//!
//! One [`ToolGate`] serves one session of one agent on behalf of one principal. A [`ToolCall`] goes in, raw and
//! unchecked; out comes an [`AcceptedCall`], which only the gate can make and which dispatch consumes, or a
//! [`Rejection`] with a stable code.
//!
//! The gate runs no tool by itself, does no network, and cannot tell whether the pinned goal was understood or
//! whether a tool does what its definition says.

mod accepted;
mod builder;
mod call;
mod code;
mod decide;
mod facts;
mod gate;
mod plan;
mod plan_start;
mod proposal;
mod rejection;
mod stats;
mod usage;
mod user_check;

#[cfg(test)]
mod tests;

pub use accepted::{AcceptedCall, InFlight};
pub use builder::{ApprovalSettings, GateLimits, OpenError, ToolGateBuilder};
pub use call::ToolCall;
pub use code::{RejectionCode, Retry};
pub use countersign_audit_log::OutcomeKind;
pub use gate::{CallError, ToolGate, UndisclosedAttempts};
pub use plan::FinishPlanError;
pub use plan_start::{PlanSettings, StartPlanError, commit_plan};
pub use proposal::{PROPOSAL_MEMBER, ProposalSettings, REQUEST_ID_MEMBER, own_arguments};
pub use rejection::{ApprovalRequest, Rejection};
pub use stats::{CallStats, Counts, Window};
pub use user_check::{CheckedCall, UserCheck};
