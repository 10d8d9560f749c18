//! All that is particular to the handshake era of MCP, revisions 2024-10-07 to 2025-11-25: method names, shapes of
//! params and results, and how a refusal looks. The rest of the crate asks here and knows none of it.
//!
//! Source: MCP 2025-11-25, *Schema Reference*, *Tools*, *Cancellation*, *General fields: `_meta`*.

use std::collections::BTreeSet;

use countersign_canonical_json::{Canonical, Kind, ValueRef};
use countersign_core::CallId;
use countersign_tool_gate::{PROPOSAL_MEMBER, REQUEST_ID_MEMBER};

use crate::capabilities;
use crate::compose::Object;
use crate::cut::{Edits, Place};
use crate::fault::Fault;
use crate::message::{Body, RpcId};

/// Prefix of the metadata names that are the gateway's own, in requests and in results.
const OURS: &str = "dev.countersign/";
/// The client restates the goal under this name.
const ASK: &str = "dev.countersign/ask";
/// The client gives the call's action proposal under this name, where it does not put it among the arguments.
const PROPOSAL: &str = "dev.countersign/proposal";
/// The client names the call under this name, so that somebody can attest to this very call before it is made.
const CALL_ID: &str = "dev.countersign/call_id";
/// The client says under this name which step of the plan its call is, from 1 on.
const PLAN_STEP: &str = "dev.countersign/plan_step";
/// The client says under this name where the call stands in a trace (W3C Trace Context).
const TRACE: &str = "traceparent";
/// What is longer is none: version 00 has 55 bytes.
const MAX_TRACE_BYTES: usize = 64;
/// Where an approver names a call, this word stands for all of them.
const LIST: &str = "list";
/// A refusal explains itself to programs under this name.
pub(crate) const DECISION: &str = "dev.countersign/decision";
/// A committed plan is named to programs under this name.
pub(crate) const PLAN: &str = "dev.countersign/plan";

/// The revisions that share this era's messages.
pub(crate) const VERSIONS: [&str; 5] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

const NOTIFICATIONS: &str = "notifications/";
pub(crate) const CALL: &str = "tools/call";
const LIST_TOOLS: &str = "tools/list";
pub(crate) const INITIALIZE: &str = "initialize";
const ELICIT: &str = "elicitation/create";
const PING: &str = "ping";
const LOG_MESSAGE: &str = "notifications/message";
const INSTRUCTIONS: &str = "instructions";
const CANCELLED: &str = "notifications/cancelled";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// Requests of the client that pass as they are, besides those that are handled by name.
const CLIENT_REQUESTS: [&str; 2] = ["ping", "logging/setLevel"];
const CLIENT_NOTIFICATIONS: [&str; 3] =
    ["notifications/initialized", "notifications/progress", "notifications/roots/list_changed"];
const SERVER_REQUESTS: [&str; 2] = ["ping", "roots/list"];
const SERVER_NOTIFICATIONS: [&str; 5] = [
    "notifications/message",
    "notifications/progress",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
];

/// Members of the results of `initialize`, `tools/list` and `tools/call` in either era.
const RESULT_MEMBERS: [&str; 17] = [
    "_meta",
    "cacheScope",
    "capabilities",
    "content",
    "inputRequests",
    INSTRUCTIONS,
    "isError",
    "nextCursor",
    "protocolVersion",
    "requestState",
    "resultType",
    "serverInfo",
    "structuredContent",
    "task",
    "taskId",
    "tools",
    "ttlMs",
];

/// What a client's request is to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientRequest {
    Call,
    ListTools,
    Initialize,
    Pass,
    Refuse,
}

/// What a client's notification is to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientNotification {
    Cancelled,
    Pass,
    /// The method takes an answer, so it takes an id.
    Request,
    Refuse,
}

/// What a server's notification is to the gateway.
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

/// Tells the client that the list of tools is another one now.
pub(crate) fn tools_changed_line() -> String {
    Object::new().string("jsonrpc", "2.0").string("method", TOOLS_CHANGED).finish()
}

/// Says whether the method calls a tool.
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

/// Says whether a server's request may pass to the client.
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

/// The request that a cancellation is about.
pub(crate) fn cancelled_request(params: Option<ValueRef<'_>>) -> Option<RpcId> {
    params?.get("requestId").and_then(RpcId::read)
}

/// A tool call as the client sent it, in shape but unchecked.
#[derive(Clone, Debug)]
pub(crate) struct CallParams<'a> {
    pub(crate) name: &'a str,
    /// An object where there is one.
    pub(crate) arguments: Option<ValueRef<'a>>,
    /// An object where there is one.
    pub(crate) meta: Option<ValueRef<'a>>,
    /// The goal, restated by the client.
    pub(crate) ask: Option<&'a str>,
    /// The action proposal, where it came as metadata. Whether it is one, is for the gate to say.
    pub(crate) proposal: Option<ValueRef<'a>>,
    /// The id that the client gave the call.
    pub(crate) call_id: Option<CallId>,
    /// Which step of the plan the call is, where the client says so.
    pub(crate) plan_step: Option<u64>,
    /// The call's place in a trace, where the client says it in a text that one could be.
    pub(crate) trace: Option<&'a str>,
}

/// Reads the params of a call. `None` when they are anything but a name, arguments and metadata: a `task` would have
/// the server answer with a promise, and a name in other letters might be read by the server in place of ours.
pub(crate) fn read_call(params: Option<ValueRef<'_>>) -> Option<CallParams<'_>> {
    let params = params?;
    if params.members().any(|(name, _)| !matches!(name, "name" | "arguments" | "_meta")) {
        return None;
    }
    let (name, arguments, meta) =
        (params.get("name")?.as_str()?, params.get("arguments"), params.get("_meta"));
    let is_object = |value: Option<ValueRef<'_>>| value.is_none_or(|value| value.kind() == Kind::Object);
    if !is_object(arguments) || !is_object(meta) {
        return None;
    }
    let ours = |name| meta.and_then(|meta| meta.get(name));
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
    // It is not the gateway's own and goes on to the server; whether it is one, is for the gate to say.
    let trace = meta.and_then(|meta| meta.get(TRACE)?.as_str()).filter(|text| text.len() <= MAX_TRACE_BYTES);
    Some(CallParams { name, arguments, meta, ask, proposal, call_id, plan_step, trace })
}

/// An id that a client may give its call. People find it in lists and type it into command lines, so it is nothing that
/// a shell would read as more than a word, and not the word in an id's place that asks for the list.
fn plain_call_id(id: &str) -> Option<CallId> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
    let starts_well = id.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && id.bytes().all(is_plain) && id != LIST { CallId::new(id).ok() } else { None }
}

/// The call as it goes to the server, built from what the gate accepted.
pub(crate) fn call_line(id: &RpcId, name: &str, args: &Canonical, meta: Option<&str>) -> String {
    let mut params = Object::new();
    if let Some(meta) = meta {
        params = params.raw("_meta", meta);
    }
    let params = params.raw("arguments", args.as_str()).string("name", name).finish();
    request_line(id, CALL, &params)
}

/// The gateway's own question for one page of tools.
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

/// Which page of its tools a client asks the server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// The one that every client asks for, and many that and no more.
    First,
    Later,
}

/// The page that a request for tools is for.
pub(crate) fn page_of(params: Option<ValueRef<'_>>) -> Page {
    let cursor = params.and_then(|params| params.get("cursor")).map(ValueRef::kind);
    if cursor.is_none_or(|kind| kind == Kind::Null) { Page::First } else { Page::Later }
}

/// Returns whether a tool can only be called as a task, which no call that passes is.
pub(crate) fn needs_task(tool: ValueRef<'_>) -> bool {
    let support = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
    support.and_then(ValueRef::as_str) == Some("required")
}

/// Narrows the capabilities in a client's `initialize` to those that the server may use.
pub(crate) fn narrow_client<'a>(
    edits: &mut Edits<'a>,
    line: &Place<'a>,
    message: ValueRef<'_>,
    also: &BTreeSet<Box<str>>,
) {
    narrow(edits, line, message, "params", |capabilities| capabilities::of_client(capabilities, also));
}

/// Narrows the capabilities in the answer to `initialize` to those that the client may use.
pub(crate) fn narrow_server<'a>(
    edits: &mut Edits<'a>,
    line: &Place<'a>,
    message: ValueRef<'_>,
    also: &BTreeSet<Box<str>>,
) {
    narrow(edits, line, message, "result", |capabilities| capabilities::of_server(capabilities, also));
}

fn narrow(
    edits: &mut Edits<'_>,
    line: &Place<'_>,
    message: ValueRef<'_>,
    within: &str,
    narrowed: impl FnOnce(ValueRef<'_>) -> String,
) {
    let capabilities = message.get(within).and_then(|inner| inner.get("capabilities"));
    if let (Some(capabilities), Some(old)) = (capabilities, line.find(&[within, "capabilities"])) {
        edits.replace(&old, narrowed(capabilities));
    }
}

/// The tools of a page; `None` when the result is no page of tools.
pub(crate) fn tools_of(result: ValueRef<'_>) -> Option<impl Iterator<Item = ValueRef<'_>>> {
    result.get("tools").filter(|tools| tools.kind() == Kind::Array).map(ValueRef::elements)
}

/// The cursor of the next page of tools.
pub(crate) fn next_page(result: ValueRef<'_>) -> Option<String> {
    result.get("nextCursor").and_then(ValueRef::as_str).map(Into::into)
}

/// Leaves these tools of a page, by their places in it, with the gateway's own one behind them. The page is this session's
/// alone and says so, for caches on the way: an absent `cacheScope` may be read as `public`. The member came with MCP
/// 2026-07-28 (*Caching*); results of this era may have any, and its clients pass over it.
pub(crate) fn keep_tools<'a>(edits: &mut Edits<'a>, line: &Place<'a>, kept: &[usize], own: Option<&str>) {
    let Some(result) = line.get("result") else {
        return;
    };
    if let Some(tools) = result.get("tools") {
        edits.keep_elements(&tools, kept, own);
    }
    edits.set_member(&result, "cacheScope", "\"private\"");
}

/// Returns whether the result of `initialize` settles on a revision of this era.
pub(crate) fn is_known_version(result: ValueRef<'_>) -> bool {
    let version = result.get("protocolVersion").and_then(ValueRef::as_str);
    version.is_some_and(|version| VERSIONS.contains(&version))
}

/// The instructions in the result of `initialize`, which models read.
pub(crate) fn instructions_of(result: ValueRef<'_>) -> Option<ValueRef<'_>> {
    result.get(INSTRUCTIONS)
}

/// Name and version that the server gives itself in the result of `initialize`.
pub(crate) fn server_info(result: ValueRef<'_>) -> (Option<&str>, Option<&str>) {
    let text = |name| result.get("serverInfo")?.get(name)?.as_str();
    (text("name"), text("version"))
}

/// Cuts the instructions out of the answer.
pub(crate) fn cut_instructions<'a>(edits: &mut Edits<'a>, line: &Place<'a>) {
    if let Some(result) = line.get("result") {
        edits.cut_members(&result, |name| name == INSTRUCTIONS);
    }
}

/// Says whether an answer to a call tells of success: a result that is one, and does not say that it is an error. What says so in
/// another way than MCP does is no success.
pub(crate) fn is_success(body: Body<'_>) -> bool {
    match body {
        Body::Result(result) => {
            let says_no_error = |is_error: ValueRef<'_>| is_error.as_bool() == Some(false);
            result.kind() == Kind::Object && result.get("isError").is_none_or(says_no_error)
        }
        Body::Error => false,
    }
}

/// The metadata of a call without the gateway's own names and without those that are none of the tool's among its
/// arguments: whoever looks for them there may look for them here. `None` when there are none of those in it.
pub(crate) fn outside_call(meta: ValueRef<'_>) -> Option<String> {
    let taken = |name: &str| is_ours(name) || name == PROPOSAL_MEMBER || name == REQUEST_ID_MEMBER;
    if !meta.members().any(|(name, _)| taken(name)) {
        return None;
    }
    Some(meta.canonical_text_of(|name| !taken(name)))
}

/// Some readers match names without regard to case, so a server has ours in any.
pub(crate) fn is_ours(name: &str) -> bool {
    name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}

fn is_meta(name: &str) -> bool {
    name.eq_ignore_ascii_case("_meta")
}

/// Cuts the gateway's own names out of every `_meta` of a server's line, in content items and however deep, since only the
/// gateway speaks under them. Returns whether there were any.
pub(crate) fn cut_ours_everywhere<'a>(
    edits: &mut Edits<'a>,
    line: &Place<'a>,
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

/// As deep as messages are read, which is 128 levels at most.
fn speaks_as_us(value: ValueRef<'_>) -> bool {
    let in_member = |(name, value): (&str, ValueRef<'_>)| {
        is_meta(name) && value.members().any(|(name, _)| is_ours(name)) || speaks_as_us(value)
    };
    value.members().any(in_member) || value.elements().any(speaks_as_us)
}

/// Cuts the members out of a result whose names are known ones but for the case, since some readers take them for those.
/// Returns whether there were any.
pub(crate) fn cut_look_alikes<'a>(edits: &mut Edits<'a>, line: &Place<'a>, message: ValueRef<'_>) -> bool {
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

/// The letters without their case. Two letters beyond ASCII fold to ones of it.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => c.to_ascii_lowercase(),
    })
}

/// Marks the code in a server's error as the server's, where it is one of ours. Returns whether it was.
pub(crate) fn mark_code(edits: &mut Edits<'_>, line: &Place<'_>, message: ValueRef<'_>) -> bool {
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

/// Cuts the gateway's own metadata names out of a line: those in `within`, its params or its result. `message` is what was
/// read from the line. Returns whether there were any.
pub(crate) fn cut_ours<'a>(
    edits: &mut Edits<'a>,
    line: &Place<'a>,
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
