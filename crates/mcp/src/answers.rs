//! Decides calls again once a person has answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use countersign_approval_token::PendingApproval;
use countersign_core::{CallId, Millis, Timestamp};

use countersign_tool_gate::FiledQuestion;

use crate::era_2025::{cancelled_line, form_line, waiting_line};
use crate::forms::{FormAnswer, FormReply};
use crate::held_call::HeldCall;
use crate::input_rounds::ask_line;
use crate::link::Link;
use crate::message::RpcId;
use crate::waiting::{OpenQuestion, WaitingCall};

/// Interval of looks at the store. Another process writes the answer there and wakes no one.
const LOOK: Duration = Duration::from_millis(200);

/// Interval of progress notifications. Many clients give up after 60 s of silence.
const PROGRESS: Millis = Millis::from_secs(15);

/// What becomes of a waiting call.
enum WaitingTurn {
    Waits,
    /// The question was answered, or can no longer be: the call is decided again.
    Again,
    /// The time is over, or the gateway ends.
    Refuse,
    /// The client cancelled the call. Its question stays open for the next try.
    Gone,
}

/// Answers a refused call, or returns its question if the refusal names one.
pub(crate) fn answer_or_hold(
    link: &Link,
    call: &HeldCall,
    refusal: String,
    question: Option<FiledQuestion>,
) -> Option<OpenQuestion> {
    if let Some(FiledQuestion { id, short, is_new, needed, lacks_approval, lacks_evidence, .. }) = question {
        if is_new {
            notify_of(link, &id, &short);
        }
        let kind = match (lacks_approval, lacks_evidence) {
            (true, true) => "approval and evidence",
            (false, true) => "evidence",
            (_, false) => "approval",
        };
        return Some(OpenQuestion { id, short, kind, needed, refusal });
    }
    answer(link, call, refusal);
    None
}

/// Notifies the host of a new question. The store and the callback are the host's code.
fn notify_of(link: &Link, id: &CallId, short: &str) {
    let notify = || {
        let state = link.approvals.as_ref().map(|approvals| approvals.state(id));
        if let Some((question, _)) = state.and_then(|state| link.note_store(state)).flatten() {
            (link.question)(&question, short);
        }
    };
    let _ = catch_unwind(AssertUnwindSafe(notify));
}

/// Keeps a refused call until its question is answered, at most as long as the operator allows; or answers it at once if
/// calls are not held.
pub(crate) fn wait_for_answer(link: &Link, mut call: HeldCall, question: OpenQuestion) {
    let now = link.now();
    // why: a call that is decided again and asks once more waits no longer for that.
    let ends = call.waits_until.unwrap_or_else(|| now.saturating_add(link.settings.hold));
    call.waits_until = Some(ends);
    if let Some(line) = ask_in_place_of_result(link, &call, &question.id, now) {
        return answer(link, &call, line);
    }
    let mut waiting = WaitingCall { call, question, ends, tells: now, told: 0, form: None };
    if ends <= now {
        return refuse(link, &waiting);
    }
    waiting.form = ask_at_client(link, &waiting.question.id);
    if let Some(waiting) = link.waiting.add(waiting) {
        end_form(link, &waiting);
        refuse(link, &waiting);
    }
}

/// Looks after the calls that wait until the gateway ends.
pub(crate) fn watch_answers(link: &Link) {
    while let Some(mut waiting) = link.waiting.take(LOOK) {
        let mut kept = Vec::new();
        // The oldest is decided first.
        waiting.calls.reverse();
        while let Some(mut call) = waiting.calls.pop() {
            let turn = turn(link, &mut call, waiting.closed);
            if !matches!(turn, WaitingTurn::Waits) {
                end_form(link, &call);
            }
            match turn {
                WaitingTurn::Waits => kept.push(call),
                WaitingTurn::Again => again(link, call),
                WaitingTurn::Refuse => refuse(link, &call),
                WaitingTurn::Gone => {}
            }
        }
        link.waiting.put_back(kept);
    }
}

fn turn(link: &Link, waiting: &mut WaitingCall, closed: bool) -> WaitingTurn {
    if link.is_over(&waiting.call) {
        return WaitingTurn::Gone;
    }
    if closed {
        return WaitingTurn::Refuse;
    }
    if let Some(form) = &waiting.form {
        pass_answer_on(link, form, &waiting.question.id);
    }
    let now = link.now();
    // The store is the host's code.
    let looks = AssertUnwindSafe(|| is_unanswered(link, &waiting.question.id, now));
    if !catch_unwind(looks).unwrap_or(false) {
        return WaitingTurn::Again;
    }
    if now >= waiting.ends {
        return WaitingTurn::Refuse;
    }
    if let Some(token) = &waiting.call.progress
        && now >= waiting.tells
    {
        waiting.told = waiting.told.saturating_add(1);
        waiting.tells = now.saturating_add(PROGRESS);
        let OpenQuestion { kind, short, .. } = &waiting.question;
        let line = waiting_line(
            token,
            waiting.told,
            &format!("waits for {kind}: {short}{}", approvals_so_far(link, &waiting.question)),
        );
        link.to_client.offer(line, usize::MAX);
    }
    WaitingTurn::Waits
}

/// Returns `, 1 of 2 approvals` for a question that needs several.
fn approvals_so_far(link: &Link, question: &OpenQuestion) -> String {
    let approvals = link.approvals.as_ref().filter(|_| question.needed > 1);
    // The store is the host's code.
    let given = approvals.map(|approvals| catch_unwind(AssertUnwindSafe(|| approvals.given(&question.id))));
    match given {
        Some(Ok(Ok(given))) => format!(", {given} of {} approvals", question.needed),
        Some(Ok(Err(_)) | Err(_)) | None => String::new(),
    }
}

/// Returns `false` also if the store fails: the gate decides what follows from that.
fn is_unanswered(link: &Link, question: &CallId, now: Timestamp) -> bool {
    link.approvals.as_ref().is_some_and(|approvals| approvals.is_waiting(question, now).unwrap_or(false))
}

/// Shows a question to the person at the client, if the operator allows it and the client can. Returns the id of the form.
fn ask_at_client(link: &Link, question: &CallId) -> Option<RpcId> {
    let host = link.forms.shown_by()?;
    // Store and host are the embedder's code.
    let text = || host.text(&asked(link, question)?);
    let text = catch_unwind(AssertUnwindSafe(text)).ok().flatten()?;
    let id = link.forms.open(question)?;
    link.to_client.offer(form_line(&id, &text), usize::MAX);
    Some(id)
}

/// Asks a client of the stateless era for the answer to a question, in place of the result of its call, if the operator allows it
/// and the client can show it. Returns the line for the client.
fn ask_in_place_of_result(link: &Link, call: &HeldCall, question: &CallId, now: Timestamp) -> Option<String> {
    let rounds = &link.to_client.modern.rounds;
    let host = link.forms.host.as_deref().filter(|_| rounds.may_ask_approval(&call.id))?;
    // Store and host are the embedder's code.
    let text = || host.text(&asked(link, question)?);
    let text = catch_unwind(AssertUnwindSafe(text)).ok().flatten()?;
    let state = rounds.ask_approval(&call.id, question, now)?;
    Some(ask_line(&call.id, &state, &text))
}

/// Hands the answer that a client of the stateless era sent with its call to the host, before the call is decided.
pub(crate) fn take_answer(link: &Link, call: &HeldCall) {
    if let Some((question, FormReply::Answer(answer))) = link.to_client.modern.rounds.take_reply(&call.id) {
        hand_over(link, &question, answer);
    }
}

/// Hands the client's answer to a form to the host.
fn pass_answer_on(link: &Link, form: &RpcId, question: &CallId) {
    if let Some(answer) = link.forms.take(form) {
        hand_over(link, question, answer);
    }
}

fn hand_over(link: &Link, question: &CallId, answer: FormAnswer) {
    if let Some(host) = &link.forms.host {
        let pass = || asked(link, question).map(|question| host.answer(&question, answer));
        let _ = catch_unwind(AssertUnwindSafe(pass));
    }
}

/// Ends the form of a call that waits no longer, and has the client close it.
fn end_form(link: &Link, waiting: &WaitingCall) {
    if let Some(form) = &waiting.form
        && link.forms.end(form)
    {
        link.to_client.offer(cancelled_line(form), usize::MAX);
    }
}

fn asked(link: &Link, question: &CallId) -> Option<PendingApproval> {
    let state = link.approvals.as_ref()?.state(question);
    Some(link.note_store(state)??.0)
}

fn again(link: &Link, waiting: WaitingCall) {
    let (weight, refusal) = (waiting.call.weight, waiting.question.refusal);
    if let Err(call) = link.calls.offer(weight, waiting.call, usize::MAX) {
        answer(link, &call, refusal);
    }
}

fn refuse(link: &Link, waiting: &WaitingCall) {
    answer(link, &waiting.call, waiting.question.refusal.clone());
}

fn answer(link: &Link, call: &HeldCall, refusal: String) {
    if link.withdraw(call) {
        link.answer(&call.id, refusal);
    }
}
