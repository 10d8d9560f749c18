//! Calls that wait for a person's answer while the client's request stays open.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use countersign_approval_token::{PendingError, PendingState};
use countersign_core::{CallId, Millis, Timestamp};
use parking_lot::{Condvar, Mutex};

use crate::era_2025::waiting_line;
use crate::held_call::HeldCall;
use crate::link::Link;

/// Interval of looks at the store. Another process writes the answer there and wakes no one.
const LOOK: Duration = Duration::from_millis(200);

/// Interval of progress notifications. Many clients give up after 60 s of silence.
const PROGRESS: Millis = Millis::from_secs(15);

/// Longest wait of a client that takes no progress notifications: its time-out is likely to be 60 s.
const WITHOUT_PROGRESS: Millis = Millis::from_secs(45);

/// The question of a refused call, and the refusal that the client gets if it is not answered in time.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    pub(crate) id: CallId,
    /// The beginning of the id that a person may type.
    pub(crate) short: String,
    pub(crate) refusal: String,
}

/// The calls of one session that wait for a person's answer.
#[derive(Debug, Default)]
pub(crate) struct WaitingCalls {
    state: Mutex<WaitingState>,
    changed: Condvar,
    /// Notified when no call waits any more.
    idled: Condvar,
}

#[derive(Debug, Default)]
struct WaitingState {
    calls: Vec<WaitingCall>,
    /// The calls are being looked at.
    busy: bool,
    /// Accepts no more calls, and answers those that wait.
    closed: bool,
}

#[derive(Debug)]
struct WaitingCall {
    call: HeldCall,
    question: OpenQuestion,
    ends: Timestamp,
    /// Time of the next progress notification.
    tells: Timestamp,
    /// Progress notifications so far.
    told: u32,
}

/// What becomes of a waiting call.
enum Turn {
    Waits,
    /// The question was answered, or can no longer be: the call is decided again.
    Again,
    /// The time is over, or the gateway ends.
    Refuse,
    /// The client cancelled the call.
    Gone,
}

impl WaitingCalls {
    /// Answers the calls that wait, and accepts no more.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until no call waits, for at most `limit`. Only after [`close`](Self::close).
    pub(crate) fn wait_idle(&self, limit: Duration) {
        let mut state = self.state.lock();
        let _ = self.idled.wait_while_for(&mut state, |state| state.busy || !state.calls.is_empty(), limit);
    }

    /// Adds a call, or gives it back if the gateway ends.
    fn add(&self, call: WaitingCall) -> Option<WaitingCall> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(call);
        }
        state.calls.push(call);
        drop(state);
        self.changed.notify_all();
        None
    }
}

/// Keeps a refused call until its question is answered, at most as long as the operator allows; or answers it at once if
/// calls are not held.
pub(crate) fn wait_for_answer(link: &Link, mut call: HeldCall, question: OpenQuestion) {
    let (now, hold) = (link.now(), link.settings.hold);
    let hold = if call.progress.is_some() { hold } else { hold.min(WITHOUT_PROGRESS) };
    // why: a call that is decided again and asks once more waits no longer for that.
    let ends = call.waits_until.unwrap_or_else(|| now.saturating_add(hold));
    call.waits_until = Some(ends);
    let waiting = WaitingCall { call, question, ends, tells: now, told: 0 };
    if ends <= now {
        return refuse(link, &waiting);
    }
    if let Some(waiting) = link.waiting.add(waiting) {
        refuse(link, &waiting);
    }
}

/// Looks after the calls that wait until the gateway ends.
pub(crate) fn watch_answers(link: &Link) {
    let waiting = &link.waiting;
    loop {
        let mut state = waiting.state.lock();
        if state.calls.is_empty() {
            if state.closed {
                return;
            }
            waiting.changed.wait(&mut state);
        } else if !state.closed {
            let _ = waiting.changed.wait_for(&mut state, LOOK);
        }
        let closed = state.closed;
        let mut calls = std::mem::take(&mut state.calls);
        state.busy = true;
        drop(state);
        let mut kept = Vec::new();
        while let Some(mut call) = calls.pop() {
            match turn(link, &mut call, closed) {
                Turn::Waits => kept.push(call),
                Turn::Again => again(link, call),
                Turn::Refuse => refuse(link, &call),
                Turn::Gone => {
                    let is_shared =
                        calls.iter().chain(&kept).any(|other| other.question.id == call.question.id);
                    if !is_shared {
                        let withdraw = AssertUnwindSafe(|| withdraw_question(link, &call.question.id));
                        let _ = catch_unwind(withdraw);
                    }
                }
            }
        }
        // Calls that came meanwhile stand behind those that waited before.
        kept.reverse();
        let mut state = waiting.state.lock();
        kept.append(&mut state.calls);
        state.calls = kept;
        state.busy = false;
        drop(state);
        waiting.idled.notify_all();
    }
}

fn turn(link: &Link, waiting: &mut WaitingCall, closed: bool) -> Turn {
    if link.is_over(&waiting.call) {
        return Turn::Gone;
    }
    if closed {
        return Turn::Refuse;
    }
    let now = link.now();
    // The store is the host's code.
    let looks = AssertUnwindSafe(|| is_unanswered(link, &waiting.question.id, now));
    if !catch_unwind(looks).unwrap_or(false) {
        return Turn::Again;
    }
    if now >= waiting.ends {
        return Turn::Refuse;
    }
    if let Some(token) = &waiting.call.progress
        && now >= waiting.tells
    {
        waiting.told = waiting.told.saturating_add(1);
        waiting.tells = now.saturating_add(PROGRESS);
        let line = waiting_line(token, waiting.told, &waiting.question.short);
        link.to_client.offer(line, usize::MAX);
    }
    Turn::Waits
}

/// Returns `false` also if the store fails: the gate decides what follows from that.
fn is_unanswered(link: &Link, question: &CallId, now: Timestamp) -> bool {
    let Some(approvals) = &link.approvals else { return false };
    match approvals.state(question) {
        Ok(Some((asked, PendingState::Waiting))) => now < asked.expires(),
        Ok(_) | Err(_) => false,
    }
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

/// Withdraws the question of a cancelled call. An answer that came first stands: an approval waits for the next try.
fn withdraw_question(link: &Link, question: &CallId) {
    let Some(approvals) = &link.approvals else { return };
    match approvals.withdraw_waiting(question) {
        Err(PendingError::Decided | PendingError::Unknown) => {}
        result => drop(link.note_store(result)),
    }
}
