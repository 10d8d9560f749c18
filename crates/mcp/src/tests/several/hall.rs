use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use countersign_audit_log::{AuditSink, Record};
use countersign_core::{AgentId, CallId, Millis, Principal, ServerName, SessionId, Timestamp};
use countersign_registry::NegotiationRequest;
use countersign_testing::{TestRegistry, TestTool, World};
use countersign_tool_gate::ToolGate;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{Gateway, GatewayEnd, GatewayLimits, GatewaySettings, GatewayStop, Gateways};

pub(super) const NOW: u64 = 1_790_000_000_000;

/// Maximum wait of the tests. A passing test does not reach it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server answers to one message.
pub(super) type Answers = Box<dyn FnMut(&Value) -> Vec<String> + Send>;

/// Servers behind one client, all played by the test.
pub(super) struct Hall {
    client: Option<PipeWriter>,
    client_gets: Receiver<String>,
    pub(super) servers: Vec<Arc<Mutex<Option<PipeWriter>>>>,
    /// What each server got, of all but `initialize` and `tools/list`.
    got: Vec<Receiver<Value>>,
    run: Option<JoinHandle<GatewayEnd>>,
    pub(super) stops: Vec<GatewayStop>,
    pub(super) world: World,
    pub(super) gate: ToolGate,
}

/// A server that is called `name` and has these tools.
pub(super) fn server(name: &str, tools: &[&str]) -> Answers {
    let listed: Vec<_> =
        tools.iter().map(|tool| json!({ "name": tool, "inputSchema": { "type": "object" } })).collect();
    let name = name.to_owned();
    Box::new(move |asked| {
        let result = match asked["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": name, "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": listed }),
            Some("tools/call") => {
                let text = format!("{name} ran {}", asked["params"]["name"].as_str().unwrap());
                json!({ "content": [{ "type": "text", "text": text }] })
            }
            _ => json!({}),
        };
        if asked["id"].is_null() || asked["method"].is_null() {
            Vec::new()
        } else {
            vec![answer_to(asked, result)]
        }
    })
}

/// A server that reads and answers nothing.
pub(super) fn silent() -> Answers {
    Box::new(|_| Vec::new())
}

pub(super) fn answer_to(asked: &Value, result: impl Into<Value>) -> String {
    json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result.into() }).to_string()
}

pub(super) fn settings(server: &str) -> GatewaySettings {
    let limits = GatewayLimits::default().list_wait(Millis::new(400).unwrap()).unwrap();
    GatewaySettings::new(ServerName::new(server).unwrap()).limits(limits).among_several().unwrap()
}

impl Hall {
    /// A hall with the servers `files` and `web`, and an initialized session.
    pub(super) fn open(files: Answers, web: Answers) -> Self {
        let mut hall = Self::before_the_handshake(files, web);
        hall.shake_hands();
        hall
    }

    pub(super) fn shake_hands(&mut self) -> Value {
        let client = json!({ "name": "c", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "roots": {} }, "clientInfo": client });
        let hello = self.ask("hello", "initialize", &params);
        assert!(hello["result"].is_object(), "{hello}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        hello
    }

    pub(super) fn before_the_handshake(files: Answers, web: Answers) -> Self {
        Self::with([(settings("files"), files), (settings("web"), web)])
    }

    pub(super) fn with(servers: [(GatewaySettings, Answers); 2]) -> Self {
        let tools = ["files", "web"].into_iter().flat_map(|server| {
            let write = TestTool::of(server, "write", "read").member("tasks", "allowed");
            [TestTool::of(server, "read", "read"), write]
        });
        let read = |server: &str, method: &str| TestTool::of(server, method, "read");
        let from = |root: &str| json!({ "kind": "uri_within", "at": "/uri", "roots": [root] });
        let uri = json!({ "type": "object", "required": ["uri"] });
        let reads = [
            read("files", "resources/read").args_schema(&uri).constraint(from("file:///")),
            read("files", "prompts/get"),
            read("web", "resources/read").args_schema(&uri).constraint(from("https://docs.example/")),
            read("web", "prompts/get"),
            read("web", "completion/complete"),
        ];
        let world = World::of(&TestRegistry::of(tools.chain(reads))).session("s-1").principal("alice");
        let session = SessionId::new("s-1").unwrap();
        let request = NegotiationRequest::new(session, AgentId::new("support-bot").unwrap());
        let contract = world.registry.negotiate(&request, Timestamp::from_millis(NOW).unwrap()).unwrap();
        let audit: Arc<dyn AuditSink> = Arc::clone(&world.sink) as _;
        let gate = ToolGate::builder(
            Arc::clone(&world.registry),
            contract,
            Principal::new("alice").unwrap(),
            Arc::clone(&world.clock) as _,
            Arc::clone(&audit),
        );
        let gate = gate.open().unwrap();
        let count = Arc::new(AtomicU64::new(1));
        let (mut gateways, mut outputs, mut got) = (Gateways::new(), Vec::new(), Vec::new());
        for (settings, answers) in servers {
            let count = Arc::clone(&count);
            let gateway = Gateway::new(
                settings,
                gate.clone(),
                Arc::clone(&audit),
                Arc::clone(&world.clock) as _,
                None,
                Box::new(move || {
                    Ok(CallId::new(&format!("call-{}", count.fetch_add(1, Ordering::SeqCst))).unwrap())
                }),
                Box::new(|| {}),
            );
            let (reads, server_in) = pipe().unwrap();
            let (server_out, writes) = pipe().unwrap();
            gateways.add(gateway, server_in, server_out).unwrap();
            let writes = Arc::new(Mutex::new(Some(writes)));
            got.push(play(reads, Arc::clone(&writes), answers));
            outputs.push(writes);
        }
        let stops = gateways.stop_handles();
        let (client_in, client) = pipe().unwrap();
        let (client_reads, client_out) = pipe().unwrap();
        let run = thread::spawn(move || gateways.run(client_in, client_out).unwrap());
        let (client_gets, run) = (lines(client_reads), Some(run));
        Self { client: Some(client), client_gets, servers: outputs, got, run, stops, world, gate }
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    pub(super) fn send_line(&mut self, line: &str) {
        writeln!(self.client.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request, and returns the next line to the client.
    pub(super) fn ask(&mut self, id: impl Into<Value>, method: &str, params: &Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params }));
        self.client_got()
    }

    /// Calls a tool, and returns the next line to the client.
    pub(super) fn call(&mut self, id: impl Into<Value>, name: &str) -> Value {
        self.ask(id, "tools/call", &json!({ "name": name, "arguments": {} }))
    }

    pub(super) fn client_line(&self) -> String {
        self.client_gets.recv_timeout(PATIENCE).expect("the client gets a line")
    }

    pub(super) fn client_got(&self) -> Value {
        serde_json::from_str(&self.client_line()).unwrap()
    }

    /// The next message to a server, of all but `initialize` and `tools/list`.
    pub(super) fn server_got(&self, at: usize) -> Value {
        self.got[at].recv_timeout(PATIENCE).expect("the server gets a line")
    }

    /// Checks that a server got nothing more.
    pub(super) fn nothing_reached(&self, at: usize) {
        assert!(self.got[at].try_recv().is_err());
    }

    /// Writes a message as a server.
    pub(super) fn serve(&self, at: usize, message: &Value) {
        writeln!(self.servers[at].lock().as_mut().unwrap(), "{message}").unwrap();
    }

    /// Ends a server's output.
    pub(super) fn end_server(&self, at: usize) {
        *self.servers[at].lock() = None;
    }

    pub(super) fn leave(&mut self) -> GatewayEnd {
        self.client = None;
        self.ended()
    }

    pub(super) fn ended(&mut self) -> GatewayEnd {
        let run = self.run.take().unwrap();
        for _ in 0..2_000 {
            if run.is_finished() {
                return run.join().unwrap();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the gateways do not end");
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.world.sink.latest().into_iter().map(|(_, record)| record).collect()
    }

    /// The decided calls: tool and code.
    pub(super) fn decisions(&self) -> Vec<String> {
        let decision = |record: Record| match record {
            Record::Decision(call) => {
                let tool = format!("{}:{}", call.tool.server.as_str(), call.tool.name.as_str());
                Some(format!("{tool} {}", call.code.map_or("ACCEPT".into(), |code| code.as_str().to_owned())))
            }
            Record::Session(_) | Record::Outcome(_) | _ => None,
        };
        self.records().into_iter().filter_map(decision).collect()
    }
}

/// Runs one server. Returns what it gets.
fn play(reads: PipeReader, writes: Arc<Mutex<Option<PipeWriter>>>, mut answers: Answers) -> Receiver<Value> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(reads).lines() {
            let Ok(line) = line else { return };
            let asked: Value = serde_json::from_str(&line).unwrap();
            for answer in answers(&asked) {
                if let Some(writes) = &mut *writes.lock() {
                    writeln!(writes, "{answer}").unwrap();
                }
            }
            if !matches!(asked["method"].as_str(), Some("initialize" | "tools/list")) {
                let _ = send.send(asked);
            }
        }
    });
    receive
}

/// Reads lines in a thread, so that a test can limit its wait for one.
fn lines(stream: PipeReader) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}
