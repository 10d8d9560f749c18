//! Measures a decision beside its floor: the same hashes over the same bytes, in the same run.
//!
//! - `ratios` prints every row of the goal table. Ours and the floor are measured alternately, on one core.
//! - `ratios-memory` counts allocations and bytes, in a process of its own, so that counting costs no row its time.
//! - `ratios-path` repeats one path; `ratios-counts` counts its instructions.
//!
//! The figures depend on the machine, their ratios hardly. Method and results are in `docs/performance.md`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::exhaustive_structs,
    reason = "a bench that cannot be set up has to stop, and its numbers are small"
)]

mod bare;
mod bench_world;
mod core_pin;
pub mod decisions;
mod operation;
pub mod paths;
mod report;
pub mod rows;
mod sample;

pub use bare::Bare;
pub use bench_world::{BenchWorld, SIZES};
pub use core_pin::pin_to_core;
pub use countersign_testing::structured_args;
pub use operation::{Operation, Plain, laps, run_on};
pub use report::{Bound, Row, Unit, print_table};
pub use sample::{Figure, Rounds, Sampling, Stopwatch, interleave, timed};
