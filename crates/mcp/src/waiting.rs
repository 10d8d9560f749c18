//! Calls that wait for a person's answer while the client's request stays open.

use std::time::Duration;

use countersign_core::{CallId, Timestamp};
use parking_lot::{Condvar, Mutex};

use crate::held_call::HeldCall;
use crate::message::RpcId;

/// The question of a refused call, and the refusal that the client gets if it is not answered in time.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    pub(crate) id: CallId,
    /// The beginning of the id that a person may type.
    pub(crate) short: String,
    /// The kinds of answers that it waits for.
    pub(crate) kind: &'static str,
    /// Number of approvals that it needs.
    pub(crate) needed: usize,
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
pub(crate) struct WaitingCall {
    pub(crate) call: HeldCall,
    pub(crate) question: OpenQuestion,
    pub(crate) ends: Timestamp,
    /// Time of the next progress notification.
    pub(crate) tells: Timestamp,
    /// Progress notifications so far.
    pub(crate) told: u32,
    /// Id of the form in which the client shows the question.
    pub(crate) form: Option<RpcId>,
}

/// The waiting calls at one moment, oldest first.
#[derive(Debug)]
pub(crate) struct TakenCalls {
    pub(crate) calls: Vec<WaitingCall>,
    /// The gateway ends, so they are to be answered.
    pub(crate) closed: bool,
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
    pub(crate) fn add(&self, call: WaitingCall) -> Option<WaitingCall> {
        let mut state = self.state.lock();
        if state.closed {
            return Some(call);
        }
        state.calls.push(call);
        drop(state);
        self.changed.notify_all();
        None
    }

    /// Waits until calls wait, and then for `pause`, and takes them all. Returns `None` once the gateway ends and none waits.
    pub(crate) fn take(&self, pause: Duration) -> Option<TakenCalls> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.calls.is_empty() && !state.closed);
        if state.calls.is_empty() {
            return None;
        }
        if !state.closed {
            let _ = self.changed.wait_for(&mut state, pause);
        }
        state.busy = true;
        Some(TakenCalls { calls: std::mem::take(&mut state.calls), closed: state.closed })
    }

    /// Puts those back that still wait, before the calls that came meanwhile.
    pub(crate) fn put_back(&self, mut kept: Vec<WaitingCall>) {
        let mut state = self.state.lock();
        kept.append(&mut state.calls);
        state.calls = kept;
        state.busy = false;
        drop(state);
        self.idled.notify_all();
    }
}
