//! State that changes during a session, except its record.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use countersign_core::{Clock, ClockError, Digest, SpentTokens, Timestamp, ToolId};
use parking_lot::{Mutex, RwLock};

use crate::call_ids::CallIds;
use crate::plan::RunningPlan;
use crate::steps::args::Usage;
use crate::terms::InForce;

pub(crate) struct GateProgress {
    pub(crate) clock: SessionClock,
    in_force: ArcSwap<InForce>,
    /// Held during a renewal.
    pub(crate) renewing: Mutex<()>,
    pub(crate) usage: Usage,
    #[expect(
        clippy::box_collection,
        reason = "most sessions have no definition, and an empty map takes three times as much"
    )]
    definitions: RwLock<Option<Box<BTreeMap<ToolId, Digest>>>>,
    /// Number of changes of the terms in force and of the definitions. Written under the lock of the definitions, after
    /// the change.
    changes: AtomicU64,
    pub(crate) plan: OnceLock<RunningPlan>,
    /// Held while a plan is started or amended.
    pub(crate) changing_plan: Mutex<()>,
    next_call: AtomicU64,
    /// Set if each id runs once.
    pub(crate) call_ids: Option<Box<CallIds>>,
}

/// Contract and pinned goal, borrowed for one decision.
pub(crate) struct BorrowedTerms {
    terms: Guard<Arc<InForce>>,
    changes: u64,
}

impl Deref for BorrowedTerms {
    type Target = InForce;

    fn deref(&self) -> &InForce {
        &self.terms
    }
}

/// The host's clock, never earlier than the latest time seen: a clock that runs back extends no lifetime.
#[derive(Debug)]
pub(crate) struct SessionClock {
    clock: Arc<dyn Clock>,
    latest: AtomicU64,
}

impl Clock for SessionClock {
    fn now(&self) -> Result<Timestamp, ClockError> {
        Self::now(self)
    }
}

impl SessionClock {
    /// Returns the time, never earlier than before.
    pub(crate) fn now(&self) -> Result<Timestamp, ClockError> {
        self.read().map(|(time, _)| time)
    }

    /// Returns the time, never earlier than before, and the reading of the clock in milliseconds.
    pub(crate) fn read(&self) -> Result<(Timestamp, u64), ClockError> {
        let now = self.clock.now()?;
        let reading = now.as_millis();
        if self.latest.load(Ordering::SeqCst) == reading {
            return Ok((now, reading));
        }
        let latest = self.latest.fetch_max(reading, Ordering::SeqCst).max(reading);
        Ok((Timestamp::from_millis(latest).unwrap_or(now), reading))
    }

    /// Returns the latest time seen, without reading the clock.
    pub(crate) fn latest(&self) -> Timestamp {
        Timestamp::from_millis(self.latest.load(Ordering::SeqCst)).unwrap_or(Timestamp::EPOCH)
    }
}

impl GateProgress {
    /// Begins a session. Definitions of tools that its contract does not disclose are left out.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        now: Timestamp,
        in_force: InForce,
        mut definitions: BTreeMap<ToolId, Digest>,
        call_ids: Option<Arc<dyn SpentTokens>>,
    ) -> Self {
        definitions.retain(|tool, _| in_force.contract.discloses(tool));
        Self {
            clock: SessionClock { clock, latest: AtomicU64::new(now.as_millis()) },
            in_force: ArcSwap::from_pointee(in_force),
            renewing: Mutex::new(()),
            usage: Usage::default(),
            changes: AtomicU64::new(u64::from(!definitions.is_empty())),
            definitions: RwLock::new((!definitions.is_empty()).then(|| Box::new(definitions))),
            plan: OnceLock::new(),
            changing_plan: Mutex::new(()),
            next_call: AtomicU64::new(1),
            call_ids: call_ids.map(|store| Box::new(CallIds::new(store))),
        }
    }

    /// Returns the contract and pinned goal in force. Load them before the [view](crate::terms::GateTerms::view) of the
    /// registry: a renewal can bring those of a later registry.
    pub(crate) fn in_force(&self) -> BorrowedTerms {
        // why: in this order, so that a change in between shows as one since.
        let changes = self.changes.load(Ordering::SeqCst);
        BorrowedTerms { terms: self.in_force.load(), changes }
    }

    /// Returns whether neither the terms nor a definition has changed since these terms were borrowed.
    pub(crate) fn is_unchanged(&self, since: &BorrowedTerms) -> bool {
        self.changes.load(Ordering::SeqCst) == since.changes
    }

    /// Replaces contract and pinned goal. Deletes the definitions of tools that the new contract does not disclose,
    /// because the host no longer notes their changes.
    pub(crate) fn replace_terms(&self, in_force: InForce) {
        // why: under the lock, so that no definition is noted by the old contract afterwards.
        let mut definitions = self.definitions.write();
        if let Some(definitions) = &mut *definitions {
            definitions.retain(|tool, _| in_force.contract.discloses(tool));
        }
        self.in_force.store(Arc::new(in_force));
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a tool's definition as the host noted it last.
    pub(crate) fn definition(&self, tool: &ToolId) -> Option<Digest> {
        if self.changes.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.definitions.read().as_ref()?.get(tool).copied()
    }

    /// Notes a tool's definition, if the contract discloses the tool.
    pub(crate) fn note_definition(&self, tool: &ToolId, definition: Digest) {
        let mut definitions = self.definitions.write();
        if self.in_force().contract.discloses(tool) {
            definitions.get_or_insert_default().insert(tool.clone(), definition);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn forget_definition(&self, tool: &ToolId) {
        if let Some(definitions) = &mut *self.definitions.write() {
            definitions.remove(tool);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns the number of the next call without an id.
    pub(crate) fn next_call(&self) -> u64 {
        self.next_call.fetch_add(1, Ordering::Relaxed)
    }
}
