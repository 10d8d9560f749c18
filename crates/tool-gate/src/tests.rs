#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

mod alarms;
mod answers;
mod approvals;
mod attacks;
mod counts;
mod denials;
mod endurance;
mod faults;
#[cfg(feature = "metrics")]
mod metrics;
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
mod quarantines;
mod recording;
mod signals;
mod signals_attacks;
mod simulation_cases;
mod simulation_registries;
mod simulation_world;
mod simulations;
mod vectors;
mod windows;
mod world;
