//! The end of a gateway: the side that ends first, the wait for the rest, and the answers to open requests.

use std::time::Duration;

use countersign_audit_log::Direction;

use crate::end_progress::{EndProgress, EndedBy};
use crate::era_2025;
use crate::fault::Fault;
use crate::held_call::HeldCall;
use crate::link::Link;
use crate::listing::PageAnswer;
use crate::message::error_line;
use crate::older_client::ClientRound;
use crate::request_purpose::RequestPurpose;
use crate::requests::Request;

impl Link {
    /// Notes the end of the client's input. Requests in progress may finish.
    pub(crate) fn client_ended(&self) {
        self.note(|life| {
            life.first.get_or_insert(EndedBy::Client);
        });
        self.waiting.close();
        self.end_rounds();
        self.calls.close();
    }

    /// Ends the gateway from outside: no new calls, and `drain` for those in flight. A second call ends the wait.
    pub(crate) fn stop_calls(&self, drain: Duration) {
        self.note(|life| {
            life.stopped = Some(life.stopped.map_or(drain, |_| Duration::ZERO));
            life.first.get_or_insert(EndedBy::Gateway);
        });
        self.waiting.close();
        self.end_rounds();
        self.calls.close();
    }

    /// Answers the request of a round with a fault, and withdraws its open questions.
    pub(crate) fn end_round(&self, round: ClientRound, fault: Fault) {
        let ClientRound { client, serial, questions, .. } = round;
        self.older_client.note_ended(&questions);
        for question in questions.iter().filter(|question| question.answer.is_none()) {
            self.to_client.offer(era_2025::cancelled_line(&question.id), usize::MAX);
        }
        let was_open = self.asked.lock().withdraw(serial).is_some();
        if was_open {
            self.answer(&client, error_line(Some(&client), fault));
            self.settled();
        }
    }

    fn end_rounds(&self) {
        let fault = self.end_fault();
        self.older_client.close().into_iter().for_each(|round| self.end_round(round, fault));
    }

    /// Returns whether the gateway was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.life.lock().stopped.is_some()
    }

    /// The fault of a request that cannot be forwarded any more.
    pub(crate) fn end_fault(&self) -> Fault {
        if self.is_stopped() { Fault::GatewayStopped } else { Fault::ServerEnded }
    }

    /// Notes that all calls were examined. Those that wait for the list of tools are the last.
    pub(crate) fn calls_looked_at(&self) {
        self.unlisted.close();
    }

    /// Notes that all calls are decided, and closes the server's input. A stopped gateway closes it only after its wait for the
    /// calls in flight, because many servers answer none of them after the end of their input.
    pub(crate) fn calls_ended(&self) {
        if !self.is_stopped() {
            self.to_server.close();
        }
        self.note(|life| life.calls_ended = true);
    }

    /// Processes one line of the server. The end waits for it, so that the last answer is not lost.
    pub(crate) fn server_speaks(&self, deal: impl FnOnce()) {
        self.note(|life| life.server_speaks = true);
        deal();
        self.note(|life| life.server_speaks = false);
    }

    /// Removes a request that the client cancels, and records its outcome. The end waits for it, so that the outcome is
    /// not lost. `cancel` must not wait for a peer.
    pub(crate) fn client_cancels<T>(&self, cancel: impl FnOnce() -> T) -> T {
        self.note(|life| life.client_cancels = true);
        let cancelled = cancel();
        self.note(|life| life.client_cancels = false);
        cancelled
    }

    /// Waits until a cancellation in progress is recorded.
    pub(crate) fn wait_for_cancellation(&self) {
        let mut life = self.life.lock();
        self.lived.wait_while(&mut life, |life| life.client_cancels);
    }

    /// Notes the end of the server's output. Outstanding requests will never be answered.
    pub(crate) fn server_ended(&self) {
        // Before the client is notified, and perhaps ends because of it.
        self.note(|life| {
            life.first.get_or_insert(EndedBy::Server);
            life.server_speaks = true;
        });
        self.fail_outstanding();
        self.end_rounds();
        self.waiting.close();
        self.to_server.kill();
        self.note(|life| {
            life.server_speaks = false;
            life.server_ended = true;
        });
    }

    /// Notes that the server has stopped reading. It may still have answers in transit.
    pub(crate) fn server_stopped_reading(&self) {
        self.to_server.kill();
        self.note(|life| {
            life.first.get_or_insert(EndedBy::Server);
        });
    }

    /// Notes that the client has stopped reading.
    pub(crate) fn client_stopped_reading(&self) {
        self.to_client.kill();
        self.client_ended();
    }

    /// Ends every thread that does not wait for a peer.
    pub(crate) fn stop(&self) {
        self.waiting.close();
        self.calls.kill();
        self.unlisted.kill();
        self.recording.kill();
        self.to_client.kill();
        self.to_server.kill();
    }

    /// Wakes the end of the gateway after an answer, in case it was the last.
    pub(crate) fn settled(&self) {
        self.note(|_| {});
    }

    /// Answers every outstanding request with an error and accepts no more. Calls in flight become unknown.
    pub(crate) fn fail_outstanding(&self) {
        let fault = self.end_fault();
        let open = self.asked.lock().end();
        for Request { client, what } in open {
            if let RequestPurpose::Own { serial, .. } = what {
                self.listing.deliver(serial, PageAnswer::Failed);
            }
            drop(what);
            let Some(id) = client else {
                continue;
            };
            // Without waiting: their number is bounded, and the end must not depend on a client that does not read.
            self.to_client.offer(error_line(Some(&id), fault), usize::MAX);
            let behind = self.asked.lock().take_behind(&id);
            for line in behind {
                self.to_client.offer(line, usize::MAX);
            }
        }
        for id in self.suspended.fail(fault) {
            self.to_client.offer(error_line(Some(&id), fault), usize::MAX);
        }
    }

    /// Refuses a call whose decision has not begun when the gateway is stopped. The refusal is recorded even if the end of
    /// the session has already answered the call.
    pub(crate) fn refuses_by_stop(&self, call: &HeldCall) -> bool {
        let is_stopped = self.is_stopped();
        if is_stopped {
            self.record(Direction::ToServer, Some(era_2025::CALL), Fault::GatewayStopped);
            self.fail(call, Fault::GatewayStopped);
        }
        is_stopped
    }

    /// Waits until one side ends.
    pub(crate) fn wait_for_end(&self) -> EndedBy {
        let mut life = self.life.lock();
        loop {
            if let Some(end) = life.first {
                return end;
            }
            self.lived.wait(&mut life);
        }
    }

    /// Waits for `time`, or until the gateway begins to end. Returns `true` if it does.
    pub(crate) fn wait_while_it_runs(&self, time: Duration) -> bool {
        let mut life = self.life.lock();
        let _ = self.lived.wait_while_for(&mut life, |life| life.first.is_none(), time);
        life.first.is_some()
    }

    /// Waits for the work in progress: at most `limit`, or once the gateway is stopped, for its drain time.
    pub(crate) fn wait_for_rest(&self, limit: Duration) {
        let is_done = |life: &EndProgress| {
            let is_over = life.server_ended
                || (life.calls_ended && !life.server_speaks && self.asked.lock().is_settled());
            is_over && !life.client_cancels
        };
        let mut life = self.life.lock();
        let waits = |life: &mut EndProgress| life.stopped.is_none() && !is_done(life);
        let _ = self.lived.wait_while_for(&mut life, waits, limit);
        if let Some(drain) = life.stopped {
            let waits = |life: &mut EndProgress| life.stopped != Some(Duration::ZERO) && !is_done(life);
            let _ = self.lived.wait_while_for(&mut life, waits, drain);
        }
    }

    fn note(&self, change: impl FnOnce(&mut EndProgress)) {
        let mut life = self.life.lock();
        let was_cancelling = life.client_cancels;
        change(&mut life);
        let silent = life.calls_ended && life.server_ended;
        // why: until the end begins, threads wait for the end or for a cancellation alone. So an answer wakes none.
        let is_awaited = life.first.is_some() || was_cancelling && !life.client_cancels;
        drop(life);
        if silent {
            // No thread is left that could write to the client.
            self.to_client.end_streams();
            self.to_client.close();
        }
        if is_awaited {
            self.lived.notify_all();
        }
    }
}
