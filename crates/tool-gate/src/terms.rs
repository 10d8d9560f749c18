//! The terms that a session's calls are decided by, and their renewal.

use std::sync::Arc;

use arc_swap::ArcSwap;
use countersign_audit_log::{AuditError, Record, SessionRecord};
use countersign_core::{Digest, Principal, Timestamp};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{AgentEntry, CapabilityRegistry, ContractError, SessionContract};
use parking_lot::Mutex;

use crate::builder::ApprovalSettings;
use crate::gate::{Inner, ToolGate};
use crate::proposal::ProposalSettings;

/// A session's contract and the goal that is pinned in it. A decision reads them once.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) contract: Arc<SessionContract>,
    pub(crate) ask: Option<Arc<PinnedAsk>>,
}

impl Terms {
    pub(crate) fn new(contract: SessionContract, ask: Option<PinnedAsk>) -> Self {
        Self { contract: Arc::new(contract), ask: ask.map(Arc::new) }
    }

    /// Terms of the same session under another contract. Its goal is pinned until the new end at least.
    fn under(&self, contract: SessionContract) -> Self {
        let ask = self.ask.as_deref().map(|ask| ask.clone().extended_to(contract.expires()));
        Self::new(contract, ask)
    }
}

/// The terms in force, which a renewal replaces.
#[derive(Debug)]
pub(crate) struct CurrentTerms {
    current: ArcSwap<Terms>,
    renewing: Mutex<()>,
}

impl CurrentTerms {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { current: ArcSwap::from_pointee(terms), renewing: Mutex::new(()) }
    }

    pub(crate) fn load(&self) -> Arc<Terms> {
        self.current.load_full()
    }
}

/// Why a session is not renewed. Its terms are as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The contract belongs to another session, agent or line of agents.
    #[error("the contract belongs to another session")]
    OtherSession,
    /// The contract was negotiated before the one in force.
    #[error("the contract is older than the one in force")]
    Older,
    /// The contract does not hold under the registry in force.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
    /// The renewal cannot be recorded.
    #[error("the renewal cannot be recorded")]
    Audit(#[source] AuditError),
}

impl RenewError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherSession => "CONTRACT_OTHER_SESSION",
            Self::Older => "CONTRACT_OLDER",
            Self::Contract(error) => error.code(),
            Self::Clock => "CLOCK_UNAVAILABLE",
            Self::Audit(_) => "AUDIT_UNAVAILABLE",
        }
    }
}

impl ToolGate {
    /// Continues the session under a contract that was negotiated anew for it, as when the first one has run out. The contract
    /// counts from the next decision on; a call that was accepted before runs only if the new contract discloses its tool, and only until
    /// the contract ends that it was accepted under.
    ///
    /// No budget starts anew: call limits, rates, counts, alarm, quarantine, the plan's place and spent approvals are the
    /// session's. The pinned goal counts until the new contract's end at least. A definition that was noted is
    /// forgotten where the new contract does not disclose its tool. The renewal is recorded before it counts: a `session` entry
    /// that says `renewed`.
    ///
    /// Approvals go on until their own expiry, and like denials they bind the registry's version. A host that keeps denials has
    /// to keep them beyond [`ApprovalRequest::session_ends`](crate::ApprovalRequest::session_ends), which names the end of one
    /// contract: until the registry that the question was asked under has expired.
    ///
    /// ```
    /// use countersign_core::Timestamp;
    /// use countersign_registry::NegotiationRequest;
    /// use countersign_tool_gate::ToolGate;
    /// fn renew(gate: &ToolGate, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
    ///     let old = gate.contract();
    ///     let request = NegotiationRequest::new(old.session().clone(), old.agent().clone());
    ///     Ok(gate.renew(gate.registry().negotiate(&request, now)?)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`RenewError`]; nothing has changed then.
    pub fn renew(&self, contract: SessionContract) -> Result<(), RenewError> {
        let inner = self.inner();
        let _renewing = inner.terms.renewing.lock();
        let old = inner.terms.load();
        let of = |it: &SessionContract| (it.session().clone(), it.agent().clone(), it.ancestors().to_vec());
        if of(&contract) != of(&old.contract) {
            return Err(RenewError::OtherSession);
        }
        if contract.issued() < old.contract.issued() {
            return Err(RenewError::Older);
        }
        let now = inner.now().map_err(|_| RenewError::Clock)?;
        contract.check(&inner.view(now), now)?;
        let settings = (inner.approvals.as_ref(), inner.proposals.as_ref());
        let mut record =
            session_record(now, &contract, &inner.principal, &inner.registry, inner.goal, settings);
        record.renewed = true;
        inner.sink.record(&Record::Session(record)).map_err(RenewError::Audit)?;
        inner.replace_terms(old.under(contract));
        Ok(())
    }
}

impl Inner {
    /// Puts new terms in force. Definitions of tools that they do not disclose are forgotten: no one notes their changes.
    fn replace_terms(&self, terms: Terms) {
        // why: under the lock, so that no definition is noted by the old terms behind this.
        let mut definitions = self.definitions.write();
        definitions.retain(|tool, _| terms.contract.discloses(tool));
        self.terms.current.store(Arc::new(terms));
    }
}

/// Record of a session under this contract, without claims. `settings` are those of approvals and of proposals.
pub(crate) fn session_record(
    now: Timestamp,
    contract: &SessionContract,
    principal: &Principal,
    registry: &CapabilityRegistry,
    goal: Option<Digest>,
    settings: (Option<&ApprovalSettings>, Option<&ProposalSettings>),
) -> SessionRecord {
    let mut record = SessionRecord::new(
        now,
        contract.session().clone(),
        contract.agent().clone(),
        principal.clone(),
        contract.registry_version(),
        contract.tools().iter().cloned().collect(),
        contract.expires(),
    );
    record.ancestors = contract.ancestors().to_vec();
    let view = registry.view();
    let listed = view.snapshot().agent(contract.agent()).map(AgentEntry::tools);
    record.narrowed = view.snapshot().version() == contract.registry_version()
        && listed.is_some_and(|listed| listed != contract.tools());
    record.ask = goal;
    let (approvals, proposals) = settings;
    let stores = [approvals.map(|it| &it.spent), proposals.map(|it| &it.spent)];
    record.spent_store = stores.into_iter().flatten().find_map(|store| store.store_id());
    record.profile = proposals.map(|settings| settings.verifier.profile().as_str().into());
    record
}
