use std::collections::BTreeMap;

use countersign_canonical_json::{Canonical, Recipe, ValueRef, read};
use countersign_core::{AgentId, ServerName, Timestamp, ToolId};
use countersign_keys::SigningKey;
use countersign_keys::dsse::Envelope;
use serde::Deserialize as _;

use crate::agent_entry::{AgentEntry, AgentFields};
use crate::content::{ContentError, ContentProblem};
use crate::draft::{DraftError, MAX_ENTRIES, RegistryDraft};
use crate::entry_index::EntryIndex;
use crate::fields::{check_count, json_limits, present};
use crate::revoked::{Revoked, RevokedFields};
use crate::schema::CompiledSchemas;
use crate::server_entry::ServerEntry;
use crate::tool_entry::{ToolEntry, ToolEntryBuilder};

/// Payload type that a registry is signed under.
pub const PAYLOAD_TYPE: &str = "application/vnd.countersign.registry+json";

/// Name of the format, in the draft and in the signed snapshot.
pub const FORMAT: &str = "countersign-registry-1";

/// Largest payload, in bytes: the content of a 16 MiB envelope, in base64 beside its signatures.
const MAX_PAYLOAD_BYTES: usize = (12 << 20) - (64 << 10);

/// JSON Schema (draft 2020-12) of the draft format.
///
/// It describes the form of a draft only. [`RegistryDraft::from_json`] also refuses look-alike names, tools without an
/// entry and schemas that do not compile.
#[must_use]
pub const fn draft_schema() -> &'static str {
    include_str!("draft.schema.json")
}

fn current_format() -> String {
    FORMAT.to_owned()
}

const fn first_version() -> u64 {
    1
}

/// JSON form of a draft, or of a signed payload, which has two times as well, and always a format and a version.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WireRegistry {
    #[serde(default = "current_format")]
    pub(crate) format: String,
    #[serde(default = "first_version")]
    pub(crate) version: u64,
    pub(crate) agents: Vec<AgentFields>,
    pub(crate) tools: Vec<ToolEntryBuilder>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) servers: Vec<ServerEntry>,
    #[serde(default)]
    pub(crate) revoked: RevokedFields,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) issued: Option<Timestamp>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Timestamp>,
}

impl WireRegistry {
    /// Reads the form of a signed payload.
    pub(crate) fn read(value: ValueRef<'_>) -> Result<Self, ContentError> {
        if let Some(missing) = ["format", "version"].into_iter().find(|name| value.get(name).is_none()) {
            let problem = ContentProblem::Shape(format!("missing field `{missing}`"));
            return Err(ContentError::new("", problem));
        }
        Self::read_draft(value)
    }

    /// Reads the form only. The format is checked first, so that a later format is not reported as malformed.
    fn read_draft(value: ValueRef<'_>) -> Result<Self, ContentError> {
        let format = value.get("format").and_then(ValueRef::as_str);
        if format.is_some_and(|format| format != FORMAT) {
            return Err(ContentError::new("/format", ContentProblem::Format));
        }
        Self::deserialize(value)
            .map_err(|error| ContentError::new("", ContentProblem::Shape(error.to_string())))
    }
}

/// Entries of a registry, each checked, in the order of their ids. Names may still look alike.
pub(crate) struct RegistryContent {
    pub(crate) version: u64,
    pub(crate) agents: EntryIndex<AgentId, AgentEntry>,
    pub(crate) tools: EntryIndex<ToolId, ToolEntry>,
    pub(crate) servers: BTreeMap<ServerName, ServerEntry>,
    pub(crate) revoked: Revoked,
}

impl RegistryContent {
    pub(crate) fn from_wire(wire: WireRegistry) -> Result<Self, ContentError> {
        let version = RegistryDraft::new(wire.version)?.version();
        check_count("/tools", "tools", wire.tools.len(), MAX_ENTRIES)?;
        check_count("/agents", "agents", wire.agents.len(), MAX_ENTRIES)?;
        let (mut tools, mut schemas) =
            (EntryIndex::with_room_for(wire.tools.len()), CompiledSchemas::default());
        for (index, fields) in wire.tools.into_iter().enumerate() {
            let place = || format!("/tools/{index}");
            let built = fields.build_with(|schema| schemas.compile(schema));
            let entry: ToolEntry = built.map_err(|error| error.beneath(&place()))?;
            if !tools.add(entry.tool().clone(), entry) {
                return Err(ContentError::new(place(), ContentProblem::Duplicate));
            }
        }
        let mut agents = EntryIndex::with_room_for(wire.agents.len());
        for (index, fields) in wire.agents.into_iter().enumerate() {
            let place = || format!("/agents/{index}");
            let entry = AgentEntry::try_from(fields).map_err(|error| error.beneath(&place()))?;
            if let Some(tool) = entry.tools().iter().find(|tool| !tools.contains(tool)) {
                let unknown = ContentProblem::UnknownTool(tool.clone());
                return Err(ContentError::new(format!("{}/tools", place()), unknown));
            }
            if !agents.add(entry.agent().clone(), entry) {
                return Err(ContentError::new(place(), ContentProblem::Duplicate));
            }
        }
        check_count("/servers", "servers", wire.servers.len(), MAX_ENTRIES)?;
        let mut servers = BTreeMap::new();
        for (index, entry) in wire.servers.into_iter().enumerate() {
            let place = format!("/servers/{index}");
            entry.check().map_err(|error| error.beneath(&place))?;
            if servers.insert(entry.server().clone(), entry).is_some() {
                return Err(ContentError::new(place, ContentProblem::Duplicate));
            }
        }
        let revoked = Revoked::try_from(wire.revoked).map_err(|error| error.beneath("/revoked"))?;
        agents.sort(AgentEntry::agent);
        tools.sort(ToolEntry::tool);
        Ok(Self { version, agents, tools, servers, revoked })
    }
}

impl RegistryDraft {
    /// Reads a draft in the format of [`draft_schema`]. Without a `version`, it is 1; a registry that was loaded before
    /// at a higher one is refused wherever it is loaded.
    ///
    /// # Errors
    /// [`DraftError`] when it is not strict JSON of at most 16 MiB, or its content may not be signed.
    pub fn from_json(json: &[u8]) -> Result<Self, DraftError> {
        let canonical = read(json, Recipe::Jcs1, &json_limits()).map_err(DraftError::Json)?;
        let wire = WireRegistry::read_draft(canonical.value())?;
        if wire.issued.is_some() || wire.expires.is_some() {
            let problem = ContentProblem::Shape("`issued` and `expires` are set at signing".to_owned());
            return Err(ContentError::new("", problem).into());
        }
        Ok(Self::from_wire(wire)?)
    }

    fn from_wire(wire: WireRegistry) -> Result<Self, ContentError> {
        let RegistryContent { version, agents, tools, servers, revoked } = RegistryContent::from_wire(wire)?;
        let mut draft = Self { servers, revoked, ..Self::new(version)? };
        let (agents, tools) = (agents.into_entries().into_iter(), tools.into_entries().into_iter());
        draft.agents = agents.map(|entry| (entry.agent().clone(), entry)).collect();
        draft.tools = tools.map(|entry| (entry.tool().clone(), entry)).collect();
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
    /// [`DraftError`] if `expires` is not after `issued`, or the payload exceeds a limit of the loader.
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
}
