//! Simulations against real gates. The worlds are those of the gate's own tests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a helper of tests fails by panicking"
)]

use countersign_simulate::*;
use countersign_tool_gate::*;

mod bounded_schemas;
mod cases;
mod lines;
#[path = "../../../tool-gate/src/tests/plan_world.rs"]
#[expect(dead_code, reason = "shared with the tests of the gate")]
mod plan_world;
#[path = "../../../tool-gate/src/tests/proposal_world.rs"]
#[expect(dead_code, reason = "shared with the tests of the gate")]
mod proposal_world;
mod reasons;
mod registries;
mod sessions;
mod simulations;
mod two_gates;
#[path = "../../../tool-gate/src/tests/world.rs"]
mod world;
