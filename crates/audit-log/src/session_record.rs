use countersign_core::{AgentId, Digest, Principal, ServerName, SessionId, StoreId, Timestamp, ToolId};

use crate::Escaped;

/// Most names of differing claims in one record.
const MAX_CLAIMS: usize = 32;

/// Negotiated contract of one session, or the reason why no session was opened.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Time at which the session began or was renewed.
    pub time: Timestamp,
    /// The session.
    pub session: SessionId,
    /// Agent of the session.
    pub agent: AgentId,
    /// Agents whose sessions led to this one, the first of them first; empty if the host started it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ancestors: Vec<AgentId>,
    /// Principal on whose behalf the agent acts.
    pub principal: Principal,
    /// Version of the registry that the contract was made from.
    pub registry_version: u64,
    /// Tools that the contract discloses.
    pub tools: Vec<ToolId>,
    /// Whether the contract has fewer tools than that registry lists for the agent: fewer were requested, or a session
    /// that led to this one has no more. `false` if that is unknown because another version is in force when the
    /// session begins.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub narrowed: bool,
    /// Digest of the pinned goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Digest>,
    /// Time at which the contract ends.
    pub expires: Timestamp,
    /// Claims of the agent about itself that the registry does not state. They have no other effect.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claims: Option<ClaimsRecord>,
    /// Code of the refusal, if no session was opened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
    /// Store in which the session's approvals and attestations are spent, if it outlives the process. An id other than
    /// that of earlier sessions means that the store was created anew.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spent_store: Option<StoreId>,
    /// Profile by which action proposals are judged, if the session accepts any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<Escaped<32>>,
    /// Whether the session was open before and continues, with all its counts, under a newly negotiated contract. Its
    /// goal stays pinned at least until this contract ends.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub renewed: bool,
    /// End of the gate's observe mode, if that is on when the session begins.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observe_until: Option<Timestamp>,
    /// Whether no operator signed the registry: it is one for development.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub dev: bool,
}

impl SessionRecord {
    /// Builds the record of a session that the host opened, without goal or claims.
    #[must_use]
    pub const fn new(
        time: Timestamp,
        session: SessionId,
        agent: AgentId,
        principal: Principal,
        registry_version: u64,
        tools: Vec<ToolId>,
        expires: Timestamp,
    ) -> Self {
        let (narrowed, ask, claims, code, spent_store, profile) = (false, None, None, None, None, None);
        Self {
            time,
            session,
            agent,
            ancestors: Vec::new(),
            principal,
            registry_version,
            tools,
            narrowed,
            ask,
            expires,
            claims,
            code,
            spent_store,
            profile,
            renewed: false,
            observe_until: None,
            dev: false,
        }
    }
}

/// Claims of an agent about itself: a digest of all of them, and the names of those that differ.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsRecord {
    digest: Digest,
    differing: Vec<Escaped<128>>,
    omitted: u64,
}

impl ClaimsRecord {
    /// Builds one. Keeps the first 32 names and the number of the rest.
    #[must_use]
    pub fn new<'a>(digest: Digest, differing: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = differing.into_iter();
        let kept = names.by_ref().take(MAX_CLAIMS).map(Escaped::new).collect();
        Self { digest, differing: kept, omitted: names.count().try_into().unwrap_or(u64::MAX) }
    }

    /// Digest of the claims as the agent sent them.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Names of claims that differ from the registry, at most 32.
    #[must_use]
    pub fn differing(&self) -> &[Escaped<128>] {
        &self.differing
    }

    /// Number of names left out.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

/// A session's server, as it described itself in the handshake, and whether its instructions reached the client.
///
/// A session is recorded before its server answers, so this is a separate record. Name and version are the server's own
/// statements. They are unverified.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerRecord {
    /// Time of the server's answer.
    pub time: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The server's name in the registry.
    pub server: ServerName,
    /// Name that the server gives itself, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<Escaped<128>>,
    /// Version that the server gives itself, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<Escaped<64>>,
    /// Treatment of the server's instructions; `None` if it sent none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instructions: Option<Instructions>,
}

/// Treatment of the instructions that a server sends for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Instructions {
    /// They equal the registry's pinned instructions and reached the client.
    Passed,
    /// The registry pins no instructions, or different ones: they were removed.
    Dropped,
}

impl Instructions {
    /// The stable text: `passed` or `dropped`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Dropped => "dropped",
        }
    }
}

impl ServerRecord {
    /// Builds one of a server that gave no name, version or instructions.
    #[must_use]
    pub const fn new(time: Timestamp, session: SessionId, server: ServerName) -> Self {
        Self { time, session, server, name: None, version: None, instructions: None }
    }
}

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
