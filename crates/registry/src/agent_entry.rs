use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::{AgentId, Digest, Millis, OperatorId, OutputTag, ServerName, ToolId, ToolName};

use crate::content::{ContentError, ContentProblem};
use crate::fields::{CanonicalEntry, MAX_VERSION, check_count, distinct, span};
use crate::limits::Limits;

/// Most tools of one agent.
const MAX_TOOLS: usize = 1_024;

/// Most output tags of one agent.
const MAX_TAGS: usize = 256;

/// Longest session that an entry may allow: 30 days.
const MAX_SESSION: Millis = Millis::from_secs(30 * 86_400);

/// Capabilities of an agent, as passed to [`RegistryDraft::register`](crate::RegistryDraft::register).
///
/// ```
/// use countersign_core::{AgentId, Millis, OperatorId, ToolId};
/// use countersign_registry::{Capabilities, RegistryDraft};
/// let search = ToolId::new("desk", "search")?;
/// let capabilities = Capabilities::new(AgentId::new("support-bot")?, [search], Millis::from_secs(3_600));
/// let mut draft = RegistryDraft::new(1)?;
/// let refused = draft.register(capabilities, 1, OperatorId::new("ops")?);
/// assert_eq!(refused.map_err(|e| e.code()), Err("REGISTRY_UNKNOWN_TOOL")); // the tool's own entry comes first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Capabilities {
    agent: AgentId,
    tools: Vec<ToolId>,
    output_tags: Vec<OutputTag>,
    max_session: Millis,
    limits: Limits,
}

impl Capabilities {
    /// Starts with an agent's id, its tools, and the longest lifetime of its sessions.
    #[must_use]
    pub fn new(agent: AgentId, tools: impl IntoIterator<Item = ToolId>, max_session: Millis) -> Self {
        let tools = tools.into_iter().collect();
        Self { agent, tools, output_tags: Vec::new(), max_session, limits: Limits::none() }
    }

    /// Adds the kinds of output that the agent can produce.
    #[must_use]
    pub fn output_tags(mut self, tags: impl IntoIterator<Item = OutputTag>) -> Self {
        self.output_tags.extend(tags);
        self
    }

    /// Sets the call limits of a session.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn into_entry(
        self,
        version: u64,
        registered_by: OperatorId,
    ) -> Result<AgentEntry, ContentError> {
        AgentEntry::try_from(AgentFields {
            agent: self.agent,
            version,
            registered_by,
            tools: self.tools,
            output_tags: self.output_tags,
            max_session: self.max_session,
            limits: self.limits,
        })
    }
}

/// Registry entry of one agent: the upper bound of every session it can get.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "AgentFields", into = "AgentFields")]
pub struct AgentEntry {
    agent: AgentId,
    version: u64,
    registered_by: OperatorId,
    tools: Arc<BTreeSet<ToolId>>,
    output_tags: Arc<BTreeSet<OutputTag>>,
    max_session: Millis,
    limits: Limits,
    fingerprint: Digest,
}

impl AgentEntry {
    /// Id of the agent.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// Version of the entry.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Operator who registered it.
    #[must_use]
    pub const fn registered_by(&self) -> &OperatorId {
        &self.registered_by
    }

    /// Tools that may be disclosed to the agent.
    #[must_use]
    pub fn tools(&self) -> &BTreeSet<ToolId> {
        &self.tools
    }

    /// The tools, for the contracts of sessions that have all of them.
    pub(crate) const fn shared_tools(&self) -> &Arc<BTreeSet<ToolId>> {
        &self.tools
    }

    /// Returns `true` if the tool may be disclosed to the agent.
    #[must_use]
    pub fn lists(&self, tool: &ToolId) -> bool {
        self.tools.contains(tool)
    }

    /// Kinds of output that the agent can produce.
    #[must_use]
    pub fn output_tags(&self) -> &BTreeSet<OutputTag> {
        &self.output_tags
    }

    pub(crate) const fn shared_tags(&self) -> &Arc<BTreeSet<OutputTag>> {
        &self.output_tags
    }

    /// Longest lifetime of a session of the agent.
    #[must_use]
    pub const fn max_session(&self) -> Millis {
        self.max_session
    }

    /// Call limits of a session of the agent.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Digest of the whole entry: recipe `agent-entry-1`, a label and the entry's `jcs-1` JSON.
    #[must_use]
    pub const fn fingerprint(&self) -> Digest {
        self.fingerprint
    }
}

/// Digest of an agent's whole entry; equals [`AgentEntry::fingerprint`].
#[must_use]
pub const fn agent_fingerprint(entry: &AgentEntry) -> Digest {
    entry.fingerprint()
}

/// Agent entry in the draft format.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentFields {
    pub(crate) agent: AgentId,
    version: u64,
    registered_by: OperatorId,
    tools: Vec<ToolId>,
    #[serde(default)]
    output_tags: Vec<OutputTag>,
    #[serde(with = "span")]
    max_session: Millis,
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    limits: Limits,
}

impl TryFrom<AgentFields> for AgentEntry {
    type Error = ContentError;

    fn try_from(fields: AgentFields) -> Result<Self, ContentError> {
        if fields.version == 0 || fields.version > MAX_VERSION {
            return Err(ContentError::new("/version", ContentProblem::Version));
        }
        if fields.max_session.is_zero() || fields.max_session > MAX_SESSION {
            return Err(ContentError::new("/max_session", ContentProblem::MaxSession));
        }
        check_wildcard("/agent", fields.agent.as_str())?;
        if fields.tools.is_empty() {
            return Err(ContentError::new("/tools", ContentProblem::EmptyTools));
        }
        check_count("/tools", "tools of one agent", fields.tools.len(), MAX_TOOLS)?;
        check_count("/output_tags", "output tags of one agent", fields.output_tags.len(), MAX_TAGS)?;
        for (index, tag) in fields.output_tags.iter().enumerate() {
            check_wildcard(&format!("/output_tags/{index}"), tag.as_str())?;
        }
        let mut entry = Self {
            agent: fields.agent,
            version: fields.version,
            registered_by: fields.registered_by,
            tools: Arc::new(distinct("/tools", fields.tools)?),
            output_tags: Arc::new(distinct("/output_tags", fields.output_tags)?),
            max_session: fields.max_session,
            limits: fields.limits,
            fingerprint: Digest::from_bytes([0; 32]),
        };
        entry.fingerprint = entry.canonical()?.fingerprint("countersign/agent-entry-1");
        Ok(entry)
    }
}

impl AgentEntry {
    fn canonical(&self) -> Result<CanonicalEntry, ContentError> {
        let mut text = CanonicalEntry::new().plain("agent", &self.agent)?;
        if !self.limits.is_none() {
            text = text.any("limits", &self.limits)?;
        }
        text.plain("max_session", &self.max_session.to_string())?
            .plain("output_tags", &*self.output_tags)?
            .plain("registered_by", &self.registered_by)?
            .plain("tools", &SortedIds(&self.tools))?
            .plain("version", &self.version)
    }
}

/// A tool's id with its members in canonical order.
#[derive(serde::Serialize)]
struct SortedToolId<'a> {
    name: &'a ToolName,
    server: &'a ServerName,
}

struct SortedIds<'a>(&'a BTreeSet<ToolId>);

impl serde::Serialize for SortedIds<'_> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(|tool| SortedToolId { name: tool.name(), server: tool.server() }))
    }
}

impl From<AgentEntry> for AgentFields {
    fn from(entry: AgentEntry) -> Self {
        Self {
            agent: entry.agent,
            version: entry.version,
            registered_by: entry.registered_by,
            tools: entry.tools.iter().cloned().collect(),
            output_tags: entry.output_tags.iter().cloned().collect(),
            max_session: entry.max_session,
            limits: entry.limits,
        }
    }
}

fn check_wildcard(place: &str, name: &str) -> Result<(), ContentError> {
    if name.contains(['*', '?']) {
        return Err(ContentError::new(place, ContentProblem::Wildcard));
    }
    Ok(())
}
