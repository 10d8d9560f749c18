use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_audit_log::{AuditSink, ClaimsRecord, Record};
use countersign_committed_plan::OnBreach;
use countersign_core::{Clock, Digest, Millis, Principal, ToolId};
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
    /// The pinned goal belongs to another session than the contract.
    #[error("the pinned goal belongs to another session")]
    OtherSession,
    /// The time cannot be told.
    #[error("the time cannot be told")]
    Clock,
    /// The session cannot be put on record.
    #[error("the session cannot be recorded")]
    Audit(#[source] countersign_audit_log::AuditError),
    /// A value is to be recorded of a tool that the registry does not know.
    #[error("the recorded fields do not fit the registry")]
    RecordedFields(#[from] RecordedFieldsError),
    /// The plan cannot be started.
    #[error("the plan cannot be started")]
    Plan(#[from] StartPlanError),
}

impl OpenError {
    /// The stable code.
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

/// Gathers what a gate decides by. What it cannot do without was given to [`ToolGate::builder`].
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
    pub(crate) plan: Option<Offered>,
    pub(crate) checks: Vec<(String, Box<dyn UserCheck>)>,
    pub(crate) limits: GateLimits,
    pub(crate) stats: Arc<CallStats>,
    pub(crate) definitions: BTreeMap<ToolId, Digest>,
    pub(crate) claims: Option<AgentClaims>,
    pub(crate) recorded: RecordedFields,
    pub(crate) refused_calls: RefusalRate,
}

impl std::fmt::Debug for ToolGateBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolGateBuilder").field("contract", &self.contract).finish_non_exhaustive()
    }
}

impl ToolGate {
    /// Starts to build a gate from what it cannot do without.
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
            plan: None,
            checks: Vec::new(),
            limits: GateLimits::default(),
            stats: Arc::default(),
            definitions: BTreeMap::new(),
            claims: None,
            recorded: RecordedFields::new(),
            refused_calls: RefusalRate::CALLS,
        }
    }
}

impl ToolGateBuilder {
    /// Pins the session's goal. Without it, a tool whose rule asks for the goal is always refused.
    pub fn pinned_ask(mut self, ask: PinnedAsk) -> Self {
        self.ask = Some(ask);
        self
    }

    /// Lets approvals be used. Without it, a tool whose rule asks for approval is always refused.
    pub fn approvals(mut self, settings: ApprovalSettings) -> Self {
        self.approvals = Some(settings);
        self
    }

    /// Lets action proposals be used, and demands one of every call with a high impact. Without it, a tool whose rule asks
    /// for evidence is always refused, and no other tool is asked for any.
    ///
    /// Judging a proposal is work, so a call whose proposal was looked at keeps its place in the rate when it is refused.
    pub fn proposals(mut self, settings: ProposalSettings) -> Self {
        self.proposals = Some(settings);
        self
    }

    /// Starts the gate with a plan ([`ToolGate::start_plan`]): it lets through the plan's next call and no other. Without one,
    /// a tool whose rule asks for a plan is always refused.
    pub fn plan(mut self, settings: PlanSettings) -> Self {
        self.plan = Some(settings.into());
        self.plan_first()
    }

    /// Starts the gate with a plan that it knows by its root alone ([`ToolGate::start_plan_root`]).
    pub fn plan_root(mut self, settings: PlanRootSettings) -> Self {
        self.plan = Some(settings.into());
        self.plan_first()
    }

    /// Refuses every call, whatever the tool's rule, until a plan is started.
    pub const fn plan_first(mut self) -> Self {
        self.without_plan = WithoutPlan::Refuse;
        self
    }

    /// Sets what a call does to the plan that is not its next one: by default the first halts it. Such a call is refused either
    /// way, so the calls that may run are the same.
    pub const fn on_breach(mut self, on_breach: OnBreach) -> Self {
        self.on_breach = on_breach;
        self
    }

    /// Limits how long an accepted call may be held before it is run: after that it is refused (`CALL_EXPIRED`). At most, and by
    /// default, that is until the contract ends.
    pub const fn holding_limit(mut self, limit: Millis) -> Self {
        self.holding = Some(limit);
        self
    }

    /// Adds a check of the embedder's own, run in the order of adding.
    pub fn user_check(mut self, name: &str, check: impl UserCheck + 'static) -> Self {
        self.checks.push((name.to_owned(), Box::new(check)));
        self
    }

    /// Sets the limits of one call.
    pub fn limits(mut self, limits: GateLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Counts into `stats`, which other gates share.
    pub fn stats(mut self, stats: Arc<CallStats>) -> Self {
        self.stats = stats;
        self
    }

    /// Says what the definition of a tool is now ([`ToolGate::note_definition`]).
    pub fn definition(mut self, tool: ToolId, definition: Digest) -> Self {
        self.definitions.insert(tool, definition);
        self
    }

    /// Adds what the agent claims about itself. It goes on record, and decides nothing.
    pub fn claims(mut self, claims: AgentClaims) -> Self {
        self.claims = Some(claims);
        self
    }

    /// Puts the values of these arguments on record, which cannot be taken out of it again. Without it, there are digests
    /// alone.
    pub fn recorded_fields(mut self, fields: RecordedFields) -> Self {
        self.recorded = fields;
        self
    }

    /// Sets how many refused calls have an entry of their own: by default 1,000, then 10 a second ([`RefusalRate::CALLS`]). All others
    /// are counted in one entry at least every 10 s, and their [`Rejection`](crate::Rejection)s have no number.
    pub const fn refused_calls(mut self, rate: RefusalRate) -> Self {
        self.refused_calls = rate;
        self
    }

    /// Opens the gate, once the session is on record.
    ///
    /// # Errors
    /// [`OpenError`] when the goal is another session's, a recorded field is of a tool that the registry does not know, the plan
    /// cannot be started, or time or record cannot be had.
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
            agent: contract.agent().clone(),
            principal: self.principal,
            goal: ask.as_ref().map(PinnedAsk::digest),
            approvals: self.approvals,
            proposals: self.proposals,
            without_plan: self.without_plan,
            on_breach: self.on_breach,
            holding: self.holding,
            checks: self.checks,
            limits: self.limits,
            recorded: self.recorded,
        };
        let mut record = terms.session_record(now, &contract);
        record.claims = self.claims.map(|claims| {
            let differing = claims.differences(&contract);
            ClaimsRecord::new(claims.digest(), differing.iter().map(String::as_str))
        });
        sink.record(&Record::Session(record)).map_err(OpenError::Audit)?;
        let clock = Arc::clone(&self.clock);
        let rows = Rows::new(stats, &contract, Arc::clone(&sink), clock, self.refused_calls, now);
        let recorder = GateRecorder::new(sink, rows, terms.limits.recent_records);
        let in_force = InForce::new(contract, ask);
        let progress = GateProgress::new(self.clock, now, in_force, self.definitions);
        let gate = ToolGate::from_parts(GateParts { terms, progress, recorder });
        if let Some(offered) = self.plan {
            gate.start(offered)?;
        }
        Ok(gate)
    }
}
