use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_approval_token::{DenialReason, PendingError};
use countersign_audit_log::{Direction, OutcomeKind};
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{CallId, Digest, RequestId, ToolId};
use countersign_tool_gate::{
    AcceptedCall, ApprovalDesk, ApprovalRequest, CallArgs, NotFiled, REQUEST_ID_MEMBER, Rejection,
    RejectionCode, Retry, ToolCall,
};

use crate::approvals::{Answer, Approvals, Question};
use crate::definitions::{is_unknown, know_definition};
use crate::era_2025::{self, CallParams};
use crate::fault::Fault;
use crate::link::{Asked, Link};
use crate::message::{RpcId, error_line};
use crate::plans::submit;
use crate::results::{Refusal, refusal_line};
use crate::session_end::{denial_ends, look_at_session};
use crate::submission::SUBMIT_PLAN;

/// A call that waits for its decision.
#[derive(Debug)]
pub(crate) struct HeldCall {
    id: RpcId,
    serial: u64,
    /// Length of its line, in bytes.
    weight: usize,
    name: String,
    args: CallArgs,
    /// Canonical text of the action proposal in the call's metadata.
    proposal: Option<String>,
    /// The metadata that the server receives.
    meta: Option<String>,
    ask: Option<String>,
    /// The call id that the client chose.
    call_id: Option<CallId>,
    plan_step: Option<u64>,
    /// The call's position in a trace, as the client states it.
    trace: Option<String>,
}

impl HeldCall {
    /// Creates a held call from the parameters parsed from `message`.
    pub(crate) fn new(id: RpcId, serial: u64, call: CallParams<'_>, message: &Canonical) -> Self {
        let meta = call.meta.and_then(|meta| match era_2025::outside_call(meta) {
            Some(rest) if rest == "{}" => None,
            Some(rest) => Some(rest),
            None => Some(meta.canonical_text()),
        });
        Self {
            id,
            serial,
            weight: message.bytes().len(),
            name: call.name.into(),
            args: CallArgs::new(match call.arguments {
                Some(args) => message.subtree(args),
                None => Canonical::empty_object(message.recipe()),
            }),
            proposal: call.proposal.map(ValueRef::canonical_text),
            meta,
            ask: call.ask.map(Into::into),
            call_id: call.call_id,
            plan_step: call.plan_step,
            trace: call.trace.map(Into::into),
        }
    }

    pub(crate) const fn id(&self) -> &RpcId {
        &self.id
    }

    /// The goal as the client restates it.
    pub(crate) fn ask(&self) -> Option<&str> {
        self.ask.as_deref()
    }

    /// The arguments that the tool would receive. Approvals bind their digest.
    pub(crate) fn own_args(&self) -> &Canonical {
        self.args.own()
    }

    /// The JSON-RPC id, if it is a valid request id and the arguments contain no `__pic_request_id`.
    ///
    /// `__pic_request_id` takes precedence: its sender correlates by it across systems and retries, while the
    /// JSON-RPC id is a number on this one connection and differs at each retry. The gate finds it among the
    /// arguments and refuses an invalid one.
    fn request_id(&self) -> Option<String> {
        let id = match &self.id {
            _ if self.args.sent().value().get(REQUEST_ID_MEMBER).is_some() => return None,
            RpcId::Number(number) => number.to_string(),
            RpcId::Text(text) => text.to_string(),
        };
        RequestId::new(&id).is_ok().then_some(id)
    }
}

/// Decides the client's calls one after another, so one approval that fits two calls is used by one of them. Calls that
/// need the server's current list of tools go to [`decide_unlisted`].
///
/// INVARIANT: calls that could be accepted are decided in order of arrival. While one waits, only refusals overtake it.
pub(crate) fn decide_calls(link: &Link) {
    while let Some(call) = link.calls.take() {
        if is_refused_by_stop(link, &call) {
            continue;
        }
        let waits = guarded(link, &call, || {
            (link.before_call)();
            look_at_session(link);
            needs_list(link, &call)
        });
        match waits {
            Some(true) => {
                link.unlisted.push(call.weight, call);
            }
            Some(false) => {
                guarded(link, &call, || decide(link, &call));
            }
            None => {}
        }
    }
}

/// Decides the calls that wait for the server's list of tools, and the calls behind them. It runs in its own thread,
/// because the server may need an answer from the client before it lists its tools, or may never list them.
pub(crate) fn decide_unlisted(link: &Link) {
    while let Some(call) = link.unlisted.take() {
        if is_refused_by_stop(link, &call) {
            continue;
        }
        guarded(link, &call, || {
            learn_definitions(link, &call);
            // The gateway may have been stopped during the wait.
            if !is_refused_by_stop(link, &call) {
                (link.before_call)();
                look_at_session(link);
                decide(link, &call);
            }
        });
    }
}

/// Refuses a call whose decision has not begun when the gateway is stopped. The refusal is recorded even if the end of
/// the session has already answered the call.
pub(crate) fn is_refused_by_stop(link: &Link, call: &HeldCall) -> bool {
    let is_stopped = link.is_stopped();
    if is_stopped {
        link.record(Direction::ToServer, Some(era_2025::CALL), Fault::GatewayStopped);
        fail(link, call, Fault::GatewayStopped);
    }
    is_stopped
}

/// Runs `work`. A panic in it, or in a callback of the host, fails this call alone.
fn guarded<T>(link: &Link, call: &HeldCall, work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work))
        .inspect_err(|_| {
            link.record(Direction::ToServer, None, Fault::Internal);
            fail(link, call, Fault::Internal);
        })
        .ok()
}

/// Returns whether a call must wait: for the definition of its tool, for the definitions of a plan's tools, or behind an
/// earlier call that waits. A call that is refused at once does not wait.
fn needs_list(link: &Link, call: &HeldCall) -> bool {
    let is_plan = call.name == SUBMIT_PLAN && link.settings.plans().is_some();
    let tool = ToolId::new(link.settings.server().as_str(), &call.name).ok();
    let is_disclosed = is_plan || tool.as_ref().is_some_and(|tool| link.gate.contract().discloses(tool));
    if !is_disclosed || !link.gate.may_call() {
        return false;
    }
    is_plan || !link.unlisted.is_idle() || tool.is_some_and(|tool| is_unknown(link, &tool))
}

fn learn_definitions(link: &Link, call: &HeldCall) {
    if !is_over(link, call)
        && let Ok(tool) = ToolId::new(link.settings.server().as_str(), &call.name)
    {
        know_definition(link, &tool);
    }
}

fn decide(link: &Link, call: &HeldCall) {
    if is_over(link, call) {
        return;
    }
    let server = link.settings.server();
    let tool = ToolId::new(server.as_str(), &call.name).ok();
    if call.name == SUBMIT_PLAN {
        if let Some(approvals) = link.settings.plans() {
            return submit(link, call, approvals);
        }
        if tool.as_ref().is_some_and(|tool| link.gate.contract().discloses(tool)) {
            link.record(Direction::ToServer, None, Fault::ReservedTool);
            return fail(link, call, Fault::ReservedTool);
        }
    }
    let answer = tool.and_then(|tool| find_answer(link, &tool, call.own_args().digest()));
    let approved = match &answer {
        Some(Answer::Approved(id, token)) => Some((id, token)),
        Some(Answer::Denied(..)) | None => None,
    };
    // An approval binds the id of the call that was refused for lack of it, whichever id the client gives this call.
    let named = approved.map(|(approved, _)| approved).or(call.call_id.as_ref());
    let call_id = match named.cloned().map_or_else(|| (link.new_call_id)(), Ok) {
        Ok(call_id) => call_id,
        Err(_) => {
            link.record(Direction::ToServer, None, Fault::Internal);
            return fail(link, call, Fault::Internal);
        }
    };
    let request_id = call.request_id();
    // The gate holds the value of the one reading to its own limits, and forwards it.
    let mut asked = ToolCall::from_read(call_id.as_str(), Some(server.as_str()), &call.name, &call.args);
    if let Some(id) = &request_id {
        asked = asked.request_id(id);
    }
    if let Some(proposal) = &call.proposal {
        asked = asked.proposal(proposal.as_bytes());
    }
    if let Some(ask) = &call.ask {
        asked = asked.ask(ask);
    }
    if let Some(step) = call.plan_step {
        asked = asked.plan_step(step);
    }
    if let Some(trace) = &call.trace {
        asked = asked.trace(trace);
    }
    match &answer {
        Some(Answer::Approved(_, token)) => asked = asked.approval(token.as_str()),
        Some(Answer::Denied(binding, denial)) => asked = asked.denied_as(binding, denial.by.as_str()),
        None => {}
    }
    let questions = Questions::new(link);
    // A question cannot be filed again under an id that was approved before.
    let decision = match approved {
        None => link.gate.check_asking(&asked, &questions),
        Some(_) => link.gate.check(&asked),
    };
    if let (Some((approved, _)), Some(approvals)) = (approved, &link.approvals) {
        let unspent = decision.as_ref().err().filter(|rejection| !rejection.approval_spent());
        note(link, approvals.retire(approved, unspent.map(Rejection::code)));
    }
    match decision {
        Ok(accepted) => {
            if let (Some(step), Some(last)) = (accepted.plan_step(), &mut *link.last_step.lock()) {
                last.accepted(step);
            }
            dispatch(link, call, accepted);
        }
        Err(rejection) => refuse(link, call, &rejection, questions.filed(), reason_of(answer.as_ref())),
    }
}

/// Returns whether the call no longer awaits an answer: it was cancelled, or the server ended.
pub(crate) fn is_over(link: &Link, call: &HeldCall) -> bool {
    !link.asked.lock().is_held(call.serial)
}

/// Finds the answer to exactly this call. A clock or store that fails yields `None`.
fn find_answer(link: &Link, tool: &ToolId, args: Digest) -> Option<Answer> {
    let (approvals, now) = (link.approvals.as_ref()?, link.clock.now().ok()?);
    let version = link.gate.registry().view().snapshot().version();
    let found = approvals.find(tool, args, version, now);
    note(link, found)?
}

/// Returns the value of an operation on the store of pending approvals; records its error.
pub(crate) fn note<T>(link: &Link, result: Result<T, PendingError>) -> Option<T> {
    result.inspect_err(|error| link.record(Direction::ToServer, None, Fault::PendingStore(error.code()))).ok()
}

/// Sends an accepted call to the server: the tool and arguments that the gate accepted. Only the metadata comes from the
/// request.
fn dispatch(link: &Link, call: &HeldCall, accepted: AcceptedCall) {
    let tool = accepted.tool().clone();
    let (args, in_flight) = match accepted.dispatch() {
        Ok(dispatched) => dispatched,
        Err(rejection) => return refuse(link, call, &rejection, None, None),
    };
    let released = link.asked.lock().release(&call.id, call.serial, Asked::Call(in_flight));
    if let Err(unsent) = released {
        // Cancelled, or the server ended, during the decision, so the call was never sent.
        if let Asked::Call(in_flight) = unsent {
            in_flight.finish(OutcomeKind::NotRun);
        }
        return;
    }
    let wire = link.asked.lock().wire_id(call.serial);
    let line = era_2025::call_line(&wire, tool.name().as_str(), &args, call.meta.as_deref());
    if !link.tell_server(line) {
        return fail(link, call, link.end_fault());
    }
    let overtaken = link.asked.lock().sent(call.serial);
    if let Some(cancellation) = overtaken {
        link.wait_for_cancellation();
        link.tell_server(cancellation);
    }
}

/// The approver's reason for a denial.
fn reason_of(answer: Option<&Answer>) -> Option<&DenialReason> {
    match answer {
        Some(Answer::Denied(_, denial)) => denial.reason.as_ref(),
        Some(Answer::Approved(..)) | None => None,
    }
}

/// Answers a refused call. `filed` is the result of filing its question, if the gate asked one.
fn refuse(
    link: &Link,
    call: &HeldCall,
    rejection: &Rejection,
    filed: Option<Result<CallId, NotFiled>>,
    reason: Option<&DenialReason>,
) {
    let code = rejection.code();
    // A call id with an earlier question cannot be asked about again. The store works; only the client can choose another id.
    let (retry, unlock) = match filed {
        Some(Err(NotFiled::IdInUse)) => (Retry::AfterChange, Some("the call under another call id")),
        Some(Ok(_) | Err(_)) | None => (rejection.retry(), rejection.unlock()),
    };
    let approval = filed.and_then(Result::ok).filter(|_| rejection.approval_request().is_some());
    let refusal = Refusal {
        retry: retry.as_str(),
        unlock,
        approval_id: approval.as_ref().map(CallId::as_str),
        record: rejection.sequence(),
        is_approval_spent: rejection.approval_spent(),
        is_attestation_spent: rejection.attestation_spent(),
        reason: reason.filter(|_| code == RejectionCode::ApprovalDenied),
        ..Refusal::of(code, rejection.call_id())
    };
    if withdraw(link, call) {
        link.answer(&call.id, refusal_line(&call.id, refusal));
    }
}

/// Files the questions of one call or plan, if the gateway has a store for them.
pub(crate) struct Questions<'l> {
    link: &'l Link,
    filed: RefCell<Option<Result<Question, NotFiled>>>,
}

impl<'l> Questions<'l> {
    pub(crate) const fn new(link: &'l Link) -> Self {
        Self { link, filed: RefCell::new(None) }
    }

    /// The id to approve under, or the reason that the question was not filed; `None` if the gate asked nothing.
    pub(crate) fn filed(self) -> Option<Result<CallId, NotFiled>> {
        self.filed.into_inner().map(|filed| filed.map(|question| question.id))
    }

    fn ask(&self, request: &ApprovalRequest, approvals: &Approvals) -> Result<Question, NotFiled> {
        let link = self.link;
        let Ok(now) = link.clock.now() else {
            link.record(Direction::ToServer, None, Fault::Internal);
            return Err(NotFiled::Unavailable);
        };
        approvals.ask(request, denial_ends(link, request), now).map_err(|error| {
            let why = match &error {
                PendingError::Denied => return NotFiled::Denied,
                PendingError::Full => return NotFiled::Full,
                PendingError::Conflict => NotFiled::IdInUse,
                PendingError::Unavailable(_) | _ => NotFiled::Unavailable,
            };
            // The rejection code does not carry the store's error.
            link.record(Direction::ToServer, None, Fault::PendingStore(error.code()));
            why
        })
    }
}

impl ApprovalDesk for Questions<'_> {
    fn file(&self, request: &ApprovalRequest) -> Result<(), NotFiled> {
        let Some(approvals) = &self.link.approvals else { return Ok(()) };
        let filed = self.ask(request, approvals);
        let result = filed.as_ref().map(drop).map_err(|why| *why);
        *self.filed.borrow_mut() = Some(filed);
        result
    }

    fn withdraw(&self, _: &ApprovalRequest) {
        let filed = self.filed.borrow_mut().take();
        if let (Some(Ok(question)), Some(approvals)) = (filed, &self.link.approvals) {
            note(self.link, approvals.withdraw(&question));
        }
    }
}

fn fail(link: &Link, call: &HeldCall, fault: Fault) {
    if withdraw(link, call) {
        link.answer(&call.id, error_line(Some(&call.id), fault));
    }
}

/// Removes a call from the table so that the gateway can answer it. Returns `false` if it was already gone.
pub(crate) fn withdraw(link: &Link, call: &HeldCall) -> bool {
    let open = link.asked.lock().withdraw(call.serial);
    let was_open = open.is_some();
    drop(open);
    link.settled();
    was_open
}
