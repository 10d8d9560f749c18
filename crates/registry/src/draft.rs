use std::collections::BTreeMap;

use countersign_canonical_json::{Canonical, JsonError, Recipe, read};
use countersign_core::{AgentId, Digest, KeyId, OperatorId, ServerName, Timestamp, ToolId};
use countersign_keys::SigningKey;
use countersign_keys::dsse::Envelope;

use crate::agent_entry::{AgentEntry, AgentFields, Capabilities, MAX_VERSION, check_count};
use crate::content::{ContentError, ContentProblem};
use crate::listed::ServerEntry;
use crate::lookalike::Names;
use crate::revoked::{Revoked, RevokedFields, is_key_id};
use crate::tool_entry::{ToolEntry, ToolEntryBuilder};
use crate::wire::{WireRegistry, json_limits};

/// Payload type that a registry is signed under.
pub const PAYLOAD_TYPE: &str = "application/vnd.countersign.registry+json";

/// Name of the format, in the draft and in the signed snapshot.
pub const FORMAT: &str = "countersign-registry-1";

/// Most agents, and most tools, of one registry.
const MAX_ENTRIES: usize = 10_000;

/// Largest payload, in bytes: the content of a 16 MiB envelope, in base64 beside its signatures.
const MAX_PAYLOAD_BYTES: usize = (12 << 20) - (64 << 10);

/// JSON Schema (draft 2020-12) of the draft format.
///
/// It describes the form of a draft. Look-alike names, tools without an entry and schemas that do not compile are
/// beyond it; [`RegistryDraft::from_json`] checks them.
#[must_use]
pub const fn draft_schema() -> &'static str {
    include_str!("draft.schema.json")
}

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
    version: u64,
    agents: BTreeMap<AgentId, AgentEntry>,
    tools: BTreeMap<ToolId, ToolEntry>,
    servers: BTreeMap<ServerName, ServerEntry>,
    revoked: Revoked,
    /// Look-alike keys of the names, kept so that adding one name costs one look-up.
    names: Names,
}

/// Content of a draft.
pub(crate) struct DraftParts {
    pub(crate) agents: BTreeMap<AgentId, AgentEntry>,
    pub(crate) tools: BTreeMap<ToolId, ToolEntry>,
    pub(crate) servers: BTreeMap<ServerName, ServerEntry>,
    pub(crate) revoked: Revoked,
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

    /// Reads a draft in the format of [`draft_schema`].
    ///
    /// # Errors
    /// [`DraftError`] when it is not strict JSON of at most 16 MiB, or its content may not be signed.
    pub fn from_json(json: &[u8]) -> Result<Self, DraftError> {
        let canonical = read(json, Recipe::Jcs1, &json_limits()).map_err(DraftError::Json)?;
        let wire = WireRegistry::read(canonical.value())?;
        if wire.issued.is_some() || wire.expires.is_some() {
            let problem = ContentProblem::Shape("`issued` and `expires` are set at signing".to_owned());
            return Err(ContentError::new("", problem).into());
        }
        Ok(Self::from_wire(wire)?)
    }

    pub(crate) fn from_wire(wire: WireRegistry) -> Result<Self, ContentError> {
        let mut draft = Self::new(wire.version)?;
        check_count("/tools", "tools", wire.tools.len(), MAX_ENTRIES)?;
        check_count("/agents", "agents", wire.agents.len(), MAX_ENTRIES)?;
        for (index, fields) in wire.tools.into_iter().enumerate() {
            let place = format!("/tools/{index}");
            let entry = fields.build().map_err(|error| error.beneath(&place))?;
            if draft.tools.insert(entry.tool().clone(), entry).is_some() {
                return Err(ContentError::new(place, ContentProblem::Duplicate));
            }
        }
        for (index, fields) in wire.agents.into_iter().enumerate() {
            let place = format!("/agents/{index}");
            let entry = AgentEntry::try_from(fields).map_err(|error| error.beneath(&place))?;
            draft.check_tools_of(&entry).map_err(|error| error.beneath(&place))?;
            if draft.agents.insert(entry.agent().clone(), entry).is_some() {
                return Err(ContentError::new(place, ContentProblem::Duplicate));
            }
        }
        check_count("/servers", "servers", wire.servers.len(), MAX_ENTRIES)?;
        for (index, entry) in wire.servers.into_iter().enumerate() {
            let place = format!("/servers/{index}");
            entry.check().map_err(|error| error.beneath(&place))?;
            if draft.servers.insert(entry.server().clone(), entry).is_some() {
                return Err(ContentError::new(place, ContentProblem::Duplicate));
            }
        }
        draft.revoked = Revoked::try_from(wire.revoked).map_err(|error| error.beneath("/revoked"))?;
        draft.agents.keys().try_for_each(|agent| draft.names.add_agent(agent))?;
        draft.tools.keys().try_for_each(|tool| draft.names.add_tool(tool))?;
        Ok(draft)
    }

    /// Writes the draft in its format, as canonical JSON.
    ///
    /// # Errors
    /// [`DraftError`] when it is too large or too deeply nested to be read again.
    pub fn to_json(&self) -> Result<String, DraftError> {
        Ok(self.canonical(None)?.as_str().to_owned())
    }

    /// Registers an agent's capabilities. Replaces an entry with a lower version.
    ///
    /// # Errors
    /// [`ContentError`] when the capabilities are not fit for a registry, a tool of theirs has no entry, the version is
    /// not above that of the entry that is there, or the agent is revoked.
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
    /// [`ContentError`] when there are too many tools, or its name could be taken for another one.
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
    /// [`ContentError`] when its instructions are too long, or its `serverInfo` is not an object.
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
    pub fn with_version(self, version: u64) -> Result<Self, ContentError> {
        Self::new(version)?;
        Ok(Self { version, ..self })
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

    /// Reads a signed or unsigned payload with its time of issue and its expiry, for inspection. Verifies no
    /// signature: do not base a decision on the result.
    ///
    /// # Errors
    /// [`DraftError`] when it is not strict JSON, has no times, or its content may not be signed.
    pub fn from_payload(payload: &[u8]) -> Result<(Self, Timestamp, Timestamp), DraftError> {
        let canonical = read(payload, Recipe::Jcs1, &json_limits()).map_err(DraftError::Json)?;
        let wire = WireRegistry::read(canonical.value())?;
        let (Some(issued), Some(expires)) = (wire.issued, wire.expires) else {
            return Err(ContentError::whole(ContentProblem::Validity).into());
        };
        Ok((Self::from_wire(wire)?, issued, expires))
    }

    /// Bytes to sign: the draft with its times, as canonical JSON (`jcs-1`). They are read back first, so a signed
    /// registry can always be loaded.
    ///
    /// # Errors
    /// [`DraftError`] when `expires` is not after `issued`, or there is more of something than can be loaded.
    pub fn payload(&self, issued: Timestamp, expires: Timestamp) -> Result<Canonical, DraftError> {
        if expires <= issued {
            return Err(ContentError::new("/expires", ContentProblem::Validity).into());
        }
        let payload = self.canonical(Some((issued, expires)))?;
        if payload.bytes().len() > MAX_PAYLOAD_BYTES {
            return Err(ContentError::whole(ContentProblem::TooLarge { max: MAX_PAYLOAD_BYTES }).into());
        }
        Self::from_payload(payload.bytes())?;
        Ok(payload)
    }

    /// Signs the draft with operators' keys.
    ///
    /// # Errors
    /// [`DraftError`], as [`payload`](Self::payload).
    pub fn sign(
        &self,
        issued: Timestamp,
        expires: Timestamp,
        keys: &[&SigningKey],
    ) -> Result<Envelope, DraftError> {
        Ok(Envelope::sign(PAYLOAD_TYPE, self.payload(issued, expires)?.bytes(), keys))
    }

    pub(crate) fn into_parts(self) -> DraftParts {
        let Self { agents, tools, servers, revoked, .. } = self;
        DraftParts { agents, tools, servers, revoked }
    }

    fn canonical(&self, times: Option<(Timestamp, Timestamp)>) -> Result<Canonical, DraftError> {
        let wire = WireRegistry {
            format: FORMAT.to_owned(),
            version: self.version,
            agents: self.agents.values().cloned().map(AgentFields::from).collect(),
            tools: self.tools.values().cloned().map(ToolEntryBuilder::from).collect(),
            servers: self.servers.values().cloned().collect(),
            revoked: RevokedFields::from(&self.revoked),
            issued: times.map(|(issued, _)| issued),
            expires: times.map(|(_, expires)| expires),
        };
        let bytes = serde_json::to_vec(&wire)
            .map_err(|error| ContentError::whole(ContentProblem::Shape(error.to_string())))?;
        read(&bytes, Recipe::Jcs1, &json_limits()).map_err(DraftError::Json)
    }

    fn check_tools_of(&self, agent: &AgentEntry) -> Result<(), ContentError> {
        match agent.tools().iter().find(|tool| !self.tools.contains_key(tool)) {
            Some(tool) => Err(ContentError::new("/tools", ContentProblem::UnknownTool(tool.clone()))),
            None => Ok(()),
        }
    }
}
