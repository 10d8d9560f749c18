//! Plans of tool calls, committed before the first call runs, so that a tool's result cannot change the calls after it.
//!
//! 1. [`Plan::from_json`] parses a plan strictly; [`Plan::new`] creates one.
//! 2. [`Plan::commit`] checks it against the operator's rules ([`PlanContract`]) and commits it as a Merkle tree (RFC
//!    9162) over its header and its steps. Its [`PlanRoot`] identifies it.
//! 3. [`PlanCursor`] accepts only the plan's next call and halts at the first breach, or after several
//!    ([`OnBreach`]). On another machine, [`RootCursor`] checks calls by [`StepProof`]s and the root alone.
//! 4. [`PlanCursor::finish`] recomputes the root and returns the results of the tools ([`VerifiedTrace`]). The
//!    planner sees no result before.
//!
//! This crate does not run tools, query models or verify approvals, and does not judge whether a plan is good. The
//! caller may fill an open argument ([`DYNAMIC`]) with any value, so the [`PlanContract`] must allow only data to be
//! left open.

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
