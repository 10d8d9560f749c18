#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

mod answers;
mod approvals;
mod attacks;
mod counts;
mod faults;
mod order;
mod plan_faults;
mod plan_starts;
mod plan_world;
mod plans;
mod proposal_backing;
mod proposal_faults;
mod proposal_world;
mod proposals;
mod world;
