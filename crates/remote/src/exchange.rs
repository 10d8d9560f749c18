//! One request and its response.

use std::sync::Arc;
use std::time::Duration;

use countersign_mcp::{PostedMessage, ReturnedLine, error_for};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use crate::events::{Event, EventReader, EventTooLong};
use crate::failure::RemoteFailure;
use crate::headers::{self, LAST_EVENT, SESSION, VERSION};
use crate::output::Returned;
use crate::session::{PostingSession, SHARE};

/// Redirects of one request.
const MAX_REDIRECTS: usize = 3;
/// Attempts to resume a stream that says nothing new.
const MAX_ATTEMPTS: usize = 5;
/// Wait before a stream is resumed, unless the server states another, and the longest that is taken from it.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// Longest `Mcp-PostingSession-Id` and event id.
const MAX_ID: usize = 1_024;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: &str = "text/event-stream";

/// What a response may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseKind {
    Json,
    Events,
    Other,
}

fn kind(response: &Response<Incoming>) -> ResponseKind {
    let text = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let text = text.split(';').next().unwrap_or_default().trim();
    if text.eq_ignore_ascii_case("application/json") {
        ResponseKind::Json
    } else if text.eq_ignore_ascii_case(EVENTS) {
        ResponseKind::Events
    } else {
        ResponseKind::Other
    }
}

fn status_failure(status: StatusCode) -> RemoteFailure {
    let text = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "the server refuses the credential",
        _ if status.is_redirection() => "the server redirects to another origin, or for ever",
        _ => "the server's answer is no message",
    };
    RemoteFailure::no_answer(format!("{text} (status {})", status.as_u16()))
}

/// A stream of events, and the request that it belongs to.
struct Stream<'s> {
    post: Option<&'s PostedMessage>,
    id: &'s str,
    /// Longest time without a byte; `None` without a limit.
    quiet: Option<Duration>,
}

/// How a stream of events ended.
enum StreamEnd {
    Answered,
    /// Without the answer. Carries the id behind which it can be resumed, and the wait before that.
    Open {
        last: Option<String>,
        retry: Option<Duration>,
        has_events: bool,
    },
}

impl PostingSession {
    /// Posts a request and passes on its messages, up to the answer.
    pub(crate) async fn exchange(
        &self,
        post: &PostedMessage,
        line: Bytes,
        id: &str,
        out: &Sender<Returned>,
    ) -> Result<(), RemoteFailure> {
        let response = self.post(post, line).await?;
        let (status, kind) = (response.status(), kind(&response));
        if post.is_initialize() && status == StatusCode::OK {
            let given = response.headers().get(SESSION).filter(|id| id.len() <= MAX_ID);
            self.handshake.lock().id = given.cloned();
        }
        match (status, kind) {
            (StatusCode::OK, ResponseKind::Json) => {
                let (body, permit) = self.body(response).await?;
                let is_answer = self.pass(Some(post), id, body, permit, out).await;
                if is_answer {
                    Ok(())
                } else {
                    Err(RemoteFailure::no_answer("the response is not the answer"))
                }
            }
            (StatusCode::OK, ResponseKind::Events) => self.follow(post, id, response, out).await,
            (StatusCode::NOT_FOUND, _) if !post.is_stateless() && self.handshake.lock().id.is_some() => {
                // MCP 2025-11-25, *PostingSession Management*: the server has ended the session.
                let _ = out.send(Returned::Ended).await;
                Err(RemoteFailure::no_answer("the server has ended the session"))
            }
            (_, ResponseKind::Json) if !status.is_success() => {
                let (body, permit) = self.body(response).await?;
                let error = error_for(&body, id).ok_or_else(|| status_failure(status))?;
                self.pass(Some(post), id, error, permit, out).await;
                Ok(())
            }
            _ => Err(status_failure(status)),
        }
    }

    /// Passes on the events of a response. A stream that breaks off is resumed if it can be.
    async fn follow(
        &self,
        post: &PostedMessage,
        id: &str,
        mut response: Response<Incoming>,
        out: &Sender<Returned>,
    ) -> Result<(), RemoteFailure> {
        let quiet = (!post.subscribes()).then_some(self.remote.quiet);
        let stream = Stream { post: Some(post), id, quiet };
        let mut left = MAX_ATTEMPTS;
        loop {
            let (last, retry) = match self.events(&stream, response, out).await? {
                StreamEnd::Answered => return Ok(()),
                StreamEnd::Open { last, retry, has_events } => {
                    left = if has_events { MAX_ATTEMPTS } else { left };
                    (last.filter(|_| !post.is_stateless()), retry)
                }
            };
            let ended = || RemoteFailure::no_answer("the stream ended without the answer");
            let last = last.ok_or_else(ended)?;
            response = loop {
                left = left.checked_sub(1).ok_or_else(ended)?;
                sleep(retry.unwrap_or(RETRY).min(MAX_RETRY)).await;
                match self.get(Some(&last)).await {
                    Ok(response)
                        if response.status() == StatusCode::OK && kind(&response) == ResponseKind::Events =>
                    {
                        break response;
                    }
                    Ok(response) => return Err(status_failure(response.status())),
                    Err(_) => {}
                }
            };
        }
    }

    /// Opens the stream of the server's own messages, and opens it again when it ends (MCP 2025-11-25, *Listening for Messages from
    /// the Server*).
    pub(crate) async fn listen(self: Arc<Self>, out: Sender<Returned>) {
        let (mut last, mut wait) = (None, RETRY);
        loop {
            match self.get(last.as_deref()).await {
                Ok(response)
                    if response.status() == StatusCode::OK && kind(&response) == ResponseKind::Events =>
                {
                    let stream = Stream { post: None, id: "", quiet: None };
                    match self.events(&stream, response, &out).await {
                        Ok(StreamEnd::Open { last: next, retry, has_events }) => {
                            last = next.or(last);
                            wait = if has_events { RETRY } else { wait };
                            wait = retry.unwrap_or(wait).min(MAX_RETRY);
                        }
                        Ok(StreamEnd::Answered) => {}
                        Err(failure) => self.remote.warn(&failure),
                    }
                }
                // The server has no such stream.
                Ok(_) => return,
                Err(failure) => self.remote.warn(&failure),
            }
            sleep(wait).await;
            wait = wait.saturating_mul(2).min(MAX_RETRY);
        }
    }

    /// Tells the server that a session of the handshake era is over.
    pub(crate) async fn goodbye(&self) {
        let request = self.handshake_request(Method::DELETE);
        // Once: the session is over, whatever the server makes of it.
        if self.handshake.lock().id.take().is_some() {
            let _ = self.send(|| request.clone(), Bytes::new(), true).await;
        }
    }

    /// Passes on the events of one stream.
    async fn events(
        &self,
        stream: &Stream<'_>,
        response: Response<Incoming>,
        out: &Sender<Returned>,
    ) -> Result<StreamEnd, RemoteFailure> {
        let (mut body, mut reader) = (response.into_body(), EventReader::new(self.remote.most));
        let (mut held, mut events, mut has_events) = (None, Vec::new(), false);
        loop {
            let frame = match stream.quiet {
                Some(quiet) => timeout(quiet, body.frame()).await.map_err(|_| quiet_failure())?,
                None => body.frame().await,
            };
            let Some(Ok(frame)) = frame else { break };
            let Some(bytes) = frame.data_ref() else { continue };
            // Complete events still pass.
            let taken = reader.take(bytes, &mut events);
            for Event { data, id } in events.drain(..) {
                has_events = true;
                let share = self.share(data.len())?;
                let id_is_usable = id.as_ref().is_none_or(|id| id.len() <= MAX_ID);
                if self.pass(stream.post, stream.id, data, share, out).await {
                    return Ok(StreamEnd::Answered);
                }
                if !id_is_usable {
                    return Err(RemoteFailure::no_answer("the id of an event is too long"));
                }
            }
            taken.map_err(|EventTooLong| too_long())?;
            held = Some(self.grown(held, reader.held())?);
        }
        let last = reader.last_id().filter(|id| !id.is_empty()).map(ToOwned::to_owned);
        Ok(StreamEnd::Open { last, retry: reader.retry(), has_events })
    }

    /// Passes a message of the server on. Returns whether it is the answer to the request with this id. An answer to another
    /// request is dropped.
    async fn pass(
        &self,
        post: Option<&PostedMessage>,
        id: &str,
        mut line: Vec<u8>,
        permit: OwnedSemaphorePermit,
        out: &Sender<Returned>,
    ) -> bool {
        // why: a line ends at a line feed. Both are whitespace to JSON, and neither may stand in a string.
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b'\t');
        let mut returned = ReturnedLine::read(line);
        let is_answer = match returned.answers() {
            Some(answered) if answered != id => {
                self.remote.warn(&RemoteFailure::no_answer(
                    "the server answered a request on the stream of another",
                ));
                return false;
            }
            Some(_) => true,
            None => false,
        };
        if let Some(post) = post.filter(|_| is_answer) {
            if post.is_initialize() {
                let version = returned.version().and_then(|version| HeaderValue::from_str(version).ok());
                self.handshake.lock().version = version;
            }
            if post.lists_tools() {
                self.note_tools(returned.header_params());
                let cut = returned.cut_invalid_tools();
                if cut > 0 {
                    let text = format!("{cut} tools with an invalid `x-mcp-header` are left out of the list");
                    self.remote.warn(&RemoteFailure::no_answer(text));
                }
            }
        }
        // It fails only if the session is over.
        let _ = out.send(Returned::Line(returned.into_bytes(), permit)).await;
        is_answer
    }

    /// Reads a whole body.
    async fn body(
        &self,
        response: Response<Incoming>,
    ) -> Result<(Vec<u8>, OwnedSemaphorePermit), RemoteFailure> {
        let (mut body, mut bytes, mut held) = (response.into_body(), Vec::new(), self.share(0)?);
        loop {
            let frame = timeout(self.remote.quiet, body.frame()).await.map_err(|_| quiet_failure())?;
            let Some(frame) = frame else { return Ok((bytes, held)) };
            let frame = frame.map_err(|_| RemoteFailure::no_answer("the response breaks off"))?;
            let Some(data) = frame.data_ref() else { continue };
            if bytes.len().saturating_add(data.len()) > self.remote.most {
                return Err(too_long());
            }
            bytes.extend_from_slice(data);
            held = self.grown(Some(held), bytes.len())?;
        }
    }

    fn share(&self, bytes: usize) -> Result<OwnedSemaphorePermit, RemoteFailure> {
        let permits = u32::try_from(bytes.div_ceil(SHARE)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).try_acquire_many_owned(permits);
        permit.map_err(|_| RemoteFailure::no_answer("the server sends more than is read"))
    }

    /// Returns the share of so many bytes in place of the share of fewer or more.
    fn grown(
        &self,
        held: Option<OwnedSemaphorePermit>,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, RemoteFailure> {
        let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        match held {
            Some(mut held) if bytes.div_ceil(SHARE) >= has => {
                held.merge(self.share(bytes.saturating_sub(has.saturating_mul(SHARE)))?);
                Ok(held)
            }
            Some(_) | None => {
                drop(held);
                self.share(bytes)
            }
        }
    }

    /// Posts a message. A response that is no answer to a request is read by no one.
    pub(crate) async fn post(
        &self,
        post: &PostedMessage,
        line: Bytes,
    ) -> Result<Response<Incoming>, RemoteFailure> {
        let params = self.params_of(post);
        if params.as_ref().is_some_and(|params| !params.is_valid()) {
            return Err(RemoteFailure::not_sent("the tool's schema has an invalid `x-mcp-header`"));
        }
        let head = || {
            let mut request =
                if post.is_stateless() { Request::new(()) } else { self.handshake_request(Method::POST) };
            *request.method_mut() = Method::POST;
            let headers = request.headers_mut();
            headers.insert(CONTENT_TYPE, JSON);
            let both = HeaderValue::from_static("application/json, text/event-stream");
            headers.insert(ACCEPT, both);
            let is_whole = headers::add(headers, post, params.as_ref());
            if post.is_initialize() {
                headers.remove(SESSION);
                headers.remove(VERSION);
            }
            if is_whole { request } else { Request::new(()) }
        };
        if head().headers().is_empty() {
            return Err(RemoteFailure::not_sent("a header of the request cannot be written"));
        }
        self.send(head, line, !post.subscribes()).await
    }

    async fn get(&self, last: Option<&str>) -> Result<Response<Incoming>, RemoteFailure> {
        let head = || {
            let mut request = self.handshake_request(Method::GET);
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static(EVENTS));
            if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
                request.headers_mut().insert(LAST_EVENT, last);
            }
            request
        };
        self.send(head, Bytes::new(), true).await
    }

    /// Returns a request with the headers of the handshake era.
    fn handshake_request(&self, method: Method) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        let handshake = self.handshake.lock();
        let mut add = |name: HeaderName, value: &Option<HeaderValue>| {
            if let Some(value) = value {
                request.headers_mut().insert(name, value.clone());
            }
        };
        add(SESSION, &handshake.id);
        add(VERSION, &handshake.version);
        request
    }

    /// Sends a request with the credential: again with a new one if the server refuses it, and to another path if the server
    /// redirects there.
    async fn send(
        &self,
        head: impl Fn() -> Request<()>,
        body: Bytes,
        is_limited: bool,
    ) -> Result<Response<Incoming>, RemoteFailure> {
        let origin = &self.remote.origin;
        let (mut path, mut redirects, mut is_first) = (origin.url().path().to_owned(), 0_usize, true);
        loop {
            let mut request = head().map(|()| Full::new(body.clone()));
            *request.uri_mut() =
                path.parse().map_err(|_| RemoteFailure::not_sent("the path is not one of a URL"))?;
            let credential = self.remote.credential.header().await?;
            if let Some(credential) = &credential {
                request.headers_mut().insert(AUTHORIZATION, credential.clone());
            }
            let sent = origin.send(request);
            let response = if is_limited {
                timeout(self.remote.quiet, sent).await.map_err(|_| quiet_failure())??
            } else {
                sent.await?
            };
            match response.status() {
                StatusCode::UNAUTHORIZED
                    if std::mem::take(&mut is_first)
                        && self.remote.credential.forget(credential.as_ref()).await => {}
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
                    if redirects < MAX_REDIRECTS =>
                {
                    redirects = redirects.saturating_add(1);
                    let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
                    let next = location.and_then(|location| origin.path_of_redirect(location));
                    path = next.ok_or_else(|| status_failure(response.status()))?;
                }
                _ => return Ok(response),
            }
        }
    }
}

fn quiet_failure() -> RemoteFailure {
    RemoteFailure::no_answer("the server said nothing for too long")
}

fn too_long() -> RemoteFailure {
    RemoteFailure::no_answer("a message of the server is longer than allowed")
}
