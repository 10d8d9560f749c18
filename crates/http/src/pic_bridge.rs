//! PIC/1.0's HTTP bridge, as `pic-standard` 0.9 serves it: checks the proposal of one call, outside a session.
//!
//! The operator's `[proposals]` decide, as at the gate. Under `strict` a call without a proposal is blocked unless the
//! policy lists its tool with an impact that needs none. Attestations and endorsements are used up. Nothing is recorded:
//! the bridge is a check and no decision.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::Response;
use countersign_action_proposal::{Profile, ProposalVerifier, ProposedCall};
use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read};
use countersign_core::{Clock as _, Millis, SpentTokens, SystemClock};
use countersign_host::config_file::ConfigFile;
use countersign_host::error::HostError;
use countersign_host::random;
use countersign_host::report::Reporter;
use countersign_host::time::now;
use countersign_tool_gate::rules::check_not_revoked;
use countersign_tool_gate::{PROPOSAL_MEMBER, own_arguments};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app::App;
use crate::problem::json_answer;

/// Most bytes of a body, as in the reference.
const MAX_BYTES: usize = 1 << 20;
/// Time for a body, as in the reference.
const BODY_TIME: Duration = Duration::from_secs(5);
/// Nesting depth of a body above arguments: the body, the proposal, its action.
const ENVELOPE_DEPTH: usize = 4;
/// Most characters of a request's id.
const MAX_REQUEST_ID: usize = 128;
/// Difference of the clocks of those that share a store of used attestations.
const SKEW: Millis = Millis::from_secs(60);
const REQUEST_ID: &str = "x-request-id";
const INVALID: &str = "PIC_INVALID_REQUEST";

/// The verifier of the bridge, and the store of used attestations.
#[derive(Debug)]
pub(crate) struct PicBridge {
    verifier: Arc<ProposalVerifier>,
    spent: Arc<dyn SpentTokens>,
}

/// Why a call is blocked: a code of PIC/1.0 and a sentence.
type Blocked = (&'static str, String);

impl PicBridge {
    pub(crate) fn prepare(config: &ConfigFile, reporter: &Reporter) -> Result<Self, HostError> {
        let (verifier, spent) = config.proposal_verifier(reporter)?;
        Ok(Self { verifier, spent })
    }

    /// Checks the call of a body.
    fn verify(&self, app: &App, body: &Canonical) -> Result<(), Blocked> {
        let invalid = |text: &str| (INVALID, text.to_owned());
        let value = body.value();
        let tool =
            value.get("tool_name").and_then(ValueRef::as_str).map(str::trim).filter(|tool| !tool.is_empty());
        let tool = tool.ok_or_else(|| invalid("Missing or empty 'tool_name'"))?;
        let args = value.get("tool_args").filter(|args| args.kind() == Kind::Object);
        let args = args.ok_or_else(|| invalid("'tool_args' must be an object"))?;
        let proposal = match args.get(PROPOSAL_MEMBER).filter(|proposal| proposal.kind() != Kind::Null) {
            Some(proposal) if proposal.kind() == Kind::Object => proposal,
            Some(_) => return Err(invalid("PIC proposal must be an object")),
            None => return self.without_proposal(tool),
        };
        let refused = |error: &countersign_action_proposal::ProposalError| {
            (error.code().as_str(), error.code().message().to_owned())
        };
        let digest = own_arguments(body.subtree(args)).digest();
        let parsed =
            self.verifier.parse(proposal.canonical_text().as_bytes()).map_err(|error| refused(&error))?;
        let call = ProposedCall::to_tool_named(tool).args(digest);
        let verified =
            parsed.verify(&self.verifier, &call, &SystemClock::new()).map_err(|error| refused(&error))?;
        let fault = |_| ("PIC_INTERNAL_ERROR", "Internal verification error".to_owned());
        let (_, registry) = app.look.look(&app.config).map_err(fault)?;
        let failed = |text: &str| ("PIC_EVIDENCE_FAILED", text.to_owned());
        check_not_revoked(&verified, &self.verifier, &registry.view())
            .map_err(|_| failed("a key of the evidence is revoked"))?;
        let spent = verified.spend(&*self.spent, now().map_err(fault)?, SKEW);
        spent.map(drop).map_err(|_| failed("an attestation or endorsement cannot be used"))
    }

    fn without_proposal(&self, tool: &str) -> Result<(), Blocked> {
        let impact = self.verifier.policy().impact_of(tool);
        let needs_one = match impact {
            Some(impact) => self.verifier.requires_proposal(impact),
            None => self.verifier.profile() == Profile::Strict,
        };
        if needs_one {
            return Err((INVALID, "Missing required PIC proposal for high-impact tool".to_owned()));
        }
        Ok(())
    }
}

pub(crate) fn bridge_routes(bridge: Arc<PicBridge>, app: Arc<App>) -> Router {
    Router::new().fallback(answer).with_state((bridge, app))
}

/// Answers any request, as the reference does: a trailing slash does not matter.
async fn answer(
    State((bridge, app)): State<(Arc<PicBridge>, Arc<App>)>,
    method: Method,
    uri: Uri,
    request: Request<Body>,
) -> Response {
    let (id, is_valid) = request_id(request.headers());
    let (status, body) = if is_valid {
        let path = uri.path().trim_end_matches('/');
        match (&method, path) {
            (&Method::GET, "/health") => (StatusCode::OK, json!({"status": "ok"})),
            (&Method::GET, "/v1/version") => (StatusCode::OK, version()),
            (&Method::POST, "/verify") => verify(bridge, app, request).await,
            (&Method::GET | &Method::POST, _) => (StatusCode::NOT_FOUND, json!({"error": "Not found"})),
            _ => (StatusCode::METHOD_NOT_ALLOWED, json!({"error": "Method not allowed"})),
        }
    } else {
        invalid("Invalid X-Request-ID header")
    };
    answer_with(status, body, &id)
}

fn answer_with(status: StatusCode, mut body: Value, id: &str) -> Response {
    if let Some(members) = body.as_object_mut() {
        members.insert("request_id".to_owned(), json!(id));
    }
    let mut response = json_answer(status, body.to_string());
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Returns the id of the request, a fresh one if it has none or a malformed one, and whether it is valid.
fn request_id(headers: &HeaderMap) -> (String, bool) {
    let fresh = || random::id::<String>("request").unwrap_or_default();
    let mut given = headers.get_all(REQUEST_ID).iter();
    let Some(first) = given.next() else { return (fresh(), true) };
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    let id = first.to_str().map(str::trim).unwrap_or_default();
    let is_valid = !id.is_empty() && id.len() <= MAX_REQUEST_ID && id.bytes().all(known);
    if is_valid && given.next().is_none() { (id.to_owned(), true) } else { (fresh(), false) }
}

fn blocked(code: &str, message: &str, eval_ms: u64) -> Value {
    json!({"allowed": false, "error": {"code": code, "message": message}, "eval_ms": eval_ms})
}

fn invalid(message: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, blocked(INVALID, message, 0))
}

async fn verify(bridge: Arc<PicBridge>, app: Arc<App>, request: Request<Body>) -> (StatusCode, Value) {
    let bytes = match timeout(BODY_TIME, read_body(request)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(text)) => return invalid(text),
        Err(_) => return invalid("Incomplete request body"),
    };
    let at = Arc::clone(&app);
    let work = move || {
        let limits = Limits::default();
        let limits = limits.bytes(MAX_BYTES).unwrap_or(limits);
        let limits = limits.depth(limits.max_depth().saturating_add(ENVELOPE_DEPTH)).unwrap_or(limits);
        let Ok(body) = read(&bytes, Recipe::PicCjson1, &limits) else {
            return Ok(invalid("Malformed or non-JSON body"));
        };
        if body.value().kind() != Kind::Object {
            return Ok(invalid("Request body must be a JSON object (dict)"));
        }
        let begun = SystemClock::new().now();
        let verdict = bridge.verify(&at, &body);
        let ended = SystemClock::new().now();
        let eval_ms = begun.and_then(|begun| Ok(ended?.since(begun).as_millis())).unwrap_or(0);
        Ok((
            StatusCode::OK,
            match verdict {
                Ok(()) => json!({"allowed": true, "error": null, "eval_ms": eval_ms}),
                Err((code, message)) => blocked(code, &message, eval_ms),
            },
        ))
    };
    let fault = |_| (StatusCode::OK, blocked("PIC_INTERNAL_ERROR", "Internal verification error", 0));
    app.slots.run(work).await.unwrap_or_else(fault)
}

/// Reads a body whose length is stated.
async fn read_body(request: Request<Body>) -> Result<Vec<u8>, &'static str> {
    let (parts, mut body) = request.into_parts();
    let text = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text(CONTENT_TYPE).is_some_and(|kind| !kind.is_empty() && !kind.contains("application/json")) {
        return Err("Expected Content-Type application/json");
    }
    let length = text(CONTENT_LENGTH).ok_or("Missing Content-Length header")?;
    match length.parse::<usize>() {
        Err(_) => return Err("Invalid Content-Length header"),
        Ok(0) => return Err("Empty request body"),
        Ok(length) if length > MAX_BYTES => return Err("Request body too large"),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.map_err(|_| "Incomplete request body")?.into_data().unwrap_or_default();
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn version() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "pic_version": "1.0",
        "package_version": version,
        "commit": "unknown",
        "policy_version": "1.0",
        "impl_name": "countersign",
        "impl_version": version,
        "pic_protocol_version": "PIC/1.0",
        "conformance_manifest_ref": {"path": "conformance/manifest.json", "sha256": "unknown", "commit": "unknown"},
        "supported_modes": ["canonicalization", "core", "evidence", "trust_sanitization"],
    })
}
