use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_approval_token::{DenialReason, WantedEvidence};
use countersign_audit_log::{Direction, OutcomeKind};
use countersign_core::{Digest, ImpactClass, ToolId};
use countersign_registry::{ApprovalRule, ToolRules};
use countersign_tool_gate::{
    AcceptedCall, ApproverAnswer, EditedCall, FiledQuestion, NotFiled, Rejection, RejectionCode, Retry,
    ToolCall,
};

use crate::answers::{answer_or_hold, take_answer, wait_for_answer};
use crate::definitions::{is_unknown, know_definition};
use crate::edited::EditNotice;
use crate::era_2025;
use crate::fault::Fault;
use crate::held_call::HeldCall;
use crate::link::Link;
use crate::plans::submit;
use crate::proposing::{PROPOSE, propose};
use crate::questions::desk;
use crate::request_purpose::RequestPurpose;
use crate::results::{RefusalText, refusal_line, refused_read_line};
use crate::session_end::look_at_session;
use crate::submission::SUBMIT_PLAN;
use crate::waiting::OpenQuestion;

/// Remedy of a call that waits for an attestation.
const ATTESTATION: &str = "a person's attestation to exactly this call, and then the same call again";

/// Decides the client's calls one after another, so one approval that fits two calls is used by one of them. Calls that
/// need the server's current list of tools go to [`decide_unlisted`].
///
/// INVARIANT: calls that could be accepted are decided in order of arrival. While one waits, only refusals overtake it.
pub(crate) fn decide_calls(link: &Link) {
    while let Some(call) = link.calls.take() {
        decide_next(link, call);
    }
}

/// Decides a call in the thread that reads from the client. Returns the call if that thread could wait: for an earlier call, for a
/// disk, for evidence or an approval, or for a peer that does not read.
///
/// why: waking another thread can take longer than the decision. But a thread that waits reads no cancellation.
pub(crate) fn decide_at_once(link: &Link, call: HeldCall) -> Option<HeldCall> {
    let is_free = !link.sink.waits_for_disk()
        && link.unlisted.is_idle()
        && link.to_server.is_empty()
        && link.to_client.is_empty()
        && is_plain_read(link, &call);
    let Some(_turn) = is_free.then(|| link.calls.turn()).flatten() else { return Some(call) };
    decide_next(link, call);
    None
}

/// Returns whether the call is of a disclosed tool that only reads, runs without approval, and came without evidence, which can
/// take long to verify.
fn is_plain_read(link: &Link, call: &HeldCall) -> bool {
    let (view, contract) = (link.gate.registry().view(), link.gate.contract());
    let tool = link.tool_of(&call.name);
    let rules = tool.as_ref().and_then(|tool| contract.disclosed(&view, tool));
    !call.brings_proposal()
        && rules.map(ToolRules::entry).is_some_and(|entry| {
            entry.impact() == ImpactClass::Read && entry.approval() == ApprovalRule::NotRequired
        })
}

/// Decides a call, or hands it to [`decide_unlisted`].
fn decide_next(link: &Link, call: HeldCall) {
    if link.refuses_by_stop(&call) {
        return;
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
            let asked = guarded(link, &call, || decide(link, &call)).flatten();
            hold(link, call, asked);
        }
        None => {}
    }
}

/// Decides the calls that wait for the server's list of tools, and the calls behind them. It runs in its own thread,
/// because the server may need an answer from the client before it lists its tools, or may never list them.
pub(crate) fn decide_unlisted(link: &Link) {
    while let Some(call) = link.unlisted.take() {
        if link.refuses_by_stop(&call) {
            continue;
        }
        let asked = guarded(link, &call, || {
            learn_definitions(link, &call);
            // The gateway may have been stopped during the wait.
            if link.refuses_by_stop(&call) {
                return None;
            }
            (link.before_call)();
            look_at_session(link);
            decide(link, &call)
        });
        hold(link, call, asked.flatten());
    }
}

/// Keeps a call whose question a person has yet to answer.
fn hold(link: &Link, call: HeldCall, asked: Option<OpenQuestion>) {
    if let Some(question) = asked {
        wait_for_answer(link, call, question);
    }
}

/// Runs `work`. A panic in it, or in a callback of the host, fails this call alone.
fn guarded<T>(link: &Link, call: &HeldCall, work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work))
        .inspect_err(|_| {
            link.record(Direction::ToServer, None, Fault::Internal);
            link.fail(call, Fault::Internal);
        })
        .ok()
}

/// Returns whether a call must wait: for the definition of its tool, for the definitions of a plan's tools, or behind an
/// earlier call that waits. A call that is refused at once does not wait.
fn needs_list(link: &Link, call: &HeldCall) -> bool {
    let is_plan = call.name == SUBMIT_PLAN && link.settings.plans.is_some();
    let tool = link.tool_of(&call.name);
    let is_disclosed = is_plan || tool.as_ref().is_some_and(|tool| link.gate.contract().discloses(tool));
    if !is_disclosed || !link.gate.may_call() {
        return false;
    }
    is_plan || !link.unlisted.is_idle() || tool.is_some_and(|tool| is_unknown(link, &tool))
}

fn learn_definitions(link: &Link, call: &HeldCall) {
    if !link.is_over(call)
        && let Some(tool) = link.tool_of(&call.name)
    {
        know_definition(link, &tool);
    }
}

/// Decides a call, and answers it or passes it on. Returns the question instead if the call only lacks a person's answer.
fn decide(link: &Link, call: &HeldCall) -> Option<OpenQuestion> {
    if link.is_over(call) {
        return None;
    }
    take_answer(link, call);
    let server = link.settings.server().as_str();
    let tool = link.tool_of(&call.name);
    let is_disclosed = || tool.as_ref().is_some_and(|tool| link.gate.contract().discloses(tool));
    match (call.name.as_str(), link.settings.plans) {
        (SUBMIT_PLAN, Some(approvals)) => return submit(link, call, approvals),
        (PROPOSE, _) if link.settings.proposals.as_tool() => {
            propose(link, call);
            return None;
        }
        (SUBMIT_PLAN | PROPOSE, _) if is_disclosed() => {
            link.record(Direction::ToServer, None, Fault::ReservedTool);
            link.fail(call, Fault::ReservedTool);
            return None;
        }
        _ => {}
    }
    let answer = tool.and_then(|tool| find_answer(link, &tool, call.own_args().digest()));
    let given = answer.as_ref().and_then(ApproverAnswer::call_id);
    // An answer binds the id of the call that was refused for lack of it, whichever id the client gives this call.
    let named = given.or(call.call_id.as_ref());
    let call_id = match named.cloned().map_or_else(|| (link.new_call_id)(), Ok) {
        Ok(call_id) => call_id,
        Err(_) => {
            link.record(Direction::ToServer, None, Fault::Internal);
            link.fail(call, Fault::Internal);
            return None;
        }
    };
    let attested = answer.as_ref().and_then(ApproverAnswer::attested);
    let edited = answer.as_ref().and_then(ApproverAnswer::edited);
    let given_args = answer.as_ref().and_then(|answer| answer.args_for(&call.args));
    let (args, request_id) = match &given_args {
        Some(args) => (args, call.any_request_id()),
        None => (&call.args, call.request_id()),
    };
    // The gate holds the value of the one reading to its own limits, and forwards it.
    let mut asked = ToolCall::from_read(call_id.as_str(), Some(server), &call.name, args);
    if let Some(id) = &request_id {
        asked = asked.request_id(id);
    }
    let own = call.own_args().digest();
    let proposed = if call.brings_proposal() { None } else { link.proposed.find(&call.name, own) };
    // A proposal that came is one of the agent's own arguments.
    let came = call.proposal.as_deref().or(proposed.as_deref()).filter(|_| edited.is_none());
    if let Some(proposal) = attested.or(came) {
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
    if let Some(edited) = edited {
        asked = asked.edited_from(&edited.asked);
    }
    for token in answer.iter().flat_map(ApproverAnswer::tokens) {
        asked = asked.approval(token.as_str());
    }
    if let Some(ApproverAnswer::Denied(binding, denial)) = &answer {
        asked = asked.denied_as(binding, denial.by.as_str());
    }
    let questions = desk(link, answer.as_ref());
    let decision = link.gate.check_asking(&asked, &questions);
    if let (Some(answer), Some(approvals)) = (&answer, &link.approvals) {
        link.note_store(approvals.retire_answer(answer, decision.as_ref().err()));
    }
    if proposed.is_some() && decision.as_ref().err().is_none_or(|refused| refused.gap().is_some()) {
        link.proposed.take(&call.name, own);
    }
    match decision {
        Ok(accepted) => {
            if let (Some(step), Some(last)) = (accepted.plan_step(), &mut *link.last_step.lock()) {
                last.accepted(step);
            }
            dispatch(link, call, accepted, edited);
            None
        }
        Err(rejection) => refuse(
            link,
            call,
            &rejection,
            questions.filed(),
            answer.as_ref().and_then(ApproverAnswer::reason),
        ),
    }
}

/// Finds the answer to exactly this call. A clock or store that fails yields `None`.
fn find_answer(link: &Link, tool: &ToolId, args: Digest) -> Option<ApproverAnswer> {
    let (approvals, now) = (link.approvals.as_ref()?, link.clock.now().ok()?);
    let version = link.gate.registry().view().snapshot().version();
    let found = approvals.find(tool, args, version, now);
    link.note_store(found)?
}

/// Sends an accepted call to the server: the tool and arguments that the gate accepted. Only the metadata comes from the
/// request.
fn dispatch(link: &Link, call: &HeldCall, accepted: AcceptedCall, edited: Option<&EditedCall>) {
    let tool = accepted.tool().clone();
    let (args, in_flight) = match accepted.dispatch() {
        Ok(dispatched) => dispatched,
        Err(rejection) => {
            refuse(link, call, &rejection, None, None);
            return;
        }
    };
    let notice = edited.map(|_| EditNotice::new(&args, call.read.is_some()));
    let may_promise = call.read.is_none()
        && in_flight.plan_step().is_none()
        && link.may_promise_for(&tool)
        && link.to_client.modern.rounds.allow_task(&call.id);
    let purpose = if may_promise {
        RequestPurpose::CallOrTask(in_flight, notice)
    } else {
        RequestPurpose::Call(in_flight, notice)
    };
    let released = link.asked.lock().release(&call.id, call.serial, purpose);
    if let Err(unsent) = released {
        // Cancelled, or the server ended, during the decision, so the call was never sent.
        if let RequestPurpose::Call(in_flight, _) | RequestPurpose::CallOrTask(in_flight, _) = unsent {
            in_flight.finish(OutcomeKind::NotRun);
        }
        return;
    }
    let wire = link.asked.lock().wire_id(call.serial);
    let meta = call.meta.as_deref();
    let line = match call.read {
        Some(method) => era_2025::read_line(&wire, method.as_str(), &args, meta),
        None => era_2025::call_line(&wire, tool.name().as_str(), &args, meta),
    };
    if !link.send_request(&call.id, line) {
        return link.fail(call, link.end_fault());
    }
    let overtaken = link.asked.lock().sent(call.serial);
    if let Some(cancellation) = overtaken {
        link.wait_for_cancellation();
        link.send_to_server(cancellation);
    }
}

/// Answers a refused call. `filed` is the result of filing its question, if the gate asked one. A call that only lacks the
/// answer to its question is not answered yet.
fn refuse(
    link: &Link,
    call: &HeldCall,
    rejection: &Rejection,
    filed: Option<Result<FiledQuestion, NotFiled>>,
    reason: Option<&DenialReason>,
) -> Option<OpenQuestion> {
    let code = rejection.code();
    // A call id with an earlier question cannot be asked about again. The store works; only the client can choose another id.
    let (retry, unlock) = match &filed {
        Some(Err(NotFiled::IdInUse)) => (Retry::AfterChange, Some("the call under another call id")),
        Some(Ok(question)) if !question.lacks_approval => (Retry::AfterApproval, Some(ATTESTATION)),
        Some(Ok(_) | Err(_)) | None => (rejection.retry(), rejection.unlock()),
    };
    let question = filed.and_then(Result::ok).filter(|_| rejection.question().is_some());
    let later = || rejection.question()?.evidence().map(WantedEvidence::missing);
    let refusal = RefusalText {
        retry: retry.as_str(),
        unlock,
        missing: rejection.gap().or_else(later),
        needed: question.as_ref().map_or(1, |question| question.needed),
        record: rejection.sequence(),
        is_approval_spent: rejection.approval_spent(),
        is_attestation_spent: rejection.attestation_spent(),
        reason: reason.filter(|_| code == RejectionCode::ApprovalDenied),
        ..RefusalText::of(code, rejection.call_id())
    };
    let refusal = refusal.asking(question.as_ref());
    let line = match call.read {
        Some(_) => refused_read_line(&call.id, refusal),
        None => refusal_line(&call.id, refusal),
    };
    answer_or_hold(link, call, line, question)
}
