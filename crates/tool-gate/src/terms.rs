//! Terms by which a session's calls are decided.

use std::sync::{Arc, OnceLock};

use countersign_audit_log::{CallOrigin, CallRecord, Escaped, RecordedTool, SessionRecord, Verdict};
use countersign_committed_plan::OnBreach;
use countersign_core::{AgentId, CallFacts, CallId, Digest, Millis, Principal, SessionId, Timestamp, ToolId};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{AgentEntry, BorrowedView, CapabilityRegistry, SessionContract};

use crate::call::ARGS_RECIPE;
use crate::recorded_fields::RecordedFields;
use crate::settings::{ApprovalSettings, GateLimits, ProposalSettings};
use crate::user_check::UserCheck;

/// Terms that never change during a session.
pub(crate) struct GateTerms {
    pub(crate) registry: Arc<CapabilityRegistry>,
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    pub(crate) principal: Principal,
    /// Digest of the pinned goal.
    pub(crate) goal: Option<Digest>,
    pub(crate) approvals: Option<ApprovalSettings>,
    pub(crate) proposals: Option<ProposalSettings>,
    pub(crate) without_plan: WithoutPlan,
    pub(crate) on_breach: OnBreach,
    /// Longest time between an acceptance and the call's dispatch.
    pub(crate) holding: Option<Millis>,
    /// End of observe mode.
    pub(crate) observe_until: Option<Timestamp>,
    /// A slice, as it has no room to grow and a session is to be small.
    pub(crate) checks: Box<[(String, Box<dyn UserCheck>)]>,
    pub(crate) limits: GateLimits,
    pub(crate) recorded: RecordedFields,
    /// Made at the first decision.
    pub(crate) origin: OnceLock<Box<CallOrigin>>,
}

/// Treatment of calls at a gate without a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutPlan {
    /// Refuses calls to tools whose rule requires a plan.
    ByRule,
    /// Refuses all calls.
    Refuse,
}

/// Contract and pinned goal in force. A renewal replaces both at once, and a decision reads them once.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) contract: Arc<SessionContract>,
    pub(crate) ask: Option<Arc<PinnedAsk>>,
    /// The pin ended with this contract or an earlier one of the session, so it may be renewed late.
    ends_with_contract: bool,
}

impl InForce {
    pub(crate) fn new(contract: SessionContract, ask: Option<PinnedAsk>) -> Self {
        let ends_with_contract = ask.as_ref().is_some_and(|ask| ask.expires() == contract.expires());
        Self { contract: Arc::new(contract), ask: ask.map(Arc::new), ends_with_contract }
    }

    /// Returns the terms of the same session under another contract. Its goal is pinned at least until the new end,
    /// unless the pin has expired and never ended with a contract.
    pub(crate) fn under(&self, contract: SessionContract, now: Timestamp) -> Self {
        let ask = self.ask.as_deref().cloned().map(|ask| {
            let may_extend = self.ends_with_contract || ask.expires() > now;
            if may_extend { ask.extended_to(contract.expires()) } else { ask }
        });
        let next = Self::new(contract, ask);
        // why: a shorter contract shortens no pin, and the pin then outlives it.
        Self { ends_with_contract: next.ends_with_contract || self.ends_with_contract, ..next }
    }
}

impl GateTerms {
    /// Returns the registry in force. A registry that follows its file is loaded first if the file has changed.
    pub(crate) fn view(&self, now: Timestamp) -> BorrowedView {
        self.registry.refresh(now);
        self.registry.borrow_view()
    }

    /// Combines the session's facts with those of a call, or of a plan as its approval binds it.
    pub(crate) fn call_facts(
        &self,
        call_id: CallId,
        tool: ToolId,
        args: Digest,
        definition: Option<Digest>,
        plan: Option<Digest>,
        registry_version: u64,
    ) -> CallFacts {
        let mut facts = CallFacts::new(call_id, tool, args, ARGS_RECIPE, self.principal.clone());
        facts.agent = Some(self.agent.clone());
        facts.session = Some(self.session.clone());
        facts.registry_version = Some(registry_version);
        facts.definition = definition;
        facts.ask = self.goal;
        facts.plan = plan;
        facts.audience = self.approvals.as_ref().map(|settings| settings.audience.clone());
        facts
    }

    /// Returns the origin of all calls of this session.
    pub(crate) fn origin(&self) -> &CallOrigin {
        self.origin.get_or_init(|| {
            Box::new(CallOrigin::new(self.session.clone(), self.agent.clone(), self.principal.clone()))
        })
    }

    /// Makes a record with the members that all decisions of this session share.
    pub(crate) fn entry(
        &self,
        time: Timestamp,
        call_id: impl Into<Escaped<256>>,
        tool: RecordedTool,
        verdict: Verdict,
        registry_version: u64,
    ) -> CallRecord {
        let (session, agent) = (self.session.clone(), self.agent.clone());
        let principal = self.principal.clone();
        let mut record =
            CallRecord::new(time, session, agent, principal, call_id, tool, verdict, registry_version);
        record.ask = self.goal;
        record
    }

    /// Makes the record of the session under a contract, without claims.
    pub(crate) fn session_record(&self, now: Timestamp, contract: &SessionContract) -> SessionRecord {
        let mut record = SessionRecord::new(
            now,
            contract.session().clone(),
            contract.agent().clone(),
            self.principal.clone(),
            contract.registry_version(),
            contract.tools().iter().cloned().collect(),
            contract.expires(),
        );
        record.ancestors = contract.ancestors().to_vec();
        let view = self.registry.view();
        let listed = view.snapshot().agent(contract.agent()).map(AgentEntry::tools);
        record.narrowed = view.snapshot().version() == contract.registry_version()
            && listed.is_some_and(|listed| listed != contract.tools());
        record.ask = self.goal;
        record.dev = self.registry.is_dev();
        record.observe_until = self.observe_until.filter(|until| now < *until);
        let (approvals, proposals) = (self.approvals.as_ref(), self.proposals.as_ref());
        let stores = [approvals.map(|it| &it.spent), proposals.map(|it| &it.spent)];
        record.spent_store = stores.into_iter().flatten().find_map(|store| store.store_id());
        record.profile = proposals.map(|settings| settings.verifier.profile().as_str().into());
        record
    }
}
