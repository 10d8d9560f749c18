use std::collections::BTreeSet;
use std::io::{self, Cursor, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign::approval_token::MemoryPendingApprovals;
use countersign::audit_log::{AuditSink, MemorySink, Record, Verdict};
use countersign::canonical_json::{Canonical, Limits, ValueRef, read};
use countersign::core::{CallId, Clock, Digest, Recipe, ServerName};
use countersign_mcp::{Gateway, GatewaySettings, PlanApprovals};
use countersign_testing::{World, plain_jcs};

use crate::PART;

/// Bytes as the lines of a client in an initialised session, or from its first line on if they begin with `!`; and
/// behind [`PART`] as what the server says: a line of it goes out before each of the server's own answers, with the id
/// of the request in place of `@ID@`.
///
/// Every line that the gateway writes to either side is one message that the plain reader accepts. The client gets no
/// more answers than it sent lines. A call reaches the server only with a tool and arguments that the gate accepted and
/// recorded, and not more often.
pub fn mcp_line(bytes: &[u8]) -> bool {
    let (client, server) = split(bytes);
    let (hello, client) = match client.strip_prefix(b"!") {
        Some(all) => (&b""[..], all),
        None => (HELLO, client),
    };
    let sink = Arc::new(MemorySink::new());
    let (to_client, to_server) = (Written::default(), Written::default());
    let (answers, from_server) = channel();
    let desk = Desk { got: to_server.clone(), pending: Vec::new(), said: lines(server), answers };
    let client_in = Client {
        hello: Cursor::new(hello),
        waits: !hello.is_empty(),
        rest: Cursor::new(client.to_vec()),
        shown: to_client.clone(),
    };
    let server_out = Answers { from: from_server, rest: Cursor::default() };
    gateway(&sink).run(client_in, to_client.clone(), desk, server_out).expect("threads");

    let shown = to_client.messages();
    let answered = shown.iter().filter(|line| line.value().get("method").is_none()).count();
    assert!(answered <= lines(client).len().saturating_add(1), "an answer without a line");
    let (mut accepted, mut calls) = (Vec::new(), 0_usize);
    for (_, record) in sink.latest() {
        if let Record::Decision(call) = record
            && call.verdict == Verdict::Accept
        {
            accepted.push((call.tool.name.as_str().to_owned(), call.args));
        }
    }
    for line in to_server.messages() {
        if line.value().get("method").and_then(ValueRef::as_str) == Some("tools/call") {
            let call = called(&line).expect("a call has a name");
            let at = accepted.iter().position(|decided| *decided == call);
            accepted.swap_remove(at.unwrap_or_else(|| panic!("no decision on {}", line.as_str())));
            calls = calls.saturating_add(1);
        }
    }
    calls > 0
}

fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|byte| *byte == PART).unwrap_or(bytes.len());
    let (client, server) = bytes.split_at(at);
    (client, server.get(1..).unwrap_or_default())
}

/// Lines with something in them, the first of them last.
fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.rev().map(<[u8]>::to_vec).collect()
}

/// Name and digest of the arguments of a call to the server.
fn called(line: &Canonical) -> Option<(String, Option<Digest>)> {
    let params = line.value().get("params")?;
    let args = params.get("arguments").map_or_else(|| "{}".to_owned(), ValueRef::canonical_text);
    Some((params.get("name")?.as_str()?.to_owned(), Some(Digest::of(args.as_bytes()))))
}

fn gateway(sink: &Arc<MemorySink>) -> Gateway {
    static WORLD: LazyLock<World> = LazyLock::new(World::new);
    static CALLS: AtomicU64 = AtomicU64::new(1);
    let audit = Arc::clone(sink) as Arc<dyn AuditSink>;
    let gate = WORLD.full_with(Arc::clone(&audit)).open().expect("a gate that opens");
    let settings = GatewaySettings::new(ServerName::new("desk").expect("a name"));
    let settings = settings.plans(PlanApprovals::WhereNeeded).expect("a server of a plain name");
    let call_id = || {
        let number = CALLS.fetch_add(1, Ordering::Relaxed);
        Ok(CallId::new(&format!("call-{number}")).expect("an id"))
    };
    let clock = Arc::clone(&WORLD.clock) as Arc<dyn Clock>;
    let pending = Arc::new(MemoryPendingApprovals::new());
    Gateway::new(settings, gate, audit, clock, Some(pending), Box::new(call_id), Box::new(|| {}))
}

/// What a client says first.
const HELLO: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
"#;

/// Longest wait for the answer to it, which always comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the client says: the handshake, of which it awaits the answer, and the rest.
struct Client {
    hello: Cursor<&'static [u8]>,
    waits: bool,
    rest: Cursor<Vec<u8>>,
    shown: Written,
}

impl Read for Client {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.hello.read(out)?;
        if count > 0 {
            return Ok(count);
        }
        if std::mem::take(&mut self.waits) {
            self.shown.wait();
        }
        self.rest.read(out)
    }
}

/// Bytes that the gateway wrote to one side.
#[derive(Clone, Default)]
struct Written(Arc<(Mutex<Vec<u8>>, Condvar)>);

impl Written {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first bytes.
    fn wait(&self) {
        let waited = self.0.1.wait_timeout_while(self.bytes(), PATIENCE, |bytes| bytes.is_empty());
        assert!(!waited.unwrap_or_else(PoisonError::into_inner).1.timed_out(), "no answer to the handshake");
    }

    /// The lines, read back as messages.
    fn messages(&self) -> Vec<Canonical> {
        let bytes = self.bytes().clone();
        lines(&bytes).iter().rev().map(|line| message(line)).collect()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        self.0.1.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads back a line that the gateway wrote.
fn message(line: &[u8]) -> Canonical {
    let text = line.escape_ascii();
    if let Err((code, at)) = plain_jcs(line) {
        // The gateway's limits of a message are wider than the default ones.
        assert!(["JSON_TOO_DEEP", "JSON_TOO_LARGE"].contains(&code), "{code} at {at}: {text}");
    }
    let message = read(line, Recipe::Jcs1, &Limits::hard_caps());
    let message = message.unwrap_or_else(|error| panic!("{error}: {text}"));
    let names: BTreeSet<&str> = message.value().members().map(|(name, _)| name).collect();
    assert!(names.contains("jsonrpc"), "{text}");
    let kinds = ["method", "result", "error"].into_iter().filter(|name| names.contains(name)).count();
    assert_eq!(kinds, 1, "{text}");
    message
}

/// The server: it answers every request, lists its tools, and says what the input has it say.
struct Desk {
    got: Written,
    pending: Vec<u8>,
    /// Lines that it will say, the next one last.
    said: Vec<Vec<u8>>,
    answers: Sender<Vec<u8>>,
}

impl Write for Desk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.got.write_all(bytes)?;
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            self.answer(&line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Desk {
    fn answer(&mut self, line: &[u8]) {
        const OWN_ID: &[u8] = b"@ID@";
        let message: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        let (Some(id), Some(method)) = (message.get("id"), message.get("method")) else { return };
        let result = match method.as_str() {
            Some("initialize") => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}"#
            }
            Some("tools/list") => {
                r#"{"tools":[{"name":"search","inputSchema":{"type":"object"}},{"name":"note","inputSchema":{"type":"object"}},{"name":"refund","inputSchema":{"type":"object"}}]}"#
            }
            _ => r#"{"content":[]}"#,
        };
        let own = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes();
        let mut said = if method == "initialize" { None } else { self.said.pop() };
        if let Some(said) = &mut said
            && let Some(place) = said.windows(OWN_ID.len()).position(|part| part == OWN_ID)
        {
            said.splice(place..place.saturating_add(OWN_ID.len()), id.to_string().into_bytes());
        }
        for mut line in said.into_iter().chain([own]) {
            line.push(b'\n');
            // The gateway may have stopped reading.
            let _ = self.answers.send(line);
        }
    }
}

/// What the server says, until the gateway closes the server's input.
struct Answers {
    from: Receiver<Vec<u8>>,
    rest: Cursor<Vec<u8>>,
}

impl Read for Answers {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(out)?;
        if count > 0 {
            return Ok(count);
        }
        let Ok(next) = self.from.recv() else { return Ok(0) };
        self.rest = Cursor::new(next);
        self.rest.read(out)
    }
}
