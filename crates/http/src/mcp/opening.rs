//! What opening a session takes, and gives.

use std::io::Read;
use std::time::Duration;

use countersign_core::{AgentId, Principal, SessionId};
use countersign_host::error::HostError;
use countersign_mcp::PeerStream;

/// The session that a caller opens. All of it comes from the caller's credential.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpCaller {
    /// Id of the new session.
    pub session: SessionId,
    /// Agent that the caller acts as.
    pub agent: AgentId,
    /// Principal: the caller's name.
    pub principal: Principal,
}

/// Runs a gateway over the client's lines and the place for the lines to the client.
pub type RunGateway = Box<dyn FnOnce(Box<dyn Read + Send>, PeerStream) + Send>;

/// A gateway whose session is open.
#[expect(clippy::exhaustive_structs, reason = "a gateway has these parts")]
pub struct OpenMcpGateway {
    /// Relays lines between the client and the server until one side ends, and ends the session.
    pub run: RunGateway,
    /// Ends the gateway from outside, after the given time for the calls in flight.
    pub stop: Box<dyn Fn(Duration) + Send + Sync>,
    /// Returns whether the session's contract has expired.
    pub has_expired: Box<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for OpenMcpGateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenMcpGateway").finish_non_exhaustive()
    }
}

/// Opens the gateway of a new session.
pub type OpenGateway = Box<dyn Fn(McpCaller) -> Result<OpenMcpGateway, HostError> + Send + Sync>;
