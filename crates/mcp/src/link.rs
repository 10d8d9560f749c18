use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_approval_token::{PendingApprovals, PendingError};
use countersign_audit_log::{AuditSink, Direction, Record, RefusedRow, UnrecordedAnswer};
use countersign_core::{CallId, Clock, Timestamp, ToolId, ToolName};
use countersign_tool_gate::{CallApprovals, Refusals, RejectionCode, ToolGate};
use parking_lot::{Condvar, Mutex};

use crate::compose::Object;
use crate::end_progress::EndProgress;
use crate::era_2025;
use crate::error::CallIdError;
use crate::fault::Fault;
use crate::forms::{ClientForms, OpenForms};
use crate::handshake::Handshake;
use crate::held_call::HeldCall;
use crate::input_rounds::InputRounds;
use crate::listing::Listing;
use crate::members::UnknownMembers;
use crate::message::{RpcId, error_line, error_line_with};
use crate::modern_client::{ClientOutput, ModernClient};
use crate::modern_server::ModernServer;
use crate::notice::{ContractNews, GatewayNotice, Notice, QuestionNotice, Renewal};
use crate::older_client::OlderClient;
use crate::output::PeerOutput;
use crate::proposed::ProposedCalls;
use crate::queue::Queue;
use crate::reads::{ReadScope, client_methods};
use crate::request_purpose::RequestPurpose;
use crate::requests::{AnswerTurn, Requests};
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
/// Lock order: `life`, `suspended` or `older_client`, then `asked`; and `contract_news`, then `listing` or `to_client`. No other two
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
    pub(crate) life: Mutex<EndProgress>,
    pub(crate) lived: Condvar,
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
}
