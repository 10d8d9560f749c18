use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use countersign_audit_log::{AuditSink, ClaimsRecord, Record};
use countersign_committed_plan::OnBreach;
use countersign_core::{Clock, Digest, Millis, Principal, SpentTokens, Timestamp, ToolId};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{AgentClaims, CapabilityRegistry, SessionContract};

use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::plan_error::StartPlanError;
use crate::plan_settings::{Offered, PlanRootSettings, PlanSettings};
use crate::progress::GateProgress;
use crate::recorded_fields::{RecordedFields, RecordedFieldsError};
use crate::recorder::GateRecorder;
use crate::refusals::RefusalRate;
use crate::rows::Rows;
use crate::settings::{ApprovalSettings, GateLimits, ProposalSettings};
use crate::stats::CallStats;
use crate::terms::{GateTerms, InForce, WithoutPlan};
use crate::user_check::UserCheck;

/// Why a gate cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The pinned goal belongs to a session other than the contract's.
    #[error("the pinned goal belongs to another session")]
    OtherSession,
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
    /// The session cannot be recorded.
    #[error("the session cannot be recorded")]
    Audit(#[source] countersign_audit_log::AuditError),
    /// A recorded field belongs to a tool that the registry does not list.
    #[error("the recorded fields do not fit the registry")]
    RecordedFields(#[from] RecordedFieldsError),
    /// The plan cannot be started.
    #[error("the plan cannot be started")]
    Plan(#[from] StartPlanError),
}

impl OpenError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherSession => "ASK_OTHER_SESSION",
            Self::Clock => "CLOCK_UNAVAILABLE",
            Self::Audit(_) => "AUDIT_UNAVAILABLE",
            Self::RecordedFields(error) => error.code(),
            Self::Plan(error) => error.code(),
        }
    }
}

countersign_core::coded!(OpenError);

/// Settings of a gate. The mandatory ones are the arguments of [`ToolGate::builder`].
#[must_use]
pub struct ToolGateBuilder {
    pub(crate) registry: Arc<CapabilityRegistry>,
    pub(crate) contract: SessionContract,
    pub(crate) principal: Principal,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) ask: Option<PinnedAsk>,
    pub(crate) approvals: Option<ApprovalSettings>,
    pub(crate) proposals: Option<ProposalSettings>,
    pub(crate) without_plan: WithoutPlan,
    pub(crate) on_breach: OnBreach,
    pub(crate) holding: Option<Millis>,
    pub(crate) observe_until: Option<Timestamp>,
    pub(crate) plan: Option<Offered>,
    pub(crate) checks: Vec<(String, Box<dyn UserCheck>)>,
    pub(crate) limits: GateLimits,
    pub(crate) stats: Arc<CallStats>,
    pub(crate) definitions: BTreeMap<ToolId, Digest>,
    pub(crate) claims: Option<AgentClaims>,
    pub(crate) recorded: RecordedFields,
    pub(crate) refused_calls: RefusalRate,
    pub(crate) call_ids: Option<Arc<dyn SpentTokens>>,
}

impl std::fmt::Debug for ToolGateBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolGateBuilder").field("contract", &self.contract).finish_non_exhaustive()
    }
}

impl ToolGate {
    /// Returns a builder with the mandatory settings.
    pub fn builder(
        registry: Arc<CapabilityRegistry>,
        contract: SessionContract,
        principal: Principal,
        clock: Arc<dyn Clock>,
        sink: Arc<dyn AuditSink>,
    ) -> ToolGateBuilder {
        ToolGateBuilder {
            registry,
            contract,
            principal,
            clock,
            sink,
            ask: None,
            approvals: None,
            proposals: None,
            without_plan: WithoutPlan::ByRule,
            on_breach: OnBreach::Halt,
            holding: None,
            observe_until: None,
            plan: None,
            checks: Vec::new(),
            limits: GateLimits::default(),
            stats: Arc::default(),
            definitions: BTreeMap::new(),
            claims: None,
            recorded: RecordedFields::new(),
            refused_calls: RefusalRate::CALLS,
            call_ids: None,
        }
    }
}

impl ToolGateBuilder {
    /// Pins the session's goal. Without it, a tool whose rule requires the goal is always refused.
    ///
    /// A pin for the whole session expires at the same millisecond as its contract: negotiate and pin with one reading
    /// of the clock. A late [`renew`](ToolGate::renew) then renews the pin too; a pin that ends a millisecond earlier or
    /// later stays expired.
    pub fn pinned_ask(mut self, ask: PinnedAsk) -> Self {
        self.ask = Some(ask);
        self
    }

    /// Enables approvals. Without it, a tool whose rule requires an approval is always refused.
    pub fn approvals(mut self, settings: ApprovalSettings) -> Self {
        self.approvals = Some(settings);
        self
    }

    /// Enables action proposals, and requires one of every call with a high impact. Without it, a tool whose rule
    /// requires evidence is always refused, and every other tool needs none.
    ///
    /// Judging a proposal is work, so a refused call whose proposal was examined keeps its rate-limit slot.
    pub fn proposals(mut self, settings: ProposalSettings) -> Self {
        self.proposals = Some(settings);
        self
    }

    /// Starts the gate with a plan ([`ToolGate::start_plan`]): only the plan's next call is accepted. Without one, a
    /// tool whose rule requires a plan is always refused.
    pub fn plan(mut self, settings: PlanSettings) -> Self {
        self.plan = Some(settings.into());
        self.plan_first()
    }

    /// Starts the gate with a plan of which it knows only the root ([`ToolGate::start_plan_root`]).
    pub fn plan_root(mut self, settings: PlanRootSettings) -> Self {
        self.plan = Some(settings.into());
        self.plan_first()
    }

    /// Refuses every call until a plan is started, whatever the tool's rule.
    pub const fn plan_first(mut self) -> Self {
        self.without_plan = WithoutPlan::Refuse;
        self
    }

    /// Sets the response to a call that is not the plan's next one. By default the first such call halts the plan. The
    /// call is refused either way, so the calls that may run are the same.
    pub const fn on_breach(mut self, on_breach: OnBreach) -> Self {
        self.on_breach = on_breach;
        self
    }

    /// Limits the time between the acceptance of a call and its run; a call that was held longer is refused
    /// (`CALL_EXPIRED`). The maximum, and the default, is the time until the contract ends.
    pub const fn holding_limit(mut self, limit: Millis) -> Self {
        self.holding = Some(limit);
        self
    }

    /// Lets calls through until that time that only lack an approval, a rate or a constraint, and records each with the codes
    /// that were overlooked. All other refusals stand. From that time on the gate enforces.
    pub const fn dangerous_observe(mut self, until: Timestamp) -> Self {
        self.observe_until = Some(until);
        self
    }

    /// Adds a check of the embedder's own. Checks run in the order in which they were added.
    pub fn user_check(mut self, name: &str, check: impl UserCheck + 'static) -> Self {
        self.checks.push((name.to_owned(), Box::new(check)));
        self
    }

    /// Sets the limits of one call.
    pub fn limits(mut self, limits: GateLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the counters, which other gates share.
    pub fn stats(mut self, stats: Arc<CallStats>) -> Self {
        self.stats = stats;
        self
    }

    /// Sets the current definition of a tool ([`ToolGate::note_definition`]).
    pub fn definition(mut self, tool: ToolId, definition: Digest) -> Self {
        self.definitions.insert(tool, definition);
        self
    }

    /// Adds the agent's claims about itself. They are recorded and change no decision.
    pub fn claims(mut self, claims: AgentClaims) -> Self {
        self.claims = Some(claims);
        self
    }

    /// Records the values of these arguments, which can never be removed from the record. Without it, only digests are
    /// recorded.
    pub fn recorded_fields(mut self, fields: RecordedFields) -> Self {
        self.recorded = fields;
        self
    }

    /// Sets the number of refused calls that have an entry of their own: by default 1,000, then 10 a second
    /// ([`RefusalRate::CALLS`]). All others are counted in one entry at least every 10 s, and their
    /// [`Rejection`](crate::Rejection)s have no number.
    pub const fn refused_calls(mut self, rate: RefusalRate) -> Self {
        self.refused_calls = rate;
        self
    }

    /// Runs each call id once in the session (`CALL_ID_REUSED`): not again, and not with another tool or other arguments
    /// than it was first seen with. An id that ran is kept in `store` until 24 h after the contract's end, so it holds for
    /// every process that opens the session with this store, and so does one that was refused at its last look. The first
    /// calls of 1,024 ids are remembered in this gate alone. The id is looked up before a person is asked.
    ///
    /// For a host whose framework repeats calls. Each accepted call then costs a spend in the store.
    pub fn call_ids_once(mut self, store: Arc<dyn SpentTokens>) -> Self {
        self.call_ids = Some(store);
        self
    }

    /// Opens the gate after the session is recorded.
    ///
    /// # Errors
    /// [`OpenError`] if the goal belongs to another session, the registry does not list the tool of a recorded field,
    /// the plan cannot be started, the clock is unavailable or the record fails.
    pub fn open(self) -> Result<ToolGate, OpenError> {
        if self.ask.as_ref().is_some_and(|ask| ask.session() != self.contract.session()) {
            return Err(OpenError::OtherSession);
        }
        self.recorded.check(&self.registry)?;
        let now = self.clock.now().map_err(|_| OpenError::Clock)?;
        let Self { contract, sink, ask, stats, .. } = self;
        let terms = GateTerms {
            registry: self.registry,
            session: contract.session().clone(),
            // why: each decision clones these, and sessions that shared their texts would slow each other.
            agent: contract.agent().detached(),
            principal: self.principal.detached(),
            goal: ask.as_ref().map(PinnedAsk::digest),
            approvals: self.approvals.map(ApprovalSettings::detached),
            proposals: self.proposals,
            without_plan: self.without_plan,
            on_breach: self.on_breach,
            holding: self.holding,
            observe_until: self.observe_until,
            checks: self.checks.into_boxed_slice(),
            limits: self.limits,
            recorded: self.recorded,
            origin: OnceLock::new(),
        };
        let mut record = terms.session_record(now, &contract);
        record.claims = self.claims.map(|claims| {
            let differing = claims.differences(&contract);
            ClaimsRecord::new(claims.digest(), differing.iter().map(String::as_str))
        });
        sink.record(&Record::Session(record)).map_err(OpenError::Audit)?;
        let clock = Arc::clone(&self.clock);
        let in_force = InForce::new(contract, ask);
        let opened = &in_force.contract;
        let rows = Rows::new(stats, opened, Arc::clone(&sink), clock, self.refused_calls, now);
        let recorder = GateRecorder::new(sink, rows, terms.limits.recent_records);
        let progress = GateProgress::new(self.clock, now, in_force, self.definitions, self.call_ids);
        let gate = ToolGate::from_parts(GateParts { terms, progress, recorder });
        if let Some(offered) = self.plan {
            gate.start(offered)?;
        }
        Ok(gate)
    }
}
