//! The endpoint's requests.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use base64ct::{Base64, Encoding as _};
use countersign_core::AgentId;
use countersign_host::report::Reporter;
use countersign_host::serve_part::Duty;
use countersign_mcp::{PostedHeaders, PostedMessage, STATELESS_REVISION, UnreadablePost};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::access::{Caller, Callers, bearer_token};
use crate::body::collect_message;
use crate::connection::Entrance;
use crate::mcp::lines::{EventId, ResponseEvents, ResponseLine, ResponseLines};
use crate::mcp::oauth::{METADATA, Oauth};
use crate::mcp::session::{McpSession, PostPlace};
use crate::mcp::sessions::{FULL, McpSessions};
use crate::problem::{Problem, json_answer};
use crate::slots::Slots;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/mcp";
/// Time for an answer, after which the response begins as a stream.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Looks for room for a new session, and the time between them.
const ROOM_LOOKS: u32 = 20;
const ROOM_LOOK: Duration = Duration::from_millis(100);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// State that all requests share.
#[derive(Debug)]
pub(crate) struct McpEndpoint {
    pub(crate) callers: Arc<Callers>,
    pub(crate) oauth: Option<Oauth>,
    pub(crate) sessions: McpSessions,
    pub(crate) slots: Slots,
    /// The configuration's agent.
    pub(crate) agent: AgentId,
    /// Most bytes of a message.
    pub(crate) most_bytes: usize,
    pub(crate) reporter: Reporter,
}

pub(crate) fn endpoint_routes(endpoint: Arc<McpEndpoint>) -> Router {
    Router::new()
        .route(PATH, any(answer))
        .route(METADATA, get(metadata))
        .route(&format!("{METADATA}{PATH}"), get(metadata))
        .fallback(|| async {
            let text = format!("the endpoint is {PATH}");
            Problem::new(StatusCode::NOT_FOUND, "PATH_UNKNOWN", text)
        })
        .with_state(endpoint)
}

async fn answer(
    State(endpoint): State<Arc<McpEndpoint>>,
    Extension(entrance): Extension<Entrance>,
    request: Request,
) -> Response {
    let answered = endpoint.answer(&entrance, request).await;
    answered.unwrap_or_else(|problem| problem.into_response())
}

/// Answers with the metadata of the resource, to any caller (RFC 9728).
async fn metadata(State(endpoint): State<Arc<McpEndpoint>>) -> Response {
    match &endpoint.oauth {
        Some(oauth) => json_answer(StatusCode::OK, oauth.metadata()),
        None => {
            let text = "the endpoint takes no access tokens";
            Problem::new(StatusCode::NOT_FOUND, "PATH_UNKNOWN", text).into_response()
        }
    }
}

impl McpEndpoint {
    /// Returns the caller by its token: one of the operator's list, or an access token.
    async fn by_token(self: &Arc<Self>, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
        let known = self.callers.by_token(headers);
        let Some(oauth) = self.oauth.as_ref().filter(|_| known.is_err()) else { return known };
        match bearer_token(headers) {
            Some(token) if oauth.waits(token) => {
                let (endpoint, token) = (Arc::clone(self), token.to_owned());
                let looked =
                    spawn_blocking(move || endpoint.oauth.as_ref().map(|oauth| oauth.caller(&token)));
                looked.await.ok().flatten().unwrap_or(known)
            }
            Some(token) => oauth.caller(token),
            None => known.map_err(|problem| problem.challenge(oauth.first_challenge())),
        }
    }

    async fn answer(self: &Arc<Self>, entrance: &Entrance, request: Request) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let headers = &parts.headers;
        let caller = match entrance {
            Entrance::Known(caller) => Arc::clone(caller),
            Entrance::Network => self.by_token(headers).await?,
        };
        caller.require(&[Duty::Check])?;
        match parts.method {
            Method::POST => self.post(caller, headers, body).await,
            Method::GET => self.listen(&caller, headers),
            Method::DELETE => {
                let (id, _) = self.session(&caller, headers)?;
                self.sessions.end(id);
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            _ => Ok(not_allowed()),
        }
    }

    /// Passes a message to the gateway of its session, and answers a request.
    async fn post(
        self: &Arc<Self>,
        caller: Arc<Caller>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, Problem> {
        if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
            let text = "expected: Accept: application/json, text/event-stream";
            return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "ACCEPT_MISSING", text));
        }
        let body = collect_message(headers, body, self.most_bytes, &self.slots).await?;
        let posted = match PostedMessage::read(body.as_bytes(), self.most_bytes) {
            Ok(posted) => posted,
            Err(unreadable) => return Ok(self.refuse(&caller, headers, unreadable).await),
        };
        drop(body);
        let is_request = posted.id().is_some();
        // A request that states the era in its header alone lacks the metadata.
        let is_stated = is_request && single(headers, &VERSION) == Some(STATELESS_REVISION);
        if posted.is_stateless() || is_stated {
            if is_request && let Err(error) = self.check_headers(&posted, headers) {
                return Ok(json_answer(StatusCode::BAD_REQUEST, error));
            }
            return pass(self.stateless(caller).await?, &posted, None).await;
        }
        if posted.is_initialize() && !headers.contains_key(SESSION) {
            let (id, session) = self.begin(caller).await?;
            return pass(session, &posted, Some(&id)).await;
        }
        let (_, session) = self.session(&caller, headers)?;
        pass(session, &posted, None).await
    }

    /// Checks a request of the stateless era against its headers.
    fn check_headers(&self, posted: &PostedMessage, headers: &HeaderMap) -> Result<(), String> {
        let mut stated = PostedHeaders::default();
        let name = single(headers, &NAME).and_then(decoded);
        (stated.version, stated.method) = (single(headers, &VERSION), single(headers, &METHOD));
        stated.name = name.as_deref();
        posted.check_headers(stated)?;
        let Some(params) = posted.called_tool().and_then(|tool| self.sessions.tools.of(tool)) else {
            return Ok(());
        };
        posted.check_params(&params, |name| {
            let name = HeaderName::try_from(format!("mcp-param-{name}")).ok()?;
            headers.contains_key(&name).then(|| single(headers, &name).and_then(decoded))
        })
    }

    /// Returns the caller's session of the stateless era.
    async fn stateless(self: &Arc<Self>, caller: Arc<Caller>) -> Result<Arc<McpSession>, Problem> {
        if let Some(session) = self.sessions.open_stateless(&caller) {
            return Ok(session);
        }
        let endpoint = Arc::clone(self);
        let open = move || endpoint.sessions.stateless(&caller, &endpoint.agent, &endpoint.reporter);
        self.slots.run(open).await
    }

    /// Opens a session of the handshake era. Waits a moment for the end of the one that it replaces.
    async fn begin(self: &Arc<Self>, caller: Arc<Caller>) -> Result<(String, Arc<McpSession>), Problem> {
        let asked = self.sessions.ask(&caller);
        let mut looks = 0..ROOM_LOOKS;
        loop {
            let turn = asked.turn().await;
            self.sessions.make_room(&caller);
            let (endpoint, caller) = (Arc::clone(self), Arc::clone(&caller));
            let open = move || endpoint.sessions.begin(&caller, &endpoint.agent, &endpoint.reporter);
            let opened = self.slots.run(open).await;
            drop(turn);
            match opened {
                Err(full) if full.code() == FULL && looks.next().is_some() => sleep(ROOM_LOOK).await,
                opened => return opened,
            }
        }
    }

    /// Answers a body that is no message. The gateway of its session refuses and records it, if there is one.
    async fn refuse(&self, caller: &Caller, headers: &HeaderMap, unreadable: UnreadablePost) -> Response {
        let session = match self.session(caller, headers) {
            Ok((_, session)) => Some(session),
            Err(_) => self.sessions.open_stateless(caller),
        };
        if let Some(session) = session {
            session.send(unreadable.line).await;
        }
        json_answer(StatusCode::BAD_REQUEST, unreadable.error)
    }

    /// Opens the stream of a session's messages that belong to no request.
    fn listen(&self, caller: &Caller, headers: &HeaderMap) -> Result<Response, Problem> {
        if !headers.contains_key(SESSION) {
            // The stateless era has no such stream.
            return Ok(not_allowed());
        }
        if !accepts(headers, "text/event-stream") {
            let text = "expected: Accept: text/event-stream";
            return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "ACCEPT_MISSING", text));
        }
        let (_, session) = self.session(caller, headers)?;
        let lines = match headers.contains_key(LAST_EVENT) {
            false => session.listen().ok_or_else(unknown)?,
            true => {
                let last = single(headers, &LAST_EVENT).and_then(EventId::read);
                let text = "this event is not known any more";
                last.and_then(|last| session.resume(last))
                    .ok_or_else(|| Problem::bad("EVENT_UNKNOWN", text))?
            }
        };
        Ok(stream(ResponseEvents::new(None, lines, ())))
    }

    /// Returns the session that the headers name, and its id.
    fn session<'h>(
        &self,
        caller: &Caller,
        headers: &'h HeaderMap,
    ) -> Result<(&'h str, Arc<McpSession>), Problem> {
        let id = single(headers, &SESSION).ok_or_else(|| {
            Problem::bad("SESSION_MISSING", "exactly one Mcp-Session-Id header is required")
        })?;
        let session = self.sessions.get(id, caller).ok_or_else(unknown)?;
        // A client that states no revision is of one before 2025-06-18.
        if headers.contains_key(VERSION)
            && let Some(version) = session.version()
            && single(headers, &VERSION) != Some(&*version)
        {
            let text = format!("the session's MCP-Protocol-Version is {version}");
            return Err(Problem::bad("SESSION_VERSION", text));
        }
        Ok((id, session))
    }
}

/// Passes a message to a session, and answers a request. `new` is the id of a new session.
async fn pass(
    session: Arc<McpSession>,
    posted: &PostedMessage,
    new: Option<&str>,
) -> Result<Response, Problem> {
    if posted.id().is_none() {
        let own = match posted.cancels() {
            // In the stateless era a client cancels by leaving: an id could be another client's.
            Some(_) if posted.is_stateless() => None,
            Some(id) => session.own_id(id),
            None => Some(String::new()),
        };
        if let Some(own) = own
            && !session.send(posted.line(&own)).await
        {
            return Err(unknown());
        }
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let Some((place, mut lines)) = session.open(posted) else {
        return Err(if session.has_ended() { unknown() } else { Problem::busy() });
    };
    if !place.session().send(posted.line(&place.own_id())).await {
        return Err(unknown());
    }
    let first = match timeout(AT_ONCE, lines.next()).await {
        Ok(None) => return Err(unknown()),
        Ok(Some(line)) => Some(line),
        Err(_) => None,
    };
    Ok(with_session(respond(first, lines, place, posted.is_stateless()), new))
}

/// Answers with JSON if the answer is there, and with a stream until it comes.
fn respond(
    first: Option<ResponseLine>,
    lines: ResponseLines,
    place: PostPlace,
    is_stateless: bool,
) -> Response {
    match first {
        Some(ResponseLine { text, answers: Some(status), .. }) => {
            // In the handshake era the transport has worked.
            let status = StatusCode::from_u16(status).ok().filter(|_| is_stateless);
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = status.unwrap_or(StatusCode::OK);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        None => stream(ResponseEvents::new(place.begin_stream(), lines, place)),
        first => stream(ResponseEvents::new(first, lines, place)),
    }
}

fn with_session(mut response: Response, new: Option<&str>) -> Response {
    if let Some(id) = new.and_then(|id| HeaderValue::from_str(id).ok()) {
        response.headers_mut().insert(SESSION, id);
    }
    response
}

fn stream<G: Unpin + Send + 'static>(events: ResponseEvents<G>) -> Response {
    let mut response = Response::new(Body::new(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

fn not_allowed() -> Response {
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "a POST is expected");
    let mut response = problem.into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

fn unknown() -> Problem {
    let text = "no open session of this caller has this id: initialize again";
    Problem::new(StatusCode::NOT_FOUND, "SESSION_UNKNOWN", text)
}

/// Returns the value of a header that occurs once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

/// Returns whether one of the types in `Accept` covers this type.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let group = wanted.split_once('/').map_or("", |(group, _)| group);
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            let of_group =
                range.strip_suffix("/*").is_some_and(|it| it == "*" || it.eq_ignore_ascii_case(group));
            of_group || range.eq_ignore_ascii_case(wanted)
        })
}

/// Decodes a header's value (MCP 2026-07-28, *Value Encoding*).
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(Base64::decode_vec(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
