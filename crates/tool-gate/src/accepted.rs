use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_action_proposal::{SpentProposal, VerifiedEvidence};
use countersign_approval_token::SpentApproval;
use countersign_audit_log::{OutcomeKind, OutcomeRecord, Record};
use countersign_canonical_json::Canonical;
use countersign_core::{CallId, ImpactClass, Timestamp, ToolId};

use crate::code::RejectionCode;
use crate::decide::{CallBasis, check_still_stands};
use crate::parts::GateParts;
use crate::plan::AcceptedStep;
use crate::rejection::UsedUp;
use crate::rejection::{CallError, Rejection};

/// Proves that the gate accepted one call and that the acceptance is on record. Dispatch consumes it, so it runs at
/// most once.
///
/// It is made in one place, [`ToolGate::check`](crate::ToolGate::check). It cannot be built, cloned or read from
/// anywhere else:
///
/// ```compile_fail
/// fn twice(call: countersign_tool_gate::AcceptedCall) {
///     let again = call.clone();
/// }
/// ```
///
/// What runs is what was checked: take tool and arguments from here, never from the request again.
///
/// It may be held, and the world goes on meanwhile: every way to run it asks once more whether contract, agent and tool still stand,
/// and whether it was [held too long](crate::ToolGateBuilder::holding_limit). If not, nothing runs, and the outcome on record is
/// `not_run`, with the code that the caller gets.
#[derive(Debug)]
#[must_use = "an accepted call that is dropped is recorded as unknown and never runs"]
pub struct AcceptedCall {
    pub(crate) tool: ToolId,
    pub(crate) args: Canonical,
    pub(crate) impact: ImpactClass,
    pub(crate) approval: Option<SpentApproval>,
    pub(crate) proposal: Option<SpentProposal>,
    pub(crate) basis: CallBasis,
    pub(crate) in_flight: InFlight,
}

impl AcceptedCall {
    /// The call's id.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.in_flight.call_id
    }

    /// The tool to run.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The arguments to run it with: the value that was digested, from the one reading of it.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// How bad the call can be: the strictest of what the registry, the policy and the proposal say.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// The approval that this call used up; nothing where none is needed.
    #[must_use]
    pub const fn approval(&self) -> Option<&SpentApproval> {
        self.approval.as_ref()
    }

    /// The proposal that backs this call, its attestations used up; nothing where none came.
    #[must_use]
    pub const fn proposal(&self) -> Option<&SpentProposal> {
        self.proposal.as_ref()
    }

    /// The evidence that verified, in the proposal's order. A file comes with exactly the bytes that were hashed: take
    /// them from here, never from the file again.
    #[must_use]
    pub fn evidence(&self) -> &[VerifiedEvidence] {
        self.proposal.as_ref().map(SpentProposal::evidence).unwrap_or_default()
    }

    /// Which step of the gate's plan this call is, from 1 on; nothing where the gate has no plan.
    #[must_use]
    pub fn plan_step(&self) -> Option<u64> {
        self.in_flight.plan_step()
    }

    /// The number of the decision's record.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.in_flight.decision
    }

    /// Runs the tool, and records whether it returned or failed. A panic in it is recorded as unknown and goes on.
    ///
    /// # Errors
    /// [`CallError`]: not run after all, or whatever the tool gives.
    pub fn run<T, E>(self, tool: impl FnOnce(&Canonical) -> Result<T, E>) -> Result<T, CallError<E>> {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_with(tool(&args))
    }

    /// Runs a step of the plan, and keeps what the tool returned for [`ToolGate::finish_plan`](crate::ToolGate::finish_plan). The
    /// caller does not get it: who plans is blind until the plan is done. A step that is run in any other way, or fails, leaves
    /// the plan without its observation, and it does not finish. A gate that knows the plan by its root alone keeps nothing: there,
    /// [`run`](Self::run) the call, and send the result to the gate that has the whole plan.
    ///
    /// # Errors
    /// [`CallError`]: not run after all, or whatever the tool gives.
    pub fn run_step<E>(
        self,
        tool: impl FnOnce(&Canonical) -> Result<Vec<u8>, E>,
    ) -> Result<(), CallError<E>> {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_step(tool(&args))
    }

    /// As [`run_step`](Self::run_step), for an asynchronous tool. If the future is dropped before it is done, the outcome is
    /// unknown, the step is not run again, and the plan does not finish.
    ///
    /// # Errors
    /// [`CallError`]: not run after all, or whatever the tool gives.
    pub async fn run_step_async<E, F>(self, tool: impl FnOnce(Canonical) -> F) -> Result<(), CallError<E>>
    where
        F: Future<Output = Result<Vec<u8>, E>>,
    {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_step(tool(args).await)
    }

    /// Runs a tool that works on the evidence, and records whether it returned or failed.
    ///
    /// # Errors
    /// [`CallError`]: not run after all, or whatever the tool gives.
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
    /// [`CallError`]: not run after all, or whatever the tool gives.
    pub async fn run_async<T, E, F>(self, tool: impl FnOnce(Canonical) -> F) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let (args, in_flight) = self.dispatch()?;
        in_flight.finish_with(tool(args).await)
    }

    /// Hands the arguments to a transport of the host's own, which sends them now, with the means to say how it ended.
    ///
    /// # Errors
    /// [`Rejection`], if the call must not be run any more. It was counted as accepted, and is not counted again.
    pub fn dispatch(self) -> Result<(Canonical, InFlight), Rejection> {
        let call = self.look_again()?;
        Ok((call.args, call.in_flight))
    }

    /// Hands over the evidence as well, for a transport whose tool works on it.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch).
    pub fn dispatch_with_evidence(self) -> Result<(Canonical, Vec<VerifiedEvidence>, InFlight), Rejection> {
        let call = self.look_again()?;
        let evidence = call.proposal.map(SpentProposal::into_evidence).unwrap_or_default();
        Ok((call.args, evidence, call.in_flight))
    }

    /// The call, if it may still be run. Otherwise the outcome is on record as not run.
    fn look_again(self) -> Result<Self, Rejection> {
        let Err(code) = self.in_flight.may_run(&self.tool, &self.basis) else { return Ok(self) };
        let Self { approval, proposal, in_flight, .. } = self;
        Err(in_flight.not_run(code, UsedUp::of(approval.as_ref(), proposal.as_ref())))
    }
}

/// Stands for a call that was accepted and whose outcome is not known yet. Dropped without
/// [`finish`](Self::finish), it records the outcome as unknown.
#[derive(Debug)]
#[must_use = "an outcome that is never told is recorded as unknown"]
pub struct InFlight {
    gate: Arc<GateParts>,
    call_id: CallId,
    decision: u64,
    started: Timestamp,
    finished: bool,
    step: Option<AcceptedStep>,
}

impl InFlight {
    pub(crate) const fn new(
        gate: Arc<GateParts>,
        call_id: CallId,
        decision: u64,
        started: Timestamp,
        step: Option<AcceptedStep>,
    ) -> Self {
        Self { gate, call_id, decision, started, finished: false, step }
    }

    /// The call's id.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.call_id
    }

    /// Which step of the gate's plan the call is, from 1 on; nothing where the gate has no plan.
    #[must_use]
    pub fn plan_step(&self) -> Option<u64> {
        self.step.as_ref().map(AcceptedStep::index)
    }

    /// Whether the call may be run now: what it was accepted under still stands, and it was not held too long.
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
            // The decision is on record, with its approval.
            self.gate.recorder.note_unrecorded(self.gate.progress.clock.latest(), None);
        }
        let rejection = Rejection::new(code, self.call_id.as_str(), Some(self.decision));
        // A step that was not run has had its turn: the plan cannot be finished any more.
        Rejection { used, halted: self.step.is_some(), ..rejection }
    }

    /// Records how the call ended. Blocks as [`ToolGate::check`](crate::ToolGate::check) does while the record is synced; so
    /// does dropping without it.
    pub fn finish(mut self, outcome: OutcomeKind) {
        self.record(outcome, None);
    }

    fn finish_with<T, E>(self, result: Result<T, E>) -> Result<T, CallError<E>> {
        self.finish(if result.is_ok() { OutcomeKind::Returned } else { OutcomeKind::Failed });
        result.map_err(CallError::Tool)
    }

    /// Records that the call returned, and keeps what it returned for [`ToolGate::finish_plan`](crate::ToolGate::finish_plan),
    /// once the outcome is on record. Where the call is no step of a plan, the observation is dropped.
    pub fn observe(mut self, observation: Vec<u8>) {
        let is_recorded = self.record(OutcomeKind::Returned, None);
        let step = self.step.take();
        if let (true, Some(step), Some(plan)) = (is_recorded, step, self.gate.progress.plan.get()) {
            plan.observe(step, observation, self.decision);
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

    /// The record of an outcome can fail like any other. The sink then refuses what follows (the gate with it), and
    /// the call, which has run, stays without an outcome: unknown.
    fn record(&mut self, outcome: OutcomeKind, code: Option<RejectionCode>) -> bool {
        self.finished = true;
        let recorded = catch_unwind(AssertUnwindSafe(|| {
            let now = self.gate.progress.clock.now().unwrap_or(self.started);
            let session = self.gate.terms.session.clone();
            let mut record = OutcomeRecord::new(now, session, self.call_id.as_str(), self.decision, outcome);
            record.duration_ms = Some(now.since(self.started));
            record.code = code.map(|code| code.as_str().into());
            self.gate.recorder.sink.record(&Record::Outcome(record)).is_ok()
        }));
        let is_recorded = recorded.unwrap_or(false);
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
