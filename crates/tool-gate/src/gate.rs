use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_audit_log::{CallRecordRef, Escaped, EscapedRef};
use countersign_canonical_json::Canonical;
use countersign_core::{Digest, ToolId};

use crate::accepted::{AcceptedCall, InFlight};
use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::decide::{Cleared, ClearedCall, decide};
use crate::findings::Findings;
use crate::parts::GateParts;
use crate::progress::BorrowedTerms;
use crate::recorder::GateRecorder;
use crate::refusals::{RefusalRate, Refusals};
use crate::rejection::{ApprovalDesk, CallError, Refusal, Rejection};
use crate::steps::intent::keep_step;
use crate::steps::session::check_agent;

/// Decides about every tool call of one session. Clones share one gate.
///
/// The registry, the contract, the principal, the clock and the record come from the host. Nothing that the agent sends
/// is trusted.
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

    /// Decides about a call. An acceptance is recorded before this returns, and so is a refusal within the rate
    /// ([`refused_calls`](crate::ToolGateBuilder::refused_calls)). A refusal beyond the rate has no number and is recorded in
    /// a sum: before the next acceptance, by the first decision 10 s later, by [`refusals`](Self::refusals), or when
    /// the gate is dropped.
    ///
    /// Blocks while the record is synced, spent tokens are stored, evidence is read or a newer registry is loaded. An
    /// asynchronous host calls it where blocking is allowed, for example with Tokio's `spawn_blocking`.
    ///
    /// # Errors
    /// A [`Rejection`] with the code of the first check that failed. A failure of the gate's own parts, including a
    /// panic, is a rejection as well.
    pub fn check(&self, call: &ToolCall<'_>) -> Result<AcceptedCall, Rejection> {
        let _timed = self.stats().timed(1);
        self.answer(call, None)
    }

    /// Decides about a call, for a host that asks a person if only an approval is missing. The question is filed before
    /// the refusal is recorded. If it cannot be filed, code and record say why ([`NotFiled`](crate::NotFiled)). If the refusal cannot be
    /// recorded, the question is withdrawn. Beyond the rate of refusals, no question is filed.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_asking(
        &self,
        call: &ToolCall<'_>,
        desk: &dyn ApprovalDesk,
    ) -> Result<AcceptedCall, Rejection> {
        let _timed = self.stats().timed(1);
        self.answer(call, Some(desk))
    }

    fn answer(
        &self,
        call: &ToolCall<'_>,
        desk: Option<&dyn ApprovalDesk>,
    ) -> Result<AcceptedCall, Rejection> {
        let in_force = self.parts.progress.in_force();
        let mut findings = self.parts.findings(&in_force);
        let mut cleared = None;
        self.clear(call, desk, &in_force, &mut findings, &mut cleared)?;
        let record = |recorder: &GateRecorder, record: &CallRecordRef<'_>| {
            recorder.record_refusals(record.time)?;
            recorder.record(record)
        };
        let recorded = with_record(&self.parts, call, &findings, cleared.as_ref(), record);
        self.accept(call, &findings, &mut cleared, recorded)
    }

    /// Takes steps 0 to 10. A refusal is recorded; of an acceptance, `cleared` is set.
    #[inline]
    pub(crate) fn clear<'g>(
        &'g self,
        call: &ToolCall<'_>,
        desk: Option<&dyn ApprovalDesk>,
        in_force: &BorrowedTerms,
        findings: &mut Findings,
        cleared: &mut Option<Cleared<'g>>,
    ) -> Result<(), Rejection> {
        // why: the result is large, so it is not moved through each of its callers.
        let verdict =
            catch_unwind(AssertUnwindSafe(|| decide(&self.parts, call, in_force, findings, cleared)));
        let panicked = || Some(Refusal::new(RejectionCode::Internal, "a check panicked"));
        match verdict.map_or_else(|_| panicked(), Result::err) {
            Some(refusal) => Err(self.parts.refuse(call, findings, refusal, desk)),
            None => Ok(()),
        }
    }

    /// Takes step 11: accepts a call whose acceptance is recorded.
    #[inline]
    pub(crate) fn accept(
        &self,
        call: &ToolCall<'_>,
        findings: &Findings,
        cleared: &mut Option<Cleared<'_>>,
        recorded: Result<u64, ()>,
    ) -> Result<AcceptedCall, Rejection> {
        if let Some(ready) = cleared {
            let in_flight = self.begin_call(ready, findings, recorded)?;
            // why: the call is large, so it is moved only here.
            if let Some(Cleared { call, .. }) = cleared.take() {
                // INVARIANT: the only place that makes an `AcceptedCall`. The record is as durable as the sink promises.
                return Ok(AcceptedCall { call, in_flight });
            }
        }
        let refusal = Refusal::new(RejectionCode::Internal, "a check left no result");
        Err(self.parts.refuse(call, findings, refusal, None))
    }

    /// Counts an acceptance, keeps its place in limits and plan, and starts its outcome.
    fn begin_call(
        &self,
        cleared: &mut Cleared<'_>,
        findings: &Findings,
        recorded: Result<u64, ()>,
    ) -> Result<InFlight, Rejection> {
        let Cleared { call: ClearedCall { facts, .. }, reservation, step } = cleared;
        let (time, used) = (findings.time, findings.used);
        let Ok(sequence) = recorded else {
            let (call_id, spent) = (facts.call_id.clone().into(), findings.spent_approvals());
            let rejection = self.parts.refuse_unrecorded(call_id, time, Some(&facts.tool), spent);
            return Err(Rejection { used, ..rejection });
        };
        // why: an approval concerns a signal only if a call was asked about, and the key of a call is a digest.
        let is_probe = findings.has_approval() && self.parts.recorder.rows.has_asked();
        let probe = if is_probe { findings.probe(None) } else { None };
        self.parts.count(time, (None, false), (Some(&facts.tool), findings.used_tool()), probe);
        if let Some(reservation) = reservation.take() {
            reservation.keep();
        }
        let begin =
            |step| InFlight::new(Arc::clone(&self.parts), facts.call_id.clone(), sequence, time, step);
        let kept = keep_step(self.parts.progress.plan.get(), step.take());
        // An error: a plan was started or halted after the acceptance was recorded.
        kept.map(begin).map_err(|code| begin(None).not_run(code, used))
    }

    /// Checks a call and runs it. The tool is the one that the contract discloses under `name`, on exactly one server.
    /// The call's id is a digest of the session's id and a counter.
    ///
    /// # Errors
    /// [`CallError`]: the call was refused, or the tool failed.
    pub fn call<T, E>(
        &self,
        name: &str,
        args: &[u8],
        tool: impl FnOnce(&Canonical) -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        let number = self.parts.progress.next_call();
        let fields = [self.parts.terms.session.as_str().as_bytes(), &number.to_be_bytes()];
        let call_id = Digest::of_fields("countersign/call-id-1", fields).to_string();
        self.call_with(&ToolCall::by_name(&call_id, name, args), tool)
    }

    /// Like [`call`](Self::call), for a call with an id, a server, approvals, a proposal or a restated goal.
    ///
    /// # Errors
    /// [`CallError`]: the call was refused, or the tool failed.
    pub fn call_with<T, E>(
        &self,
        call: &ToolCall<'_>,
        tool: impl FnOnce(&Canonical) -> Result<T, E>,
    ) -> Result<T, CallError<E>> {
        self.check(call)?.run(tool)
    }

    /// Returns sums of the session's refused messages that are not calls, for the gateway in front of it. They are
    /// recorded where the gate records, and counted with the agent's metrics.
    #[must_use]
    pub fn refused_messages(&self, rate: RefusalRate) -> Refusals {
        let session = self.contract().session().clone();
        self.parts.recorder.rows.refused_messages(session, rate)
    }

    /// Returns the refusals of this session that are recorded as sums. A host with a thread to spare records those that
    /// are due. Every host records the rest before it closes the record.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.parts.recorder.rows.refused
    }

    /// Returns `false` if step 1 would refuse any call now: the session, the registry or the agent does not stand, or
    /// recording is impossible. A gateway checks this before it waits for inputs that only an acceptable call needs.
    #[must_use]
    pub fn may_call(&self) -> bool {
        let GateParts { terms, progress, recorder } = &*self.parts;
        let (contract, view) = (&progress.in_force().contract, terms.registry.view());
        progress
            .clock
            .now()
            .is_ok_and(|now| !recorder.is_lost() && check_agent(&recorder.rows, contract, &view, now).is_ok())
    }

    /// Notes the current definition of a tool, by recipe `tool-def-1`. If the registry pins a definition, calls are
    /// accepted only while the two are equal. Tools that the contract does not disclose are ignored.
    pub fn note_definition(&self, tool: &ToolId, definition: Digest) {
        self.parts.progress.note_definition(tool, definition);
    }

    /// Marks a tool's definition as unknown. If the registry pins a definition, no call is accepted until it is noted
    /// again.
    pub fn forget_definition(&self, tool: &ToolId) {
        self.parts.progress.forget_definition(tool);
    }
}

/// Passes the record of a call that steps 0 to 10 have cleared to `keep`.
#[inline]
pub(crate) fn with_record<R>(
    parts: &GateParts,
    call: &ToolCall<'_>,
    findings: &Findings,
    cleared: Option<&Cleared<'_>>,
    keep: impl FnOnce(&GateRecorder, &CallRecordRef<'_>) -> Result<R, ()>,
) -> Result<R, ()> {
    let facts = &cleared.ok_or(())?.call.facts;
    let (escaped, named) = (OnceCell::<Escaped<256>>::new(), OnceCell::new());
    let call_id = EscapedRef::plain(facts.call_id.as_str())
        .unwrap_or_else(|| escaped.get_or_init(|| facts.call_id.clone().into()).borrowed());
    let tool = || named.get_or_init(|| findings.recorded_tool(call)).into();
    keep(&parts.recorder, &findings.record(&parts.terms, call, call_id, tool, None))
}
