use std::collections::BTreeMap;

use countersign_canonical_json::JsonError;
use countersign_core::{AgentId, Digest, KeyId, OperatorId, ServerName, ToolId};

use crate::agent_entry::{AgentEntry, Capabilities};
use crate::content::{ContentError, ContentProblem};
use crate::fields::{MAX_VERSION, check_count};
use crate::names::Names;
use crate::revoked::{Revoked, is_key_id};
use crate::server_entry::ServerEntry;
use crate::tool_entry::ToolEntry;

/// Most agents, and most tools, of one registry.
pub(crate) const MAX_ENTRIES: usize = 10_000;

/// Failure to read or sign a draft.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// The draft is not strict JSON.
    #[error("the registry is not strict JSON")]
    Json(#[source] JsonError),
    /// The content of the draft is invalid.
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl DraftError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(error) => error.code(),
            Self::Content(error) => error.code(),
        }
    }
}

countersign_core::coded!(DraftError);

/// Draft of a registry: agents, tools and revocations, checked but not signed.
///
/// ```
/// use countersign_registry::RegistryDraft;
/// let draft = RegistryDraft::from_json(br#"{
///     "format": "countersign-registry-1", "version": 7,
///     "agents": [{"agent": "support-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
///                 "tools": [{"server": "desk", "name": "search"}]}],
///     "tools": [{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
///                "args_schema": {"type": "object"}}]
/// }"#)?;
/// assert_eq!(draft.version(), 7);
/// # Ok::<(), countersign_registry::DraftError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryDraft {
    pub(crate) version: u64,
    pub(crate) agents: BTreeMap<AgentId, AgentEntry>,
    pub(crate) tools: BTreeMap<ToolId, ToolEntry>,
    pub(crate) servers: BTreeMap<ServerName, ServerEntry>,
    pub(crate) revoked: Revoked,
    /// Look-alike keys of the names, kept so that adding one name costs one look-up.
    pub(crate) names: Names,
}

impl RegistryDraft {
    /// Starts an empty draft.
    ///
    /// # Errors
    /// [`ContentError`] when the version is 0 or above 2^53 - 1.
    pub const fn new(version: u64) -> Result<Self, ContentError> {
        if version == 0 || version > MAX_VERSION {
            return Err(ContentError::whole(ContentProblem::Version));
        }
        Ok(Self {
            version,
            agents: BTreeMap::new(),
            tools: BTreeMap::new(),
            servers: BTreeMap::new(),
            revoked: Revoked::none(),
            names: Names::none(),
        })
    }

    /// Registers an agent's capabilities. Replaces an entry with a lower version.
    ///
    /// # Errors
    /// [`ContentError`] if the capabilities are invalid, one of their tools has no entry, the version is not above that
    /// of the existing entry, the agent is revoked, its id looks like another one, or there are too many agents.
    pub fn register(
        &mut self,
        capabilities: Capabilities,
        version: u64,
        registered_by: OperatorId,
    ) -> Result<(), ContentError> {
        let entry = capabilities.into_entry(version, registered_by)?;
        if self.revoked.agents.contains(entry.agent()) {
            return Err(ContentError::new("/agent", ContentProblem::AgentRevoked));
        }
        if self.agents.get(entry.agent()).is_some_and(|old| old.version() >= version) {
            return Err(ContentError::new("/version", ContentProblem::EntryVersion));
        }
        self.check_tools_of(&entry)?;
        if !self.agents.contains_key(entry.agent()) {
            check_count("/agents", "agents", self.agents.len().saturating_add(1), MAX_ENTRIES)?;
        }
        self.names.add_agent(entry.agent())?;
        self.agents.insert(entry.agent().clone(), entry);
        Ok(())
    }

    /// Adds or replaces the entry of a tool.
    ///
    /// # Errors
    /// [`ContentError`] if there are too many tools, or the name looks like another one.
    pub fn add_tool(&mut self, entry: ToolEntry) -> Result<(), ContentError> {
        if !self.tools.contains_key(entry.tool()) {
            check_count("/tools", "tools", self.tools.len().saturating_add(1), MAX_ENTRIES)?;
        }
        self.names.add_tool(entry.tool())?;
        self.tools.insert(entry.tool().clone(), entry);
        Ok(())
    }

    /// Adds or replaces the entry of a server.
    ///
    /// # Errors
    /// [`ContentError`] if its instructions are too long, or its `serverInfo` is not an object.
    pub fn add_server(&mut self, entry: ServerEntry) -> Result<(), ContentError> {
        entry.check()?;
        self.servers.insert(entry.server().clone(), entry);
        Ok(())
    }

    /// Revokes an agent: under the signed registry no session of it starts or continues.
    pub fn revoke(&mut self, agent: &AgentId) {
        self.revoked.agents.insert(agent.clone());
    }

    /// Revokes a key of an operator or an approver.
    ///
    /// # Errors
    /// [`ContentError`] if the id starts like that of an Ed25519 key and is malformed: it would revoke no key.
    pub fn revoke_key(&mut self, key: &KeyId) -> Result<(), ContentError> {
        if !is_key_id(key) {
            return Err(ContentError::new("/revoked/keys", ContentProblem::KeyId));
        }
        self.revoked.keys.insert(key.clone());
        Ok(())
    }

    /// Revokes a snapshot: no session negotiated under it continues.
    pub fn revoke_snapshot(&mut self, digest: &Digest) {
        self.revoked.add_snapshot(digest);
    }

    /// Sets the version to sign under.
    ///
    /// # Errors
    /// [`ContentError`] when the version is 0 or above 2^53 - 1.
    pub fn set_version(&mut self, version: u64) -> Result<(), ContentError> {
        Self::new(version)?;
        self.version = version;
        Ok(())
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Agent entries, ordered by id.
    pub fn agents(&self) -> impl Iterator<Item = &AgentEntry> {
        self.agents.values()
    }

    /// Tool entries, ordered by id.
    pub fn tools(&self) -> impl Iterator<Item = &ToolEntry> {
        self.tools.values()
    }

    /// Server entries, ordered by name.
    pub fn servers(&self) -> impl Iterator<Item = &ServerEntry> {
        self.servers.values()
    }

    /// Revocations.
    #[must_use]
    pub const fn revoked(&self) -> &Revoked {
        &self.revoked
    }

    fn check_tools_of(&self, agent: &AgentEntry) -> Result<(), ContentError> {
        match agent.tools().iter().find(|tool| !self.tools.contains_key(tool)) {
            Some(tool) => Err(ContentError::new("/tools", ContentProblem::UnknownTool(tool.clone()))),
            None => Ok(()),
        }
    }
}
