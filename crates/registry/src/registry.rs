use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use countersign_core::{AgentId, Millis, Timestamp};
use countersign_keys::dsse::Envelope;
use countersign_keys::trusted::read_trusted;
use countersign_keys::{SigningKey, TrustRoot, VerifyingKey};
use parking_lot::Mutex;

use crate::agent_entry::AgentEntry;
use crate::contract::SessionContract;
use crate::draft::{DraftError, RegistryDraft};
use crate::follow::{LoadAttempt, RefreshError, RegistryFile};
use crate::load::{LoadOptions, MAX_TRIES, RegistryError, accept};
use crate::mark::{HighWaterStore, MarkError, MemoryHighWater};
use crate::negotiate::{NegotiateError, NegotiationRequest};
use crate::snapshot::RegistrySnapshot;
use crate::view::{BorrowedView, PendingRegistry, RegistryView};

/// Registry in force. A newer one can replace it.
///
/// Reads are lock-free: [`view`](Self::view) returns one whole version, which no later change affects. Loading and
/// revoking take the lock for the final swap only, so a slow or invalid registry does not delay a revocation.
#[derive(Debug)]
pub struct CapabilityRegistry {
    view: ArcSwap<RegistryView>,
    /// Number of the view in force. Written under the lock of `turn`.
    in_force: AtomicU64,
    marks: Arc<dyn HighWaterStore>,
    options: LoadOptions,
    root: ArcSwap<TrustRoot>,
    /// Lock of the final swap of view or root. Lock order: the attempt of a followed file, then this one.
    turn: Mutex<()>,
    file: OnceLock<RegistryFile>,
    /// No operator signed it.
    is_dev: bool,
}

/// Lifetime of a registry for development.
const DEV_LIFETIME: Millis = Millis::from_secs(30 * 24 * 60 * 60);

impl CapabilityRegistry {
    /// Verifies a signed registry and starts with it.
    ///
    /// Checks in order: size, envelope, signatures over the exact bytes, version, age, content. Then compares and
    /// raises the mark. A failure changes nothing.
    ///
    /// # Errors
    /// [`RegistryError`] if one of these checks fails.
    pub fn load(
        bytes: &[u8],
        root: &TrustRoot,
        marks: Arc<dyn HighWaterStore>,
        options: LoadOptions,
        now: Timestamp,
    ) -> Result<Self, RegistryError> {
        let (snapshot, stored) = accept(bytes, root, &*marks, None, &options, now)?;
        stored?;
        let view = RegistryView::new(Arc::new(snapshot), None, Arc::default(), options.max_age);
        Ok(Self {
            in_force: AtomicU64::new(view.number()),
            view: ArcSwap::from_pointee(view),
            marks,
            options,
            root: ArcSwap::from_pointee(root.clone()),
            turn: Mutex::new(()),
            file: OnceLock::new(),
            is_dev: false,
        })
    }

    /// Starts with a draft that no operator has signed, for development. The signing key is known to everyone, the mark is in
    /// memory, and the registry is valid for 30 days. The record of each session under it says `dev`.
    ///
    /// # Errors
    /// [`RegistryError`] if the draft would not be loaded.
    pub fn dangerous_dev(draft: &RegistryDraft, now: Timestamp) -> Result<Self, RegistryError> {
        let key = SigningKey::from_seed([0; 32]);
        let expires = now.saturating_add(DEV_LIFETIME);
        let signed = draft.sign(now, expires, &[&key]).map_err(|error| match error {
            DraftError::Json(error) => RegistryError::Json(error),
            DraftError::Content(error) => error.into(),
        })?;
        let root = TrustRoot::new(1, 1, [key.verifying_key()]).map_err(RegistryError::Root)?;
        let bytes = signed.to_json().into_bytes();
        let marks = Arc::new(MemoryHighWater::new());
        let loaded = Self::load(&bytes, &root, marks, LoadOptions::default(), now)?;
        Ok(Self { is_dev: true, ..loaded })
    }

    /// Returns `true` if no operator signed the registry ([`dangerous_dev`](Self::dangerous_dev)).
    #[must_use]
    pub const fn is_dev(&self) -> bool {
        self.is_dev
    }

    /// Verifies another signed registry and puts it into force. Returns its version.
    ///
    /// After a failure the last valid registry stays in force and grows stale. Revocations made in this process stay.
    /// A registry verified in this process remains the lower bound of later versions, whatever the stored mark.
    ///
    /// A verified registry whose mark cannot be stored does not come into force, but its revocations count from now
    /// on. Calls of every other agent are `REGISTRY_STALE` until [`confirm`](Self::confirm) or a reload succeeds.
    /// Waits for a lock for some milliseconds at most.
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
                    let pending = PendingRegistry { snapshot, envelope: bytes.to_owned() };
                    self.put(Arc::clone(seen.snapshot_arc()), Some(Arc::new(pending)));
                }
                return stored.map(|()| version).map_err(RegistryError::from);
            }
            drop(turn);
        }
        Err(MarkError::Moved.into())
    }

    /// Retries to store the mark of a verified registry and puts it into force. Returns the version in force. Does
    /// nothing if no such registry is pending.
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

    /// Follows a file: [`refresh`](Self::refresh) loads it after each change. `report` is called once for each
    /// failure of each state of the file. Returns `false` and changes nothing if a file is followed already.
    pub fn follow(
        &self,
        path: impl Into<PathBuf>,
        report: impl Fn(&RefreshError) + Send + Sync + 'static,
    ) -> bool {
        self.file.set(RegistryFile::new(path.into(), Box::new(report))).is_ok()
    }

    /// Loads the followed file if it changed since the last look, and retries a failed load. The first retry comes after
    /// 100 ms, later ones after twice the last wait, at most 5 s. Gates call this before each decision, and so do the
    /// methods here that take the time. Does nothing without a followed file.
    ///
    /// After a failed load the last valid registry stays in force and grows stale. Revocations of a verified registry
    /// count even if its mark cannot be stored ([`reload`](Self::reload)).
    pub fn refresh(&self, now: Timestamp) {
        let Some(file) = self.file.get() else { return };
        let pending = || self.view().pending_version();
        file.look(now, pending, |attempt| match attempt {
            LoadAttempt::Confirm => Ok(self.confirm(now)?),
            LoadAttempt::Read(path) => {
                let max = u64::try_from(self.options.envelope_bytes()).unwrap_or(u64::MAX);
                Ok(self.reload(&read_trusted(path, max)?, now)?)
            }
        });
    }

    /// Puts a snapshot into force and keeps this process's revocations. Requires the lock.
    fn put(&self, snapshot: Arc<RegistrySnapshot>, pending: Option<Arc<PendingRegistry>>) {
        let revoked = Arc::clone(self.view.load().revoked());
        self.replace(RegistryView::new(snapshot, pending, revoked, self.options.max_age));
    }

    /// Puts a view into force. Requires the lock.
    fn replace(&self, view: RegistryView) {
        let number = view.number();
        self.view.store(Arc::new(view));
        self.in_force.store(number, Ordering::SeqCst);
    }

    /// Replaces the trust root for registries loaded from now on. Returns its version.
    ///
    /// # Errors
    /// [`RegistryError::Root`] if it is not the next version, or lacks a threshold of signatures under the old root or
    /// under the new one. Keys that the registry has revoked count for neither.
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

    /// Returns whether root and view are unchanged since a verification. Requires the lock.
    fn still(&self, root: &Arc<TrustRoot>, seen: &RegistryView) -> bool {
        Arc::ptr_eq(&self.root.load(), root) && std::ptr::eq(self.view.load().newest(), seen.newest())
    }

    /// Returns one consistent version of all that a decision needs: the snapshot, and the revocations made in this
    /// process.
    #[must_use]
    pub fn view(&self) -> Arc<RegistryView> {
        self.view.load_full()
    }

    /// Returns the same as [`view`](Self::view), borrowed for one decision.
    #[must_use]
    pub fn borrow_view(&self) -> BorrowedView {
        BorrowedView(self.view.load())
    }

    /// Returns whether this view is in force, without borrowing the one that is.
    #[must_use]
    pub fn is_in_force(&self, view: &RegistryView) -> bool {
        self.in_force.load(Ordering::SeqCst) == view.number()
    }

    /// Snapshot in force.
    #[must_use]
    pub fn current(&self) -> Arc<RegistrySnapshot> {
        Arc::clone(self.view.load().snapshot_arc())
    }

    /// Revokes an agent in this process, at once. The revocation survives a reload and ends with the process.
    pub fn revoke(&self, agent: &AgentId) {
        let turn = self.turn.lock();
        let view = self.view.load();
        let mut revoked: BTreeSet<AgentId> = (**view.revoked()).clone();
        revoked.insert(agent.clone());
        let (snapshot, pending) = (Arc::clone(view.snapshot_arc()), view.pending().cloned());
        let view = RegistryView::new(snapshot, pending, Arc::new(revoked), self.options.max_age);
        self.replace(view);
        drop(turn);
    }

    /// Returns the entry of an agent, if the registry is no older than `max_age` and the agent is not revoked.
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

    /// Creates the contract of a new session from the agent's entry alone.
    ///
    /// # Errors
    /// [`NegotiateError`] if the registry is stale, the agent is unknown or revoked, or the request exceeds its entry.
    pub fn negotiate(
        &self,
        request: &NegotiationRequest,
        now: Timestamp,
    ) -> Result<SessionContract, NegotiateError> {
        self.refresh(now);
        self.view.load().negotiate(request, now)
    }

    /// Creates the contract of a child session. It grants no more than the parent's contract, and ends with it.
    ///
    /// # Errors
    /// [`NegotiateError`], as [`negotiate`](Self::negotiate), and if the parent's contract is no longer valid.
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
