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

mod amend;
mod breach;
mod commit;
mod cursor;
mod error;
mod header;
mod json;
mod limits;
mod open;
mod plan;
mod progress;
mod proof;
mod root;
mod root_cursor;
mod step;
mod trace;
mod turn;

#[cfg(test)]
mod tests;

pub use amend::PlannedAmendment;
pub use breach::{Breaches, BreachesError, OnBreach, PlanBreach};
pub use commit::CommittedPlan;
pub use cursor::PlanCursor;
pub use error::{CommitError, FinishError, PlanError, PlanProblem, PlanUseError};
pub use header::{Amends, PlanContext, PlanHeader};
pub use limits::PlanLimits;
pub use open::{DYNAMIC, OpenPlace};
pub use plan::{Plan, PlanContract};
pub use proof::{HeaderProof, StepProof, VerifiedHeader, VerifiedStep};
pub use root::{PlanRoot, PlanSealError};
pub use root_cursor::{PlannedRoot, RootCursor};
pub use step::Step;
pub use trace::{TraceStep, VerifiedTrace};
pub use turn::{PlannedCall, StepCall, StepRun};
