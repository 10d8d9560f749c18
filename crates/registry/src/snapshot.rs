use std::collections::{BTreeMap, BTreeSet};

use countersign_core::{AgentId, Digest, KeyId, Millis, ServerName, Timestamp, ToolId};

use crate::agent_entry::AgentEntry;
use crate::listed::ServerEntry;
use crate::mark::Mark;
use crate::revoked::Revoked;
use crate::tool_rules::ToolRules;

/// Says that a snapshot may not be decided by at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreshnessError {
    /// The snapshot has expired, or is older than is asked for.
    #[error("the registry is stale")]
    Stale,
    /// The snapshot was issued in the future, further than clocks may differ.
    #[error("the registry is not valid yet")]
    NotYet,
    /// A newer registry was verified, and its high-water mark is not stored yet.
    #[error("the high-water mark of a newer registry is not stored yet")]
    Unstored,
}

impl FreshnessError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Stale | Self::Unstored => "REGISTRY_STALE",
            Self::NotYet => "REGISTRY_NOT_YET",
        }
    }
}

/// When a snapshot counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
    pub(crate) skew: Millis,
}

impl Validity {
    pub(crate) fn check(&self, now: Timestamp, max_age: Millis) -> Result<(), FreshnessError> {
        if now.saturating_add(self.skew) < self.issued {
            return Err(FreshnessError::NotYet);
        }
        if now >= self.expires || now.since(self.issued) > max_age {
            return Err(FreshnessError::Stale);
        }
        Ok(())
    }
}

/// Holds one version of the registry, whole, after signatures, version, age and content were verified.
///
/// Only [`CapabilityRegistry`](crate::CapabilityRegistry) and [`verify_registry`](crate::verify_registry) make one.
/// Look-ups borrow and allocate nothing.
#[derive(Debug)]
pub struct RegistrySnapshot {
    pub(crate) version: u64,
    pub(crate) digest: Digest,
    pub(crate) validity: Validity,
    pub(crate) agents: BTreeMap<AgentId, AgentEntry>,
    pub(crate) tools: BTreeMap<ToolId, ToolRules>,
    pub(crate) servers: BTreeMap<ServerName, ServerEntry>,
    pub(crate) revoked: Revoked,
    pub(crate) revoked_before: BTreeSet<KeyId>,
}

impl RegistrySnapshot {
    /// The version.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The digest of the exact bytes that were signed.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// When it was issued.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.validity.issued
    }

    /// The first moment at which it no longer counts.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.validity.expires
    }

    /// How far clocks may differ.
    #[must_use]
    pub const fn skew(&self) -> Millis {
        self.validity.skew
    }

    /// Says whether decisions may be made by it now: not expired, not older than `max_age`, not from the future.
    ///
    /// # Errors
    /// [`FreshnessError`] when they may not.
    pub fn check_fresh(&self, now: Timestamp, max_age: Millis) -> Result<(), FreshnessError> {
        self.validity.check(now, max_age)
    }

    /// What it says of an agent, revoked or not.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<&AgentEntry> {
        self.agents.get(agent)
    }

    /// What it says of a tool.
    #[must_use]
    pub fn tool(&self, tool: &ToolId) -> Option<&ToolRules> {
        self.tools.get(tool)
    }

    /// What it says of a server itself.
    #[must_use]
    pub fn server(&self, server: &ServerName) -> Option<&ServerEntry> {
        self.servers.get(server)
    }

    /// The agents' entries, in the order of their names.
    #[must_use]
    pub fn agents(&self) -> impl ExactSizeIterator<Item = &AgentEntry> {
        self.agents.values()
    }

    /// The tools' entries, in the order of their names.
    #[must_use]
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &ToolRules> {
        self.tools.values()
    }

    /// What it takes back.
    #[must_use]
    pub const fn revoked(&self) -> &Revoked {
        &self.revoked
    }

    /// Says whether an agent is revoked.
    #[must_use]
    pub fn is_agent_revoked(&self, agent: &AgentId) -> bool {
        self.revoked.agents.contains(agent)
    }

    /// Says whether a key is revoked, by this snapshot or by one that was accepted before it.
    #[must_use]
    pub fn is_key_revoked(&self, key: &KeyId) -> bool {
        self.revoked.keys.contains(key) || self.revoked_before.contains(key)
    }

    /// Says whether a snapshot is revoked.
    #[must_use]
    pub fn is_snapshot_revoked(&self, digest: &Digest) -> bool {
        self.revoked.has_snapshot(digest)
    }

    /// The mark that it leaves: with every key that it revokes or one before it did.
    pub(crate) fn mark(&self) -> Mark {
        let keys = self.revoked.keys.union(&self.revoked_before).cloned().collect();
        Mark::new(self.version, self.digest, keys)
    }
}
