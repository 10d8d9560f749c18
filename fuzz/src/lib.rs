//! Properties of every reader of Countersign, whatever bytes reach it: one function per target. Each panics where its
//! property does not hold, and returns whether the bytes got past the reader, so that a corpus can be judged.
//!
//! Two drivers share the functions: `fuzz/tests/targets.rs` runs the committed corpus and edits of it with every test
//! run, and `fuzz/libfuzzer` has a program for `cargo fuzz` per target. `fuzz/README.md` says how to run both.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a property that does not hold ends the program"
)]

mod log_scan;
mod mcp_line;
mod memory_disk;
mod plan;
mod proposal;
mod reader;
mod registry_draft;
mod token;

pub use log_scan::log_scan;
pub use mcp_line::mcp_line;
pub use plan::plan;
pub use proposal::proposal;
pub use reader::reader;
pub use registry_draft::registry_draft;
pub use token::token;

/// Separates the parts of an input that has several: a control character, which JSON text does not have.
pub const PART: u8 = 0x1D;
