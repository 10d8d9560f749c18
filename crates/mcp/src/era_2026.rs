//! Recognition of messages of MCP's stateless era (revision 2026-07-28). The gateway does not speak it: it refuses such
//! a request with the revisions that it speaks, and does not forward an answer that is not a final result.
//!
//! Source: MCP 2026-07-28, *Versioning and Compatibility*, *Overview: `_meta`*, *Multi Round-Trip Requests*; MCP
//! 2025-11-25, *Tasks*, *Elicitation*.

use countersign_canonical_json::ValueRef;

use crate::compose::Object;
use crate::era_2025::VERSIONS;
use crate::fault::Fault;

const DISCOVER: &str = "server/discover";
/// Prefix of the protocol's own metadata names.
const PROTOCOL: &str = "io.modelcontextprotocol/";
/// The protocol's metadata names of the handshake era.
const OLDER: [&str; 2] =
    ["io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response"];
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Params of a client's retry with the input that the server requested.
const RETRY: [&str; 2] = ["inputResponses", "requestState"];
/// Members of a server's result that requests input.
const ASKS: [&str; 2] = ["inputRequests", "requestState"];
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
    /// The error's data (MCP 2026-07-28, `UnsupportedProtocolVersionError`).
    pub(crate) fn data(self) -> Object {
        let supported = VERSIONS.map(|version| format!("\"{version}\"")).join(",");
        Object::new()
            .string("code", self.fault.code())
            .string("requested", self.requested.unwrap_or("unknown"))
            .raw("supported", &format!("[{supported}]"))
    }
}

/// Recognises a client's request of the stateless era: by the method `server/discover`, by metadata that came with
/// that era, or by the params of a retry.
///
/// `server/discover` gets -32601. Clients of both eras probe with it and fall back to `initialize` on any error that is not
/// one of the stateless era; some do not fall back on -32022 even if `supported` has their older versions (`rmcp` 3.9).
pub(crate) fn modern_request<'a>(method: &str, params: Option<ValueRef<'a>>) -> Option<ModernRequest<'a>> {
    let meta = params.and_then(|params| params.get("_meta"));
    let is_newer = |name: &str| name.starts_with(PROTOCOL) && !OLDER.contains(&name);
    let is_modern = meta.is_some_and(|meta| meta.members().any(|(name, _)| is_newer(name)))
        || params.is_some_and(|params| RETRY.iter().any(|name| params.get(name).is_some()));
    let fault = match (method, is_modern) {
        (DISCOVER, _) => Fault::Discover,
        (_, true) => Fault::ModernEra,
        (_, false) => return None,
    };
    let requested = meta.and_then(|meta| meta.get(VERSION)?.as_str());
    Some(ModernRequest { fault, requested: requested.filter(|version| version.len() <= MAX_VERSION_BYTES) })
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
