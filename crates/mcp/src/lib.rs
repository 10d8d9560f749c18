//! The gateway between an MCP client and an MCP server over standard input and output. It passes allowed messages,
//! refuses the rest, and records every refusal: individually within a rate limit, beyond it in a sum.
//!
//! The gateway works on raw JSON-RPC lines. The strict reader parses each line once; an unknown message is refused.
//! A tool call goes through a [`ToolGate`](countersign_tool_gate::ToolGate), and the request to the server is built
//! from the call that the gate accepted. A list of tools shows only the tools that the session discloses. Results
//! reach the client byte for byte as the server wrote them.
//!
//! A session can start with a plan, and a client can submit one ([`GatewaySettings::plans()`]). The gate then accepts
//! the plan's next call and no other. The gateway finishes the plan when it has no call left, so the log records that its
//! root was recomputed. The gateway cannot blind the client's planner: the client receives each result at once, and for
//! that reason the plan's trace is not sent to it again. The client still cannot act on a result outside the plan.
//!
//! Non-goals: the gateway starts no process, opens no socket and decides nothing itself. It does not inspect results.
//! It cannot detect that a tool does something other than its definition says, or that a server changed a tool without
//! changing its definition. A client that can start the server in another way bypasses the gateway. It speaks
//! both eras of MCP, the handshake (revisions 2024-10-07 to 2025-11-25) and the stateless one (2026-07-28).

mod answers;
mod calls;
mod capabilities;
mod compose;
mod cut;
mod definitions;
mod edited;
mod end_progress;
mod ending;
mod era_2025;
mod era_2026;
mod error;
mod fault;
mod forms;
mod from_client;
mod from_server;
mod gateway;
mod glean;
mod handshake;
mod held_call;
mod input_from_2025;
mod input_rounds;
mod input_to_2025;
mod line;
mod link;
mod listing;
mod members;
mod message;
mod modern_client;
mod modern_server;
mod notice;
mod older_client;
mod output;
mod passing;
mod plans;
mod proposed;
mod proposing;
mod questions;
mod queue;
mod reads;
mod recording;
mod request_purpose;
mod requests;
mod results;
mod session_end;
mod settings;
mod several;
mod shown_names;
mod streamable_http;
mod submission;
mod suspended;
mod table;
mod tasks;
mod waiting;

#[cfg(test)]
mod tests;

pub use era_2026::REVISION as STATELESS_REVISION;
pub use error::{CallIdError, GatewayError, SettingsError};
pub use forms::{ClientForms, FormAnswer};
pub use gateway::{Gateway, GatewayEnd, GatewayStop, LostRequest, LostRequests};
pub use notice::GatewayNotice;
pub use output::{LineSink, PeerStream};
pub use proposing::PROPOSE;
pub use settings::{Era, GatewayLimits, GatewaySettings, PlanApprovals, ProposalHint};
pub use several::Gateways;
pub use streamable_http::{
    HeaderParams, PostedHeaders, PostedMessage, ReturnPlace, ReturnedLine, UnreadablePost, cancel_line,
    error_for,
};
pub use submission::{SUBMIT_PLAN, read_plan};
