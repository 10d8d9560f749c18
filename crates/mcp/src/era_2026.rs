//! The stateless era of MCP, revision 2026-07-28: its metadata, its methods, and the members of its results. Of an
//! answer that is not a final result, only a request for input may pass ([`crate::input_rounds`]).
//!
//! Source: MCP 2026-07-28, *Versioning and Compatibility*, *Overview: `_meta`*, *Discovery*, *Subscriptions*, *Caching*,
//! *Multi Round-Trip Requests*; MCP 2025-11-25, *Tasks*, *Elicitation*.

use countersign_canonical_json::{Kind, ValueRef};

use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::era_2025::{FORM, INITIALIZE, VERSIONS};
use crate::fault::{Fault, HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION};
use crate::message::{RpcId, result_line};

/// The revision of this era.
pub const REVISION: &str = "2026-07-28";
pub(crate) const DISCOVER: &str = "server/discover";
pub(crate) const LISTEN: &str = "subscriptions/listen";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const INITIALIZED: &str = "notifications/initialized";
/// Methods of the handshake era that this one removed.
const REMOVED: [&str; 4] = ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
/// Methods whose results say for how long they may be kept.
const CACHED: [&str; 5] =
    ["prompts/list", "resources/list", "resources/read", "resources/templates/list", "tools/list"];
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// Capabilities of a server that the gateway does not translate: log messages belong to a request here, and tasks are an
/// extension.
const UNTRANSLATED: [&str; 2] = ["logging", "tasks"];
/// Prefix of the protocol's own metadata names.
const PROTOCOL: &str = "io.modelcontextprotocol/";
/// The protocol's metadata names of the handshake era.
const OLDER: [&str; 2] =
    ["io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response"];
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// Params of a client's retry with the input that the server requested.
pub(crate) const RETRY: [&str; 2] = [INPUT_RESPONSES, REQUEST_STATE];
pub(crate) const INPUT_RESPONSES: &str = "inputResponses";
pub(crate) const INPUT_REQUESTS: &str = "inputRequests";
pub(crate) const REQUEST_STATE: &str = "requestState";
pub(crate) const META: &str = "_meta";
pub(crate) const UPDATE_TASK: &str = "tasks/update";
/// Requests whose result may request input.
pub(crate) const INPUT_METHODS: [&str; 3] = ["prompts/get", "resources/read", "tools/call"];
/// Members of a server's result that requests input.
const ASKS: [&str; 2] = [INPUT_REQUESTS, REQUEST_STATE];
/// Members of a call's result that promises a later one.
const TASK: [&str; 2] = ["task", "taskId"];
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Error of revision 2025-11-25 that makes the client open a URL.
const URL_ELICITATION: i64 = -32042;
/// Maximum length of a version that an error repeats, in bytes.
const MAX_VERSION_BYTES: usize = 64;

/// A request of the stateless era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModernRequest<'a> {
    pub(crate) fault: Fault,
    /// The version that the request states, if any.
    requested: Option<&'a str>,
}

impl ModernRequest<'_> {
    /// The error's data (MCP 2026-07-28, `UnsupportedProtocolVersionError`), of a gateway that speaks this era or does not.
    pub(crate) fn data(self, is_spoken: bool) -> Object {
        Object::new()
            .string("code", self.fault.code())
            .string("requested", self.requested.unwrap_or("unknown"))
            .raw("supported", &supported(is_spoken))
    }

    /// The same request at a gateway that speaks this era, which states another revision, or none.
    pub(crate) fn misstated(self) -> Self {
        let fault = if self.requested.is_some() { Fault::ModernEra } else { Fault::BadParams };
        Self { fault, ..self }
    }

    /// Returns whether the request states this era's revision.
    pub(crate) fn is_current(self) -> bool {
        self.requested == Some(REVISION)
    }
}

/// The revisions that the gateway speaks, as JSON.
fn supported(is_spoken: bool) -> String {
    let modern = is_spoken.then_some(REVISION);
    let all: Vec<String> =
        modern.into_iter().chain(VERSIONS).map(|version| format!("\"{version}\"")).collect();
    format!("[{}]", all.join(","))
}

/// Returns whether a metadata name came with this era.
pub(crate) fn is_newer(name: &str) -> bool {
    name.starts_with(PROTOCOL) && !OLDER.contains(&name)
}

/// The gateway's treatment of a request of this era. Its metadata is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModernMethod {
    Discover,
    Listen,
    /// Decided like a request of the handshake era.
    Pass(ResultKind),
}

/// The members that a result of this era needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultKind {
    Plain,
    /// With the time for which it may be kept.
    Cached,
}

/// Returns whether this era removed a method of the handshake era.
pub(crate) fn is_removed(method: &str) -> bool {
    REMOVED.contains(&method)
}

/// Returns whether a client's notification belongs to the handshake era alone.
pub(crate) fn is_of_handshake(method: &str) -> bool {
    matches!(method, INITIALIZED | "notifications/roots/list_changed")
}

/// Returns whether a server that refuses `initialize` with this error may be one of this era: it does not know the method,
/// misses the metadata, or names its revisions.
pub(crate) fn may_be_modern(error: ValueRef<'_>) -> bool {
    let code = error.get("code").and_then(ValueRef::as_i64);
    code.is_some_and(|code| {
        [METHOD_NOT_FOUND, INVALID_PARAMS, UNSUPPORTED_VERSION, HEADER_MISMATCH]
            .map(i64::from)
            .contains(&code)
    })
}

/// Reads a request that states this era's revision.
pub(crate) fn modern_method(method: &str, params: Option<ValueRef<'_>>) -> Result<ModernMethod, Fault> {
    let meta = params.and_then(|params| params.get("_meta"));
    let has_capabilities =
        meta.and_then(|meta| meta.get(CAPABILITIES)).is_some_and(|it| it.kind() == Kind::Object);
    if !has_capabilities {
        return Err(Fault::BadParams);
    }
    match method {
        DISCOVER => Ok(ModernMethod::Discover),
        LISTEN => Ok(ModernMethod::Listen),
        INITIALIZE => Err(Fault::NotAllowed),
        _ if REMOVED.contains(&method) => Err(Fault::NotAllowed),
        _ if CACHED.contains(&method) => Ok(ModernMethod::Pass(ResultKind::Cached)),
        _ => Ok(ModernMethod::Pass(ResultKind::Plain)),
    }
}

/// Name and version of the client, if a request states them in this era's form.
pub(crate) fn client_info<'a>(params: Option<ValueRef<'a>>) -> Option<ValueRef<'a>> {
    let info = params?.get("_meta")?.get(CLIENT)?;
    let has_text = |name| info.get(name).is_some_and(|text| text.as_str().is_some());
    (has_text("name") && has_text("version")).then_some(info)
}

/// Builds the gateway's own `initialize`, with the client's name and capabilities as JSON.
pub(crate) fn initialize_line(id: &RpcId, client: &str, capabilities: &str) -> String {
    let params = Object::new()
        .raw("capabilities", capabilities)
        .raw("clientInfo", client)
        .string("protocolVersion", VERSIONS.first().copied().unwrap_or_default());
    request_line(id, INITIALIZE, params)
}

/// Builds the notification that ends the handshake.
pub(crate) fn initialized_line() -> String {
    Object::new().string("jsonrpc", "2.0").string("method", INITIALIZED).finish()
}

/// The server's answer to the handshake, as the gateway lets the client see it. All members are JSON.
#[derive(Clone, Debug)]
pub(crate) struct ServerHello {
    pub(crate) capabilities: String,
    pub(crate) info: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) has_prompts: bool,
    pub(crate) has_resources: bool,
}

/// Reads the server's answer to the handshake.
pub(crate) fn server_hello(result: ValueRef<'_>) -> ServerHello {
    let given = result.get("capabilities");
    let members = given.into_iter().flat_map(ValueRef::members);
    let kept = members.filter(|(name, _)| !UNTRANSLATED.contains(name));
    let capabilities = kept.fold(Object::new(), |object, (name, value)| object.value(name, value)).finish();
    let has = |name| given.is_some_and(|given| given.get(name).is_some());
    ServerHello {
        capabilities,
        info: result.get("serverInfo").map(ValueRef::canonical_text),
        instructions: result.get("instructions").map(ValueRef::canonical_text),
        has_prompts: has("prompts"),
        has_resources: has("resources"),
    }
}

/// Builds the answer to `server/discover`. It may not be kept: a registry can change what a session has at any time.
pub(crate) fn discovered_line(id: &RpcId, hello: &ServerHello) -> String {
    let mut result = Object::new();
    if let Some(info) = &hello.info {
        result = result.raw("_meta", &Object::new().raw(SERVER, info).finish());
    }
    result = result.string("cacheScope", "private").raw("capabilities", &hello.capabilities);
    if let Some(instructions) = &hello.instructions {
        result = result.raw("instructions", instructions);
    }
    let result =
        result.string("resultType", "complete").raw("supportedVersions", &supported(true)).raw("ttlMs", "0");
    result_line(id, &result.finish())
}

/// Adds the members of this era to the line of a result that has none of them.
pub(crate) fn complete(
    edits: &mut Edits<'_>,
    line: &ValuePosition<'_>,
    result: ValueRef<'_>,
    kind: ResultKind,
    server: Option<&str>,
) {
    let Some(place) = line.get("result").filter(|_| result.kind() == Kind::Object) else { return };
    let missing = |name: &str| result.get(name).is_none();
    let mut added = Object::new();
    if missing("resultType") {
        added = added.string("resultType", "complete");
    }
    if kind == ResultKind::Cached && !is_unfinished(result) {
        if missing("ttlMs") {
            added = added.raw("ttlMs", "0");
        }
        if missing("cacheScope") {
            added = added.string("cacheScope", "private");
        }
    }
    match (server, result.get("_meta"), place.get("_meta")) {
        (Some(server), None, _) => added = added.raw("_meta", &Object::new().raw(SERVER, server).finish()),
        (Some(server), Some(meta), Some(at)) if meta.get(SERVER).is_none() => {
            edits.add_member(&at, SERVER, server)
        }
        _ => {}
    }
    edits.add_members(&place, added);
}

/// The metadata of a request to a server of this era, with the capabilities of the client that the server may use.
fn metadata(client: Option<&str>, capabilities: &str) -> Object {
    let mut meta = Object::new().raw(CAPABILITIES, capabilities);
    if let Some(client) = client {
        meta = meta.raw(CLIENT, client);
    }
    meta.string(VERSION, REVISION)
}

/// Adds the metadata of this era to the line of a request.
pub(crate) fn add_metadata(
    edits: &mut Edits<'_>,
    line: &ValuePosition<'_>,
    client: Option<&str>,
    capabilities: &str,
) {
    let meta = metadata(client, capabilities);
    match (line.get("params"), line.find(&["params", "_meta"])) {
        (_, Some(place)) => edits.add_members(&place, meta),
        (Some(params), None) => edits.add_member(&params, "_meta", &meta.finish()),
        (None, _) => edits.add_member(line, "params", &Object::new().raw("_meta", &meta.finish()).finish()),
    }
}

/// Builds the question whether a server speaks this era.
pub(crate) fn discover_line(id: &RpcId, client: Option<&str>) -> String {
    request_line(id, DISCOVER, Object::new().raw("_meta", &metadata(client, "{}").finish()))
}

/// Builds the request for a server's notifications.
pub(crate) fn listen_line(id: &RpcId, client: Option<&str>) -> String {
    let all = ["promptsListChanged", "resourcesListChanged", "toolsListChanged"];
    let filter = all.into_iter().fold(Object::new(), |object, name| object.raw(name, "true")).finish();
    request_line(
        id,
        LISTEN,
        Object::new().raw("_meta", &metadata(client, "{}").finish()).raw("notifications", &filter),
    )
}

fn request_line(id: &RpcId, method: &str, params: Object) -> String {
    Object::new()
        .raw("id", &id.json())
        .string("jsonrpc", "2.0")
        .string("method", method)
        .raw("params", &params.finish())
        .finish()
}

/// Returns whether a server that answers `server/discover` so speaks this era.
pub(crate) fn is_spoken_by(discovered: ValueRef<'_>) -> bool {
    let mut versions = discovered.get("supportedVersions").into_iter().flat_map(ValueRef::elements);
    versions.any(|version| version.as_str() == Some(REVISION))
}

/// Builds the answer to `initialize` out of a server's answer to `server/discover`.
pub(crate) fn initialized_by(id: &RpcId, discovered: ValueRef<'_>) -> String {
    let hello = server_hello(discovered);
    let mut result = Object::new()
        .raw("capabilities", &hello.capabilities)
        .string("protocolVersion", VERSIONS.first().copied().unwrap_or_default());
    if let Some(instructions) = &hello.instructions {
        result = result.raw("instructions", instructions);
    }
    let info = discovered.get("_meta").and_then(|meta| meta.get(SERVER)).map(ValueRef::canonical_text);
    let unknown = || Object::new().string("name", "unknown").string("version", "0").finish();
    result_line(id, &result.raw("serverInfo", &info.unwrap_or_else(unknown)).finish())
}

/// A server's notification as one of the handshake era; `None` if it is one already.
pub(crate) fn without_stream(line: &[u8], params: Option<ValueRef<'_>>) -> Option<Vec<u8>> {
    params?.get("_meta")?.members().find(|(name, _)| is_newer(name))?;
    let (mut edits, place) = (Edits::new(line), ValuePosition::new(line));
    edits.cut_members(&place.find(&["params", "_meta"])?, is_newer);
    Some(edits.finish())
}

/// Returns whether a server's notification only confirms the gateway's request for notifications.
pub(crate) fn is_acknowledgement(method: &str) -> bool {
    method == ACKNOWLEDGED
}

/// The notifications that a stream of a client carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listened {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Listened {
    /// Reads the filter of a request, as far as the server can fill it. Updates of single resources are left out: no client of
    /// the handshake era subscribes in the gateway's name.
    pub(crate) fn read(params: Option<ValueRef<'_>>, hello: &ServerHello) -> Option<Self> {
        let filter = params?.get("notifications").filter(|filter| filter.kind() == Kind::Object)?;
        let wants = |name| filter.get(name).and_then(ValueRef::as_bool) == Some(true);
        Some(Self {
            tools: wants("toolsListChanged"),
            prompts: wants("promptsListChanged") && hello.has_prompts,
            resources: wants("resourcesListChanged") && hello.has_resources,
        })
    }

    pub(crate) fn has(self, method: &str) -> bool {
        match method {
            TOOLS_CHANGED => self.tools,
            PROMPTS_CHANGED => self.prompts,
            RESOURCES_CHANGED => self.resources,
            _ => false,
        }
    }

    /// Builds the notification that begins the stream.
    pub(crate) fn acknowledged_line(self, id: &RpcId) -> String {
        let all = [
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
            ("toolsListChanged", self.tools),
        ];
        let kept = all.into_iter().filter(|(_, is_kept)| *is_kept);
        let notifications = kept.fold(Object::new(), |object, (name, _)| object.raw(name, "true")).finish();
        let params =
            Object::new().raw("_meta", &stream_meta(id)).raw("notifications", &notifications).finish();
        Object::new().string("jsonrpc", "2.0").string("method", ACKNOWLEDGED).raw("params", &params).finish()
    }
}

fn stream_meta(id: &RpcId) -> String {
    Object::new().raw(SUBSCRIPTION, &id.json()).finish()
}

/// Builds the result that ends a stream of notifications.
pub(crate) fn listened_line(id: &RpcId) -> String {
    result_line(id, &Object::new().raw("_meta", &stream_meta(id)).string("resultType", "complete").finish())
}

/// Returns whether a notification belongs to streams that a client opened.
pub(crate) fn is_for_streams(method: &str) -> bool {
    matches!(method, TOOLS_CHANGED | PROMPTS_CHANGED | RESOURCES_CHANGED | "notifications/resources/updated")
}

/// Returns whether a notification of the handshake era has no place in this one. Log messages belong to a request here, and
/// there they do not.
pub(crate) fn is_dropped(method: &str) -> bool {
    matches!(method, "notifications/message" | "notifications/cancelled")
}

/// A notification as one stream carries it.
pub(crate) fn of_stream(line: &[u8], id: &RpcId) -> Vec<u8> {
    let (mut edits, place) = (Edits::new(line), ValuePosition::new(line));
    match (place.get("params"), place.find(&["params", "_meta"])) {
        (_, Some(meta)) => edits.add_member(&meta, SUBSCRIPTION, &id.json()),
        (Some(params), None) => edits.add_member(&params, "_meta", &stream_meta(id)),
        (None, None) => {
            let params = Object::new().raw("_meta", &stream_meta(id)).finish();
            edits.add_member(&place, "params", &params);
        }
    }
    edits.finish()
}

/// Recognises a client's request of the stateless era: by the method `server/discover`, by metadata that came with
/// that era, or by the params of a retry.
///
/// Where the gateway does not speak the era, `server/discover` gets -32601. Clients of both eras probe with it and fall back to `initialize` on any error that is not
/// one of the stateless era; some do not fall back on -32022 even if `supported` has their older versions (`rmcp` 3.9).
pub(crate) fn modern_request<'a>(method: &str, params: Option<ValueRef<'a>>) -> Option<ModernRequest<'a>> {
    let meta = params.and_then(|params| params.get("_meta"));
    let is_modern =
        meta.is_some_and(|meta| meta.members().any(|(name, _)| is_newer(name))) || is_retry(method, params);
    let fault = match (method, is_modern) {
        (DISCOVER, _) => Fault::Discover,
        (_, true) => Fault::ModernEra,
        (_, false) => return None,
    };
    let requested = meta.and_then(|meta| meta.get(VERSION)?.as_str());
    Some(ModernRequest { fault, requested: requested.filter(|version| version.len() <= MAX_VERSION_BYTES) })
}

/// Returns whether a request has the metadata of the era.
pub(crate) fn has_metadata(params: Option<ValueRef<'_>>) -> bool {
    let capabilities = params.and_then(|params| params.get("_meta")?.get(CAPABILITIES));
    stated_version(params).is_some() && capabilities.is_some_and(|it| it.kind() == Kind::Object)
}

/// Returns the revision that the metadata states.
pub(crate) fn stated_version(params: Option<ValueRef<'_>>) -> Option<&str> {
    params?.get("_meta")?.get(VERSION)?.as_str()
}

/// Returns the stream that a notification belongs to.
pub(crate) fn subscription(params: Option<ValueRef<'_>>) -> Option<ValueRef<'_>> {
    params?.get("_meta")?.get(SUBSCRIPTION)
}

/// Returns whether members of these params are a retry's: those of `tasks/update` are its own (SEP-2663).
pub(crate) fn is_retry(method: &str, params: Option<ValueRef<'_>>) -> bool {
    method != UPDATE_TASK && params.is_some_and(|params| RETRY.iter().any(|name| params.get(name).is_some()))
}

/// Returns whether a result is exactly a request for input.
pub(crate) fn is_input_required(result: ValueRef<'_>) -> bool {
    let is_known = |name: &str| matches!(name, "resultType" | META) || ASKS.contains(&name);
    result.get("resultType").and_then(ValueRef::as_str) == Some("input_required")
        && result.members().all(|(name, _)| is_known(name))
}

/// The params of a request for a form with a yes or no and a reason.
pub(crate) fn form(text: &str) -> String {
    Object::new().string("message", text).string("mode", "form").raw("requestedSchema", FORM).finish()
}

/// Returns whether a result requests input from the client, or is of a type that the handshake era does not have.
pub(crate) fn is_unfinished(result: ValueRef<'_>) -> bool {
    let is_other = |kind: ValueRef<'_>| kind.as_str() != Some("complete");
    result.get("resultType").is_some_and(is_other) || ASKS.iter().any(|name| result.get(name).is_some())
}

/// Returns whether the result of a call promises a later one.
pub(crate) fn is_task(result: ValueRef<'_>) -> bool {
    TASK.iter().any(|name| result.get(name).is_some())
        || result.get("_meta").is_some_and(|meta| meta.get(RELATED_TASK).is_some())
}

/// Returns whether an error makes the client ask its user to open a URL.
pub(crate) fn is_url_elicitation(error: ValueRef<'_>) -> bool {
    error.get("code").and_then(ValueRef::as_i64) == Some(URL_ELICITATION)
}
