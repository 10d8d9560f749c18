//! Request bodies: bounded in size and time, read strictly.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::app::App;
use crate::problem::Problem;
use crate::slots::Slots;

/// Most bytes of a body: four times the limit of arguments, as for a line of an MCP client.
const MAX_BYTES: usize = 4 << 20;
/// Bytes of a body that need no slot.
const SMALL_BYTES: usize = 64 << 10;
/// Time for a whole body.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Nesting depth of a body above arguments: the body, and a proposal, whose action contains the arguments again.
const ENVELOPE_DEPTH: usize = 3;

/// The bytes of a JSON body. A large one has a slot until it is dropped.
#[derive(Debug)]
pub(crate) struct JsonBody {
    bytes: Vec<u8>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl JsonBody {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the body strictly: repeated names and other ambiguities are refused, with `jcs-1` inexact numbers too.
    pub(crate) fn read(&self, recipe: Recipe) -> Result<Canonical, Problem> {
        let limits = Limits::default();
        let limits = limits.bytes(MAX_BYTES).unwrap_or(limits);
        let limits = limits.depth(limits.max_depth().saturating_add(ENVELOPE_DEPTH)).unwrap_or(limits);
        read(&self.bytes, recipe, &limits).map_err(|error| Problem::bad(error.code(), error.to_string()))
    }
}

/// Returns the members of a body. Unknown ones are refused.
pub(crate) fn members<'de, T: Deserialize<'de>>(body: &'de Canonical) -> Result<T, Problem> {
    T::deserialize(body.value()).map_err(|error| Problem::bad("BODY_MALFORMED", error.to_string()))
}

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        check_type(&parts.headers)?;
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > MAX_BYTES as u64) {
            return Err(too_large(MAX_BYTES));
        }
        match timeout(BODY_TIME, collect_json(body, MAX_BYTES, &app.slots)).await {
            Ok(collected) => collected,
            Err(_) => Err(too_late()),
        }
    }
}

/// Collects a small body, of at most 64 KiB.
pub(crate) async fn collect_small(body: Body) -> Result<Vec<u8>, Problem> {
    let collected = timeout(BODY_TIME, collect(body, SMALL_BYTES, |_| Ok(())));
    collected.await.unwrap_or_else(|_| Err(too_late()))
}

/// Collects a JSON body of at most `most` bytes, with the slot of a large one.
pub(crate) async fn collect_message(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    slots: &Slots,
) -> Result<JsonBody, Problem> {
    check_type(headers)?;
    let collected = timeout(BODY_TIME, collect_json(body, most, slots));
    collected.await.unwrap_or_else(|_| Err(too_late()))
}

async fn collect_json(body: Body, most: usize, slots: &Slots) -> Result<JsonBody, Problem> {
    let mut slot = None;
    let bytes = collect(body, most, |length| {
        if length > SMALL_BYTES && slot.is_none() {
            slot = Some(slots.large_body()?);
        }
        Ok(())
    });
    Ok(JsonBody { bytes: bytes.await?, _slot: slot })
}

/// Collects at most `most` bytes. `grows` hears of each length before the bytes are kept.
async fn collect(
    mut body: Body,
    most: usize,
    mut grows: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| broken())?.into_data() else { continue };
        let length = bytes.len().saturating_add(data.len());
        if length > most {
            return Err(too_large(most));
        }
        grows(length)?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// why: a web form can send other types to another origin without asking first.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let one = types.next().and_then(|value| value.to_str().ok()).filter(|_| types.next().is_none());
    let name = one.and_then(|text| text.split(';').next()).map(str::trim);
    if name.is_some_and(|name| name.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let text = "expected: Content-Type: application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "BODY_TYPE", text))
}

fn broken() -> Problem {
    Problem::bad("BODY_BROKEN", "the body broke off, or its length is wrong")
}

fn too_late() -> Problem {
    let text = format!("the body did not arrive within {} s", BODY_TIME.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "BODY_TIMEOUT", text)
}

fn too_large(most: usize) -> Problem {
    let text = format!("the body is larger than {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", text)
}
