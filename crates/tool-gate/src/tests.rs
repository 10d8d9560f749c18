#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

mod alarms;
mod answers;
mod approvals;
mod attacks;
mod counts;
mod faults;
mod observing;
mod order;
mod plan_amendments;
mod plan_attacks;
mod plan_definitions;
mod plan_faults;
mod plan_halts;
mod plan_roots;
mod plan_starts;
mod plan_world;
mod plans;
mod proposal_backing;
mod proposal_faults;
mod proposal_world;
mod proposals;
mod signals;
mod signals_attacks;
mod windows;
mod world;
