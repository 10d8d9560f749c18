use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use countersign_core::{AgentId, Millis, Timestamp};
use countersign_keys::dsse::Envelope;
use countersign_keys::{TrustRoot, VerifyingKey};
use parking_lot::Mutex;

use crate::agent_entry::AgentEntry;
use crate::contract::SessionContract;
use crate::follow::RegistryFile;
use crate::load::{LoadOptions, RegistryError, verify_registry};
use crate::mark::{HighWaterStore, MarkError};
use crate::negotiate::{NegotiateError, NegotiationRequest};
use crate::snapshot::RegistrySnapshot;
use crate::view::{Pending, RegistryView};

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
    pub(crate) file: OnceLock<RegistryFile>,
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
        let (snapshot, stored) = accept(bytes, root, &*marks, None, &options, now)?;
        stored?;
        let view = RegistryView::new(Arc::new(snapshot), None, Arc::default(), options.max_age());
        Ok(Self {
            view: ArcSwap::from_pointee(view),
            marks,
            options,
            root: ArcSwap::from_pointee(root.clone()),
            turn: Mutex::new(()),
            file: OnceLock::new(),
        })
    }

    /// Verifies another signed registry and puts it in place of the one that counts. Returns its version.
    ///
    /// When it fails, the last good one stays and becomes stale by itself. Revocations made in this process stay. What
    /// this process has verified stays the least that it accepts, whatever became of the stored mark.
    ///
    /// A registry that verifies and whose mark cannot be stored does not come into force, but what it takes back counts
    /// from now on, and every other agent's calls are `REGISTRY_STALE` until [`confirm`](Self::confirm) or a reload
    /// succeeds. Waits for no lock longer than some milliseconds.
    ///
    /// # Errors
    /// [`RegistryError`], as [`load`](Self::load).
    pub fn reload(&self, bytes: &[u8], now: Timestamp) -> Result<u64, RegistryError> {
        for _ in 0..MAX_TRIES {
            let (root, seen) = (self.root.load_full(), self.view());
            let (snapshot, stored) =
                accept(bytes, &root, &*self.marks, Some(seen.newest()), &self.options, now)?;
            let version = snapshot.version();
            let turn = self.turn.lock();
            if self.still(&root, &seen) {
                if stored.is_ok() {
                    self.put(Arc::new(snapshot), None);
                } else if snapshot.digest() != seen.snapshot().digest() {
                    let pending = Pending { snapshot, envelope: bytes.to_owned() };
                    self.put(Arc::clone(seen.snapshot_arc()), Some(Arc::new(pending)));
                }
                return stored.map(|()| version).map_err(RegistryError::from);
            }
            drop(turn);
        }
        Err(MarkError::Moved.into())
    }

    /// Tries again to store the mark of a registry that was verified before, and puts it in force. Returns the version in
    /// force; without such a registry, nothing is done.
    ///
    /// # Errors
    /// [`RegistryError`], as [`reload`](Self::reload).
    pub fn confirm(&self, now: Timestamp) -> Result<u64, RegistryError> {
        let view = self.view();
        match view.pending() {
            Some(pending) => self.reload(&pending.envelope, now),
            None => Ok(view.snapshot().version()),
        }
    }

    /// Called by the holder of the turn.
    fn put(&self, snapshot: Arc<RegistrySnapshot>, pending: Option<Arc<Pending>>) {
        let revoked = Arc::clone(self.view.load().revoked());
        self.view.store(Arc::new(RegistryView::new(snapshot, pending, revoked, self.options.max_age())));
    }

    /// Puts the next trust root in place, for the registries that are loaded from now on. Returns its version.
    ///
    /// # Errors
    /// [`RegistryError::Root`] when it is not the next version, or not signed by the threshold of the old root and of
    /// the new one, where keys that the registry has revoked count for neither.
    pub fn update_root(&self, envelope: &Envelope) -> Result<u64, RegistryError> {
        for _ in 0..MAX_TRIES {
            let (root, seen) = (self.root.load_full(), self.view());
            let revoked = |key: &VerifyingKey| seen.is_key_revoked(&key.key_id());
            let next = root.update(envelope, &revoked).map_err(RegistryError::Root)?;
            let version = next.version();
            let turn = self.turn.lock();
            if self.still(&root, &seen) {
                self.root.store(Arc::new(next));
                return Ok(version);
            }
            drop(turn);
        }
        Err(MarkError::Moved.into())
    }

    /// Says whether what something was verified against is what counts. Asked by whoever has the turn.
    fn still(&self, root: &Arc<TrustRoot>, seen: &RegistryView) -> bool {
        Arc::ptr_eq(&self.root.load(), root) && std::ptr::eq(self.view.load().newest(), seen.newest())
    }

    pub(crate) const fn options(&self) -> &LoadOptions {
        &self.options
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
        let (snapshot, pending) = (Arc::clone(view.snapshot_arc()), view.pending().cloned());
        let view = RegistryView::new(snapshot, pending, Arc::new(revoked), self.options.max_age());
        self.view.store(Arc::new(view));
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
        self.refresh(now);
        let view = self.view.load();
        let entry = view.agent(agent, now)?;
        view.snapshot().check_fresh(now, max_age)?;
        Ok(entry.clone())
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
        self.refresh(now);
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
        self.refresh(now);
        self.view.load().negotiate_under(parent, request, now)
    }
}

/// Verify, then persist: the mark is raised only for what has passed every check, and only from the mark that it was
/// checked against. Returns what was verified, and whether its mark is stored.
fn accept(
    bytes: &[u8],
    root: &TrustRoot,
    marks: &dyn HighWaterStore,
    held: Option<&RegistrySnapshot>,
    options: &LoadOptions,
    now: Timestamp,
) -> Result<(RegistrySnapshot, Result<(), MarkError>), RegistryError> {
    for tries_left in (0..MAX_TRIES).rev() {
        let (seen, readable) = match marks.current() {
            Ok(seen) => (seen, Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The store may have been emptied or put back to an older state while this process ran.
        let newest = match held.map(RegistrySnapshot::mark) {
            Some(held) => Some(held.newer(seen.clone())),
            None => seen.clone(),
        };
        let snapshot = verify_registry(bytes, root, newest.as_ref(), options, now)?;
        let (seen, mark) = (seen.as_ref(), snapshot.mark());
        let stored = readable.and_then(|()| match held {
            None => marks.compare_and_raise(seen, &mark),
            Some(_) if seen == Some(&mark) => Ok(()),
            // why: a call must not wait for a lock that another process holds; a start may.
            Some(_) => marks.try_compare_and_raise(seen, &mark),
        });
        match stored {
            Err(MarkError::Moved) if tries_left > 0 => {}
            Err(error) if error.is_refusal() => return Err(error.into()),
            stored => return Ok((snapshot, stored)),
        }
    }
    Err(MarkError::Moved.into())
}
