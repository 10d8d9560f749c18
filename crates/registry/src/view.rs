use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::{AgentId, Millis, Timestamp};

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

/// Holds one snapshot and the revocations made in this process, as they were at one moment.
#[derive(Debug)]
pub struct RegistryView {
    snapshot: Arc<RegistrySnapshot>,
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
        revoked: Arc<BTreeSet<AgentId>>,
        max_age: Millis,
    ) -> Self {
        Self { snapshot, revoked, max_age, age: Age::Counts }
    }

    /// The same, for looking back: it is in force at every moment, before it was issued and after it expires. No gate can
    /// be given it; a contract that is negotiated by it is still held against the registry of its gate.
    #[must_use]
    pub fn dangerous_always_in_force(&self) -> Self {
        let (snapshot, revoked) = (Arc::clone(&self.snapshot), Arc::clone(&self.revoked));
        Self { snapshot, revoked, max_age: self.max_age, age: Age::Ignored }
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

    /// Says whether decisions may be made by the snapshot now.
    ///
    /// # Errors
    /// [`FreshnessError`] when they may not.
    pub fn check_fresh(&self, now: Timestamp) -> Result<(), FreshnessError> {
        match self.age {
            Age::Counts => self.snapshot.check_fresh(now, self.max_age),
            Age::Ignored => Ok(()),
        }
    }

    /// Says whether an agent is revoked, by the registry or in this process.
    #[must_use]
    pub fn is_agent_revoked(&self, agent: &AgentId) -> bool {
        self.revoked.contains(agent) || self.snapshot.is_agent_revoked(agent)
    }

    /// The agent's entry, if the snapshot is fresh and the agent is not revoked. A revoked agent is called so whether
    /// it still has an entry or not.
    ///
    /// # Errors
    /// [`AgentError`] otherwise.
    pub fn agent(&self, agent: &AgentId, now: Timestamp) -> Result<&AgentEntry, AgentError> {
        self.check_fresh(now)?;
        if self.is_agent_revoked(agent) {
            return Err(AgentError::Revoked);
        }
        self.snapshot.agent(agent).ok_or(AgentError::NotRegistered)
    }

    pub(crate) const fn snapshot_arc(&self) -> &Arc<RegistrySnapshot> {
        &self.snapshot
    }

    pub(crate) const fn revoked(&self) -> &Arc<BTreeSet<AgentId>> {
        &self.revoked
    }
}
