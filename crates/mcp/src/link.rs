use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign_approval_token::{PendingApprovals, PendingError};
use countersign_audit_log::{AuditSink, Direction, Record, RefusedRow, UnrecordedAnswer};
use countersign_core::{CallId, Clock, Timestamp, ToolId, ToolName};
use countersign_tool_gate::{CallApprovals, Refusals, RejectionCode, ToolGate};
use parking_lot::{Condvar, Mutex};

use crate::compose::Object;
use crate::era_2025;
use crate::error::CallIdError;
use crate::fault::Fault;
use crate::forms::{ClientForms, OpenForms};
use crate::handshake::Handshake;
use crate::held_call::HeldCall;
use crate::input_rounds::InputRounds;
use crate::listing::{Listing, PageAnswer};
use crate::members::UnknownMembers;
use crate::message::{RpcId, error_line, error_line_with};
use crate::modern_client::{ClientOutput, ModernClient};
use crate::modern_server::ModernServer;
use crate::notice::{ContractNews, GatewayNotice, Notice, QuestionNotice, Renewal};
use crate::older_client::{ClientRound, OlderClient};
use crate::output::PeerOutput;
use crate::proposed::ProposedCalls;
use crate::queue::Queue;
use crate::reads::{ReadScope, client_methods};
use crate::request_purpose::RequestPurpose;
use crate::requests::{AnswerTurn, Request, Requests};
use crate::settings::{Era, GatewaySettings};
use crate::submission::LastStep;
use crate::suspended::SuspendedRequests;
use crate::table::Table;
use crate::tasks::Tasks;
use crate::waiting::WaitingCalls;

/// Maximum number of refusals that wait to be recorded. A further message is counted in the sum; a further refused call makes
/// the client wait.
pub(crate) const MAX_WAITING: usize = 4_096;

/// Creates call ids.
pub(crate) type NewCallId = Arc<dyn Fn() -> Result<CallId, CallIdError> + Send + Sync>;

/// Shared state of the gateway's threads.
///
/// Lock order: `life`, then `asked`; `suspended`, then `asked`; and `contract_news`, then `listing` or `to_client`. No other two
/// locks in here are held together.
pub(crate) struct Link {
    pub(crate) settings: GatewaySettings,
    pub(crate) gate: ToolGate,
    pub(crate) approvals: Option<CallApprovals>,
    pub(crate) proposed: ProposedCalls,
    pub(crate) new_call_id: NewCallId,
    pub(crate) before_call: Box<dyn Fn() + Send + Sync>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) handshake: Arc<Handshake>,
    /// Methods of messages from which unknown members were cut.
    strange: Mutex<Vec<(Direction, &'static str)>>,
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) recording: Recording,
    notice: Notice,
    pub(crate) question: QuestionNotice,
    /// Negotiates a new contract, if the session is to be renewed.
    pub(crate) renewal: Option<Renewal>,
    pub(crate) contract_news: Arc<ContractNews>,
    /// The number of changes of the contract that the known definitions belong to.
    pub(crate) seen_changes: AtomicU64,
    latest: AtomicU64,
    /// Requests of the client and of the gateway that the server has yet to answer.
    pub(crate) asked: Mutex<Requests<RequestPurpose>>,
    /// Requests of the server that the client has yet to answer.
    pub(crate) server_asked: Mutex<Table<RpcId, ()>>,
    pub(crate) listing: Listing,
    /// The last step of the session's plan, once it has one.
    pub(crate) last_step: Mutex<Option<LastStep>>,
    pub(crate) calls: Queue<HeldCall>,
    /// Calls that wait for the server's list of tools, and the calls behind them.
    pub(crate) unlisted: Queue<HeldCall>,
    /// Calls that wait for a person's answer.
    pub(crate) waiting: WaitingCalls,
    /// Questions that the client shows as forms.
    pub(crate) forms: OpenForms,
    /// Requests that the server goes on with while the client is asked in place of their results.
    pub(crate) suspended: SuspendedRequests,
    /// Requests that wait for the client's answers to questions of a server of the stateless era.
    pub(crate) older_client: OlderClient,
    /// Calls whose results the server has promised.
    pub(crate) tasks: Tasks,
    pub(crate) to_client: ClientOutput,
    pub(crate) to_server: PeerOutput,
    pub(crate) modern_server: ModernServer,
    life: Mutex<EndProgress>,
    lived: Condvar,
}

/// A refusal that waits to be recorded.
pub(crate) struct Job {
    /// Row that counts the refusal in the sum if the end comes first.
    pub(crate) row: RefusedRow,
    pub(crate) work: Box<dyn FnOnce(&Link) + Send>,
}

/// Refusals that wait to be recorded, and the sum of messages beyond the rate limit.
pub(crate) struct Recording {
    pub(crate) jobs: Queue<Job>,
    pub(crate) refused: Refusals,
}

impl Recording {
    pub(crate) fn new(refused: Refusals) -> Self {
        Self { jobs: Queue::new(MAX_WAITING), refused }
    }

    /// Ends the thread. The remaining refusals stay unrecorded.
    pub(crate) fn kill(&self) {
        self.jobs.kill();
    }

    #[cfg(test)]
    pub(crate) fn wait(&self) {
        self.jobs.wait_idle(std::time::Duration::from_secs(20));
    }
}

/// Progress towards the end of the gateway.
#[derive(Clone, Copy, Debug, Default)]
struct EndProgress {
    /// All calls of the client are decided, and no more will come.
    calls_ended: bool,
    /// A line of the server, or its end, is being processed: its request is already answered in the table, but not yet
    /// to the client.
    server_speaks: bool,
    /// A client's request is being cancelled: it is already out of the table, but its outcome is not yet recorded.
    client_cancels: bool,
    /// The server sends no more.
    server_ended: bool,
    /// The side that ended first.
    first: Option<EndedBy>,
    /// Time for calls in flight after the gateway is stopped.
    stopped: Option<Duration>,
}

/// The side that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Client,
    Server,
    /// Neither: the gateway was stopped.
    Gateway,
}

pub(crate) struct LinkParts {
    pub(crate) settings: GatewaySettings,
    pub(crate) gate: ToolGate,
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pending: Option<Arc<dyn PendingApprovals>>,
    pub(crate) new_call_id: NewCallId,
    pub(crate) before_call: Box<dyn Fn() + Send + Sync>,
    pub(crate) last_step: Option<LastStep>,
    pub(crate) notice: Notice,
    pub(crate) question: QuestionNotice,
    pub(crate) forms: Option<Arc<dyn ClientForms>>,
    pub(crate) renewal: Option<Renewal>,
    /// Shared with the other gateways of the session.
    pub(crate) contract_news: Option<Arc<ContractNews>>,
}

impl Link {
    /// Creates the shared state. `prefix` begins the ids of requests towards the server.
    pub(crate) fn new(parts: LinkParts, prefix: &str) -> Self {
        let limits = parts.settings.limits;
        let refused = parts.gate.refused_messages(parts.settings.refused_messages);
        let ttl = parts.settings.approval_ttl;
        let approvals = parts.pending.map(|store| CallApprovals::new(store, ttl));
        let contract_news = parts.contract_news.unwrap_or_else(|| Arc::new(ContractNews::of(&parts.gate)));
        let rounds = InputRounds::new(parts.forms.is_some(), parts.settings.server_methods.clone(), ttl);
        let modern = ModernClient::new(parts.settings.client_era != Era::Handshake, prefix, rounds);
        let modern_server = ModernServer::new(parts.settings.server_era);
        Self {
            settings: parts.settings,
            gate: parts.gate,
            approvals,
            proposed: ProposedCalls::default(),
            new_call_id: parts.new_call_id,
            before_call: parts.before_call,
            clock: parts.clock,
            handshake: Arc::default(),
            strange: Mutex::default(),
            sink: parts.sink,
            recording: Recording::new(refused),
            notice: parts.notice,
            question: parts.question,
            renewal: parts.renewal,
            seen_changes: AtomicU64::new(contract_news.changes.load(Ordering::SeqCst)),
            contract_news,
            latest: AtomicU64::new(0),
            asked: Mutex::new(Requests::new(prefix, limits.outstanding)),
            server_asked: Mutex::new(Table::new(limits.outstanding)),
            listing: Listing::default(),
            last_step: Mutex::new(parts.last_step),
            calls: Queue::new(limits.client_line.saturating_mul(2)),
            unlisted: Queue::new(limits.client_line.saturating_mul(2)),
            waiting: WaitingCalls::default(),
            forms: OpenForms::new(parts.forms),
            suspended: SuspendedRequests::default(),
            older_client: OlderClient::default(),
            tasks: Tasks::default(),
            to_client: ClientOutput::new(modern),
            to_server: PeerOutput::new(),
            modern_server,
            life: Mutex::default(),
            lived: Condvar::new(),
        }
    }

    /// Returns whether the session's contract is in force: neither expired nor revoked.
    pub(crate) fn is_session_alive(&self) -> bool {
        let view = self.gate.registry().view();
        self.clock.now().is_ok_and(|now| self.gate.contract().check(&view, now).is_ok())
    }

    /// The scope of this server's reads.
    pub(crate) fn reads(&self) -> ReadScope<'_> {
        ReadScope { gate: &self.gate, server: self.settings.server() }
    }

    /// Methods that the client may use, besides those of every session.
    pub(crate) fn client_methods(&self) -> BTreeSet<Box<str>> {
        client_methods(self.reads(), &self.settings.client_methods)
    }

    /// Returns whether a server may answer a call of some of its tools with a task: one of the stateless era.
    pub(crate) fn may_promise(&self) -> bool {
        let contract = self.gate.contract();
        let own = |tool: &&ToolId| tool.server() == self.settings.server();
        self.speaks_tasks() && contract.tools().iter().filter(own).any(|tool| self.may_promise_for(tool))
    }

    /// Returns whether the server may answer a call of this tool with a task.
    pub(crate) fn may_promise_for(&self, tool: &ToolId) -> bool {
        if !self.speaks_tasks() {
            return false;
        }
        let view = self.gate.registry().view();
        let contract = self.gate.contract();
        contract.disclosed(&view, tool).is_some_and(|rules| rules.entry().tasks().is_allowed())
    }

    fn speaks_tasks(&self) -> bool {
        self.modern_server.is_on() && self.to_client.modern.is_on()
    }

    /// Sends one line to the client, as soon as there is room.
    pub(crate) fn send_to_client(&self, line: impl Into<Vec<u8>>) {
        self.to_client.send(line);
    }

    /// Sends one line to the server, as soon as there is room. Returns `false` if the server accepts no more.
    pub(crate) fn send_to_server(&self, line: impl Into<Vec<u8>>) -> bool {
        if !self.modern_server.is_on() {
            return self.to_server.send(line);
        }
        self.modern_server.translated(line.into(), None).is_none_or(|line| self.to_server.send(line))
    }

    /// Sends a request of the client to the server, in the server's era.
    pub(crate) fn send_request(&self, client: &RpcId, line: impl Into<Vec<u8>>) -> bool {
        let extras = self.to_client.modern.rounds.extras(client);
        if !self.modern_server.is_on() {
            return self.to_server.send(line);
        }
        self.modern_server.translated(line.into(), extras).is_none_or(|line| self.to_server.send(line))
    }

    /// Answers a client's request that is no longer in the table, then sends the answers that wait for its id.
    pub(crate) fn answer(&self, id: &RpcId, line: impl Into<Vec<u8>>) {
        self.send_to_client(line);
        self.answer_behind(id);
    }

    /// Forgets a request of a client of the handshake era, which was kept in case the server asks for input.
    pub(crate) fn forget_input(&self, id: &RpcId) {
        if self.modern_server.is_on() && !self.to_client.modern.is_on() {
            self.older_client.take_kept(id);
            self.to_client.modern.rounds.forget(id);
        }
    }

    /// Sends the refusals that waited until no other request used their id.
    pub(crate) fn answer_behind(&self, id: &RpcId) {
        self.forget_input(id);
        let behind = self.asked.lock().take_behind(id);
        for line in behind {
            self.send_to_client(line);
        }
    }

    /// Answers a refused call under its own id. While another request uses that id, the refusal waits behind that request's
    /// answer: otherwise the client would match it to that request, and might repeat a call that is running.
    pub(crate) fn answer_refused(&self, id: &RpcId, line: String) {
        let turn = self.asked.lock().answer_behind(id, line);
        match turn {
            AnswerTurn::Now(line) => self.send_to_client(line),
            AnswerTurn::Later => {}
            AnswerTurn::Never => self.send_to_client(error_line(None, Fault::IdInUse)),
        }
    }

    /// Answers a client's request in the server's place. Leaves out an id that another request uses, because the client would
    /// match the answer to that request.
    pub(crate) fn answer_fault(&self, id: Option<&RpcId>, fault: Fault) {
        self.answer_fault_with(id, fault, Object::new().string("code", fault.code()));
    }

    /// Like [`answer_fault`](Self::answer_fault), with `data` as the error's data.
    pub(crate) fn answer_fault_with(&self, id: Option<&RpcId>, fault: Fault, data: Object) {
        let free = id.filter(|id| fault != Fault::IdInUse && !self.asked.lock().is_in_use(id));
        self.send_to_client(error_line_with(free, fault, data));
    }

    /// Returns whether the session is not initialized and a message with this method must wait until it is.
    pub(crate) fn is_too_early(&self, method: &str) -> bool {
        !self.handshake.is_done() && !era_2025::may_precede_handshake(method)
    }

    /// Records that members were cut out of a message, once for each method and direction.
    pub(crate) fn record_strange(&self, direction: Direction, strange: &UnknownMembers<'_>) {
        let entry = (direction, strange.method);
        let mut seen = self.strange.lock();
        if seen.contains(&entry) {
            return;
        }
        seen.push(entry);
        drop(seen);
        self.record(direction, Some(strange.method), Fault::UnknownMember);
    }

    /// Records a fault on the server's side, and notifies the operator.
    pub(crate) fn notify(&self, fault: Fault) {
        self.record(Direction::ToClient, None, fault);
        self.notify_of(&GatewayNotice::new(fault.code(), fault.reason()));
    }

    /// Notifies the operator of an event that is already recorded.
    pub(crate) fn notify_of(&self, notice: &GatewayNotice) {
        (self.notice)(notice);
    }

    /// Records a refusal and returns its record number. On failure the sink counts the unrecorded answer.
    pub(crate) fn keep(&self, record: &Record) -> Option<u64> {
        let recorded = self.sink.record(record).ok();
        if recorded.is_none() {
            let unavailable = RejectionCode::AuditUnavailable.as_str();
            let code =
                if let Record::Gateway(refused) = record { refused.code.as_str() } else { unavailable };
            self.sink.note_unrecorded(&UnrecordedAnswer {
                time: record.time(),
                code,
                approval: None,
                co_approvals: &[],
            });
        }
        recorded
    }

    /// The current time, or the last known time if the clock fails, so that refusals are recorded even then.
    pub(crate) fn now(&self) -> Timestamp {
        if let Ok(now) = self.clock.now() {
            self.latest.store(now.as_millis(), Ordering::SeqCst);
            return now;
        }
        Timestamp::from_millis(self.latest.load(Ordering::SeqCst)).unwrap_or(Timestamp::EPOCH)
    }

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

    /// The server's tool of this name, if a tool can have it.
    pub(crate) fn tool_of(&self, name: &str) -> Option<ToolId> {
        let name = ToolName::new(name).ok()?;
        Some(ToolId::from_names(self.settings.server().clone(), name))
    }

    /// Returns whether the call no longer awaits an answer: it was cancelled, or the server ended.
    pub(crate) fn is_over(&self, call: &HeldCall) -> bool {
        !self.asked.lock().is_held(call.serial)
    }

    /// Answers a held call with a fault, if the call is still in the table.
    pub(crate) fn fail(&self, call: &HeldCall, fault: Fault) {
        if self.withdraw(call) {
            self.answer(&call.id, error_line(Some(&call.id), fault));
        }
    }

    /// Removes a call from the table so that the gateway can answer it. Returns `false` if it was already gone.
    pub(crate) fn withdraw(&self, call: &HeldCall) -> bool {
        let open = self.asked.lock().withdraw(call.serial);
        let was_open = open.is_some();
        drop(open);
        self.settled();
        was_open
    }

    /// Returns the value of an operation on the store of pending approvals; records its error.
    pub(crate) fn note_store<T>(&self, result: Result<T, PendingError>) -> Option<T> {
        result
            .inspect_err(|error| self.record(Direction::ToServer, None, Fault::PendingStore(error.code())))
            .ok()
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
