use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_core::{AgentId, Digest, KeyId, Millis, ServerName, Timestamp, ToolId};

use crate::agent_entry::AgentEntry;
use crate::entry_index::EntryIndex;
use crate::mark::Mark;
use crate::revoked::Revoked;
use crate::server_entry::ServerEntry;
use crate::tool_entry::ToolRules;

/// Reason why a snapshot may not be used for decisions now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreshnessError {
    /// The snapshot has expired, or exceeds the longest age.
    #[error("the registry is stale")]
    Stale,
    /// The snapshot was issued in the future, beyond the clock skew.
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

countersign_core::coded!(FreshnessError);

/// Times of a snapshot.
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

/// Version and digest of a snapshot. The contracts that were negotiated under it share them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SnapshotId {
    pub(crate) version: u64,
    /// Digest of the exact signed bytes.
    pub(crate) digest: Digest,
}

/// One version of the registry, with verified signatures, version, age and content.
///
/// Created by [`CapabilityRegistry`](crate::CapabilityRegistry) and [`verify_registry`](crate::verify_registry) only.
/// Look-ups borrow and do not allocate.
#[derive(Debug)]
pub struct RegistrySnapshot {
    pub(crate) id: Arc<SnapshotId>,
    pub(crate) validity: Validity,
    pub(crate) agents: EntryIndex<AgentId, AgentEntry>,
    pub(crate) tools: EntryIndex<ToolId, ToolRules>,
    pub(crate) servers: BTreeMap<ServerName, ServerEntry>,
    pub(crate) revoked: Revoked,
    pub(crate) revoked_before: BTreeSet<KeyId>,
}

impl RegistrySnapshot {
    /// The version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.id.version
    }

    /// Digest of the exact signed bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.id.digest
    }

    /// Time of issue.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.validity.issued
    }

    /// First moment at which it is no longer valid.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.validity.expires
    }

    /// Allowed clock skew.
    #[must_use]
    pub const fn skew(&self) -> Millis {
        self.validity.skew
    }

    /// Checks that decisions may be based on it now: not expired, not older than `max_age`, not from the future.
    ///
    /// # Errors
    /// [`FreshnessError`] when they may not.
    pub fn check_fresh(&self, now: Timestamp, max_age: Millis) -> Result<(), FreshnessError> {
        self.validity.check(now, max_age)
    }

    /// Entry of an agent, revoked or not.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<&AgentEntry> {
        self.agents.get(agent)
    }

    /// Rules of a tool.
    #[must_use]
    pub fn tool(&self, tool: &ToolId) -> Option<&ToolRules> {
        self.tools.get(tool)
    }

    /// Entry of a server.
    #[must_use]
    pub fn server(&self, server: &ServerName) -> Option<&ServerEntry> {
        self.servers.get(server)
    }

    /// Agent entries, ordered by id.
    #[must_use]
    pub fn agents(&self) -> impl ExactSizeIterator<Item = &AgentEntry> {
        self.agents.entries().iter()
    }

    /// Tool rules, ordered by id.
    #[must_use]
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &ToolRules> {
        self.tools.entries().iter()
    }

    /// Revocations.
    #[must_use]
    pub const fn revoked(&self) -> &Revoked {
        &self.revoked
    }

    /// Returns `true` if an agent is revoked.
    #[must_use]
    pub fn is_agent_revoked(&self, agent: &AgentId) -> bool {
        self.revoked.agents.contains(agent)
    }

    /// Returns `true` if a key is revoked, by this snapshot or an earlier accepted one.
    #[must_use]
    pub fn is_key_revoked(&self, key: &KeyId) -> bool {
        self.revoked.keys.contains(key) || self.revoked_before.contains(key)
    }

    /// Returns `true` if a snapshot is revoked.
    #[must_use]
    pub fn is_snapshot_revoked(&self, digest: &Digest) -> bool {
        self.revoked.has_snapshot(digest)
    }

    /// Mark after this snapshot, with every key that it or an earlier one revoked.
    pub(crate) fn mark(&self) -> Mark {
        let keys = self.revoked.keys.union(&self.revoked_before).cloned().collect();
        Mark::new(self.version(), self.digest(), keys)
    }
}
