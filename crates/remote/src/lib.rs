//! MCP servers at a URL, over the transport Streamable HTTP. To a [`Gateway`](countersign_mcp::Gateway) each of them is like
//! a server over standard input and output: two streams of lines.
//!
//! - A line of the gateway is posted, with the headers that its era and its tools ask for. The messages of the responses are
//!   the server's lines.
//! - A request whose answer is lost is reported ([`LostRequests`](countersign_mcp::LostRequests)); the session goes on.
//! - The server gets the operator's own credential, and never one of a client.
//! - A name is resolved for each connection, and only to addresses that the policy allows. Redirects lead to the same origin or
//!   nowhere.
//!
//! Source: MCP 2025-11-25 and 2026-07-28, *Streamable HTTP*.

mod address;
mod connection;
mod credential;
mod events;
mod exchange;
mod failure;
mod headers;
mod output;
mod remote;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use output::RemoteOutput;
pub use server::{RemoteServer, RemoteSession};
pub use session::RemoteInput;
