//! Messages of the transport Streamable HTTP: a body that a client posted becomes a line for a [`Gateway`](crate::Gateway),
//! and a line of the gateway finds the response that it belongs to.
//!
//! A request gets an id of the session's own towards the gateway, and so does its progress token: over HTTP, several posts
//! of one session may use one id. Both are put back before the client reads them.
//!
//! Source: MCP 2025-11-25 and 2026-07-28, *Streamable HTTP*.

use std::collections::BTreeSet;

use countersign_canonical_json::{Canonical, Kind, Recipe, ValueRef, read};

use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::era_2025::{self, CANCELLED, INITIALIZE, INITIALIZED};
use crate::era_2026;
use crate::fault::{Fault, METHOD_NOT_FOUND};
use crate::from_client::line_limits;
use crate::glean::glean;
use crate::message::{Body, Message, RpcId, error_line, error_line_with};

/// Member of a property's schema that names its header.
const PARAM_HEADER: &str = "x-mcp-header";
/// Errors of the stateless era that have HTTP status 400.
const BAD_REQUESTS: std::ops::RangeInclusive<i64> = -32_022..=-32_020;

/// A message that a client posted. The strict reader has accepted it.
#[derive(Debug)]
pub struct PostedMessage {
    text: Canonical,
    id: Option<RpcId>,
    /// Progress token of a request, as JSON.
    token: Option<String>,
    /// Request that a notification cancels, as JSON.
    cancels: Option<String>,
    is_stateless: bool,
}

/// Headers of a post that repeat parts of its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostedHeaders<'a> {
    /// `MCP-Protocol-Version`.
    pub version: Option<&'a str>,
    /// `Mcp-Method`.
    pub method: Option<&'a str>,
    /// `Mcp-Name`, decoded.
    pub name: Option<&'a str>,
}

/// Headers that repeat arguments of a tool (MCP 2026-07-28, *Custom Headers from Tool Parameters*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParams {
    params: Vec<HeaderParam>,
    is_valid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeaderParam {
    /// The header's name after `Mcp-Param-`.
    name: String,
    /// Names of the members that lead to the argument.
    path: Vec<String>,
    /// Whether the argument's type may stand in a header.
    is_primitive: bool,
}

/// A body that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadablePost {
    /// The JSON-RPC error for the client.
    pub error: String,
    /// The body as one line, which a gateway refuses and records.
    pub line: Vec<u8>,
}

impl PostedMessage {
    /// Reads a body of at most `most` bytes.
    ///
    /// # Errors
    /// [`UnreadablePost`] if the body is not one strict JSON-RPC message.
    pub fn read(body: &[u8], most: usize) -> Result<Self, UnreadablePost> {
        let unreadable = |fault, id: Option<&RpcId>| {
            // why: a line ends at a line feed. A control character keeps the text unreadable, inside of a string too.
            let line = body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { 1 } else { *byte });
            UnreadablePost { error: error_line(id, fault), line: line.collect() }
        };
        let id = || glean(body).id;
        let limits = line_limits(most).map_err(|_| unreadable(Fault::LineTooLong, id().as_ref()))?;
        let text = read(body, Recipe::Jcs1, &limits)
            .map_err(|error| unreadable(Fault::of_json(&error), id().as_ref()))?;
        let (id, token, cancels, is_stateless) = match Message::read(text.value()) {
            Ok(Message::Request { id, method, params }) => {
                let meta = params.and_then(|params| params.get("_meta"));
                let token = meta.and_then(era_2025::progress_token);
                (Some(id), token, None, era_2026::modern_request(method, params).is_some())
            }
            Ok(Message::Notification { method, params }) => {
                let cancels = if method == CANCELLED { era_2025::cancelled_request(params) } else { None };
                let is_stateless = era_2026::modern_request(method, params).is_some();
                (None, None, cancels.as_ref().map(RpcId::json), is_stateless)
            }
            Ok(Message::Answer { .. }) => (None, None, None, false),
            Err(wrong) => return Err(unreadable(wrong.fault, wrong.id.as_ref())),
        };
        Ok(Self { text, id, token, cancels, is_stateless })
    }

    /// Returns the request's id as JSON; `None` for other messages.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        self.id.as_ref().map(RpcId::json)
    }

    /// Returns the request's progress token as JSON.
    #[must_use]
    pub fn progress_token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the id, as JSON, of the request that this message cancels.
    #[must_use]
    pub fn cancels(&self) -> Option<&str> {
        self.cancels.as_deref()
    }

    /// Returns whether the message belongs to the stateless era: it states a revision, and needs no session.
    #[must_use]
    pub const fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    /// Returns whether the message begins a session.
    #[must_use]
    pub fn is_initialize(&self) -> bool {
        self.id.is_some() && self.method() == Some(INITIALIZE)
    }

    /// Returns whether the message ends the handshake: the notification `notifications/initialized`.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.id.is_none() && self.method() == Some(INITIALIZED)
    }

    fn method(&self) -> Option<&str> {
        self.text.value().get("method").and_then(ValueRef::as_str)
    }

    /// Returns whether the message asks for the server's tools.
    #[must_use]
    pub fn lists_tools(&self) -> bool {
        self.id.is_some() && self.method() == Some("tools/list")
    }

    /// Returns whether the message opens a stream of notifications, which has no end of its own.
    #[must_use]
    pub fn subscribes(&self) -> bool {
        self.id.is_some() && self.method() == Some(era_2026::LISTEN)
    }

    /// Returns the name of the tool that the message calls.
    #[must_use]
    pub fn called_tool(&self) -> Option<&str> {
        let is_call = self.id.is_some() && self.method().is_some_and(era_2025::is_call);
        self.text.value().get("params").filter(|_| is_call)?.get("name")?.as_str()
    }

    /// Checks a request of the stateless era: its metadata, and the headers against its body.
    ///
    /// # Errors
    /// The JSON-RPC error `HeaderMismatch` (-32020) if a header is missing or differs, and invalid params (-32602) if the
    /// metadata states no revision or no capabilities. Both have the HTTP status 400.
    pub fn check_headers(&self, headers: PostedHeaders<'_>) -> Result<(), String> {
        let params = self.text.value().get("params");
        if !era_2026::has_metadata(params) {
            return Err(error_line(self.id.as_ref(), Fault::BadParams));
        }
        let own = self.headers();
        let wrong = if own.version != headers.version {
            "MCP-Protocol-Version"
        } else if own.method != headers.method {
            "Mcp-Method"
        } else if self.has_name() && own.name != headers.name {
            "Mcp-Name"
        } else {
            return Ok(());
        };
        Err(self.mismatch(wrong))
    }

    /// Returns the values of the headers that repeat parts of the body, not encoded.
    #[must_use]
    pub fn headers(&self) -> PostedHeaders<'_> {
        let params = self.text.value().get("params");
        let member = match self.method() {
            Some("resources/read") => "uri",
            Some("tasks/get" | "tasks/update" | "tasks/cancel") => "taskId",
            Some(_) | None => "name",
        };
        let name = params.filter(|_| self.has_name()).and_then(|params| params.get(member)?.as_str());
        PostedHeaders { version: era_2026::stated_version(params), method: self.method(), name }
    }

    /// Returns whether its method takes the header `Mcp-Name`.
    fn has_name(&self) -> bool {
        let named =
            ["tools/call", "prompts/get", "resources/read", "tasks/get", "tasks/update", "tasks/cancel"];
        self.method().is_some_and(|method| named.contains(&method))
    }

    /// Returns the headers that repeat arguments of the called tool: the name after `Mcp-Param-`, and the value, not encoded.
    #[must_use]
    pub fn param_headers<'p>(&self, params: &'p HeaderParams) -> Vec<(&'p str, String)> {
        let args = self.text.value().get("params").and_then(|params| params.get("arguments"));
        let stated = |param: &'p HeaderParam| {
            let value = param.value(args)?;
            let text = value.as_str().map_or_else(|| value.canonical_text(), ToOwned::to_owned);
            Some((param.name.as_str(), text))
        };
        params.params.iter().filter_map(stated).collect()
    }

    /// Checks the headers that repeat arguments of the called tool. `header` returns the value of a header, decoded;
    /// `None` in it is a value that cannot be read.
    ///
    /// # Errors
    /// The JSON-RPC error `HeaderMismatch` (-32020).
    pub fn check_params(
        &self,
        params: &HeaderParams,
        header: impl Fn(&str) -> Option<Option<String>>,
    ) -> Result<(), String> {
        let args = self.text.value().get("params").and_then(|params| params.get("arguments"));
        for param in &params.params {
            let name = &param.name;
            let is_same = match (param.value(args), header(name)) {
                (None, None) => true,
                (Some(value), Some(Some(header))) => states(value, &header),
                (Some(_) | None, _) => false,
            };
            if !is_same {
                return Err(self.mismatch(&format!("Mcp-Param-{name}")));
            }
        }
        Ok(())
    }

    fn mismatch(&self, header: &str) -> String {
        let data = Object::new().string("code", Fault::HeaderMismatch.code()).string("header", header);
        error_line_with(self.id.as_ref(), Fault::HeaderMismatch, data)
    }

    /// Returns the message as a line for the gateway. A request gets the id and the progress token `own`; a cancellation
    /// names the request `own`.
    #[must_use]
    pub fn line(&self, own: &str) -> Vec<u8> {
        let text = self.text.as_str().as_bytes();
        let (mut edits, place) = (Edits::new(text), ValuePosition::new(text));
        let own = RpcId::Text(own.into()).json();
        let mut replace = |path: &[&str], is_there: bool| {
            if let Some(value) = place.find(path).filter(|_| is_there) {
                edits.replace(&value, own.clone());
            }
        };
        replace(&["id"], self.id.is_some());
        replace(&["params", "_meta", "progressToken"], self.token.is_some());
        replace(&["params", "requestId"], self.cancels.is_some());
        edits.finish()
    }
}

/// Returns a body with a JSON-RPC error as the answer to the request with this id, as JSON; `None` for other bodies. A server
/// that could not read a request, or did not look into it, leaves out its id.
#[must_use]
pub fn error_for(body: &[u8], id: &str) -> Option<Vec<u8>> {
    let text = read(body, Recipe::Rfc8785, &countersign_canonical_json::Limits::hard_caps()).ok()?;
    text.value().get("error").filter(|error| error.kind() == Kind::Object)?;
    let (mut edits, place) = (Edits::new(body), ValuePosition::new(body));
    match place.get("id") {
        Some(value) => edits.replace(&value, id),
        None => edits.add_member(&place, "id", id),
    }
    Some(edits.finish())
}

/// Returns the line by which a client whose response ended cancels its request.
#[must_use]
pub fn cancel_line(own: &str) -> Vec<u8> {
    let params = Object::new().string("requestId", own).finish();
    Object::new().string("jsonrpc", "2.0").string("method", CANCELLED).raw("params", &params).finish().into()
}

impl HeaderParam {
    /// Returns the argument, unless it is missing or null.
    fn value<'v>(&self, args: Option<ValueRef<'v>>) -> Option<ValueRef<'v>> {
        let value = self.path.iter().try_fold(args, |value, name| Some(value?.get(name)));
        value.flatten().filter(|value| value.kind() != Kind::Null)
    }
}

impl HeaderParams {
    fn of(schema: ValueRef<'_>) -> Self {
        let mut params = Self { params: Vec::new(), is_valid: false };
        params.add(schema, &[]);
        let names: BTreeSet<_> = params.params.iter().map(|param| param.name.to_ascii_lowercase()).collect();
        params.is_valid = names.len() == params.params.len()
            && names.iter().all(|name| is_token(name))
            && params.params.iter().all(|param| param.is_primitive)
            && header_members(schema) == params.params.len();
        params
    }

    /// Returns whether the schema keeps to the rules for such headers (MCP 2026-07-28, *Schema Extension*). A client must not call a
    /// tool whose schema does not.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Adds those of an object's schema. Only `properties` lead further.
    fn add(&mut self, schema: ValueRef<'_>, path: &[String]) {
        for (name, property) in schema.get("properties").into_iter().flat_map(|all| all.members()) {
            let path: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
            if let Some(name) = property.get(PARAM_HEADER).and_then(ValueRef::as_str) {
                let kind = property.get("type").and_then(ValueRef::as_str);
                let is_primitive = matches!(kind, Some("integer" | "string" | "boolean"));
                self.params.push(HeaderParam { name: name.to_owned(), path: path.clone(), is_primitive });
            }
            self.add(property, &path);
        }
    }
}

/// Returns whether a text is a token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Returns the number of `x-mcp-header` in a schema, wherever they stand.
fn header_members(value: ValueRef<'_>) -> usize {
    let within = value
        .members()
        .map(|(name, member)| usize::from(name == PARAM_HEADER).saturating_add(header_members(member)));
    let count = within.fold(0_usize, usize::saturating_add);
    value.elements().map(header_members).fold(count, usize::saturating_add)
}

/// Returns whether a header states an argument. Numbers are compared by value.
fn states(value: ValueRef<'_>, header: &str) -> bool {
    match value.kind() {
        Kind::String => value.as_str() == Some(header),
        Kind::Bool => header == if value.as_bool() == Some(true) { "true" } else { "false" },
        Kind::Number => header.parse::<f64>().is_ok_and(|stated| value.as_f64() == Some(stated)),
        Kind::Null | Kind::Array | Kind::Object | _ => false,
    }
}

/// A line of the gateway for a client.
#[derive(Debug)]
pub struct ReturnedLine {
    line: Vec<u8>,
    place: ReturnPlace,
    /// Id of the request that it answers, as JSON.
    answers: Option<String>,
    /// Error code of an answer.
    error: Option<i64>,
    version: Option<String>,
}

/// The response that a line belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReturnPlace {
    /// The answer to the request with this own id.
    Answer(String),
    /// A notification on the response to the request with this own id.
    Request(String),
    /// Any stream of the session.
    Session,
    /// None: an answer to a body that was no message. Its client has had another answer.
    Nowhere,
}

impl ReturnedLine {
    /// Reads a line that the gateway wrote.
    #[must_use]
    pub fn read(line: Vec<u8>) -> Self {
        let text = read(&line, Recipe::Rfc8785, &countersign_canonical_json::Limits::hard_caps());
        let own = |value: Option<ValueRef<'_>>| value.and_then(ValueRef::as_str).map(ToOwned::to_owned);
        let (mut answers, mut error, mut version) = (None, None, None);
        let place = match text.as_ref().map(|text| (text.value(), Message::read(text.value()))) {
            Ok((value, Ok(Message::Answer { id, body }))) => {
                answers = Some(id.json());
                match body {
                    Body::Result(result) => version = own(result.get("protocolVersion")),
                    Body::Error => error = value.get("error").and_then(|error| error.get("code")?.as_i64()),
                }
                match id {
                    RpcId::Text(id) => ReturnPlace::Answer(id.into()),
                    RpcId::Number(_) => ReturnPlace::Nowhere,
                }
            }
            Ok((_, Ok(Message::Notification { method, params }))) => {
                let of_request = match method {
                    era_2025::PROGRESS => own(params.and_then(|params| params.get("progressToken"))),
                    _ => own(era_2026::subscription(params)),
                };
                of_request.map_or(ReturnPlace::Session, ReturnPlace::Request)
            }
            Ok((_, Ok(Message::Request { .. }))) => ReturnPlace::Session,
            Ok((_, Err(_))) | Err(_) => ReturnPlace::Nowhere,
        };
        Self { line, place, answers, error, version }
    }

    /// Returns the response that the line belongs to.
    #[must_use]
    pub const fn place(&self) -> &ReturnPlace {
        &self.place
    }

    /// Returns the id of the request that the line answers, as JSON.
    #[must_use]
    pub fn answers(&self) -> Option<&str> {
        self.answers.as_deref()
    }

    /// Returns the revision that an answer to `initialize` names.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the tools of an answer to `tools/list` with the headers that repeat their arguments.
    #[must_use]
    pub fn header_params(&self) -> Vec<(String, HeaderParams)> {
        let Ok(text) = read(&self.line, Recipe::Rfc8785, &countersign_canonical_json::Limits::hard_caps())
        else {
            return Vec::new();
        };
        let tools = text.value().get("result").and_then(|result| result.get("tools"));
        let named = |tool: ValueRef<'_>| {
            Some((tool.get("name")?.as_str()?.to_owned(), HeaderParams::of(tool.get("inputSchema")?)))
        };
        tools.into_iter().flat_map(|tools| tools.elements()).filter_map(named).collect()
    }

    /// Cuts the tools out of an answer to `tools/list` that no client may call over HTTP (see [`HeaderParams::is_valid`]). Returns how
    /// many there were.
    pub fn cut_invalid_tools(&mut self) -> usize {
        let Ok(text) = read(&self.line, Recipe::Rfc8785, &countersign_canonical_json::Limits::hard_caps())
        else {
            return 0;
        };
        let Some(tools) = text.value().get("result").and_then(|result| result.get("tools")) else { return 0 };
        let is_valid = |tool: ValueRef<'_>| {
            tool.get("inputSchema").is_none_or(|schema| HeaderParams::of(schema).is_valid())
        };
        let count = tools.elements().count();
        let kept: Vec<_> =
            tools.elements().enumerate().filter(|(_, tool)| is_valid(*tool)).map(|(at, _)| at).collect();
        let cut = count.saturating_sub(kept.len());
        if cut > 0 {
            let place = ValuePosition::new(&self.line);
            let mut edits = Edits::new(&self.line);
            if let Some(tools) = place.find(&["result", "tools"]) {
                edits.keep_elements(&tools, &kept, None);
            }
            self.line = edits.finish();
        }
        cut
    }

    /// Returns the HTTP status of an answer in the stateless era.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.error {
            Some(code) if code == i64::from(METHOD_NOT_FOUND) => 404,
            Some(code) if BAD_REQUESTS.contains(&code) => 400,
            Some(_) | None => 200,
        }
    }

    /// Returns the line with the client's own id and progress token, both as JSON.
    #[must_use]
    pub fn for_client(&self, id: &str, token: Option<&str>) -> Vec<u8> {
        let (mut edits, place) = (Edits::new(&self.line), ValuePosition::new(&self.line));
        match &self.place {
            ReturnPlace::Answer(_) => {
                if let Some(value) = place.get("id") {
                    edits.replace(&value, id);
                }
                // The end of a stream of notifications names it once more.
                if let Some(value) = place.find(&["result", "_meta", era_2026::SUBSCRIPTION]) {
                    edits.replace(&value, id);
                }
            }
            ReturnPlace::Request(_) => {
                if let Some(value) = place.find(&["params", "progressToken"]) {
                    edits.replace(&value, token.unwrap_or(id));
                }
                if let Some(value) = place.find(&["params", "_meta", era_2026::SUBSCRIPTION]) {
                    edits.replace(&value, id);
                }
            }
            ReturnPlace::Session | ReturnPlace::Nowhere => {}
        }
        edits.finish()
    }

    /// Returns the line as it came.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.line
    }

    /// Returns the line as the gateway wrote it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.line
    }
}
