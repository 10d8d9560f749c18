use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use countersign_approval_token::{
    DEFAULT_TTL_CAP, MemoryPendingApprovals, MintTerms, PendingApproval, PendingApprovals, mint,
};
use countersign_audit_log::{AuditError, AuditSink, CallRecord, MemorySink, Record};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{
    AgentId, CallId, Clock as _, ManualClock, Millis, OperatorId, Principal, ServerName, SessionId,
    Timestamp, TokenId,
};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{NegotiationRequest, definition_digest};
use countersign_testing::{TestRegistry, TestTool, World};
use countersign_tool_gate::{CallStats, ProposalSettings, ToolGate};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    ClientForms, FormAnswer, Gateway, GatewayEnd, GatewayLimits, GatewayNotice, GatewaySettings, GatewayStop,
    PlanApprovals, read_plan,
};

pub(super) const NOW: u64 = 1_790_000_000_000;
pub(super) const GOAL: &str = "Answer the ticket of customer 7.";

/// Maximum wait of the tests. A passing test does not reach it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a call through to the server, and returns its id there.
pub(super) fn call_in_flight(desk: &mut Desk) -> Value {
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let call = desk.server_got();
    assert_eq!(call["method"], "tools/call", "{call}");
    call["id"].clone()
}

/// The tools as the server defines them. `delete_ticket` exists but is not the agent's.
pub(super) fn definitions() -> Value {
    json!([
        { "name": "search", "description": "Finds tickets.", "inputSchema": { "type": "object" } },
        { "name": "refund", "description": "Pays back.", "inputSchema": { "type": "object" } },
        { "name": "summarize", "description": "Sums up.", "inputSchema": { "type": "object" } },
        { "name": "delete_ticket", "description": "Deletes.", "inputSchema": { "type": "object" } },
        { "name": "send_email", "description": "Sends.", "inputSchema": { "type": "object" } },
    ])
}

fn registry(version: u64) -> TestRegistry {
    let summarize = definitions()[2].to_string();
    let summarize = read(summarize.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
    let search = json!({
        "type": "object", "additionalProperties": false, "required": ["q"],
        "properties": { "q": { "type": "string" }, "n": { "type": "number" }, "deep": {} },
    });
    let registry = TestRegistry::of([
        TestTool::read("search").args_schema(&search).member("data_args", json!(["/q"])),
        TestTool::money("refund"),
        TestTool::read("summarize").definition(&definition_digest(summarize.value()).unwrap()),
        TestTool::of("desk", "delete_ticket", "irreversible").member("approval", "not_required"),
        TestTool::of("desk", "send_email", "external").member("ask", "required"),
    ]);
    let undisclosed = |draft: &mut Value| drop(draft["agents"][0]["tools"].as_array_mut().unwrap().remove(3));
    registry.version(version).edit(undisclosed)
}

/// A signed registry of this version.
pub(super) fn signed(version: u64) -> String {
    signed_with(version, |_| {})
}

/// Like [`signed`], with a change to the draft.
pub(super) fn signed_with(version: u64, change: impl FnOnce(&mut Value)) -> String {
    let signed = registry(version).edit(change).sign_for(time(NOW), Millis::from_secs(3_600));
    String::from_utf8(signed).unwrap()
}

pub(super) fn time(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// A gateway between a client and a server, both played by the test.
#[derive(Debug)]
pub(super) struct Desk {
    client: Option<PipeWriter>,
    client_gets: Receiver<String>,
    client_later: Option<PipeReader>,
    server: Option<PipeWriter>,
    server_gets: Receiver<String>,
    server_later: Option<PipeReader>,
    run: JoinHandle<GatewayEnd>,
    capabilities: Value,
    pub(super) stop: GatewayStop,
    pub(super) gate: ToolGate,
    world: World,
    pub(super) pending: Arc<MemoryPendingApprovals>,
    /// While set, no session can be recorded.
    pub(super) sessions_fail: Arc<AtomicBool>,
    notices: Receiver<&'static str>,
    /// Ids and short ids of the questions that the host was notified of.
    pub(super) questions: Receiver<(String, String)>,
}

impl Deref for Desk {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// When a peer reads its input.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Now,
    Later,
    Never,
}

impl Reading {
    fn begin(self, stream: PipeReader) -> (Receiver<String>, Option<PipeReader>) {
        match self {
            Self::Now => (lines(stream), None),
            Self::Later => (channel().1, Some(stream)),
            Self::Never => (channel().1, None),
        }
    }
}

/// A sink that is slow for outcomes, like a disk, and blocks on refused messages while a test holds the lock. It
/// fails to record sessions and servers while the test forbids it.
#[derive(Debug)]
struct SlowSink {
    kept: Arc<MemorySink>,
    outcome_takes: Duration,
    sessions_fail: Arc<AtomicBool>,
    hold: Arc<Mutex<()>>,
    waits_for_disk: bool,
}

impl AuditSink for SlowSink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if matches!(record, Record::Outcome(_)) {
            thread::sleep(self.outcome_takes);
        }
        if matches!(record, Record::Session(_) | Record::Server(_))
            && self.sessions_fail.load(Ordering::SeqCst)
        {
            return Err(AuditError::Poisoned);
        }
        let is_unread = |call: &CallRecord| call.tool.name.as_str() == "?";
        if matches!(record, Record::Gateway(_)) || matches!(record, Record::Decision(call) if is_unread(call))
        {
            drop(self.hold.lock());
        }
        self.kept.record(record)
    }

    fn waits_for_disk(&self) -> bool {
        self.waits_for_disk
    }
}

/// Settings in which desks can differ.
pub(super) struct Setup {
    pub(super) settings: GatewaySettings,
    pub(super) before_call: Box<dyn Fn() + Send + Sync>,
    /// Time to record an outcome.
    pub(super) outcome_takes: Duration,
    /// Whether the sink says that a record can wait for a disk.
    pub(super) waits_for_disk: bool,
    /// While it is locked, no refused message is recorded.
    pub(super) hold: Arc<Mutex<()>>,
    pub(super) new_call_id: Option<Box<dyn Fn() -> Result<CallId, crate::CallIdError> + Send + Sync>>,
    /// Settings for action proposals.
    pub(super) proposals: Option<ProposalSettings>,
    pub(super) goal: Option<&'static str>,
    pub(super) without_plan: WithoutPlan,
    /// The steps of the plan that the session starts with.
    pub(super) plan: Option<Value>,
    pub(super) stats: CallStats,
    /// Maximum holding time of an accepted call.
    pub(super) holding: Option<Millis>,
    /// Time after which the session is renewed.
    pub(super) renewed_after: Option<Millis>,
    /// The client's capabilities. Forms are allowed if it has any.
    pub(super) capabilities: Value,
    /// Further entries of the registry, for reads.
    pub(super) reads: Vec<TestTool>,
}

/// Treatment of calls without a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutPlan {
    Pass,
    Refuse,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = GatewayLimits::default()
            .list_wait(Millis::new(150).unwrap())
            .and_then(|limits| limits.drain(Millis::from_secs(5)))
            .unwrap();
        let settings = GatewaySettings::new(ServerName::new("desk").unwrap()).limits(limits);
        Self {
            settings,
            before_call: Box::new(|| {}),
            outcome_takes: Duration::ZERO,
            waits_for_disk: true,
            hold: Arc::default(),
            new_call_id: None,
            proposals: None,
            goal: Some(GOAL),
            without_plan: WithoutPlan::Pass,
            plan: None,
            stats: CallStats::new(),
            holding: None,
            renewed_after: None,
            capabilities: json!({}),
            reads: Vec::new(),
        }
    }
}

/// Answers the questions of [`Desk::pending`] as the person at the client does, under the name `form`.
struct DeskForms(Arc<MemoryPendingApprovals>, Arc<ManualClock>);

impl ClientForms for DeskForms {
    fn text(&self, question: &PendingApproval) -> Option<String> {
        Some(format!("May {} run?", question.binding().tool.name()))
    }

    fn answer(&self, question: &PendingApproval, answer: FormAnswer) {
        let form = OperatorId::new("form").unwrap();
        match answer {
            FormAnswer::Approved => approve_as(&self.0, question.id(), form, self.1.now().unwrap()),
            FormAnswer::Denied(reason) => self.0.deny_because(question.id(), &form, reason.as_ref()).unwrap(),
        }
    }
}

/// Approves the call that waits under this id.
fn approve_as(pending: &MemoryPendingApprovals, id: &CallId, by: OperatorId, now: Timestamp) {
    let (waiting, _) = pending.get(id).unwrap().expect("a pending approval");
    let terms = MintTerms::new(TokenId::new(id.as_str()).unwrap(), by, now, Millis::from_secs(60));
    let token = mint(&World::keys(), waiting.binding(), &terms, DEFAULT_TTL_CAP).unwrap();
    pending.approve(id, &token, now).unwrap();
}

impl Setup {
    /// Gives the server time to list its tools.
    pub(super) fn patient(mut self) -> Self {
        let limits = GatewayLimits::default().list_wait(Millis::from_secs(20)).unwrap();
        self.settings = self.settings.limits(limits);
        self
    }

    /// Lets the client submit plans.
    pub(super) fn plans(mut self, approvals: PlanApprovals) -> Self {
        self.settings = self.settings.plans(approvals).unwrap();
        self
    }

    pub(super) fn limits(mut self, change: impl FnOnce(GatewayLimits) -> GatewayLimits) -> Self {
        let limits = change(self.settings.limits);
        self.settings = self.settings.limits(limits);
        self
    }
}

impl Desk {
    pub(super) fn open() -> Self {
        Self::with(Setup::default().patient())
    }

    /// A desk with an initialized session.
    pub(super) fn with(setup: Setup) -> Self {
        let mut desk = Self::before_the_handshake(setup);
        desk.shake_hands();
        desk
    }

    /// A desk whose client has not sent anything yet.
    pub(super) fn before_the_handshake(setup: Setup) -> Self {
        let (client_in, client) = pipe().unwrap();
        Self::start(setup, client_in, Some(client), Reading::Now, Reading::Now)
    }

    /// A desk whose client does not read until [`let_the_client_read`](Self::let_the_client_read).
    pub(super) fn with_client_that_waits(setup: Setup) -> Self {
        let (client_in, client) = pipe().unwrap();
        let mut desk = Self::start(setup, client_in, Some(client), Reading::Later, Reading::Now);
        desk.shake_hands();
        desk
    }

    /// A desk whose server does not read until [`let_the_server_read`](Self::let_the_server_read).
    pub(super) fn with_server_that_waits(setup: Setup) -> Self {
        let (client_in, client) = pipe().unwrap();
        let mut desk = Self::start(setup, client_in, Some(client), Reading::Now, Reading::Later);
        desk.shake_hands();
        desk
    }

    /// A desk whose client has stopped reading.
    pub(super) fn with_client_that_is_deaf(setup: Setup, client_in: impl Read + Send + 'static) -> Self {
        Self::start(setup, client_in, None, Reading::Never, Reading::Now)
    }

    /// A desk whose client writes the bytes of `client_in`.
    pub(super) fn with_client(setup: Setup, client_in: impl Read + Send + 'static) -> Self {
        Self::start(setup, client_in, None, Reading::Now, Reading::Now)
    }

    fn start(
        setup: Setup,
        client_in: impl Read + Send + 'static,
        client: Option<PipeWriter>,
        client_reading: Reading,
        server_reading: Reading,
    ) -> Self {
        let registry = setup.reads.into_iter().fold(registry(1), TestRegistry::tool);
        let world = World::of(&registry).session("s-1").principal("alice").audience("desk-gateway");
        let (pending, sessions_fail) = (Arc::new(MemoryPendingApprovals::new()), Arc::default());
        let registry = Arc::clone(&world.registry);
        let session = SessionId::new("s-1").unwrap();
        let mut request = NegotiationRequest::new(session.clone(), AgentId::new("support-bot").unwrap());
        if let Some(ttl) = setup.renewed_after {
            request = request.ttl(ttl);
        }
        let contract = registry.negotiate(&request, time(NOW)).unwrap();
        let audit: Arc<dyn AuditSink> = Arc::new(SlowSink {
            kept: Arc::clone(&world.sink),
            outcome_takes: setup.outcome_takes,
            sessions_fail: Arc::clone(&sessions_fail),
            hold: setup.hold,
            waits_for_disk: setup.waits_for_disk,
        });
        let alice = Principal::new("alice").unwrap();
        let mut gate = ToolGate::builder(
            Arc::clone(&registry),
            contract,
            alice,
            Arc::clone(&world.clock) as _,
            Arc::clone(&audit),
        )
        .approvals(world.approvals())
        .stats(Arc::new(setup.stats));
        if let Some(goal) = setup.goal {
            gate =
                gate.pinned_ask(PinnedAsk::pin(goal, &session, Millis::from_secs(600), time(NOW)).unwrap());
        }
        if setup.without_plan == WithoutPlan::Refuse {
            gate = gate.plan_first();
        }
        if let Some(limit) = setup.holding {
            gate = gate.holding_limit(limit);
        }
        if let Some(proposals) = setup.proposals {
            gate = gate.proposals(proposals);
        }
        let gate = gate.open().unwrap();
        let count = AtomicU64::new(1);
        let new_call_id = setup.new_call_id.unwrap_or_else(|| {
            Box::new(move || {
                Ok(CallId::new(&format!("call-{}", count.fetch_add(1, Ordering::SeqCst))).unwrap())
            })
        });
        let mut gateway = Gateway::new(
            setup.settings,
            gate.clone(),
            audit,
            Arc::clone(&world.clock) as _,
            Some(Arc::clone(&pending) as _),
            new_call_id,
            setup.before_call,
        );
        let (noticed, notices) = channel();
        let (asks, questions) = channel();
        gateway = gateway.questions(move |question, short| {
            let _ = asks.send((question.id().to_string(), short.to_owned()));
        });
        gateway = gateway.notices(move |notice| {
            let _ = noticed.send(notice.code());
        });
        if setup.capabilities != json!({}) {
            gateway = gateway.forms(Arc::new(DeskForms(Arc::clone(&pending), Arc::clone(&world.clock))));
        }
        if setup.renewed_after.is_some() {
            let registry = Arc::clone(&registry);
            gateway = gateway.renewal(move |now| {
                let negotiated = registry.negotiate(&request, now);
                negotiated.map_err(|error| GatewayNotice::new(error.code(), error.to_string()))
            });
        }
        if let Some(steps) = setup.plan {
            let steps = json!({ "steps": steps }).to_string();
            let server = ServerName::new("desk").unwrap();
            let plan = read_plan(steps.as_bytes(), &server, gate.plan_context().unwrap()).unwrap();
            gateway.start_plan(plan, None).unwrap();
        }
        let stop = gateway.stop_handle();
        let (client_reads, client_out) = pipe().unwrap();
        let (server_reads, server_in) = pipe().unwrap();
        let (server_out, server) = pipe().unwrap();
        let run = thread::spawn(move || gateway.run(client_in, client_out, server_in, server_out).unwrap());
        let (client_gets, client_later) = client_reading.begin(client_reads);
        let (server_gets, server_later) = server_reading.begin(server_reads);
        Self {
            client,
            client_gets,
            client_later,
            server: Some(server),
            server_gets,
            server_later,
            run,
            capabilities: setup.capabilities,
            stop,
            gate,
            world,
            pending,
            sessions_fail,
            notices,
            questions,
        }
    }

    /// Initializes the session between client and server.
    fn shake_hands(&mut self) {
        self.send(&initialize_with("hello", &self.capabilities.clone()));
        let asked = self.server_reads();
        self.answer(&asked["id"], &initialized());
        let answer = match &mut self.client_later {
            Some(stream) => first_line(stream),
            None => self.client_line(),
        };
        assert!(answer.contains("\"hello\""), "{answer}");
    }

    /// Reads the next line as the server, even if it otherwise waits.
    pub(super) fn server_reads(&mut self) -> Value {
        match &mut self.server_later {
            Some(stream) => serde_json::from_str(&first_line(stream)).unwrap(),
            None => self.server_got(),
        }
    }

    /// Writes a line as the client.
    pub(super) fn send(&mut self, line: &str) {
        writeln!(self.client.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        self.client.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Calls a tool as the client.
    pub(super) fn call(&mut self, id: impl Into<Value>, name: &str, args: &Value) {
        let params = json!({ "name": name, "arguments": args });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
                .to_string(),
        );
    }

    /// Calls a tool as the client, with metadata.
    pub(super) fn call_with(&mut self, id: impl Into<Value>, name: &str, args: &Value, meta: &Value) {
        let params = json!({ "name": name, "arguments": args, "_meta": meta });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
                .to_string(),
        );
    }

    pub(super) fn let_the_client_read(&mut self) {
        self.client_gets = lines(self.client_later.take().unwrap());
    }

    pub(super) fn let_the_server_read(&mut self) {
        self.server_gets = lines(self.server_later.take().unwrap());
    }

    /// The next line to the client, as text.
    pub(super) fn client_line(&self) -> String {
        self.client_gets.recv_timeout(PATIENCE).expect("the client gets a line")
    }

    pub(super) fn client_got(&self) -> Value {
        serde_json::from_str(&self.client_line()).unwrap()
    }

    /// The next line to the server, as text.
    pub(super) fn server_line(&self) -> String {
        self.server_gets.recv_timeout(PATIENCE).expect("the server gets a line")
    }

    pub(super) fn server_got(&self) -> Value {
        serde_json::from_str(&self.server_line()).unwrap()
    }

    /// Writes a line as the server.
    pub(super) fn serve(&mut self, line: &str) {
        writeln!(self.server.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(super) fn serve_bytes(&mut self, bytes: &[u8]) {
        self.server.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Answers a request with a result as the server.
    pub(super) fn answer(&mut self, id: &Value, result: &Value) {
        self.serve(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
    }

    /// Receives the gateway's request for tools as the server, and lists these.
    pub(super) fn list(&mut self, tools: &Value) {
        let asked = self.server_got();
        assert_eq!(asked["method"], "tools/list", "{asked}");
        self.answer(&asked["id"], &json!({ "tools": tools }));
    }

    /// Receives a call as the server, answers that it is done, and returns the call.
    pub(super) fn run_call(&mut self) -> Value {
        let call = self.server_got();
        assert_eq!(call["method"], "tools/call", "{call}");
        self.answer(&call["id"], &json!({ "content": [{ "type": "text", "text": "done" }] }));
        call
    }

    /// Runs a call as the server. Returns the id in the client's answer.
    pub(super) fn ran(&mut self) -> Value {
        self.run_call();
        self.client_got()["id"].clone()
    }

    /// The id of the next request towards the server.
    pub(super) fn wire_id(&self) -> Value {
        self.server_got()["id"].clone()
    }

    /// Checks that nothing is in transit to the server: a ping sent now is the next line that it receives.
    pub(super) fn nothing_reached_the_server(&mut self) {
        self.send(r#"{"jsonrpc":"2.0","id":"marker","method":"ping"}"#);
        let next = self.server_got();
        assert_eq!(next["method"], "ping", "{next}");
        self.answer(&next["id"], &json!({}));
        assert_eq!(self.client_got()["id"], "marker");
    }

    /// Checks that nothing is in transit to the client: an answer sent now is the next line that it receives.
    pub(super) fn nothing_reached_the_client(&mut self) {
        self.nothing_reached_the_server();
    }

    /// Approves the call that waits under this id, as an operator would.
    pub(super) fn approve(&self, id: &str) {
        approve_as(&self.pending, &CallId::new(id).unwrap(), OperatorId::new("bob").unwrap(), self.now());
    }

    /// Denies the call that waits under this id, as an operator would.
    pub(super) fn deny(&self, id: &str) {
        self.pending.deny(&CallId::new(id).unwrap(), &OperatorId::new("olga").unwrap()).unwrap();
    }

    /// Lets time pass.
    pub(super) fn wait(&self, span: Millis) {
        self.clock.advance(span).unwrap();
    }

    /// Lets the session expire, and receives the client's notification.
    pub(super) fn end_session(&self) {
        self.clock.advance(Millis::from_secs(3_600)).unwrap();
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        assert_eq!(self.client_got(), told);
        self.stop.wait_recorded();
    }

    pub(super) fn close_client(&mut self) {
        self.client = None;
    }

    pub(super) fn close_server(&mut self) {
        self.server = None;
    }

    /// Takes the server's writing end, for use in a thread.
    pub(super) fn take_server(&mut self) -> PipeWriter {
        self.server.take().unwrap()
    }

    /// Takes the client's writing end, for use in a thread.
    pub(super) fn take_client(&mut self) -> PipeWriter {
        self.client.take().unwrap()
    }

    /// Checks that the server's input is closed.
    pub(super) fn server_sees_the_end(&self) {
        assert_eq!(self.server_gets.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    }

    /// Waits for the gateway to end.
    pub(super) fn ended(&mut self) -> GatewayEnd {
        for _ in 0..2_000 {
            if self.run.is_finished() {
                let run = std::mem::replace(&mut self.run, thread::spawn(|| GatewayEnd::ClientClosed));
                return run.join().unwrap();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the gateway does not end");
    }

    /// Recorded codes, oldest first: of refused messages, of rejected calls, `ACCEPT` for accepted ones, and outcomes.
    pub(super) fn record(&self) -> Vec<String> {
        self.stop.wait_recorded();
        let code = |record: Record| match record {
            Record::Gateway(record) => Some(record.code.as_str().into()),
            Record::Decision(record) => {
                Some(record.code.map_or("ACCEPT".into(), |code| code.as_str().into()))
            }
            Record::Outcome(record) => Some(format!("{:?}", record.outcome)),
            Record::Session(_) | _ => None,
        };
        self.sink.latest().into_iter().filter_map(|(_, record)| code(record)).collect()
    }

    /// The recorded codes, sorted, because a separate thread records refused messages.
    pub(super) fn sorted_record(&self) -> Vec<String> {
        let mut record = self.record();
        record.sort_unstable();
        record
    }

    /// Recorded reasons of the rejected calls, oldest first.
    pub(super) fn reasons(&self) -> Vec<String> {
        self.stop.wait_recorded();
        let reason = |record: Record| match record {
            Record::Decision(record) => record.reason.map(|reason| reason.as_str().into()),
            Record::Session(_) | Record::Outcome(_) | Record::Gateway(_) | _ => None,
        };
        self.sink.latest().into_iter().filter_map(|(_, record)| reason(record)).collect()
    }

    /// Recorded reasons of the gateway's own entries, oldest first.
    pub(super) fn gateway_reasons(&self) -> Vec<String> {
        self.stop.wait_recorded();
        let reason = |record: Record| match record {
            Record::Gateway(record) => record.reason.map(|reason| reason.as_str().into()),
            Record::Session(_) | _ => None,
        };
        self.sink.latest().into_iter().filter_map(|(_, record)| reason(record)).collect()
    }

    /// The code of the operator's next notice.
    pub(super) fn notice(&self) -> &'static str {
        self.notices.recv_timeout(PATIENCE).expect("a notice")
    }

    /// The client's next refusal and its code.
    pub(super) fn refusal(&self) -> (Value, String) {
        let line = self.client_got();
        assert_eq!(line["result"]["isError"], true, "{line}");
        let decision = &line["result"]["_meta"]["dev.countersign/decision"];
        let code = decision["code"].as_str().unwrap().to_owned();
        assert!(line["result"]["content"][0]["text"].as_str().unwrap().contains(&code), "{line}");
        (line.clone(), code)
    }

    /// The JSON-RPC code and Countersign's code of the client's next error, under this id.
    pub(super) fn error(&self, id: &Value) -> (i64, String) {
        let line = self.client_got();
        assert_eq!(&line["id"], id, "{line}");
        (line["error"]["code"].as_i64().unwrap(), line["error"]["data"]["code"].as_str().unwrap().to_owned())
    }
}

/// The client's first request, under this id.
pub(super) fn initialize(id: &str) -> String {
    initialize_with(id, &json!({}))
}

fn initialize_with(id: &str, capabilities: &Value) -> String {
    let client = json!({ "name": "c", "version": "1" });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params }).to_string()
}

/// The result with which a server initializes the session.
pub(super) fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
        "serverInfo": { "name": "s", "version": "1" },
    })
}

/// Reads one line and not a byte more.
fn first_line(stream: &mut PipeReader) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

/// Reads lines in a thread, so that a test can limit its wait for one.
fn lines(stream: PipeReader) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            if send.send(String::from_utf8(line).unwrap()).is_err() {
                return;
            }
        }
    });
    receive
}
