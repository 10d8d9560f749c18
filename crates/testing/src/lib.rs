//! For tests of hosts that embed Countersign: signed registries in one line, a world from which gates are opened, a
//! scripted MCP server, and one trait for every surface that decides calls.
//!
//! - [`TestRegistry`] and [`TestTool`] build and sign a registry in one line.
//! - [`World`] has a registry, a manual clock, keys, stores and a sink, and opens gates.
//! - [`DeskServer`] is the script of an MCP server, and [`McpClient`] a client, for tests of a gateway.
//! - [`structured_args`] are arguments of an exact size, for benches.
//! - [`plain_jcs`] is a second reader of canonical JSON, slow and plain.
//! - A [`Surface`] plays a [`GateVector`]: the library, the command line, the gateway, or one of your own.
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

mod args;
mod desk_server;
mod mcp_client;
mod plain_json;
mod registry;
mod surface;
mod world;

pub use args::structured_args;
pub use desk_server::DeskServer;
pub use mcp_client::{LineProcess, McpClient};
pub use plain_json::plain_jcs;
pub use registry::{TestRegistry, TestTool};
#[cfg(unix)]
pub use surface::{CommandLineSurface, GatewaySurface};
pub use surface::{GateVector, LibrarySurface, Surface};
pub use world::World;
