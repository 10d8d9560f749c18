//! The gateway between an MCP client and an MCP server over standard input and output: passes on what is allowed,
//! refuses the rest, and records every refusal: each by itself within a rate, beyond it in a sum.
//!
//! It works on raw JSON-RPC lines, each read once by the strict reader, with "no" as the answer to whatever is not
//! known. A tool call goes through a [`ToolGate`](countersign_tool_gate::ToolGate), and what the server receives is
//! built from what the gate accepted. A list of tools shows what the session discloses. Results come back as the
//! server wrote them.
//!
//! A session can start with a plan, and a client can submit one ([`GatewaySettings::with_plans`]): the gate then lets through
//! the plan's next call and no other. The gateway finishes the plan when it has no call left, so that it is on record that its
//! root was found again. It cannot make the client's planner blind: the client gets each result when it comes, whatever it
//! makes of it, and so nobody is given the plan's trace again. What it cannot do is act on it outside the plan.
//!
//! What it does not do: it starts no process, opens no socket and decides nothing itself. It does not look into
//! results, and cannot tell whether a tool does what its definition says, nor whether a server changed a tool without
//! changing its definition. A client that can start the server by another way goes around it. It speaks MCP's
//! handshake era only, revisions 2024-10-07 to 2025-11-25.

mod approvals;
mod calls;
mod capabilities;
mod compose;
mod cut;
mod definitions;
mod era_2025;
mod era_2026;
mod error;
mod fault;
mod from_client;
mod from_server;
mod gateway;
mod glean;
mod handshake;
mod last_step;
mod line;
mod link;
mod listing;
mod members;
mod message;
mod notice;
mod plans;
mod queue;
mod recording;
mod requests;
mod results;
mod session_end;
mod settings;
mod submission;
mod table;

#[cfg(test)]
mod tests;

pub use error::{CallIdError, GatewayError, SettingsError};
pub use gateway::{Gateway, GatewayEnd, GatewayStop};
pub use notice::GatewayNotice;
pub use settings::{GatewayLimits, GatewaySettings, PlanApprovals};
pub use submission::{SUBMIT_PLAN, read_plan};
