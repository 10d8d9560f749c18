use countersign_core::{AgentId, SessionId, Timestamp};

/// Reason for which a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EndReason {
    /// The client, or the host of the gate, ended the session.
    Client,
    /// The server ended.
    Server,
    /// A signal ended the process, or its host stopped it.
    Signal,
    /// An error ended the session.
    Error,
}

impl EndReason {
    /// The stable text: `client`, `server`, `signal` or `error`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Signal => "signal",
            Self::Error => "error",
        }
    }
}

/// End of a session. It follows the outcomes of the session's calls and its sums of refusals.
///
/// A session without this record was cut off, or is still open.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EndRecord {
    /// Time of the end.
    pub time: Timestamp,
    /// The session.
    pub session: SessionId,
    /// Its agent.
    pub agent: AgentId,
    /// Reason of the end.
    pub reason: EndReason,
}

impl EndRecord {
    /// Builds one from all of its members.
    #[must_use]
    pub const fn new(time: Timestamp, session: SessionId, agent: AgentId, reason: EndReason) -> Self {
        Self { time, session, agent, reason }
    }
}
