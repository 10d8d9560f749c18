//! A plan of tool calls, committed before the first of them runs, so that nothing that a tool returns can move what
//! comes next.
//!
//! A [`Plan`] is read strictly or put together ([`Plan::from_json`], [`Plan::new`]), checked against what the operator
//! allows ([`Plan::commit`], [`PlanContract`]) and committed as a Merkle tree (RFC 9162) over its header and its steps: from
//! then on it is its [`PlanRoot`]. A [`PlanCursor`] lets through the plan's next call and no other, and halts at the first breach, or after several ([`OnBreach`]).
//! [`StepProof`] proves one step from the root alone, for a gate on another machine, where a [`RootCursor`] holds calls to it. [`PlanCursor::finish`] recomputes the root and
//! gives out what the tools returned ([`VerifiedTrace`]): before that, whoever planned sees none of it.
//!
//! This crate does not run tools, does not ask models, and does not know who approves. It holds a plan to its word; it does not
//! say whether the plan is a good one. What a step leaves open ([`DYNAMIC`]) is whatever the caller fills in: only
//! arguments that are data may be left open, which is for the [`PlanContract`] to say.

mod admit;
mod amend;
mod breach;
mod commit;
mod contract;
mod cursor;
mod cursor_error;
mod error;
mod header;
mod header_proof;
mod limits;
mod on_breach;
mod open;
mod place;
mod plan;
mod progress;
mod proof;
mod read;
mod root;
mod root_cursor;
mod step;
mod trace;
mod turn;

#[cfg(test)]
mod tests;

pub use amend::PlannedAmendment;
pub use breach::PlanBreach;
pub use commit::CommittedPlan;
pub use contract::PlanContract;
pub use cursor::PlanCursor;
pub use cursor_error::{FinishError, PlanUseError};
pub use error::{CommitError, PlanError, PlanProblem};
pub use header::{Amends, PlanContext, PlanHeader};
pub use header_proof::{HeaderProof, VerifiedHeader};
pub use limits::PlanLimits;
pub use on_breach::{Breaches, BreachesError, OnBreach};
pub use open::DYNAMIC;
pub use place::OpenPlace;
pub use plan::Plan;
pub use proof::{StepProof, VerifiedStep};
pub use root::{PlanRoot, PlanSealError};
pub use root_cursor::{PlannedRoot, RootCursor};
pub use step::Step;
pub use trace::{TraceStep, VerifiedTrace};
pub use turn::{PlannedCall, StepCall, StepRun};
