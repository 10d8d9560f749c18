use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use countersign_approval_token::SpentApproval;
use countersign_audit_log::{
    AuditSink, CallRecord, Record, RecordedTool, RecordedValues, UnrecordedAnswer, Verdict,
};
use countersign_canonical_json::Canonical;
use countersign_committed_plan::OnBreach;
use countersign_core::{
    AgentId, Clock, ClockError, Digest, Millis, Principal, SessionId, Timestamp, TokenId, ToolId, ToolName,
};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{CapabilityRegistry, RegistryView, SessionContract};
use parking_lot::{Mutex, RwLock};

use crate::accepted::{AcceptedCall, InFlight};
use crate::builder::{ApprovalSettings, GateLimits, ToolGateBuilder};
use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::counts::{Counts, Window};
use crate::decide::{Ready, Refusal, decide, living_agent, only_tool};
use crate::facts::{Facts, UsedUp};
use crate::observe::{RECENT_NAMES, UndisclosedAttempts};
use crate::plan::{RunningPlan, WithoutPlan, keep};
use crate::probing::Probe;
use crate::proposal::ProposalSettings;
use crate::question::{ApprovalDesk, NotFiled};
use crate::recorded_fields::RecordedFields;
use crate::refusals::{RefusalRate, Refusals};
use crate::rejection::{ApprovalRequest, CallError, Rejection};
use crate::rows::Rows;
use crate::stats::CallStats;
use crate::terms::{CurrentTerms, Terms};
use crate::usage::Usage;
use crate::user_check::UserCheck;

/// Decides about every tool call of one session. Clones are the same gate.
///
/// The registry, the contract, the principal, the clock and the record are the gate's own, given by the host; of
/// what the agent sends, nothing is believed.
#[derive(Clone, Debug)]
pub struct ToolGate {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) registry: Arc<CapabilityRegistry>,
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    /// Digest of the pinned goal.
    pub(crate) goal: Option<Digest>,
    pub(crate) terms: CurrentTerms,
    pub(crate) principal: Principal,
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) approvals: Option<ApprovalSettings>,
    pub(crate) proposals: Option<ProposalSettings>,
    pub(crate) without_plan: WithoutPlan,
    pub(crate) on_breach: OnBreach,
    pub(crate) holding: Option<Millis>,
    pub(crate) plan: OnceLock<RunningPlan>,
    pub(crate) changing_plan: Mutex<()>,
    pub(crate) checks: Vec<(String, Box<dyn UserCheck>)>,
    pub(crate) limits: GateLimits,
    pub(crate) recorded: RecordedFields,
    pub(crate) usage: Usage,
    clock: Arc<dyn Clock>,
    pub(crate) definitions: RwLock<BTreeMap<ToolId, Digest>>,
    /// The latest moment seen: time that runs back does not lengthen anything's life.
    latest: AtomicU64,
    /// Set when an outcome could not be recorded: what happened is not all on record, so nothing more is allowed.
    record_lost: AtomicBool,
    /// Set once the session's end was recorded, or that was tried.
    pub(crate) ended: AtomicBool,
    pub(crate) rows: Rows,
    recent: Mutex<Recent>,
    next_call: AtomicU64,
}

#[derive(Debug, Default)]
struct Recent {
    records: VecDeque<CallRecord>,
    undisclosed: VecDeque<String>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolGate")
            .field("session", &self.session)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
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

    pub(crate) fn from_inner(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Decides about a call. An acceptance is on record before this returns, and so is a refusal within the rate
    /// ([`refused_calls`](ToolGateBuilder::refused_calls)). A refusal beyond it has no number, and is recorded in a sum: before the
    /// next acceptance, by the first decision 10 s later, by [`refusals`](Self::refusals), or when the gate is dropped.
    ///
    /// Blocks while the record is synced, and while spent tokens are stored, evidence is read or a newer registry is
    /// loaded: an asynchronous host calls it where blocking is allowed, as with Tokio's `spawn_blocking`.
    ///
    /// # Errors
    /// A [`Rejection`] with the code of the first check that failed. It is also what a failure of the gate's own
    /// parts becomes, panics included.
    pub fn check(&self, call: &ToolCall<'_>) -> Result<AcceptedCall, Rejection> {
        self.stats().timed(|| self.answer(call, None))
    }

    /// The same, for a host that asks a person where nothing but an approval is missing. The question is filed before the refusal is
    /// recorded; where it cannot be, code and record say why ([`NotFiled`]), and where the refusal cannot be recorded, it is
    /// withdrawn. Beyond the rate of refusals, nothing is asked.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_asking(
        &self,
        call: &ToolCall<'_>,
        desk: &dyn ApprovalDesk,
    ) -> Result<AcceptedCall, Rejection> {
        self.stats().timed(|| self.answer(call, Some(desk)))
    }

    fn answer(
        &self,
        call: &ToolCall<'_>,
        desk: Option<&dyn ApprovalDesk>,
    ) -> Result<AcceptedCall, Rejection> {
        let inner = &self.inner;
        let mut facts = Facts::new(inner, call);
        let verdict = catch_unwind(AssertUnwindSafe(|| decide(inner, call, &mut facts)))
            .unwrap_or_else(|_| Err(Refusal::new(RejectionCode::Internal, "a check panicked")));
        let Ready { call_id, tool, args, impact, approval, proposal, reservation, step, basis } =
            match verdict {
                Ok(ready) => ready,
                Err(refusal) => return Err(inner.refuse(facts, refusal, desk)),
            };
        let (time, used, probe) = (facts.time, facts.used, facts.probe(None));
        // why: the refusals counted before it are on record before it, so that an alarm that is replayed sees their order.
        let summed = inner.rows.refused.write(time).map_err(drop);
        let Ok(sequence) = summed.and_then(|()| inner.record(facts.accepted())) else {
            let spent = approval.as_ref().map(SpentApproval::token_id);
            let rejection = inner.refuse_unrecorded(call.call_id, time, Some(&tool), spent);
            return Err(Rejection { used, ..rejection });
        };
        inner.count(time, None, Some(&tool), probe);
        reservation.keep();
        let (step, refused) = keep(inner, step).map_or_else(|code| (None, Some(code)), |step| (step, None));
        let in_flight = InFlight::new(Arc::clone(inner), call_id, sequence, time, step);
        if let Some(code) = refused {
            // A plan was started or halted after the acceptance had gone on record.
            return Err(in_flight.not_run(code, used));
        }
        // INVARIANT: the one place where an `AcceptedCall` is made. The record above is durable as the sink says.
        Ok(AcceptedCall { tool, args, impact, approval, proposal, basis, in_flight })
    }

    /// Checks and runs in one go: the tool is one that the contract discloses under `name`, on one server alone.
    /// Call ids are digests of the session's id and a running number.
    ///
    /// # Errors
    /// [`CallError`]: refused, or run and failed.
    pub fn call<T, E>(
        &self,
        name: &str,
        args: &[u8],
        tool: impl FnOnce(&Canonical) -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        let number = self.inner.next_call.fetch_add(1, Ordering::Relaxed);
        let call_id = Digest::framed("countersign/call-id-1")
            .field(self.inner.session.as_str().as_bytes())
            .field(&number.to_be_bytes())
            .finish()
            .to_string();
        self.call_with(&ToolCall::by_name(&call_id, name, args), tool)
    }

    /// As [`call`](Self::call), for a call with an id, a server, approvals, a proposal or a restated goal.
    ///
    /// # Errors
    /// [`CallError`]: refused, or run and failed.
    pub fn call_with<T, E>(
        &self,
        call: &ToolCall<'_>,
        tool: impl FnOnce(&Canonical) -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        self.check(call)?.run(tool)
    }

    /// Refuses a call that a gateway could not even read as one. It is recorded and counted like any other.
    #[must_use]
    pub fn refuse_malformed(&self, call_id: &str, reason: &str) -> Rejection {
        self.inner.refuse_unseen(call_id, "?", RejectionCode::MalformedCall, reason)
    }

    /// Refuses a call that a gateway did not read because it is over a limit. It is recorded and counted like any other.
    #[must_use]
    pub fn refuse_over_limit(&self, call_id: &str, reason: &str) -> Rejection {
        self.inner.refuse_unseen(call_id, "?", RejectionCode::LimitExceeded, reason)
    }

    /// Refuses a call that a gateway does not pass on because too many requests are outstanding. It is recorded and counted like any
    /// other, and an [`Alarm`](crate::Alarm) leaves it out: a server that does not answer causes it.
    #[must_use]
    pub fn refuse_too_many(&self, call_id: &str, reason: &str) -> Rejection {
        self.inner.refuse_unseen(call_id, "?", RejectionCode::TooManyRequests, reason)
    }

    /// Sums of the session's refused messages that are no calls, for the gateway in front of it: they are recorded where the gate
    /// records, and counted with the agent's metrics.
    #[must_use]
    pub fn refused_messages(&self, rate: RefusalRate) -> Refusals {
        let session = self.contract().session().clone();
        self.inner.rows.refused_messages(session, rate)
    }

    /// Refusals of this session that are recorded as sums. A host that has a thread to spare records those that are due, and every
    /// host the rest before it closes the record.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.inner.rows.refused
    }

    /// Returns `false` if step 1 would refuse any call now, whatever it is: session, registry or agent do not stand, or nothing can
    /// be recorded. A gateway asks before it waits for what only an acceptable call needs.
    #[must_use]
    pub fn may_call(&self) -> bool {
        let inner = &self.inner;
        let (contract, view) = (&inner.terms().contract, inner.registry.view());
        inner
            .now()
            .is_ok_and(|now| !inner.record_is_lost() && living_agent(inner, contract, &view, now).is_ok())
    }

    /// Tells the gate what a tool's definition is now, as recipe `tool-def-1`. Where the registry pins a
    /// definition, calls pass only while the two are equal. Tools that the contract does not disclose are ignored.
    pub fn note_definition(&self, tool: &ToolId, definition: Digest) {
        let mut definitions = self.inner.definitions.write();
        if self.contract().discloses(tool) {
            definitions.insert(tool.clone(), definition);
        }
    }

    /// Tells the gate that a tool's definition is not known any more. Where the registry pins a definition, no call
    /// passes until it is seen again.
    pub fn forget_definition(&self, tool: &ToolId) {
        self.inner.definitions.write().remove(tool);
    }

    /// The session's contract: the last one, where it was [renewed](Self::renew).
    #[must_use]
    pub fn contract(&self) -> Arc<SessionContract> {
        Arc::clone(&self.inner.terms().contract)
    }

    /// The session's pinned goal.
    #[must_use]
    pub fn pinned_ask(&self) -> Option<Arc<PinnedAsk>> {
        self.inner.terms().ask.clone()
    }

    /// The registry that the gate reads at every call.
    #[must_use]
    pub fn registry(&self) -> &Arc<CapabilityRegistry> {
        &self.inner.registry
    }

    /// On whose behalf the session acts.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.inner.principal
    }

    /// This session's counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.inner.rows.session
    }

    /// What this gate shares with others: the counts over all agents, per agent and per tool, alarms and quarantines.
    #[must_use]
    pub fn stats(&self) -> &Arc<CallStats> {
        &self.inner.rows.stats
    }

    /// The share of this session's decided calls that were accepted; nothing before the first.
    #[must_use]
    pub fn acceptance_rate(&self, window: Window) -> Option<f64> {
        self.counts().acceptance_rate(window)
    }

    /// What the agent tried that its session does not disclose.
    #[must_use]
    pub fn attempted_undisclosed(&self) -> UndisclosedAttempts {
        UndisclosedAttempts {
            count: self.counts().rejected_with(RejectionCode::UndisclosedTool),
            recent: self.inner.recent.lock().undisclosed.iter().cloned().collect(),
        }
    }

    /// The last decisions, oldest first, accepted and rejected ones, without values of arguments.
    #[must_use]
    pub fn call_log(&self) -> Vec<CallRecord> {
        self.inner.recent.lock().records.iter().cloned().collect()
    }
}

/// Files a question. The host's desk may panic.
fn file(desk: &dyn ApprovalDesk, request: &ApprovalRequest) -> Result<(), NotFiled> {
    catch_unwind(AssertUnwindSafe(|| desk.file(request))).unwrap_or(Err(NotFiled::Unavailable))
}

/// Code and reason of a refusal whose question is not filed.
const fn unfiled(why: NotFiled, code: RejectionCode) -> (RejectionCode, &'static str) {
    match why {
        NotFiled::Full => (RejectionCode::ApprovalsFull, "too many questions wait for an answer"),
        NotFiled::Denied => (RejectionCode::ApprovalDenied, "a person denied it before"),
        NotFiled::Unavailable => (RejectionCode::StoreUnavailable, "the question could not be filed"),
        NotFiled::IdInUse => (code, ""),
    }
}

/// Evidence is verified by the gate's own time, which never runs back.
impl Clock for Inner {
    fn now(&self) -> Result<Timestamp, ClockError> {
        Self::now(self)
    }
}

impl Inner {
    pub(crate) fn new(builder: ToolGateBuilder, now: Timestamp) -> Self {
        let (sink, rate) = (Arc::clone(&builder.sink), builder.refused_calls);
        let rows = Rows::new(builder.stats, &builder.contract, sink, rate, now);
        let definitions = builder
            .definitions
            .into_iter()
            .filter(|(tool, _)| builder.contract.tools().contains(tool))
            .collect();
        Self {
            registry: builder.registry,
            session: builder.contract.session().clone(),
            agent: builder.contract.agent().clone(),
            goal: builder.ask.as_ref().map(PinnedAsk::digest),
            terms: CurrentTerms::new(Terms::new(builder.contract, builder.ask)),
            principal: builder.principal,
            sink: builder.sink,
            approvals: builder.approvals,
            proposals: builder.proposals,
            without_plan: builder.without_plan,
            on_breach: builder.on_breach,
            holding: builder.holding,
            plan: OnceLock::new(),
            changing_plan: Mutex::new(()),
            checks: builder.checks,
            limits: builder.limits,
            recorded: builder.recorded,
            usage: Usage::default(),
            clock: builder.clock,
            definitions: RwLock::new(definitions),
            latest: AtomicU64::new(now.as_millis()),
            record_lost: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            rows,
            recent: Mutex::default(),
            next_call: AtomicU64::new(1),
        }
    }

    /// The time, never earlier than it was told before.
    pub(crate) fn now(&self) -> Result<Timestamp, ClockError> {
        let now = self.clock.now()?;
        let latest = self.latest.fetch_max(now.as_millis(), Ordering::SeqCst).max(now.as_millis());
        Ok(Timestamp::from_millis(latest).unwrap_or(now))
    }

    /// The terms in force. They come before the [view](Self::view): those that a renewal brings can be of a later registry.
    pub(crate) fn terms(&self) -> Arc<Terms> {
        self.terms.load()
    }

    /// The registry as it counts now. A registry that follows its file is loaded first, if the file is another one.
    pub(crate) fn view(&self, now: Timestamp) -> Arc<RegistryView> {
        self.registry.refresh(now);
        self.registry.view()
    }

    pub(crate) fn latest(&self) -> Timestamp {
        Timestamp::from_millis(self.latest.load(Ordering::SeqCst)).unwrap_or(Timestamp::EPOCH)
    }

    pub(crate) fn definition(&self, tool: &ToolId) -> Option<Digest> {
        self.definitions.read().get(tool).copied()
    }

    /// The tool of this name, if the contract discloses one of one server alone.
    pub(crate) fn only_tool(&self, name: &ToolName) -> Option<ToolId> {
        only_tool(self.terms().contract.tools(), name).cloned()
    }

    pub(crate) fn lose_record(&self) {
        self.record_lost.store(true, Ordering::SeqCst);
    }

    pub(crate) fn record_is_lost(&self) -> bool {
        self.record_lost.load(Ordering::SeqCst)
    }

    /// Asks for a missing approval, records a refusal, counts it, and makes the answer.
    pub(crate) fn refuse(
        &self,
        facts: Facts<'_>,
        refusal: Refusal,
        desk: Option<&dyn ApprovalDesk>,
    ) -> Rejection {
        let (time, call_id, named) = (facts.time, facts.call_id(), facts.recorded_tool());
        let (used, probe) = (facts.used, facts.probe(Some(refusal.code)));
        let spent = facts.spent_approval().cloned();
        let tool = facts.tool.clone().or_else(|| self.meant(&named));
        let Refusal { mut code, mut reason, mut approval_request, halted } = refusal;
        if code == RejectionCode::UndisclosedTool {
            self.remember_undisclosed(&named);
        }
        let asks = approval_request.is_some() && self.rows.refused.takes_question(time);
        let filed = match (desk, &approval_request) {
            (Some(desk), Some(request)) if asks => Some(file(desk, request)),
            _ => None,
        };
        if let Some(Err(why)) = filed {
            let (other, text) = unfiled(why, code);
            if other != code {
                (code, reason, approval_request) = (other, text.into(), None);
            }
        }
        let record = facts.rejected(code, &reason);
        // A refusal without a question counts among the others.
        let is_question = asks && approval_request.is_some();
        // why: what was used up, and a person's denial, are nowhere else on record.
        let is_lasting = used != UsedUp::default() || record.denied_by.is_some();
        let is_own =
            is_question || is_lasting || (approval_request.is_none() && self.rows.refused.takes(time));
        let Ok(sequence) = self.record_or_sum(record, tool.as_ref(), is_own) else {
            if let (Some(desk), Some(Ok(())), Some(request)) = (desk, filed, &approval_request) {
                // The host's desk may panic.
                let _ = catch_unwind(AssertUnwindSafe(|| desk.withdraw(request)));
            }
            let rejection = self.refuse_unrecorded(call_id, time, tool.as_ref(), spent.as_ref());
            return Rejection { used, ..rejection };
        };
        self.count(time, Some(code), tool.as_ref(), probe);
        if self.rows.refused.is_due(time) {
            // It is kept where that fails, and no answer depends on it.
            let _ = self.rows.refused.write(time);
        }
        // A question has an entry: beyond the rate nothing is asked.
        let approval_request = approval_request.filter(|_| sequence.is_some());
        Rejection { approval_request, halted, used, ..Rejection::new(code, call_id, sequence) }
    }

    /// Records a refusal, or adds it to a sum where it is beyond the rate: then it has no number.
    pub(crate) fn record_refusal(&self, record: CallRecord) -> Result<Option<u64>, ()> {
        let is_own = self.rows.refused.takes(record.time);
        self.record_or_sum(record, None, is_own)
    }

    fn record_or_sum(
        &self,
        record: CallRecord,
        tool: Option<&ToolId>,
        is_own: bool,
    ) -> Result<Option<u64>, ()> {
        if is_own {
            return self.record(record).map(Some);
        }
        let refused = &self.rows.refused;
        let known = tool.filter(|tool| self.rows.knows(tool, &self.registry)).map(RecordedTool::from);
        refused.add_call(&record, known);
        self.remember(record);
        Ok(None)
    }

    /// Has the sink count an answer that could not be recorded; `spent` is the approval that was spent for it.
    pub(crate) fn note_unrecorded(&self, time: Timestamp, spent: Option<&TokenId>) {
        let code = RejectionCode::AuditUnavailable.as_str();
        let answer = UnrecordedAnswer { time, code, approval: spent };
        // The sink is the embedder's.
        let _ = catch_unwind(AssertUnwindSafe(|| self.sink.note_unrecorded(&answer)));
    }

    fn refuse_unrecorded(
        &self,
        call_id: &str,
        time: Timestamp,
        tool: Option<&ToolId>,
        spent: Option<&TokenId>,
    ) -> Rejection {
        let code = RejectionCode::AuditUnavailable;
        self.note_unrecorded(time, spent);
        self.count(time, Some(code), tool, None);
        Rejection::new(code, call_id, None)
    }

    /// What is the same on every record of this gate's decisions.
    pub(crate) fn entry(
        &self,
        time: Timestamp,
        call_id: &str,
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

    /// Puts a decision on record, and only then among the recent ones.
    pub(crate) fn record(&self, record: CallRecord) -> Result<u64, ()> {
        let entry = Record::Decision(record);
        let sequence = match catch_unwind(AssertUnwindSafe(|| self.sink.record(&entry))) {
            Ok(Ok(sequence)) => sequence,
            Ok(Err(_)) | Err(_) => return Err(()),
        };
        if let Record::Decision(record) = entry {
            self.remember(record);
        }
        Ok(sequence)
    }

    fn remember(&self, mut record: CallRecord) {
        let mut recent = self.recent.lock();
        if recent.records.len() >= self.limits.recent_records {
            recent.records.pop_front();
        }
        if self.limits.recent_records > 0 {
            record.values = RecordedValues::default();
            recent.records.push_back(record);
        }
    }

    fn count(
        &self,
        time: Timestamp,
        refused: Option<RejectionCode>,
        tool: Option<&ToolId>,
        probe: Option<Probe>,
    ) {
        self.rows.count(time, refused, tool, probe, &self.registry);
    }

    fn remember_undisclosed(&self, tool: &RecordedTool) {
        let mut recent = self.recent.lock();
        if recent.undisclosed.len() == RECENT_NAMES {
            recent.undisclosed.pop_front();
        }
        recent.undisclosed.push_back(format!("{}:{}", tool.server, tool.name));
    }
}
