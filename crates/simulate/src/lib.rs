//! Decides recorded calls again under another registry: what would a changed registry have refused or let through?
//!
//! [`Simulation`] takes the entries of a record in order, and returns for each decision whether its answer would have
//! been the same. It walks [`GateStep::ALL`](countersign_tool_gate::GateStep::ALL), the order of the gate, with the
//! gate's own [rules](countersign_tool_gate::rules). It repeats none of them, and guesses no input that is not recorded.
//!
//! The crate runs no tool, reads no clock and no file, and has no effect on any gate.

mod answer;
mod redecide;
mod session;
mod simulation;

pub use answer::{Answer, Basis, HostChecks, Missing, Simulated};
pub use simulation::Simulation;
