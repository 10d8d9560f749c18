//! The handshake era of MCP, revisions 2024-10-07 to 2025-11-25: method names, shapes of params and results, and the form
//! of a refusal. The rest of the crate takes all of these from here.
//!
//! Source: MCP 2025-11-25, *Schema Reference*, *Tools*, *Cancellation*, *General fields: `_meta`*.

use std::collections::BTreeSet;

use countersign_canonical_json::{Canonical, Kind, ValueRef};
use countersign_core::CallId;
use countersign_tool_gate::{PROPOSAL_MEMBER, REQUEST_ID_MEMBER};

use crate::capabilities;
use crate::compose::Object;
use crate::cut::{Edits, ValuePosition};
use crate::fault::Fault;
use crate::message::{Body, RpcId};

/// Metadata of a message.
pub(crate) const META: &str = "_meta";
/// Prefix of the gateway's own metadata names, in requests and in results.
const OURS: &str = "dev.countersign/";
/// Metadata name under which the client restates the goal.
const ASK: &str = "dev.countersign/ask";
/// Metadata name of the call's action proposal, if it is not among the arguments.
const PROPOSAL: &str = "dev.countersign/proposal";
/// Metadata name of the client's call id. With it, an attestation can name this call before the call is made.
const CALL_ID: &str = "dev.countersign/call_id";
/// Metadata name under which the client states the plan step of its call, counted from 1.
const PLAN_STEP: &str = "dev.countersign/plan_step";
/// Metadata name of the call's position in a trace (W3C Trace Context).
const TRACE: &str = "traceparent";
/// Maximum length of a trace context, in bytes; version 00 has 55. A longer text is ignored.
const MAX_TRACE_BYTES: usize = 64;
/// Word that stands for all calls where an approver names a call.
const LIST: &str = "list";
/// Metadata name of a refusal's explanation for programs.
pub(crate) const DECISION: &str = "dev.countersign/decision";
/// Metadata name of a committed plan, for programs.
pub(crate) const PLAN: &str = "dev.countersign/plan";

/// The revisions that share this era's messages.
pub(crate) const VERSIONS: [&str; 5] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

const NOTIFICATIONS: &str = "notifications/";
pub(crate) const CALL: &str = "tools/call";
pub(crate) const LIST_TOOLS: &str = "tools/list";
pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const INITIALIZED: &str = "notifications/initialized";
pub(crate) const ELICIT: &str = "elicitation/create";
/// Schema of the form that asks for an approval. The reason has the longest length of a [`DenialReason`].
///
/// [`DenialReason`]: countersign_approval_token::DenialReason
pub(crate) const FORM: &str = r#"{"properties":{"approve":{"default":false,"title":"Approve exactly this call, once","type":"boolean"},"reason":{"maxLength":200,"title":"Reason, if you deny it","type":"string"}},"required":["approve"],"type":"object"}"#;
pub(crate) const PING: &str = "ping";
pub(crate) const SET_LEVEL: &str = "logging/setLevel";
pub(crate) const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
const LOG_MESSAGE: &str = "notifications/message";
const INSTRUCTIONS: &str = "instructions";
pub(crate) const CANCELLED: &str = "notifications/cancelled";
pub(crate) const PROGRESS: &str = "notifications/progress";
/// Metadata name of the token under which a client takes progress notifications.
const PROGRESS_TOKEN: &str = "progressToken";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// Requests of the client that pass unchanged, besides those that are handled by name.
const CLIENT_REQUESTS: [&str; 2] = ["ping", "logging/setLevel"];
const CLIENT_NOTIFICATIONS: [&str; 3] =
    [INITIALIZED, "notifications/progress", "notifications/roots/list_changed"];
const SERVER_REQUESTS: [&str; 2] = ["ping", "roots/list"];
const SERVER_NOTIFICATIONS: [&str; 5] = [
    "notifications/message",
    "notifications/progress",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
];

/// Members of the results that the gateway reads or a client acts on, in either era.
const RESULT_MEMBERS: [&str; 23] = [
    META,
    "cacheScope",
    "capabilities",
    "completion",
    "content",
    "contents",
    "inputRequests",
    INSTRUCTIONS,
    "isError",
    "messages",
    "nextCursor",
    "prompts",
    "protocolVersion",
    "requestState",
    "resourceTemplates",
    "resources",
    "resultType",
    "serverInfo",
    "structuredContent",
    "task",
    "taskId",
    "tools",
    "ttlMs",
];

/// The gateway's treatment of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientRequest {
    Call,
    ListTools,
    Initialize,
    Pass,
    Refuse,
}

/// The gateway's treatment of a client's notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientNotification {
    Cancelled,
    Pass,
    /// The method is that of a request, so it needs an id.
    Request,
    Refuse,
}

/// The gateway's treatment of a server's notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerNotification {
    Cancelled,
    ToolsChanged,
    Pass,
    Refuse,
}

/// Returns whether a message with this method may pass before the session is initialized, from either side.
pub(crate) fn may_precede_handshake(method: &str) -> bool {
    matches!(method, INITIALIZE | PING | LOG_MESSAGE)
}

/// Builds the notification that the list of tools has changed.
pub(crate) fn tools_changed_line() -> String {
    Object::new().string("jsonrpc", "2.0").string("method", TOOLS_CHANGED).finish()
}

/// Returns whether the method only asks whether the peer is there.
pub(crate) fn is_ping(method: &str) -> bool {
    method == PING
}

/// Returns whether the method calls a tool.
pub(crate) fn is_call(method: &str) -> bool {
    method == CALL
}

pub(crate) fn client_request(method: &str, also: &BTreeSet<Box<str>>) -> ClientRequest {
    match method {
        CALL => ClientRequest::Call,
        LIST_TOOLS => ClientRequest::ListTools,
        INITIALIZE => ClientRequest::Initialize,
        _ if CLIENT_REQUESTS.contains(&method) || is_listed_request(method, also) => ClientRequest::Pass,
        _ => ClientRequest::Refuse,
    }
}

pub(crate) fn client_notification(method: &str, also: &BTreeSet<Box<str>>) -> ClientNotification {
    if method == CANCELLED {
        ClientNotification::Cancelled
    } else if CLIENT_NOTIFICATIONS.contains(&method) || is_listed_notification(method, also) {
        ClientNotification::Pass
    } else if client_request(method, also) == ClientRequest::Refuse {
        ClientNotification::Refuse
    } else {
        ClientNotification::Request
    }
}

/// Returns whether a server's request may pass to the client.
pub(crate) fn server_request_passes(method: &str, also: &BTreeSet<Box<str>>) -> bool {
    SERVER_REQUESTS.contains(&method) || is_listed_request(method, also)
}

/// Returns whether the server may ask the client's user for input.
pub(crate) fn may_elicit(also: &BTreeSet<Box<str>>) -> bool {
    server_request_passes(ELICIT, also)
}

pub(crate) fn server_notification(method: &str, also: &BTreeSet<Box<str>>) -> ServerNotification {
    match method {
        CANCELLED => ServerNotification::Cancelled,
        TOOLS_CHANGED => ServerNotification::ToolsChanged,
        _ if SERVER_NOTIFICATIONS.contains(&method) || is_listed_notification(method, also) => {
            ServerNotification::Pass
        }
        _ => ServerNotification::Refuse,
    }
}

fn is_listed_request(method: &str, also: &BTreeSet<Box<str>>) -> bool {
    also.contains(method) && !method.starts_with(NOTIFICATIONS)
}

fn is_listed_notification(method: &str, also: &BTreeSet<Box<str>>) -> bool {
    also.contains(method) && method.starts_with(NOTIFICATIONS)
}

/// The id of the request that a cancellation names.
pub(crate) fn cancelled_request(params: Option<ValueRef<'_>>) -> Option<RpcId> {
    params?.get("requestId").and_then(RpcId::read)
}

/// A tool call as the client sent it. Its shape is valid, its content unchecked.
#[derive(Clone, Debug)]
pub(crate) struct CallParams<'a> {
    pub(crate) name: &'a str,
    /// An object if present.
    pub(crate) arguments: Option<ValueRef<'a>>,
    pub(crate) meta: CallMeta<'a>,
}

/// The metadata of a call or a read, as the client sent it.
#[derive(Clone, Debug)]
pub(crate) struct CallMeta<'a> {
    /// The whole of it: an object if present.
    pub(crate) object: Option<ValueRef<'a>>,
    /// The goal as the client restates it.
    pub(crate) ask: Option<&'a str>,
    /// The action proposal, if it came as metadata. The gate checks it.
    pub(crate) proposal: Option<ValueRef<'a>>,
    /// The call id that the client chose.
    pub(crate) call_id: Option<CallId>,
    /// The plan step of the call, if the client states it.
    pub(crate) plan_step: Option<u64>,
    /// The call's position in a trace, if the client states it in a text of at most [`MAX_TRACE_BYTES`].
    pub(crate) trace: Option<&'a str>,
}

/// Reads the params of a call. Returns `None` if they hold anything but a name, arguments and metadata: the server would
/// answer a `task` with a promise, and it might read a name in another case instead of the checked one.
pub(crate) fn read_call(params: Option<ValueRef<'_>>) -> Option<CallParams<'_>> {
    let params = params?;
    if params.members().any(|(name, _)| !matches!(name, "name" | "arguments" | META)) {
        return None;
    }
    let (name, arguments) = (params.get("name")?.as_str()?, params.get("arguments"));
    if !is_object(arguments) {
        return None;
    }
    Some(CallParams { name, arguments, meta: CallMeta::read(params)? })
}

impl<'a> CallMeta<'a> {
    /// Reads the metadata of a request. Returns `None` if a member of the gateway's own has another shape.
    pub(crate) fn read(params: ValueRef<'a>) -> Option<Self> {
        let object = params.get(META);
        if !is_object(object) {
            return None;
        }
        let ours = |name| object.and_then(|meta| meta.get(name));
        let text = |name| match ours(name) {
            Some(text) => text.as_str().map(Some),
            None => Some(None),
        };
        let (ask, proposal) = (text(ASK)?, ours(PROPOSAL));
        let call_id = match text(CALL_ID)? {
            Some(id) => Some(plain_call_id(id)?),
            None => None,
        };
        let plan_step = match ours(PLAN_STEP) {
            Some(step) => Some(step.as_u64().filter(|_| step.is_exact())?),
            None => None,
        };
        // It is not one of the gateway's own names, so it is forwarded to the server. The gate checks it.
        let trace =
            object.and_then(|meta| meta.get(TRACE)?.as_str()).filter(|text| text.len() <= MAX_TRACE_BYTES);
        Some(Self { object, ask, proposal, call_id, plan_step, trace })
    }
}

fn is_object(value: Option<ValueRef<'_>>) -> bool {
    value.is_none_or(|value| value.kind() == Kind::Object)
}

/// Reads an id that a client may give its call. People type it into command lines, so it must be a single word to a shell,
/// and it must not be the word that asks for the list of calls.
fn plain_call_id(id: &str) -> Option<CallId> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
    let starts_well = id.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && id.bytes().all(is_plain) && id != LIST { CallId::new(id).ok() } else { None }
}

/// Returns the token for progress notifications in a request's metadata, as JSON: a string or an integer (MCP 2025-11-25,
/// *Progress*).
pub(crate) fn progress_token(meta: ValueRef<'_>) -> Option<String> {
    let token = meta.get(PROGRESS_TOKEN)?;
    let is_token = token.as_str().is_some() || token.is_exact() && token.as_i64().is_some();
    is_token.then(|| token.canonical_text())
}

/// Builds the notification that a call waits for a person's answer, in the words of `wait`. `told` counts them. Progress must rise, so these are
/// thousandths: the server may report progress of its own under the same token afterwards.
pub(crate) fn waiting_line(token: &str, told: u32, wait: &str) -> String {
    let params = Object::new()
        .string("message", wait)
        .raw("progress", &(f64::from(told) / 1_000.0).to_string())
        .raw("progressToken", token)
        .finish();
    Object::new().string("jsonrpc", "2.0").string("method", PROGRESS).raw("params", &params).finish()
}

/// Returns whether a client with these capabilities shows forms. An empty capability stands for forms alone (MCP 2025-11-25,
/// *Elicitation*, *Capabilities*; 2026-07-28 alike).
pub(crate) fn has_forms(capabilities: ValueRef<'_>) -> bool {
    let elicitation = capabilities.get("elicitation").filter(|it| it.kind() == Kind::Object);
    elicitation.is_some_and(|it| match it.get("form") {
        Some(form) => form.kind() == Kind::Object,
        None => it.members().next().is_none(),
    })
}

/// Builds the request that shows a form with a yes or no and a reason. It has no `mode`, which older clients do not know.
pub(crate) fn form_line(id: &RpcId, text: &str) -> String {
    let params = Object::new().string("message", text).raw("requestedSchema", FORM).finish();
    request_line(id, ELICIT, &params)
}

/// Builds the notification that withdraws the gateway's own request to the client.
pub(crate) fn cancelled_line(id: &RpcId) -> String {
    let params = Object::new().raw("requestId", &id.json()).finish();
    Object::new().string("jsonrpc", "2.0").string("method", CANCELLED).raw("params", &params).finish()
}

/// Builds the call for the server from the call that the gate accepted.
pub(crate) fn call_line(id: &RpcId, name: &str, args: &Canonical, meta: Option<&str>) -> String {
    let mut params = Object::new();
    if let Some(meta) = meta {
        params = params.raw("_meta", meta);
    }
    let params = params.raw("arguments", args.as_str()).string("name", name).finish();
    request_line(id, CALL, &params)
}

/// Builds the read for the server from the one that the gate accepted. Its arguments are the params.
pub(crate) fn read_line(id: &RpcId, method: &str, args: &Canonical, meta: Option<&str>) -> String {
    let params = Object::new();
    let params = if let Some(meta) = meta { params.raw(META, meta) } else { params };
    let params = args.value().members().fold(params, |params, (name, value)| params.value(name, value));
    request_line(id, method, &params.finish())
}

/// Builds the gateway's own request for one page of tools.
pub(crate) fn list_tools_line(id: &RpcId, cursor: Option<&str>) -> String {
    request_line(id, LIST_TOOLS, &Object::new().maybe_string("cursor", cursor).finish())
}

fn request_line(id: &RpcId, method: &str, params: &str) -> String {
    Object::new()
        .raw("id", &id.json())
        .string("jsonrpc", "2.0")
        .string("method", method)
        .raw("params", params)
        .finish()
}

/// The page of tools that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// The page that every client requests, and many clients request no other.
    First,
    Later,
}

/// The page that a request for tools names.
pub(crate) fn page_of(params: Option<ValueRef<'_>>) -> Page {
    let cursor = params.and_then(|params| params.get("cursor")).map(ValueRef::kind);
    if cursor.is_none_or(|kind| kind == Kind::Null) { Page::First } else { Page::Later }
}

/// Returns whether a tool can only be called as a task. No call that passes is a task.
pub(crate) fn needs_task(tool: ValueRef<'_>) -> bool {
    let support = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
    support.and_then(ValueRef::as_str) == Some("required")
}

/// Narrows the capabilities in a client's `initialize` to those that the server may use.
pub(crate) fn narrow_client<'a>(
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    message: ValueRef<'_>,
    also: &BTreeSet<Box<str>>,
) {
    narrow(edits, line, message, "params", |capabilities| capabilities::of_client(capabilities, also));
}

/// Narrows the capabilities in the answer to `initialize` to those that the client may use. `tasks` tells whether the extension
/// for tasks is one of them.
pub(crate) fn narrow_server<'a>(
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    message: ValueRef<'_>,
    also: &BTreeSet<Box<str>>,
    tasks: bool,
) {
    narrow(edits, line, message, "result", |capabilities| capabilities::of_server(capabilities, also, tasks));
}

fn narrow(
    edits: &mut Edits<'_>,
    line: &ValuePosition<'_>,
    message: ValueRef<'_>,
    within: &str,
    narrowed: impl FnOnce(ValueRef<'_>) -> String,
) {
    let capabilities = message.get(within).and_then(|inner| inner.get("capabilities"));
    if let (Some(capabilities), Some(old)) = (capabilities, line.find(&[within, "capabilities"])) {
        edits.replace(&old, narrowed(capabilities));
    }
}

/// The tools of a page; `None` if the result is not a page of tools.
pub(crate) fn tools_of(result: ValueRef<'_>) -> Option<impl Iterator<Item = ValueRef<'_>>> {
    result.get("tools").filter(|tools| tools.kind() == Kind::Array).map(ValueRef::elements)
}

/// The cursor of the next page of tools.
pub(crate) fn next_page(result: ValueRef<'_>) -> Option<String> {
    result.get("nextCursor").and_then(ValueRef::as_str).map(Into::into)
}

/// Keeps the items at these positions of a page, and appends the gateway's own. The page belongs to this session alone and is
/// marked so for caches on the way: a missing `cacheScope` may be read as `public`. The member came with MCP 2026-07-28
/// (*Caching*). Results of this era may have additional members, and its clients ignore them.
pub(crate) fn keep_items<'a>(
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    member: &str,
    kept: &[usize],
    own: &[&str],
) {
    let Some(result) = line.get("result") else {
        return;
    };
    if let Some(items) = result.get(member) {
        let own = (!own.is_empty()).then(|| own.join(","));
        edits.keep_elements(&items, kept, own.as_deref());
    }
    edits.set_member(&result, "cacheScope", "\"private\"");
}

/// Returns whether the result of `initialize` selects a revision of this era.
pub(crate) fn is_known_version(result: ValueRef<'_>) -> bool {
    let version = result.get("protocolVersion").and_then(ValueRef::as_str);
    version.is_some_and(|version| VERSIONS.contains(&version))
}

/// The instructions in the result of `initialize`, which models read.
pub(crate) fn instructions_of(result: ValueRef<'_>) -> Option<ValueRef<'_>> {
    result.get(INSTRUCTIONS)
}

/// The name and version that the server states in the result of `initialize`.
pub(crate) fn server_info(result: ValueRef<'_>) -> (Option<&str>, Option<&str>) {
    let text = |name| result.get("serverInfo")?.get(name)?.as_str();
    (text("name"), text("version"))
}

/// Cuts the instructions out of the answer.
pub(crate) fn cut_instructions<'a>(edits: &mut Edits<'a>, line: &ValuePosition<'a>) {
    if let Some(result) = line.get("result") {
        edits.cut_members(&result, |name| name == INSTRUCTIONS);
    }
}

/// Returns whether an answer to a call is a success: a result object without an error mark. An `isError` in any other form
/// than MCP's is not a success.
pub(crate) fn is_success(body: Body<'_>) -> bool {
    match body {
        Body::Result(result) => {
            let says_no_error = |is_error: ValueRef<'_>| is_error.as_bool() == Some(false);
            result.kind() == Kind::Object && result.get("isError").is_none_or(says_no_error)
        }
        Body::Error => false,
    }
}

/// The metadata of a call without the gateway's own names and without the members that are reserved among the arguments:
/// a server that looks for those there may look for them here too. Returns `None` if there are none of them.
pub(crate) fn outside_call(meta: ValueRef<'_>) -> Option<String> {
    let taken = |name: &str| is_ours(name) || name == PROPOSAL_MEMBER || name == REQUEST_ID_MEMBER;
    if !meta.members().any(|(name, _)| taken(name)) {
        return None;
    }
    Some(meta.canonical_text_of(|name| !taken(name)))
}

/// Returns whether a metadata name is the gateway's own, in any case: some readers match names case-insensitively.
pub(crate) fn is_ours(name: &str) -> bool {
    name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

fn is_meta(name: &str) -> bool {
    name.eq_ignore_ascii_case("_meta")
}

/// Cuts the gateway's own names out of every `_meta` of a server's line, in content items and at any depth, since only the
/// gateway may use them. Returns whether there were any.
pub(crate) fn cut_ours_everywhere<'a>(
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    message: ValueRef<'_>,
) -> bool {
    if !speaks_as_us(message) {
        return false;
    }
    for meta in line.objects_named(is_meta) {
        edits.cut_members(&meta, is_ours);
    }
    true
}

/// Recurses as deep as a message can nest: 128 levels at most.
fn speaks_as_us(value: ValueRef<'_>) -> bool {
    let in_member = |(name, value): (&str, ValueRef<'_>)| {
        is_meta(name) && value.members().any(|(name, _)| is_ours(name)) || speaks_as_us(value)
    };
    value.members().any(in_member) || value.elements().any(speaks_as_us)
}

/// Cuts those members out of a result whose names differ from a known one only in case, since some readers take them for the
/// known ones. Returns whether there were any.
pub(crate) fn cut_look_alikes<'a>(
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    message: ValueRef<'_>,
) -> bool {
    let result = message.get("result");
    if !result.is_some_and(|result| result.members().any(|(name, _)| is_look_alike(name))) {
        return false;
    }
    if let Some(result) = line.get("result") {
        edits.cut_members(&result, is_look_alike);
    }
    true
}

fn is_look_alike(name: &str) -> bool {
    RESULT_MEMBERS.iter().any(|known| name != *known && folded(name).eq(folded(known)))
}

/// The letters in lower case. Two letters beyond ASCII fold to ASCII letters.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => c.to_ascii_lowercase(),
    })
}

/// Marks a Countersign code in a server's error as the server's. Returns whether there was one.
pub(crate) fn mark_code(edits: &mut Edits<'_>, line: &ValuePosition<'_>, message: ValueRef<'_>) -> bool {
    let path = ["error", "data", "code"];
    let code = path.iter().try_fold(message, |value, name| value.get(name)).and_then(ValueRef::as_str);
    let Some(code) = code.filter(|code| Fault::is_ours(code)) else {
        return false;
    };
    if let Some(old) = line.find(&path) {
        // Our codes need no escapes.
        edits.replace(&old, format!("\"server:{code}\""));
    }
    true
}

/// Cuts the gateway's own metadata names out of the member `within` of a line: its params or its result. `message` is the
/// parsed line. Returns whether there were any.
pub(crate) fn cut_ours<'a>(
    edits: &mut Edits<'a>,
    line: &ValuePosition<'a>,
    message: ValueRef<'_>,
    within: &str,
) -> bool {
    let meta = message.get(within).and_then(|inner| inner.get("_meta"));
    if !meta.is_some_and(|meta| meta.members().any(|(name, _)| is_ours(name))) {
        return false;
    }
    if let Some(meta) = line.find(&[within, "_meta"]) {
        edits.cut_members(&meta, is_ours);
    }
    true
}
