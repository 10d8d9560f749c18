use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{AgentId, Digest, OutputTag, SessionId, Timestamp, ToolId};
use countersign_keys::MacKey;
use countersign_keys::sealed::{PayloadBuffer, SealedText, seal};
use serde::Deserialize as _;

use crate::agent_entry::AgentEntry;
use crate::snapshot::{FreshnessError, SnapshotId};
use crate::tool_entry::ToolRules;
use crate::view::{AgentError, RegistryView};

/// Prefix of a sealed contract.
const PREFIX: &str = "cc1";

/// Domain label of the seal.
const LABEL: &str = "countersign/contract-1";

/// Failure to check, seal or open a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The contract has expired, or was issued in the future.
    #[error("the session's contract has expired")]
    Expired,
    /// The contract's snapshot is revoked, or another snapshot is in force under its version.
    #[error("the registry that the session's contract was made under no longer counts")]
    Superseded,
    /// The registry is stale, or the agent or one of its ancestors is unknown or revoked.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The sealed text was not sealed by this key.
    #[error("the sealed contract does not verify")]
    Invalid,
    /// The contract does not fit into a sealed text.
    #[error("the contract is too large to be sealed")]
    TooLarge,
}

impl ContractError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Expired | Self::Superseded => "CONTRACT_EXPIRED",
            Self::Agent(error) => error.code(),
            Self::Invalid => "CONTRACT_INVALID",
            Self::TooLarge => "CONTRACT_TOO_LARGE",
        }
    }
}

countersign_core::coded!(ContractError);

/// Rights of one session, taken from the registry alone.
///
/// A contract is an upper bound. A call needs a tool that both the contract and the current registry allow
/// ([`disclosed`](Self::disclosed)). A contract comes from negotiation, or from a text that the same key sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionContract {
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    pub(crate) ancestors: Box<[AgentId]>,
    /// Shared with the registry's entry, unless the session has fewer tools or tags.
    pub(crate) tools: Arc<BTreeSet<ToolId>>,
    pub(crate) tags: Arc<BTreeSet<OutputTag>>,
    pub(crate) registry: Arc<SnapshotId>,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

impl SessionContract {
    /// The session.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// The agent.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// Agents whose sessions led to this one, the first one first; empty if the host started it.
    #[must_use]
    pub fn ancestors(&self) -> &[AgentId] {
        &self.ancestors
    }

    /// Tools disclosed to the session.
    #[must_use]
    pub fn tools(&self) -> &BTreeSet<ToolId> {
        &self.tools
    }

    /// Returns `true` if a tool is disclosed to the session.
    #[must_use]
    pub fn discloses(&self, tool: &ToolId) -> bool {
        self.tools.contains(tool)
    }

    /// Kinds of output that the session can produce.
    #[must_use]
    pub fn tags(&self) -> &BTreeSet<OutputTag> {
        &self.tags
    }

    /// Version of the registry that it was negotiated under.
    #[must_use]
    pub fn registry_version(&self) -> u64 {
        self.registry.version
    }

    /// Digest of the registry that it was negotiated under.
    #[must_use]
    pub fn registry_digest(&self) -> Digest {
        self.registry.digest
    }

    /// Time of issue.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.issued
    }

    /// First moment at which it is no longer valid.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Checks that the contract is valid now: not expired, the registry fresh and no older than the one of the
    /// contract, the agent and all its ancestors registered and not revoked.
    ///
    /// # Errors
    /// [`ContractError`] when it does not: `CONTRACT_EXPIRED`, `REGISTRY_STALE`, `AGENT_NOT_REGISTERED`, `AGENT_REVOKED`.
    pub fn check(&self, view: &RegistryView, now: Timestamp) -> Result<(), ContractError> {
        self.agent_entry(view, now).map(drop)
    }

    /// Returns the agent's entry, if the contract is valid now ([`check`](Self::check)).
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn agent_entry<'v>(
        &self,
        view: &'v RegistryView,
        now: Timestamp,
    ) -> Result<&'v AgentEntry, ContractError> {
        let snapshot = view.snapshot();
        if now >= self.expires || now.saturating_add(snapshot.skew()) < self.issued {
            return Err(ContractError::Expired);
        }
        if self.ancestors.iter().chain([&self.agent]).any(|agent| view.is_agent_revoked(agent)) {
            return Err(AgentError::Revoked.into());
        }
        view.check_fresh(now).map_err(AgentError::from)?;
        let find = |agent| snapshot.agent(agent).ok_or(AgentError::NotRegistered);
        self.ancestors.iter().try_for_each(|agent| find(agent).map(drop))?;
        let entry = find(&self.agent)?;
        // why: the contract was negotiated under a later registry than the current one.
        if self.registry.version > snapshot.version() {
            return Err(AgentError::Freshness(FreshnessError::Stale).into());
        }
        let same_version = self.registry.version == snapshot.version();
        let same_digest = self.registry.digest == snapshot.digest();
        if same_version != same_digest || view.is_snapshot_revoked(&self.registry.digest) {
            return Err(ContractError::Superseded);
        }
        Ok(entry)
    }

    /// Returns the rules for a call of the tool, if the contract discloses the tool and the current registry lists it
    /// for the agent and all its ancestors.
    ///
    /// Does not check time and revocation: see [`check`](Self::check).
    #[must_use]
    pub fn disclosed<'v>(&self, view: &'v RegistryView, tool: &ToolId) -> Option<&'v ToolRules> {
        self.disclosed_to(view.snapshot().agent(&self.agent)?, view, tool)
    }

    /// Does the same as [`disclosed`](Self::disclosed), with the [entry](Self::agent_entry) of the contract's agent in `view`,
    /// which is not looked up again. `None` if it is the entry of another agent.
    #[must_use]
    pub fn disclosed_to<'v>(
        &self,
        agent: &AgentEntry,
        view: &'v RegistryView,
        tool: &ToolId,
    ) -> Option<&'v ToolRules> {
        let snapshot = view.snapshot();
        // why: the tools of most sessions are those of the entry, and were just searched.
        let lists = |entry: &AgentEntry| Arc::ptr_eq(entry.shared_tools(), &self.tools) || entry.lists(tool);
        let listed = |agent: &AgentId| snapshot.agent(agent).is_some_and(lists);
        if *agent.agent() != self.agent
            || !self.discloses(tool)
            || !lists(agent)
            || !self.ancestors.iter().all(listed)
        {
            return None;
        }
        snapshot.tool(tool)
    }

    /// Seals the contract into a text, for a host that keeps no state.
    ///
    /// The text is not encrypted, and a holder can use it until it expires.
    ///
    /// # Errors
    /// [`ContractError::TooLarge`] when its payload is above 16 KiB.
    pub fn seal(&self, key: &MacKey) -> Result<String, ContractError> {
        let payload = to_canonical(&WireContract::from(self)).map_err(|_| ContractError::TooLarge)?;
        seal(PREFIX, LABEL, key, payload.bytes()).map_err(|_| ContractError::TooLarge)
    }

    /// Opens a sealed contract. The tag is verified before any member is read.
    ///
    /// # Errors
    /// [`ContractError::Invalid`] if the key did not seal it, [`ContractError::Expired`] if it has expired.
    pub fn open(text: &str, key: &MacKey, now: Timestamp) -> Result<Self, ContractError> {
        let mut buffer = PayloadBuffer::default();
        let sealed = SealedText::parse(PREFIX, text, &mut buffer).map_err(|_| ContractError::Invalid)?;
        let payload = sealed.open(LABEL, key).map_err(|_| ContractError::Invalid)?;
        let canonical =
            read(payload, Recipe::Jcs1, &Limits::default()).map_err(|_| ContractError::Invalid)?;
        let wire = WireContract::deserialize(canonical.value()).map_err(|_| ContractError::Invalid)?;
        let contract = Self::from(wire);
        // why: a contract has one sealed text. Sealing it again gives another payload if a list was unsorted or had
        // duplicates.
        let again = to_canonical(&WireContract::from(&contract)).map_err(|_| ContractError::Invalid)?;
        if again.bytes() != payload {
            return Err(ContractError::Invalid);
        }
        if now >= contract.expires {
            return Err(ContractError::Expired);
        }
        Ok(contract)
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireContract {
    recipe: Recipe1,
    session: SessionId,
    agent: AgentId,
    ancestors: Vec<AgentId>,
    tools: Vec<ToolId>,
    tags: Vec<OutputTag>,
    registry_version: u64,
    registry_digest: Digest,
    issued: Timestamp,
    expires: Timestamp,
}

/// The only recipe.
#[derive(serde::Serialize, serde::Deserialize)]
enum Recipe1 {
    #[serde(rename = "contract-1")]
    Contract1,
}

impl From<&SessionContract> for WireContract {
    fn from(contract: &SessionContract) -> Self {
        Self {
            recipe: Recipe1::Contract1,
            session: contract.session.clone(),
            agent: contract.agent.clone(),
            ancestors: contract.ancestors.to_vec(),
            tools: contract.tools.iter().cloned().collect(),
            tags: contract.tags.iter().cloned().collect(),
            registry_version: contract.registry.version,
            registry_digest: contract.registry.digest,
            issued: contract.issued,
            expires: contract.expires,
        }
    }
}

impl From<WireContract> for SessionContract {
    fn from(wire: WireContract) -> Self {
        Self {
            session: wire.session,
            agent: wire.agent,
            ancestors: wire.ancestors.into(),
            tools: Arc::new(wire.tools.into_iter().collect()),
            tags: Arc::new(wire.tags.into_iter().collect()),
            registry: Arc::new(SnapshotId { version: wire.registry_version, digest: wire.registry_digest }),
            issued: wire.issued,
            expires: wire.expires,
        }
    }
}
