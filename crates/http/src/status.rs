//! The state of the service and of its registry.

use axum::http::StatusCode;
use countersign_audit_log::LogNumber;
use serde_json::json;

use crate::app::App;
use crate::problem::Problem;

/// Version, age and expiry of the registry in force.
pub(crate) fn registry(app: &App) -> Result<String, Problem> {
    let (now, registry) = app.look.look(&app.config).map_err(|error| Problem::of(&error, &app.reporter))?;
    let view = registry.view();
    let (issued, expires) = (view.snapshot().issued(), view.snapshot().expires());
    Ok(json!({
        "version": view.snapshot().version(),
        "issued": issued,
        "expires": expires,
        "age_seconds": now.since(issued).as_millis() / 1_000,
        "expired": now >= expires,
    })
    .to_string())
}

/// Answers if sessions can be opened now.
pub(crate) fn ready(app: &App) -> Result<String, Problem> {
    let not_ready = |text: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", text);
    let (now, registry) =
        app.look.look(&app.config).map_err(|_| not_ready("the registry does not verify"))?;
    if now >= registry.view().snapshot().expires() {
        return Err(not_ready("the registry has expired"));
    }
    Ok(json!({"ready": true}).to_string())
}

/// The receipt of an entry, of the log that the query names. Without one, of the folder's own.
pub(crate) fn receipt(app: &App, seq: &str, query: Option<&str>) -> Result<String, Problem> {
    let bad = || Problem::bad("PATH_MALFORMED", "expected: /v1/receipts/N, and perhaps ?log=NAME");
    let seq: u64 = seq.parse().map_err(|_| bad())?;
    let log = match query.map(|query| query.strip_prefix("log=").ok_or_else(bad)).transpose()? {
        None | Some(".") => LogNumber::FIRST,
        Some(name) => name.parse().map_err(|_| bad())?,
    };
    let receipt = app.config.receipt(log, seq, &app.reporter).map_err(|error| {
        if matches!(error.code(), "AUDIT_NO_SUCH_SIZE" | "AUDIT_MISSING") {
            return Problem::new(StatusCode::NOT_FOUND, "RECEIPT_UNKNOWN", "the record has no such entry");
        }
        Problem::fault(&error, &app.reporter)
    })?;
    Ok(receipt.to_json().to_owned())
}

/// The metrics in Prometheus' text format.
pub(crate) fn metrics(app: &App) -> Result<String, Problem> {
    let fault = |error| Problem::fault(&error, &app.reporter);
    let (_, registry) = app.look.look(&app.config).map_err(fault)?;
    let text = app.exports.text(&registry).map_err(fault)?;
    text.ok_or_else(|| {
        let text = "no metrics: they need `[metrics]` and a build with the feature `prometheus`";
        Problem::new(StatusCode::NOT_FOUND, "METRICS_OFF", text)
    })
}
