use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_action_proposal::{SpentProposal, VerifiedEvidence};
use countersign_approval_token::SpentApproval;
use countersign_audit_log::{Escaped, OutcomeKind, OutcomeRecord, Record};
use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, CallId, ImpactClass, Timestamp, ToolId};

use crate::code::RejectionCode;
use crate::decide::{CallBasis, ClearedCall, check_still_stands};
use crate::parts::GateParts;
use crate::plan::AcceptedStep;
use crate::rejection::UsedUp;
use crate::rejection::{CallError, Rejection};

/// Proof that the gate accepted one call and recorded the acceptance. Dispatch consumes it, so the call runs at most
/// once.
///
/// Only the gate makes it, in [`ToolGate::check`](crate::ToolGate::check). It cannot be built, cloned or deserialised
/// anywhere else:
///
/// ```compile_fail
/// fn twice(call: countersign_tool_gate::AcceptedCall) {
///     let again = call.clone();
/// }
/// ```
///
/// Take the tool and its arguments from here, never from the request: these are the values that were checked.
///
/// An accepted call may be held for a while. Every way to run it checks again that the contract, the agent and the tool
/// still stand, and that the call was not [held too long](crate::ToolGateBuilder::holding_limit). If a check fails,
/// nothing runs, and the recorded outcome is `not_run` with the code that the caller gets.
#[derive(Debug)]
#[must_use = "an accepted call that is dropped is recorded as unknown and never runs"]
pub struct AcceptedCall {
    pub(crate) call: ClearedCall,
    pub(crate) in_flight: InFlight,
}

impl AcceptedCall {
    /// Returns the facts by which the call was decided.
    #[must_use]
    pub const fn facts(&self) -> &CallFacts {
        &self.call.facts
    }

    /// Returns the call's id.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.call.facts.call_id
    }

    /// Returns the tool to run.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.call.facts.tool
    }

    /// Returns the arguments for the tool: the value that was read once and digested.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.call.args
    }

    /// Returns the impact of the call: the strictest of those in the registry, the policy and the proposal.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.call.impact
    }

    /// Returns the approval that this call used up; `None` if it needed none.
    #[must_use]
    pub const fn approval(&self) -> Option<&SpentApproval> {
        self.call.approval.as_ref()
    }

    /// Returns the proposal that backs this call, with its attestations used up; `None` if the call came without one.
    #[must_use]
    pub const fn proposal(&self) -> Option<&SpentProposal> {
        self.call.proposal.as_ref()
    }

    /// Returns the verified evidence, in the proposal's order. A file comes with exactly the bytes that were hashed:
    /// use these, and do not read the file again.
    #[must_use]
    pub fn evidence(&self) -> &[VerifiedEvidence] {
        self.call.proposal.as_ref().map(SpentProposal::evidence).unwrap_or_default()
    }

    /// Returns the number of the plan's step that this call is, from 1 on; `None` if the gate has no plan.
    #[must_use]
    pub fn plan_step(&self) -> Option<u64> {
        self.in_flight.plan_step()
    }

    /// Returns the sequence number of the decision's record.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.in_flight.decision
    }

    /// Runs the tool, and records whether it returned or failed. A panic in the tool is recorded as unknown and
    /// propagates.
    ///
    /// # Errors
    /// [`CallError`]: the call was not run after all, or the tool failed.
    pub fn run<T, E>(self, tool: impl FnOnce(&Canonical) -> Result<T, E>) -> Result<T, CallError<E>> {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_with(tool(&args))
    }

    /// Runs a step of the plan, and keeps the tool's result for
    /// [`ToolGate::finish_plan`](crate::ToolGate::finish_plan). The caller does not get it: the planner stays blind
    /// until the plan is done. A step that fails or is run in any other way leaves the plan without its observation,
    /// and the plan does not finish. A gate that knows only the plan's root keeps no results: there, [`run`](Self::run)
    /// the call, and send the result to the gate that has the whole plan.
    ///
    /// # Errors
    /// [`CallError`]: the call was not run after all, or the tool failed.
    pub fn run_step<E>(
        self,
        tool: impl FnOnce(&Canonical) -> Result<Vec<u8>, E>,
    ) -> Result<(), CallError<E>> {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_step(tool(&args))
    }

    /// Runs a step of the plan with an asynchronous tool, like [`run_step`](Self::run_step). If the future is dropped
    /// before it is done, the outcome is unknown, the step is not run again, and the plan does not finish.
    ///
    /// # Errors
    /// [`CallError`]: the call was not run after all, or the tool failed.
    pub async fn run_step_async<E, F>(self, tool: impl FnOnce(Canonical) -> F) -> Result<(), CallError<E>>
    where
        F: Future<Output = Result<Vec<u8>, E>>,
    {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_step(tool(args).await)
    }

    /// Runs a tool that takes the evidence, and records whether it returned or failed.
    ///
    /// # Errors
    /// [`CallError`]: the call was not run after all, or the tool failed.
    pub fn run_with_evidence<T, E>(
        self,
        tool: impl FnOnce(&Canonical, &[VerifiedEvidence]) -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        let (args, evidence, in_flight) = self.dispatch_with_evidence()?;
        in_flight.finish_with(tool(&args, &evidence))
    }

    /// Runs an asynchronous tool, and records whether it returned or failed. If the future is dropped before it is
    /// done, the outcome is unknown, and the call is not run again.
    ///
    /// # Errors
    /// [`CallError`]: the call was not run after all, or the tool failed.
    pub async fn run_async<T, E, F>(self, tool: impl FnOnce(Canonical) -> F) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_with(tool(args).await)
    }

    /// Returns the arguments for a transport of the host's own, which sends them now, and a handle that records the
    /// outcome.
    ///
    /// # Errors
    /// [`Rejection`] if the call must not run any more. It was counted as accepted, and is not counted again.
    pub fn dispatch(self) -> Result<(Canonical, InFlight), Rejection> {
        let Self { call, in_flight } = self.look_again()?;
        Ok((call.args, in_flight))
    }

    /// Returns the evidence as well, for a transport whose tool takes it.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch).
    pub fn dispatch_with_evidence(self) -> Result<(Canonical, Vec<VerifiedEvidence>, InFlight), Rejection> {
        let Self { call, in_flight } = self.look_again()?;
        let evidence = call.proposal.map(SpentProposal::into_evidence).unwrap_or_default();
        Ok((call.args, evidence, in_flight))
    }

    /// Returns the call if it may still run. Otherwise records the outcome as not run.
    fn look_again(self) -> Result<Self, Rejection> {
        let Err(code) = self.in_flight.may_run(&self.call.facts.tool, &self.call.basis) else {
            return Ok(self);
        };
        let Self { call: ClearedCall { approval, proposal, .. }, in_flight } = self;
        Err(in_flight.not_run(code, UsedUp::of(approval.as_ref(), proposal.as_ref())))
    }
}

/// A dispatched call whose outcome is not known yet. If it is dropped without [`finish`](Self::finish), the outcome is
/// recorded as unknown.
#[derive(Debug)]
#[must_use = "an outcome that is never told is recorded as unknown"]
pub struct InFlight {
    gate: Arc<GateParts>,
    call_id: CallId,
    decision: u64,
    started: Timestamp,
    finished: bool,
    /// In a box, as most calls are no step of a plan.
    step: Option<Box<AcceptedStep>>,
}

impl InFlight {
    pub(crate) const fn new(
        gate: Arc<GateParts>,
        call_id: CallId,
        decision: u64,
        started: Timestamp,
        step: Option<Box<AcceptedStep>>,
    ) -> Self {
        Self { gate, call_id, decision, started, finished: false, step }
    }

    /// Returns the call's id.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.call_id
    }

    /// Returns the number of the decision in the record.
    #[must_use]
    pub const fn decision(&self) -> u64 {
        self.decision
    }

    /// Returns the number of the plan's step that the call is, from 1 on; `None` if the gate has no plan.
    #[must_use]
    pub fn plan_step(&self) -> Option<u64> {
        self.step.as_deref().map(AcceptedStep::index)
    }

    /// Checks that the basis of the acceptance still stands and that the call was not held too long.
    fn may_run(&self, tool: &ToolId, basis: &CallBasis) -> Result<(), RejectionCode> {
        let look = || {
            let now = self.gate.progress.clock.now().map_err(|_| RejectionCode::Internal)?;
            let (terms, view) = (self.gate.progress.in_force(), self.gate.terms.view(now));
            check_still_stands(&self.gate, &terms.contract, tool, basis, &view, now)
                .map_err(|refusal| refusal.code)?;
            match self.gate.terms.holding {
                _ if now >= basis.ends => Err(RejectionCode::CallExpired),
                Some(limit) if now.since(self.started) >= limit => Err(RejectionCode::CallExpired),
                Some(_) | None => Ok(()),
            }
        };
        // The clock and the store of quarantines are the embedder's.
        catch_unwind(AssertUnwindSafe(look)).unwrap_or(Err(RejectionCode::Internal))
    }

    /// Records that the call did not run, and refuses it.
    pub(crate) fn not_run(mut self, code: RejectionCode, used: UsedUp) -> Rejection {
        let is_recorded = self.record(OutcomeKind::NotRun, Some(code));
        let code = if is_recorded { code } else { RejectionCode::AuditUnavailable };
        if !is_recorded {
            // The decision is recorded, with its approval.
            self.gate.recorder.note_unrecorded(self.gate.progress.clock.latest(), (None, &[]));
        }
        let rejection = Rejection::new(code, self.call_id.clone(), Some(self.decision));
        // A step that was not run has used its place in the plan: the plan cannot finish any more.
        Rejection { used, halted: self.step.is_some(), ..rejection }
    }

    /// Records the call's outcome. Blocks while the record is synced, as [`ToolGate::check`](crate::ToolGate::check)
    /// does; so does dropping it without this call.
    pub fn finish(mut self, outcome: OutcomeKind) {
        self.record(outcome, None);
    }

    /// Gives the call's outcome to the record without waiting for a disk
    /// ([`AuditSink::record_later`](countersign_audit_log::AuditSink::record_later)), for a host that passes the result on
    /// at once: no decision depends on it. The host calls [`AuditSink::flush`](countersign_audit_log::AuditSink::flush)
    /// about once a second. If the process is killed before the outcome is kept, it is unknown.
    ///
    /// The outcome of a plan's step is [recorded](Self::finish) first.
    pub fn finish_later(mut self, outcome: OutcomeKind) {
        if self.step.is_some() {
            return self.finish(outcome);
        }
        self.finished = true;
        let taken = catch_unwind(AssertUnwindSafe(|| {
            self.gate.recorder.sink.record_later(&self.outcome(outcome, None)).is_ok()
        }));
        self.count(outcome, taken.unwrap_or(false));
    }

    fn finish_with<T, E>(self, result: Result<T, E>) -> Result<T, CallError<E>> {
        self.finish(if result.is_ok() { OutcomeKind::Returned } else { OutcomeKind::Failed });
        result.map_err(CallError::Tool)
    }

    /// Records that the call returned. Once the outcome is recorded, keeps the result for
    /// [`ToolGate::finish_plan`](crate::ToolGate::finish_plan). If the call is not a step of a plan, the observation is
    /// dropped.
    pub fn observe(mut self, observation: Vec<u8>) {
        let is_recorded = self.record(OutcomeKind::Returned, None);
        let step = self.step.take();
        if let (true, Some(step), Some(plan)) = (is_recorded, step, self.gate.progress.plan.get()) {
            plan.observe(*step, observation, self.decision);
        }
    }

    fn finish_step<E>(self, result: Result<Vec<u8>, E>) -> Result<(), CallError<E>> {
        match result {
            Ok(observation) => self.observe(observation),
            Err(error) => {
                self.finish(OutcomeKind::Failed);
                return Err(CallError::Tool(error));
            }
        }
        Ok(())
    }

    /// Records the outcome. If that fails, the gate and its sink refuse everything that follows, and the outcome of the
    /// call, which may have run, stays unknown.
    fn record(&mut self, outcome: OutcomeKind, code: Option<RejectionCode>) -> bool {
        self.finished = true;
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            let outcome = Record::Outcome(self.outcome(outcome, code));
            self.gate.recorder.sink.record(&outcome).is_ok()
        }));
        self.count(outcome, recorded.unwrap_or(false))
    }

    fn outcome(&self, outcome: OutcomeKind, code: Option<RejectionCode>) -> OutcomeRecord {
        let now = self.gate.progress.clock.now().unwrap_or(self.started);
        let session = self.gate.terms.session.clone();
        let mut record = OutcomeRecord::new(now, session, self.call_id.clone(), self.decision, outcome);
        record.duration_ms = Some(now.since(self.started));
        record.code = code.map(|code| Escaped::fixed(code.as_str()));
        record
    }

    /// Counts an outcome if it is recorded. Otherwise the record is lost.
    fn count(&self, outcome: OutcomeKind, is_recorded: bool) -> bool {
        if is_recorded {
            self.gate.recorder.rows.stats.metrics.outcome(outcome);
        } else {
            self.gate.recorder.lose();
        }
        is_recorded
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.finished {
            self.record(OutcomeKind::Unknown, None);
        }
    }
}
