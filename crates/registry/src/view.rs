use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::Guard;
use countersign_core::{AgentId, Digest, KeyId, Millis, Timestamp};

use crate::agent_entry::AgentEntry;
use crate::snapshot::{FreshnessError, RegistrySnapshot};

/// Reason why an agent cannot be served now.
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

countersign_core::coded!(AgentError);

/// Verified registry whose mark is not stored yet. Its revocations count, and it allows nothing.
#[derive(Debug)]
pub(crate) struct PendingRegistry {
    pub(crate) snapshot: RegistrySnapshot,
    /// Signed bytes, to be verified again when the mark can be stored.
    pub(crate) envelope: Vec<u8>,
}

/// A [`RegistryView`] that is borrowed for one decision. It counts no reference: threads that count references of one
/// view slow each other.
#[derive(Debug)]
pub struct BorrowedView(pub(crate) Guard<Arc<RegistryView>>);

impl Deref for BorrowedView {
    type Target = RegistryView;

    fn deref(&self) -> &RegistryView {
        &self.0
    }
}

/// One snapshot and the revocations made in this process, at one moment.
#[derive(Debug)]
pub struct RegistryView {
    snapshot: Arc<RegistrySnapshot>,
    pending: Option<Arc<PendingRegistry>>,
    revoked: Arc<BTreeSet<AgentId>>,
    max_age: Millis,
    age: Age,
    /// No other view of this process has this number.
    number: u64,
}

/// Number of the next view.
static NEXT_VIEW: AtomicU64 = AtomicU64::new(0);

/// Whether the age of a snapshot is checked.
#[derive(Clone, Copy, Debug)]
enum Age {
    Counts,
    Ignored,
}

impl RegistryView {
    pub(crate) fn new(
        snapshot: Arc<RegistrySnapshot>,
        pending: Option<Arc<PendingRegistry>>,
        revoked: Arc<BTreeSet<AgentId>>,
        max_age: Millis,
    ) -> Self {
        let number = NEXT_VIEW.fetch_add(1, Ordering::Relaxed);
        Self { snapshot, pending, revoked, max_age, age: Age::Counts, number }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns a view that is valid at every time, before its issue and after its expiry, to check past decisions. A gate
    /// does not accept it, and a contract negotiated under it is still checked against the gate's own registry.
    #[must_use]
    pub fn dangerous_always_in_force(&self) -> Self {
        let (snapshot, revoked) = (Arc::clone(&self.snapshot), Arc::clone(&self.revoked));
        let view = Self::new(snapshot, self.pending.clone(), revoked, self.max_age);
        Self { age: Age::Ignored, ..view }
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &RegistrySnapshot {
        &self.snapshot
    }

    /// Longest age of the snapshot.
    #[must_use]
    pub const fn max_age(&self) -> Millis {
        self.max_age
    }

    /// Version of a newer verified registry whose high-water mark is not stored yet. Until then only its revocations
    /// count.
    #[must_use]
    pub fn pending_version(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.snapshot.version())
    }

    /// Checks that decisions may be based on the snapshot now.
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

    /// Returns `true` if an agent is revoked, by the registry or in this process.
    #[must_use]
    pub fn is_agent_revoked(&self, agent: &AgentId) -> bool {
        self.revoked.contains(agent) || self.snapshots().any(|snapshot| snapshot.is_agent_revoked(agent))
    }

    /// Returns `true` if a key is revoked, by the registry or an earlier accepted one.
    #[must_use]
    pub fn is_key_revoked(&self, key: &KeyId) -> bool {
        self.snapshots().any(|snapshot| snapshot.is_key_revoked(key))
    }

    /// Returns `true` if a snapshot is revoked.
    #[must_use]
    pub fn is_snapshot_revoked(&self, digest: &Digest) -> bool {
        self.snapshots().any(|snapshot| snapshot.is_snapshot_revoked(digest))
    }

    /// Returns the entry of an agent that is not revoked, from a fresh snapshot. A revoked agent is reported as
    /// revoked with or without an entry, and whatever the age of the snapshot.
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

    /// The snapshot in force, and then a newer one whose revocations count, if there is one.
    fn snapshots(&self) -> impl Iterator<Item = &RegistrySnapshot> {
        [&*self.snapshot].into_iter().chain(self.pending.as_ref().map(|pending| &pending.snapshot))
    }

    /// Newest verified snapshot, in force or not.
    pub(crate) fn newest(&self) -> &RegistrySnapshot {
        self.pending.as_ref().map_or(&self.snapshot, |pending| &pending.snapshot)
    }

    pub(crate) const fn pending(&self) -> Option<&Arc<PendingRegistry>> {
        self.pending.as_ref()
    }

    pub(crate) const fn snapshot_arc(&self) -> &Arc<RegistrySnapshot> {
        &self.snapshot
    }

    pub(crate) const fn revoked(&self) -> &Arc<BTreeSet<AgentId>> {
        &self.revoked
    }
}
