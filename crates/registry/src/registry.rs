use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use countersign_core::{AgentId, Millis, Timestamp};
use countersign_keys::dsse::Envelope;
use countersign_keys::{TrustRoot, VerifyingKey};
use parking_lot::Mutex;

use crate::agent_entry::AgentEntry;
use crate::contract::SessionContract;
use crate::load::{LoadOptions, RegistryError, verify_registry};
use crate::mark::{HighWaterStore, MarkError};
use crate::negotiate::{NegotiateError, NegotiationRequest};
use crate::snapshot::RegistrySnapshot;
use crate::view::RegistryView;

/// How often something is verified anew because what it was verified against changed in the meantime.
const MAX_TRIES: usize = 8;

/// Holds the registry that counts now, and lets a newer one take its place.
///
/// Reading is lock-free: [`view`](Self::view) gives one whole version, and whoever works with it sees no other one
/// half-way. Loading and revoking take turns at the last step alone: a registry that takes long to verify, or is junk,
/// keeps no revocation waiting.
#[derive(Debug)]
pub struct CapabilityRegistry {
    view: ArcSwap<RegistryView>,
    marks: Arc<dyn HighWaterStore>,
    options: LoadOptions,
    root: ArcSwap<TrustRoot>,
    /// Who holds it may put another view or root in place.
    turn: Mutex<()>,
}

impl CapabilityRegistry {
    /// Verifies a signed registry and starts with it.
    ///
    /// In this order: size, envelope, signatures over the exact bytes, version, age, content, then the mark is compared
    /// and raised. What fails leaves everything as it was.
    ///
    /// # Errors
    /// [`RegistryError`] when any of these does not hold.
    pub fn load(
        bytes: &[u8],
        root: &TrustRoot,
        marks: Arc<dyn HighWaterStore>,
        options: LoadOptions,
        now: Timestamp,
    ) -> Result<Self, RegistryError> {
        let snapshot = accept(bytes, root, &*marks, None, &options, now)?;
        let view = RegistryView::new(Arc::new(snapshot), Arc::default(), options.max_age());
        Ok(Self {
            view: ArcSwap::from_pointee(view),
            marks,
            options,
            root: ArcSwap::from_pointee(root.clone()),
            turn: Mutex::new(()),
        })
    }

    /// Verifies another signed registry and puts it in place of the one that counts. Returns its version.
    ///
    /// When it fails, the last good one stays and becomes stale by itself. Revocations made in this process stay. What
    /// this process has accepted stays the least that it accepts, whatever became of the stored mark.
    ///
    /// # Errors
    /// [`RegistryError`], as [`load`](Self::load).
    pub fn reload(&self, bytes: &[u8], now: Timestamp) -> Result<u64, RegistryError> {
        for _ in 0..MAX_TRIES {
            let (root, held) = (self.root.load_full(), self.current());
            let snapshot = accept(bytes, &root, &*self.marks, Some(&held), &self.options, now)?;
            let version = snapshot.version();
            let turn = self.turn.lock();
            if self.still(&root, &held) {
                let revoked = Arc::clone(self.view.load().revoked());
                let view = RegistryView::new(Arc::new(snapshot), revoked, self.options.max_age());
                self.view.store(Arc::new(view));
                return Ok(version);
            }
            drop(turn);
        }
        Err(MarkError::Moved.into())
    }

    /// Puts the next trust root in place, for the registries that are loaded from now on. Returns its version.
    ///
    /// # Errors
    /// [`RegistryError::Root`] when it is not the next version, or not signed by the threshold of the old root and of
    /// the new one, where keys that the registry has revoked count for neither.
    pub fn update_root(&self, envelope: &Envelope) -> Result<u64, RegistryError> {
        for _ in 0..MAX_TRIES {
            let (root, held) = (self.root.load_full(), self.current());
            let revoked = |key: &VerifyingKey| held.is_key_revoked(&key.key_id());
            let next = root.update(envelope, &revoked).map_err(RegistryError::Root)?;
            let version = next.version();
            let turn = self.turn.lock();
            if self.still(&root, &held) {
                self.root.store(Arc::new(next));
                return Ok(version);
            }
            drop(turn);
        }
        Err(MarkError::Moved.into())
    }

    /// Says whether what something was verified against is what counts. Asked by whoever has the turn.
    fn still(&self, root: &Arc<TrustRoot>, held: &Arc<RegistrySnapshot>) -> bool {
        Arc::ptr_eq(&self.root.load(), root) && Arc::ptr_eq(self.view.load().snapshot_arc(), held)
    }

    /// One whole version of everything that a decision needs: the snapshot and the revocations made in this process.
    #[must_use]
    pub fn view(&self) -> Arc<RegistryView> {
        self.view.load_full()
    }

    /// The snapshot that counts now.
    #[must_use]
    pub fn current(&self) -> Arc<RegistrySnapshot> {
        Arc::clone(self.view.load().snapshot_arc())
    }

    /// Revokes an agent in this process, at once. Nothing but the end of the process undoes it: a reload keeps it.
    pub fn revoke(&self, agent: &AgentId) {
        let turn = self.turn.lock();
        let view = self.view.load();
        let mut revoked: BTreeSet<AgentId> = (**view.revoked()).clone();
        revoked.insert(agent.clone());
        let snapshot = Arc::clone(view.snapshot_arc());
        self.view.store(Arc::new(RegistryView::new(snapshot, Arc::new(revoked), self.options.max_age())));
        drop(turn);
    }

    /// What the registry says of an agent, if the registry is no older than `max_age` and the agent is not revoked.
    ///
    /// # Errors
    /// [`NegotiateError`] with `REGISTRY_STALE`, `AGENT_REVOKED` or `AGENT_NOT_REGISTERED`.
    pub fn lookup(
        &self,
        agent: &AgentId,
        max_age: Millis,
        now: Timestamp,
    ) -> Result<AgentEntry, NegotiateError> {
        let view = self.view.load();
        view.snapshot().check_fresh(now, max_age)?;
        Ok(view.agent(agent, now)?.clone())
    }

    /// Makes the contract of a new session out of what the registry says of the agent, and of nothing else.
    ///
    /// # Errors
    /// [`NegotiateError`] when the registry is stale, the agent unknown or revoked, or more is asked for than is listed.
    pub fn negotiate(
        &self,
        request: &NegotiationRequest,
        now: Timestamp,
    ) -> Result<SessionContract, NegotiateError> {
        self.view.load().negotiate(request, now)
    }

    /// Makes the contract of a session that another session started: within that one's contract, and over with it.
    ///
    /// # Errors
    /// [`NegotiateError`], as [`negotiate`](Self::negotiate), and when the parent's contract no longer holds.
    pub fn negotiate_under(
        &self,
        parent: &SessionContract,
        request: &NegotiationRequest,
        now: Timestamp,
    ) -> Result<SessionContract, NegotiateError> {
        self.view.load().negotiate_under(parent, request, now)
    }
}

/// Verify, then persist: the mark is raised only for what has passed every check, and only from the mark that it was
/// checked against.
fn accept(
    bytes: &[u8],
    root: &TrustRoot,
    marks: &dyn HighWaterStore,
    held: Option<&RegistrySnapshot>,
    options: &LoadOptions,
    now: Timestamp,
) -> Result<RegistrySnapshot, RegistryError> {
    for _ in 0..MAX_TRIES {
        let seen = marks.current()?;
        // The store may have been emptied or put back to an older state while this process ran.
        let newest = match held.map(RegistrySnapshot::mark) {
            Some(held) => Some(held.newer(seen.clone())),
            None => seen.clone(),
        };
        let snapshot = verify_registry(bytes, root, newest.as_ref(), options, now)?;
        match marks.compare_and_raise(seen.as_ref(), &snapshot.mark()) {
            Ok(()) => return Ok(snapshot),
            Err(MarkError::Moved) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(MarkError::Moved.into())
}
