use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::{AgentId, Digest, KeyId, Millis, Timestamp};

use crate::agent_entry::AgentEntry;
use crate::snapshot::{FreshnessError, RegistrySnapshot};

/// Why an agent cannot be dealt with at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The registry is too old, expired or from the future.
    #[error(transparent)]
    Freshness(#[from] FreshnessError),
    /// The agent is revoked, by the registry or in this process.
    #[error("the agent is revoked")]
    Revoked,
    /// The registry has no entry for the agent.
    #[error("the agent is not registered")]
    NotRegistered,
}

impl AgentError {
    /// The stable code. A registry from the future is as unfit as an old one: `REGISTRY_STALE`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Freshness(_) => "REGISTRY_STALE",
            Self::Revoked => "AGENT_REVOKED",
            Self::NotRegistered => "AGENT_NOT_REGISTERED",
        }
    }
}

/// A registry that was verified and whose mark is not stored yet. It only takes back: nothing is allowed by it.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) snapshot: RegistrySnapshot,
    /// The signed bytes, to be verified again when the mark can be stored.
    pub(crate) envelope: Vec<u8>,
}

/// Holds one snapshot and the revocations made in this process, as they were at one moment.
#[derive(Debug)]
pub struct RegistryView {
    snapshot: Arc<RegistrySnapshot>,
    pending: Option<Arc<Pending>>,
    revoked: Arc<BTreeSet<AgentId>>,
    max_age: Millis,
    age: Age,
}

/// Whether a snapshot can be too old.
#[derive(Clone, Copy, Debug)]
enum Age {
    Counts,
    Ignored,
}

impl RegistryView {
    pub(crate) const fn new(
        snapshot: Arc<RegistrySnapshot>,
        pending: Option<Arc<Pending>>,
        revoked: Arc<BTreeSet<AgentId>>,
        max_age: Millis,
    ) -> Self {
        Self { snapshot, pending, revoked, max_age, age: Age::Counts }
    }

    /// The same, for looking back: it is in force at every moment, before it was issued and after it expires. No gate can
    /// be given it; a contract that is negotiated by it is still held against the registry of its gate.
    #[must_use]
    pub fn dangerous_always_in_force(&self) -> Self {
        let (snapshot, revoked) = (Arc::clone(&self.snapshot), Arc::clone(&self.revoked));
        Self { snapshot, pending: self.pending.clone(), revoked, max_age: self.max_age, age: Age::Ignored }
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &RegistrySnapshot {
        &self.snapshot
    }

    /// How old the snapshot may be.
    #[must_use]
    pub const fn max_age(&self) -> Millis {
        self.max_age
    }

    /// Version of a newer registry that was verified and whose high-water mark is not stored yet. Until it is, its
    /// revocations count and nothing else does.
    #[must_use]
    pub fn pending_version(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.snapshot.version())
    }

    /// Says whether decisions may be made by the snapshot now.
    ///
    /// # Errors
    /// [`FreshnessError`] when they may not.
    pub fn check_fresh(&self, now: Timestamp) -> Result<(), FreshnessError> {
        match self.age {
            Age::Counts if self.pending.is_some() => Err(FreshnessError::Unstored),
            Age::Counts => self.snapshot.check_fresh(now, self.max_age),
            Age::Ignored => Ok(()),
        }
    }

    /// Says whether an agent is revoked, by the registry or in this process.
    #[must_use]
    pub fn is_agent_revoked(&self, agent: &AgentId) -> bool {
        self.revoked.contains(agent) || self.snapshots().any(|snapshot| snapshot.is_agent_revoked(agent))
    }

    /// Says whether a key is revoked, by the registry or by one that was accepted before it.
    #[must_use]
    pub fn is_key_revoked(&self, key: &KeyId) -> bool {
        self.snapshots().any(|snapshot| snapshot.is_key_revoked(key))
    }

    /// Says whether a snapshot is revoked.
    #[must_use]
    pub fn is_snapshot_revoked(&self, digest: &Digest) -> bool {
        self.snapshots().any(|snapshot| snapshot.is_snapshot_revoked(digest))
    }

    /// The agent's entry, if the agent is not revoked and the snapshot is fresh. A revoked agent is called so whether
    /// it still has an entry or not, and however old the snapshot is.
    ///
    /// # Errors
    /// [`AgentError`] otherwise.
    pub fn agent(&self, agent: &AgentId, now: Timestamp) -> Result<&AgentEntry, AgentError> {
        if self.is_agent_revoked(agent) {
            return Err(AgentError::Revoked);
        }
        self.check_fresh(now)?;
        self.snapshot.agent(agent).ok_or(AgentError::NotRegistered)
    }

    /// The snapshot in force, and a newer one of which the revocations count.
    fn snapshots(&self) -> impl Iterator<Item = &RegistrySnapshot> {
        [&*self.snapshot].into_iter().chain(self.pending.as_ref().map(|pending| &pending.snapshot))
    }

    /// The newest snapshot that was verified, in force or not.
    pub(crate) fn newest(&self) -> &RegistrySnapshot {
        self.pending.as_ref().map_or(&self.snapshot, |pending| &pending.snapshot)
    }

    pub(crate) const fn pending(&self) -> Option<&Arc<Pending>> {
        self.pending.as_ref()
    }

    pub(crate) const fn snapshot_arc(&self) -> &Arc<RegistrySnapshot> {
        &self.snapshot
    }

    pub(crate) const fn revoked(&self) -> &Arc<BTreeSet<AgentId>> {
        &self.revoked
    }
}
