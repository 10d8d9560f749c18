//! For tests of hosts that embed Countersign: signed registries in one line, and a world from which gates are opened.
//!
//! - [`TestRegistry`] and [`TestTool`] build and sign a registry in one line.
//! - [`World`] has a registry, a manual clock, keys, stores and a sink, and opens gates.
//!
//! It does not protect anything: its keys are constants. Use it as a dev-dependency only. Every function panics where a
//! test would fail.
//!
//! ```
//! use countersign_testing::{TestRegistry, TestTool, World};
//! use countersign::tool_gate::RejectionCode;
//!
//! let world = World::of(&TestRegistry::of([TestTool::read("search"), TestTool::money("refund")]));
//! let gate = world.gate();
//! assert_eq!(gate.call("search", b"{}", |_| Ok::<_, ()>("found")).unwrap(), "found");
//! assert_eq!(world.code(&gate, "refund", "{}"), Some(RejectionCode::ApprovalRequired));
//! assert_eq!(world.last_decision().unwrap().tool.name.as_str(), "refund");
//! ```

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a helper of tests fails by panicking"
)]

mod registry;
mod world;

pub use registry::{TestRegistry, TestTool};
pub use world::World;
