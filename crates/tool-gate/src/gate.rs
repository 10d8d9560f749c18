use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_approval_token::SpentApproval;
use countersign_audit_log::CallRecord;
use countersign_canonical_json::Canonical;
use countersign_committed_plan::{OnBreach, PlanRoot};
use countersign_core::{Digest, Principal, ToolId};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{CapabilityRegistry, SessionContract};

use crate::accepted::{AcceptedCall, InFlight};
use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::counts::{Counts, Window};
use crate::decide::{Cleared, decide};
use crate::parts::GateParts;
use crate::plan::RunningPlan;
use crate::recorder::UndisclosedAttempts;
use crate::refusals::{RefusalRate, Refusals};
use crate::rejection::{ApprovalDesk, CallError, Refusal, Rejection};
use crate::stats::CallStats;
use crate::steps::intent::keep_step;
use crate::steps::session::check_agent;

/// Decides about every tool call of one session. Clones are the same gate.
///
/// The registry, the contract, the principal, the clock and the record are the gate's own, given by the host; of
/// what the agent sends, nothing is believed.
#[derive(Clone, Debug)]
pub struct ToolGate {
    parts: Arc<GateParts>,
}

impl ToolGate {
    pub(crate) fn from_parts(parts: GateParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    pub(crate) const fn parts(&self) -> &Arc<GateParts> {
        &self.parts
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
        let GateParts { terms, recorder, .. } = &*self.parts;
        let mut findings = self.parts.findings();
        let verdict = catch_unwind(AssertUnwindSafe(|| decide(&self.parts, call, &mut findings)))
            .unwrap_or_else(|_| Err(Refusal::new(RejectionCode::Internal, "a check panicked")));
        let Cleared { call_id, tool, args, impact, approval, proposal, reservation, step, basis } =
            match verdict {
                Ok(cleared) => cleared,
                Err(refusal) => return Err(self.parts.refuse(call, findings, refusal, desk)),
            };
        let (time, used, probe) = (findings.time, findings.used, findings.probe(None));
        // why: the refusals counted before it are on record before it, so that an alarm that is replayed sees their order.
        let summed = recorder.rows.refused.write(time).map_err(drop);
        let Ok(sequence) = summed.and_then(|()| recorder.record(findings.accepted(terms, call))) else {
            let spent = approval.as_ref().map(SpentApproval::token_id);
            let rejection = self.parts.refuse_unrecorded(call.call_id, time, Some(&tool), spent);
            return Err(Rejection { used, ..rejection });
        };
        self.parts.count(time, None, Some(&tool), probe);
        reservation.keep();
        let (step, refused) = keep_step(self.parts.progress.plan.get(), step)
            .map_or_else(|code| (None, Some(code)), |step| (step, None));
        let in_flight = InFlight::new(Arc::clone(&self.parts), call_id, sequence, time, step);
        if let Some(code) = refused {
            // A plan was started or halted after the acceptance was recorded.
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
        let number = self.parts.progress.next_call();
        let call_id = Digest::framed("countersign/call-id-1")
            .field(self.parts.terms.session.as_str().as_bytes())
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
        self.parts.refuse_unseen(call_id, "?", RejectionCode::MalformedCall, reason)
    }

    /// Refuses a call that a gateway did not read because it is over a limit. It is recorded and counted like any other.
    #[must_use]
    pub fn refuse_over_limit(&self, call_id: &str, reason: &str) -> Rejection {
        self.parts.refuse_unseen(call_id, "?", RejectionCode::LimitExceeded, reason)
    }

    /// Refuses a call that a gateway does not pass on because too many requests are outstanding. It is recorded and counted like any
    /// other, and an [`Alarm`](crate::Alarm) leaves it out: a server that does not answer causes it.
    #[must_use]
    pub fn refuse_too_many(&self, call_id: &str, reason: &str) -> Rejection {
        self.parts.refuse_unseen(call_id, "?", RejectionCode::TooManyRequests, reason)
    }

    /// Sums of the session's refused messages that are no calls, for the gateway in front of it: they are recorded where the gate
    /// records, and counted with the agent's metrics.
    #[must_use]
    pub fn refused_messages(&self, rate: RefusalRate) -> Refusals {
        let session = self.contract().session().clone();
        self.parts.recorder.rows.refused_messages(session, rate)
    }

    /// Refusals of this session that are recorded as sums. A host that has a thread to spare records those that are due, and every
    /// host the rest before it closes the record.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.parts.recorder.rows.refused
    }

    /// Returns `false` if step 1 would refuse any call now, whatever it is: session, registry or agent do not stand, or nothing can
    /// be recorded. A gateway asks before it waits for what only an acceptable call needs.
    #[must_use]
    pub fn may_call(&self) -> bool {
        let GateParts { terms, progress, recorder } = &*self.parts;
        let (contract, view) = (&progress.in_force().contract, terms.registry.view());
        progress.clock.now().is_ok_and(|now| {
            !recorder.is_lost() && check_agent(&terms.agent, &recorder.rows, contract, &view, now).is_ok()
        })
    }

    /// Tells the gate what a tool's definition is now, as recipe `tool-def-1`. Where the registry pins a
    /// definition, calls pass only while the two are equal. Tools that the contract does not disclose are ignored.
    pub fn note_definition(&self, tool: &ToolId, definition: Digest) {
        self.parts.progress.note_definition(tool, definition);
    }

    /// Tells the gate that a tool's definition is not known any more. Where the registry pins a definition, no call
    /// passes until it is seen again.
    pub fn forget_definition(&self, tool: &ToolId) {
        self.parts.progress.forget_definition(tool);
    }

    /// The session's contract: the last one, where it was [renewed](Self::renew).
    #[must_use]
    pub fn contract(&self) -> Arc<SessionContract> {
        Arc::clone(&self.parts.progress.in_force().contract)
    }

    /// The session's pinned goal.
    #[must_use]
    pub fn pinned_ask(&self) -> Option<Arc<PinnedAsk>> {
        self.parts.progress.in_force().ask.clone()
    }

    /// The registry that the gate reads at every call.
    #[must_use]
    pub fn registry(&self) -> &Arc<CapabilityRegistry> {
        &self.parts.terms.registry
    }

    /// On whose behalf the session acts.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.parts.terms.principal
    }

    /// This session's counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.parts.recorder.rows.session
    }

    /// What this gate shares with others: the counts over all agents, per agent and per tool, alarms and quarantines.
    #[must_use]
    pub fn stats(&self) -> &Arc<CallStats> {
        &self.parts.recorder.rows.stats
    }

    /// The share of this session's decided calls that were accepted; nothing before the first.
    #[must_use]
    pub fn acceptance_rate(&self, window: Window) -> Option<f64> {
        self.counts().acceptance_rate(window)
    }

    /// What the agent tried that its session does not disclose.
    #[must_use]
    pub fn attempted_undisclosed(&self) -> UndisclosedAttempts {
        self.parts.recorder.attempted_undisclosed()
    }

    /// The last decisions, oldest first, accepted and rejected ones, without values of arguments.
    #[must_use]
    pub fn call_log(&self) -> Vec<CallRecord> {
        self.parts.recorder.recent_records()
    }

    /// The root of the plan that the gate holds its calls to: that of its last amendment, where it was amended.
    #[must_use]
    pub fn plan_root(&self) -> Option<PlanRoot> {
        self.parts.progress.plan.get().map(RunningPlan::root)
    }

    /// The response to a call that is not the plan's next one.
    #[must_use]
    pub fn on_breach(&self) -> OnBreach {
        self.parts.terms.on_breach
    }

    /// The last step of the plan, or of its last amendment, that has run, from 1 on; 0 before the first. It is what an amendment
    /// has to name beside the root. Nothing where no plan is under way.
    #[must_use]
    pub fn plan_position(&self) -> Option<u64> {
        self.parts.progress.plan.get().and_then(RunningPlan::position)
    }
}
