//! A client of MCP's stateless era in front of a gateway whose sessions begin with a handshake.
//!
//! The gateway makes the handshake with the server itself, at the client's first request. From then on each request loses
//! the metadata of its era and is decided like any other; each result gets the members that the era requires.
//!
//! Source: MCP 2026-07-28, *Versioning and Compatibility*, *Overview: `_meta`*, *Discovery*, *Subscriptions*, *Caching*.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign_canonical_json::{Canonical, Limits, Recipe, ValueRef, read};
use parking_lot::{Condvar, Mutex};

use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::era_2026::{self, Listened, ResultKind, ServerHello};
use crate::input_rounds::InputRounds;
use crate::message::{Body, Message, RpcId};
use crate::output::PeerOutput;

/// Longest wait for the server's answer to the handshake. A server may have to be installed first.
const HELLO_WAIT: Duration = Duration::from_secs(60);

/// Most requests that wait for an answer of the era. The answer to any further one has no members of its own, which clients
/// read as complete.
const MAX_OPEN: usize = 4_096;

/// Most streams of notifications of one client.
const MAX_LISTENING: usize = 16;

/// State of a client of the stateless era.
#[derive(Debug)]
pub(crate) struct ModernClient {
    /// Whether the gateway speaks the era to the client.
    is_offered: bool,
    /// Whether a request of the era has come.
    is_on: AtomicBool,
    state: Mutex<ModernState>,
    answered: Condvar,
    /// Id of the gateway's own `initialize`, which no client knows.
    hello_id: RpcId,
    pub(crate) rounds: InputRounds,
}

#[derive(Debug, Default)]
struct ModernState {
    hello: Hello,
    /// Requests of the era that wait for an answer, and how many of each id.
    open: BTreeMap<RpcId, (ResultKind, u32)>,
    listening: Vec<(RpcId, Listened)>,
}

/// The handshake with the server.
#[derive(Clone, Debug, Default)]
enum Hello {
    #[default]
    NotYet,
    Asked,
    Failed,
    Done(ServerHello),
}

impl ModernClient {
    /// `prefix` is random, and begins the ids of the gateway's own requests.
    pub(crate) fn new(is_offered: bool, prefix: &str, rounds: InputRounds) -> Self {
        let id = RpcId::Text(format!("{prefix}-hello").into());
        Self {
            is_offered,
            is_on: AtomicBool::new(false),
            state: Mutex::default(),
            answered: Condvar::new(),
            hello_id: id,
            rounds,
        }
    }

    /// Returns whether requests of the era are taken. `is_begun` tells whether the session is initialized: by a client of the
    /// other era, the gateway does not know the server's answer.
    pub(crate) fn takes_requests(&self, is_begun: bool) -> bool {
        self.is_offered && (!is_begun || matches!(self.state.lock().hello, Hello::Done(_)))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    /// Returns the server's answer to the handshake. Before the first one, `ask` sends the gateway's `initialize`, and
    /// `greet` what follows the answer.
    pub(crate) fn hello(&self, ask: impl FnOnce(&RpcId), greet: impl FnOnce()) -> Option<ServerHello> {
        self.is_on.store(true, Ordering::SeqCst);
        let mut state = self.state.lock();
        if let Hello::Done(hello) = &state.hello {
            return Some(hello.clone());
        }
        if !matches!(state.hello, Hello::Asked) {
            state.hello = Hello::Asked;
            drop(state);
            ask(&self.hello_id);
            state = self.state.lock();
        }
        self.answered.wait_while_for(&mut state, |state| matches!(state.hello, Hello::Asked), HELLO_WAIT);
        let Hello::Done(hello) = state.hello.clone() else {
            // A client of the other era may have begun the handshake.
            self.is_on.store(matches!(state.hello, Hello::Asked), Ordering::SeqCst);
            return None;
        };
        drop(state);
        greet();
        Some(hello)
    }

    /// Returns whether this is the id of the gateway's own `initialize`.
    pub(crate) fn is_hello(&self, id: &RpcId) -> bool {
        *id == self.hello_id
    }

    /// Notes a request that is passed on, whose answer becomes one of the era.
    pub(crate) fn open(&self, id: &RpcId, kind: ResultKind) {
        let mut state = self.state.lock();
        if state.open.len() >= MAX_OPEN {
            return;
        }
        let (_, count) = state.open.entry(id.clone()).or_insert((kind, 0));
        *count = count.saturating_add(1);
    }

    /// Begins a stream of notifications. Returns `false` if there are too many, or one of this id.
    pub(crate) fn listen(&self, id: &RpcId, listened: Listened) -> bool {
        let mut state = self.state.lock();
        let is_free =
            state.listening.len() < MAX_LISTENING && !state.listening.iter().any(|(it, _)| it == id);
        if is_free {
            state.listening.push((id.clone(), listened));
        }
        is_free
    }

    pub(crate) fn is_listening(&self, id: &RpcId) -> bool {
        self.state.lock().listening.iter().any(|(it, _)| it == id)
    }

    /// Ends the wait for a request that the client cancels, or its stream of notifications. Returns `true` for a stream.
    pub(crate) fn cancel(&self, id: &RpcId) -> bool {
        self.rounds.forget(id);
        let mut state = self.state.lock();
        state.open.remove(id);
        let before = state.listening.len();
        state.listening.retain(|(it, _)| it != id);
        state.listening.len() != before
    }

    /// Returns the lines that a client of the era gets for a line of the gateway.
    fn translated(&self, line: Vec<u8>) -> Vec<Vec<u8>> {
        let Ok(message) = read(&line, Recipe::Rfc8785, &Limits::hard_caps()) else {
            return vec![line];
        };
        let lines = match Message::read(message.value()) {
            Ok(Message::Answer { id, body }) if id == self.hello_id => {
                self.greeted(body);
                Some(Vec::new())
            }
            Ok(Message::Answer { id, body }) => self.answer(&line, &id, body).map(|line| vec![line]),
            Ok(Message::Notification { method, .. }) => self.notification(&line, method),
            // The era has no requests of a server, and the gateway passes none on.
            Ok(Message::Request { .. }) => Some(Vec::new()),
            Err(_) => None,
        };
        lines.unwrap_or_else(|| vec![line])
    }

    fn greeted(&self, body: Body<'_>) {
        self.state.lock().hello = match body {
            Body::Result(result) => Hello::Done(era_2026::server_hello(result)),
            Body::Error => Hello::Failed,
        };
        self.answered.notify_all();
    }

    /// `None` leaves the line as it is.
    fn answer(&self, line: &[u8], id: &RpcId, body: Body<'_>) -> Option<Vec<u8>> {
        self.rounds.forget(id);
        let mut state = self.state.lock();
        let (kind, count) = state.open.get_mut(id)?;
        let kind = *kind;
        *count = count.saturating_sub(1);
        if *count == 0 {
            state.open.remove(id);
        }
        let info = match &state.hello {
            Hello::Done(hello) => hello.info.clone(),
            Hello::NotYet | Hello::Asked | Hello::Failed => None,
        };
        drop(state);
        let Body::Result(result) = body else { return None };
        let (mut edits, place) = (Edits::new(line), ValuePosition::new(line));
        era_2026::complete(&mut edits, &place, result, kind, info.as_deref());
        Some(edits.finish())
    }

    fn notification(&self, line: &[u8], method: &str) -> Option<Vec<Vec<u8>>> {
        if !era_2026::is_for_streams(method) {
            return era_2026::is_dropped(method).then(Vec::new);
        }
        let state = self.state.lock();
        let streams = state.listening.iter().filter(|(_, listened)| listened.has(method));
        Some(streams.map(|(id, _)| era_2026::of_stream(line, id)).collect())
    }
}

/// The output to the client, in the client's era.
pub(crate) struct ClientOutput {
    lines: PeerOutput,
    pub(crate) modern: ModernClient,
}

impl Deref for ClientOutput {
    type Target = PeerOutput;

    fn deref(&self) -> &PeerOutput {
        &self.lines
    }
}

impl ClientOutput {
    pub(crate) fn new(modern: ModernClient) -> Self {
        Self { lines: PeerOutput::new(), modern }
    }

    /// Sends one line, as soon as there is room. Returns `false` if the client accepts no more.
    pub(crate) fn send(&self, line: impl Into<Vec<u8>>) -> bool {
        if !self.modern.is_on() {
            return self.lines.send(line);
        }
        self.modern.translated(line.into()).into_iter().all(|line| self.lines.send(line))
    }

    /// Sends one line without waiting for room, if at most so many wait.
    pub(crate) fn offer(&self, line: impl Into<Vec<u8>>, most: usize) -> bool {
        if !self.modern.is_on() {
            return self.lines.offer(line, most);
        }
        self.modern.translated(line.into()).into_iter().all(|line| self.lines.offer(line, most))
    }

    /// Ends all streams of notifications, each with its last answer.
    pub(crate) fn end_streams(&self) {
        // why: the lock is held until the answers are queued. Another thread that ends the streams closes the output after that.
        let mut state = self.modern.state.lock();
        for (id, _) in state.listening.drain(..) {
            self.lines.offer(era_2026::listened_line(&id), usize::MAX);
        }
    }
}

/// The canonical text of a request without the metadata of its era.
pub(crate) fn without_era(message: &Canonical) -> Vec<u8> {
    let text = message.as_str().as_bytes();
    let (mut edits, place) = (Edits::new(text), ValuePosition::new(text));
    if let Some(meta) = place.find(&["params", "_meta"]) {
        edits.cut_members(&meta, era_2026::is_newer);
    }
    let method = message.value().get("method").and_then(ValueRef::as_str).unwrap_or_default();
    if let Some(params) = place.get("params")
        && era_2026::is_retry(method, message.value().get("params"))
    {
        edits.cut_members(&params, |name| era_2026::RETRY.contains(&name));
    }
    edits.finish()
}

/// The gateway's own `initialize`, in the name of the client, with these capabilities.
pub(crate) fn hello_line(id: &RpcId, client: Option<ValueRef<'_>>, capabilities: &str) -> String {
    let unknown = || Object::new().string("name", "unknown").string("version", "0").finish();
    let info = client.map_or_else(unknown, ValueRef::canonical_text);
    era_2026::initialize_line(id, &info, capabilities)
}
