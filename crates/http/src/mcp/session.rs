//! One session: a gateway, and the responses that wait for its lines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use countersign_mcp::{HeaderParams, PostedMessage, ReturnPlace, ReturnedLine, cancel_line};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::access::Owner;
use crate::mcp::lines::{EventId, ResponseLine, ResponseLines, ResponseSender, response_lines};

/// Requests of a session that wait for their answer.
const MAX_OPEN: usize = 1_024;
/// Messages of the server that wait for a stream to take them, and their bytes.
const MAX_KEPT: usize = 256;
const MAX_KEPT_BYTES: usize = 1 << 20;

/// Most tools whose headers are kept.
const MAX_TOOLS: usize = 4_096;

/// Headers that repeat arguments, by tool, as the server last listed them. All sessions have the same server.
#[derive(Debug, Default)]
pub(crate) struct ToolHeaders(Mutex<BTreeMap<String, HeaderParams>>);

/// Events that a client may ask for again, and their bytes.
const MAX_SENT: usize = 256;
const MAX_SENT_BYTES: usize = 1 << 20;
/// The stream of GET, among those of posts.
const LISTENER: u64 = 0;
/// Revision since which a stream begins with an event without data (MCP 2025-11-25, *Sending Messages to the Server*).
const FIRST_EVENT: &str = "2025-11-25";

/// A session of one caller.
pub(crate) struct McpSession {
    pub(crate) owner: Owner,
    /// Lines for the gateway; `None` once the session ends.
    input: Mutex<Option<Sender<Vec<u8>>>>,
    responses: Mutex<Responses>,
    stop: Box<dyn Fn(Duration) + Send + Sync>,
    has_expired: Box<dyn Fn() -> bool + Send + Sync>,
    tools: Arc<ToolHeaders>,
    /// Time of the last request.
    used: Mutex<Instant>,
}

#[derive(Default)]
struct Responses {
    /// Number of the last request.
    last: u64,
    /// Requests by the ids that they have towards the gateway.
    open: BTreeMap<u64, OpenPost>,
    /// The stream that the client opened with GET.
    listener: Option<ResponseSender>,
    /// Events that were sent, for a client whose stream broke off.
    sent: VecDeque<SentEvent>,
    sent_bytes: usize,
    /// Number of the last event.
    last_event: u64,
    /// Messages without a stream.
    kept: VecDeque<Vec<u8>>,
    kept_bytes: usize,
    /// Revision of a session that is initialized.
    version: Option<String>,
    /// Whether the server refused to be initialized.
    is_refused: bool,
    has_ended: bool,
}

/// An event that was sent, or that found no client.
struct SentEvent {
    id: EventId,
    text: Vec<u8>,
    /// Whether it is the answer, with which its stream ends.
    is_last: bool,
}

/// A request that waits for its answer.
struct OpenPost {
    /// The client's id and progress token, as JSON.
    id: String,
    token: Option<String>,
    is_initialize: bool,
    lists_tools: bool,
    /// Whether its stream can be resumed: in the handshake era, once it has begun.
    is_resumable: bool,
    is_stateless: bool,
    response: ResponseSender,
}

/// Place of a request in its session. If it is dropped before the answer, the client has left.
pub(crate) struct PostPlace {
    session: Arc<McpSession>,
    number: u64,
    /// Whether leaving cancels the request: in the stateless era alone (MCP 2026-07-28, *Cancellation*).
    is_stateless: bool,
}

impl ToolHeaders {
    fn note(&self, tools: Vec<(String, HeaderParams)>) {
        let mut all = self.0.lock();
        for (tool, params) in tools {
            if all.len() < MAX_TOOLS || all.contains_key(&tool) {
                all.insert(tool, params);
            }
        }
    }

    pub(crate) fn of(&self, tool: &str) -> Option<HeaderParams> {
        self.0.lock().get(tool).cloned()
    }
}

impl McpSession {
    pub(crate) fn new(
        owner: Owner,
        input: Sender<Vec<u8>>,
        stop: Box<dyn Fn(Duration) + Send + Sync>,
        has_expired: Box<dyn Fn() -> bool + Send + Sync>,
        tools: Arc<ToolHeaders>,
    ) -> Self {
        let (input, responses) = (Mutex::new(Some(input)), Mutex::default());
        Self { owner, input, responses, stop, has_expired, tools, used: Mutex::new(Instant::now()) }
    }

    /// Sends a line to the gateway, as soon as it takes it. Returns `false` if the session has ended.
    pub(crate) async fn send(&self, line: Vec<u8>) -> bool {
        *self.used.lock() = Instant::now();
        let input = self.input.lock().clone();
        match input {
            Some(input) => input.send(line).await.is_ok(),
            None => false,
        }
    }

    /// Opens a place for the answer to a request; `None` if too many wait, or the session has ended.
    pub(crate) fn open(self: &Arc<Self>, posted: &PostedMessage) -> Option<(PostPlace, ResponseLines)> {
        let id = posted.id()?;
        let (response, lines) = response_lines();
        let mut responses = self.responses.lock();
        if responses.has_ended || responses.open.len() >= MAX_OPEN {
            return None;
        }
        responses.last = responses.last.saturating_add(1);
        let (number, token) = (responses.last, posted.progress_token().map(ToOwned::to_owned));
        let (is_initialize, lists_tools) = (posted.is_initialize(), posted.lists_tools());
        let (is_resumable, is_stateless) = (false, posted.is_stateless());
        responses.open.insert(
            number,
            OpenPost { id, token, is_initialize, lists_tools, is_resumable, is_stateless, response },
        );
        let place = PostPlace { session: Arc::clone(self), number, is_stateless: posted.is_stateless() };
        Some((place, lines))
    }

    /// Returns the gateway's id of the latest open request with this id of the client, as JSON.
    pub(crate) fn own_id(&self, id: &str) -> Option<String> {
        let responses = self.responses.lock();
        responses.open.iter().rev().find(|(_, post)| post.id == id).map(|(number, _)| own_id(*number))
    }

    /// Begins the stream of a request. Returns the event that tells the client where to resume it.
    fn begin_stream(&self, number: u64) -> Option<ResponseLine> {
        let mut responses = self.responses.lock();
        let takes_it = responses.version.as_deref() == Some(FIRST_EVENT);
        let post = responses.open.get_mut(&number).filter(|post| !post.is_stateless)?;
        post.is_resumable = true;
        takes_it.then(|| ResponseLine {
            text: Vec::new(),
            event: Some(responses.next_event(number)),
            answers: None,
        })
    }

    /// Resumes a stream behind an event (MCP 2025-11-25, *Resumability and Redelivery*). Returns `None` if that event is not
    /// known any more.
    pub(crate) fn resume(&self, last: EventId) -> Option<ResponseLines> {
        if last.stream == LISTENER {
            return self.listen_behind(last.number);
        }
        let (response, lines) = response_lines();
        let mut responses = self.responses.lock();
        let is_known = |event: &SentEvent| event.id.stream == last.stream;
        if !responses.open.contains_key(&last.stream) && !responses.sent.iter().any(is_known) {
            return None;
        }
        if !responses.replay(last, &response)
            && let Some(post) = responses.open.get_mut(&last.stream)
        {
            post.response = response;
        }
        *self.used.lock() = Instant::now();
        Some(lines)
    }

    /// Opens the stream of messages that belong to no request. An earlier one ends.
    pub(crate) fn listen(&self) -> Option<ResponseLines> {
        self.listen_behind(u64::MAX)
    }

    fn listen_behind(&self, last: u64) -> Option<ResponseLines> {
        let (response, lines) = response_lines();
        let mut responses = self.responses.lock();
        if responses.has_ended {
            return None;
        }
        responses.replay(EventId { stream: LISTENER, number: last }, &response);
        responses.listener = Some(response);
        responses.kept_bytes = 0;
        for text in std::mem::take(&mut responses.kept) {
            responses.send(&text);
        }
        *self.used.lock() = Instant::now();
        Some(lines)
    }

    /// Takes a line of the gateway. Returns `false` once the session has ended.
    pub(crate) fn deliver(&self, line: Vec<u8>) -> bool {
        let line = ReturnedLine::read(line);
        let mut responses = self.responses.lock();
        if responses.has_ended {
            return false;
        }
        match line.place() {
            ReturnPlace::Answer(own) => {
                let Some(post) = number_of(own).and_then(|number| responses.open.remove(&number)) else {
                    return true;
                };
                // A second `initialize` is refused, and leaves the session as it is.
                if post.is_initialize && responses.version.is_none() {
                    responses.version = line.version().map(ToOwned::to_owned);
                    responses.is_refused = responses.version.is_none();
                }
                if post.lists_tools {
                    self.tools.note(line.header_params());
                }
                *self.used.lock() = Instant::now();
                let text = line.for_client(&post.id, None);
                let number = number_of(own).filter(|_| post.is_resumable);
                let event = number.map(|number| responses.keep(number, &text, true));
                post.response.send(ResponseLine { text, event, answers: Some(line.status()) });
            }
            ReturnPlace::Request(own) => {
                let Some(number) = number_of(own) else { return true };
                let Some(post) = responses.open.get_mut(&number) else { return true };
                post.is_resumable |= !post.is_stateless;
                let text = line.for_client(&post.id, post.token.as_deref());
                let event = post.is_resumable.then(|| responses.keep(number, &text, false));
                // A client that reads too slowly gets the answer alone, if that.
                if let Some(post) = responses.open.get(&number) {
                    post.response.send(ResponseLine { text, event, answers: None });
                }
            }
            ReturnPlace::Session => responses.send(line.as_bytes()),
            ReturnPlace::Nowhere | _ => {}
        }
        true
    }

    /// Returns the revision of the session once it is initialized.
    pub(crate) fn version(&self) -> Option<String> {
        self.responses.lock().version.clone()
    }

    /// Returns whether the session is over: it has ended or expired, it never began, or no request used it for `idle`.
    pub(crate) fn is_over(&self, idle: Duration) -> bool {
        let responses = self.responses.lock();
        let is_used = responses.open.values().any(|post| post.response.is_open());
        responses.has_ended
            || responses.is_refused
            || !is_used && ((self.has_expired)() || self.unused() >= idle)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.responses.lock().has_ended
    }

    /// Returns whether no request waits and no stream is open. A session whose first request is yet to come is not idle.
    pub(crate) fn is_idle(&self) -> bool {
        let responses = self.responses.lock();
        responses.last > 0
            && !responses.open.values().any(|post| post.response.is_open())
            && !responses.listener.as_ref().is_some_and(ResponseSender::is_open)
    }

    /// Time since the last request.
    pub(crate) fn unused(&self) -> Duration {
        self.used.lock().elapsed()
    }

    /// Ends the session: the gateway sees the end of its client.
    pub(crate) fn end(&self) {
        *self.input.lock() = None;
    }

    /// Stops the gateway, after the given time for the calls in flight.
    pub(crate) fn stop(&self, drain: Duration) {
        (self.stop)(drain);
        self.end();
    }

    /// Ends all responses, once the gateway has ended.
    pub(crate) fn ended(&self) {
        self.end();
        let mut responses = self.responses.lock();
        *responses = Responses { has_ended: true, ..Responses::default() };
    }
}

impl Responses {
    fn next_event(&mut self, stream: u64) -> EventId {
        self.last_event = self.last_event.saturating_add(1);
        EventId { stream, number: self.last_event }
    }

    /// Keeps an event for a client whose stream breaks off, and returns its id.
    fn keep(&mut self, stream: u64, text: &[u8], is_last: bool) -> EventId {
        let id = self.next_event(stream);
        self.sent_bytes = self.sent_bytes.saturating_add(text.len());
        self.sent.push_back(SentEvent { id, text: text.to_vec(), is_last });
        while self.sent.len() > MAX_SENT || self.sent_bytes > MAX_SENT_BYTES {
            let Some(oldest) = self.sent.pop_front() else { break };
            self.sent_bytes = self.sent_bytes.saturating_sub(oldest.text.len());
        }
        id
    }

    /// Sends the events of a stream behind the last one that the client has. Returns whether the stream has ended.
    fn replay(&self, last: EventId, response: &ResponseSender) -> bool {
        let behind = self.sent.iter().filter(|it| it.id.stream == last.stream && it.id.number > last.number);
        behind.fold(false, |_, SentEvent { id, text, is_last }| {
            response.send(ResponseLine { text: text.clone(), event: Some(*id), answers: None });
            *is_last
        })
    }

    /// Sends a message that belongs to no request: on the stream for them, and otherwise on the latest response (MCP
    /// 2025-11-25, *Multiple Connections*). Without one it waits.
    fn send(&mut self, text: &[u8]) {
        let line = |event| ResponseLine { text: text.to_vec(), event, answers: None };
        if self.listener.as_ref().is_some_and(ResponseSender::is_open) {
            let event = self.keep(LISTENER, text, false);
            if self.listener.as_ref().is_some_and(|listener| listener.send(line(Some(event)))) {
                return;
            }
        }
        self.listener = None;
        let is_there = |post: &OpenPost| !post.is_initialize && post.response.is_open();
        let latest = self.open.iter().rev().find(|(_, post)| is_there(post)).map(|(number, _)| *number);
        if let Some(number) = latest {
            let event = self.keep(number, text, false);
            if let Some(post) = self.open.get_mut(&number) {
                post.is_resumable |= !post.is_stateless;
                post.response.send(line(Some(event).filter(|_| post.is_resumable)));
            }
            return;
        }
        self.kept_bytes = self.kept_bytes.saturating_add(text.len());
        self.kept.push_back(text.to_vec());
        while self.kept.len() > MAX_KEPT || self.kept_bytes > MAX_KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes = self.kept_bytes.saturating_sub(oldest.len());
        }
    }
}

impl PostPlace {
    /// The request's id towards the gateway.
    pub(crate) fn own_id(&self) -> String {
        own_id(self.number)
    }

    pub(crate) const fn session(&self) -> &Arc<McpSession> {
        &self.session
    }

    /// Begins the response's stream. Returns the event that tells the client where to resume it.
    pub(crate) fn begin_stream(&self) -> Option<ResponseLine> {
        self.session.begin_stream(self.number)
    }
}

impl Drop for PostPlace {
    fn drop(&mut self) {
        if !self.is_stateless {
            // The answer is kept for a client that resumes the stream.
            return;
        }
        let was_open = self.session.responses.lock().open.remove(&self.number).is_some();
        if !was_open {
            return;
        }
        let (session, line) = (Arc::clone(&self.session), cancel_line(&own_id(self.number)));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { session.send(line).await });
        }
    }
}

fn own_id(number: u64) -> String {
    format!("post-{number}")
}

fn number_of(own: &str) -> Option<u64> {
    own.strip_prefix("post-")?.parse().ok()
}
