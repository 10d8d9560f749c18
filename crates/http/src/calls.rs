//! Outcomes of accepted calls, and calls that a framework refused itself.

use countersign_audit_log::OutcomeKind;
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::SessionId;
use countersign_tool_gate::{Observed, Rejection};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use axum::http::StatusCode;

use crate::access::Caller;
use crate::app::App;
use crate::body::members;
use crate::problem::Problem;
use crate::sessions::unknown;

/// The body of `POST /v1/outcome`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeBody<'a> {
    session: SessionId,
    handle: &'a str,
    outcome: ReportedOutcome,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReportedOutcome {
    Returned,
    Failed,
    Unknown,
    NotRun,
}

impl From<ReportedOutcome> for OutcomeKind {
    fn from(outcome: ReportedOutcome) -> Self {
        match outcome {
            ReportedOutcome::Returned => Self::Returned,
            ReportedOutcome::Failed => Self::Failed,
            ReportedOutcome::Unknown => Self::Unknown,
            ReportedOutcome::NotRun => Self::NotRun,
        }
    }
}

/// The body of `POST /v1/observe`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObserveBody {
    session: SessionId,
    #[serde(rename = "call")]
    _call: IgnoredAny,
}

/// Records the outcome of an accepted call, once.
pub(crate) fn outcome(app: &App, caller: &Caller, body: &Canonical) -> Result<String, Problem> {
    let told: OutcomeBody<'_> = members(body)?;
    let session = app.sessions.get(&told.session, caller)?;
    let used = session.use_it().ok_or_else(unknown)?;
    let call = told.handle.parse().ok().and_then(|decision| used.take(decision)).ok_or_else(|| {
        let text = "no accepted call of this session without an outcome has this handle";
        Problem::new(StatusCode::NOT_FOUND, "HANDLE_UNKNOWN", text)
    })?;
    let call_id = call.call_id().clone();
    let outcome = OutcomeKind::from(told.outcome);
    call.finish(outcome);
    Ok(json!({"call_id": call_id, "outcome": outcome}).to_string())
}

/// Counts a tool call as the model wrote it. A text is read as it is.
pub(crate) fn observe(app: &App, caller: &Caller, body: &Canonical) -> Result<String, Problem> {
    let seen: ObserveBody = members(body)?;
    let session = app.sessions.get(&seen.session, caller)?;
    let used = session.use_it().ok_or_else(unknown)?;
    used.look();
    let call = body.value().get("call");
    let raw = match call.and_then(ValueRef::as_str) {
        Some(text) => text.to_owned(),
        None => call.map(ValueRef::canonical_text).unwrap_or_default(),
    };
    let (observed, rejection) = match session.gate.observe(raw.as_bytes()) {
        Observed::Undisclosed(rejection) => ("undisclosed", Some(rejection)),
        Observed::Malformed(rejection) => ("malformed", Some(rejection)),
        Observed::Disclosed | _ => ("disclosed", None),
    };
    let code = rejection.as_ref().map(|rejection| rejection.code().as_str());
    let record = rejection.as_ref().and_then(Rejection::sequence);
    Ok(json!({"observed": observed, "code": code, "record": record}).to_string())
}
