use countersign_core::{AgentId, Digest, Principal, ServerName, SessionId, StoreId, Timestamp, ToolId};

use crate::Escaped;

/// The most names of differing claims that one record holds.
const MAX_CLAIMS: usize = 32;

/// What one session may do, as negotiated, or why it was not opened.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// When the session began, or was renewed.
    pub time: Timestamp,
    /// The session.
    pub session: SessionId,
    /// Whose session it is.
    pub agent: AgentId,
    /// The agents whose sessions led to this one, the first of them first; none where the host started it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ancestors: Vec<AgentId>,
    /// On whose behalf the agent acts.
    pub principal: Principal,
    /// Version of the registry that the contract comes from.
    pub registry_version: u64,
    /// The tools that the contract discloses.
    pub tools: Vec<ToolId>,
    /// Whether it has fewer tools than that registry lists for the agent: fewer were asked for, or a session that led to it has
    /// no more. False where that is not known any more, because another version is in force when the session begins.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub narrowed: bool,
    /// Digest of the pinned goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Digest>,
    /// When the contract ends.
    pub expires: Timestamp,
    /// What the agent claimed about itself and the registry does not say. It changed nothing else.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claims: Option<ClaimsRecord>,
    /// Code of the refusal, where no session was opened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
    /// Store that the session's approvals and attestations are spent in, where it outlives the process. Another id than the
    /// sessions before says that the store was made anew.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spent_store: Option<StoreId>,
    /// Profile that action proposals are judged by, where the session takes any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<Escaped<32>>,
    /// Whether it was open before and goes on, with all that was counted, under a contract that was negotiated anew. Its goal is
    /// pinned until the end of this contract at least.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub renewed: bool,
}

impl SessionRecord {
    /// Makes one of a session that the host opened, without goal or claims.
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
        }
    }
}

/// What an agent claimed about itself: a digest of all of it, and the names under which it differs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsRecord {
    digest: Digest,
    differing: Vec<Escaped<128>>,
    omitted: u64,
}

impl ClaimsRecord {
    /// Makes one. Keeps the first 32 names and the number of the others.
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

    /// How many more names there were.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

/// Server of a session as it described itself in the handshake, and whether its instructions reached the client.
///
/// A session is recorded before its server has answered, so that this is a record of its own. Name and version are the
/// server's own words, and prove nothing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerRecord {
    /// When the server answered.
    pub time: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The server's name in the registry.
    pub server: ServerName,
    /// Name that the server gives itself; none where it gives none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<Escaped<128>>,
    /// Version that the server gives itself; none where it gives none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<Escaped<64>>,
    /// What became of its instructions; none where it sent none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instructions: Option<Instructions>,
}

/// What became of the instructions that a server sends for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Instructions {
    /// They are those that the registry pins, and reached the client.
    Passed,
    /// The registry pins none, or others: they were cut out.
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
    /// Builds one of a server that says nothing of itself.
    #[must_use]
    pub const fn new(time: Timestamp, session: SessionId, server: ServerName) -> Self {
        Self { time, session, server, name: None, version: None, instructions: None }
    }
}
