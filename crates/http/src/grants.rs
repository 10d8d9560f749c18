//! Grants: given to a question, listed and revoked.

use axum::http::StatusCode;
use countersign_audit_log::AnswerVerdict;
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{Millis, TokenId};
use countersign_host::error::HostError;
use countersign_host::questions::{GrantWish, QuestionQueue, grant_report};
use countersign_host::time::now;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::access::Caller;
use crate::answers::problem;
use crate::app::App;
use crate::body::members;
use crate::problem::Problem;

/// The body of `POST /v1/questions/ID/grant`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantBody<'a> {
    uses: u32,
    #[serde(rename = "for")]
    ttl: &'a str,
    #[serde(rename = "where")]
    _conditions: Option<IgnoredAny>,
    #[serde(default)]
    any_session: bool,
}

/// Grants the call of a question and others like it. The grant is recorded before it counts.
pub(crate) fn give(app: &App, caller: &Caller, typed: &str, body: &Canonical) -> Result<String, Problem> {
    let given: GrantBody<'_> = members(body)?;
    let ttl: Result<Millis, _> = given.ttl.parse();
    let ttl = ttl.map_err(|_| Problem::bad("BODY_MALFORMED", "`for` is a span such as `1h`"))?;
    let mut wish = GrantWish::new(given.uses, ttl);
    wish.any_session = given.any_session;
    wish.conditions = body.value().get("where").map(ValueRef::canonical_text);
    let give = || -> Result<Value, HostError> {
        let now = now()?;
        let queue = QuestionQueue::open(&app.config)?.ok_or_else(QuestionQueue::unknown)?;
        let id = queue.find(typed, true, now)?;
        let pending = queue.answerable(&id, AnswerVerdict::Granted, now)?;
        let record = queue.answer_record(&app.reporter)?;
        let given = queue.grant(&pending, &caller.name, &wish, record)?;
        Ok(json!({
            "id": id, "grant_id": given.grant_id, "by": caller.name, "uses": wish.uses, "expires": given.expires,
        }))
    };
    give().map(|given| given.to_string()).map_err(|error| problem(app, &error))
}

/// Lists the grants that have not expired.
pub(crate) fn list(app: &App) -> Result<String, Problem> {
    let list = || match QuestionQueue::open(&app.config)? {
        Some(queue) => queue.grants(),
        None => Ok(Vec::new()),
    };
    let grants: Vec<_> = list().map_err(|error| problem(app, &error))?.iter().map(grant_report).collect();
    Ok(json!({"grants": grants}).to_string())
}

/// Revokes a grant. The revocation is recorded before it counts.
pub(crate) fn revoke(app: &App, caller: &Caller, id: &str) -> Result<String, Problem> {
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "GRANT_UNKNOWN", "no grant with this id counts");
    let id = TokenId::new(id).map_err(|_| unknown())?;
    let revoke = || -> Result<(), HostError> {
        let queue = QuestionQueue::open(&app.config)?;
        let queue = queue.ok_or_else(|| HostError::new("GRANT_UNKNOWN", "no grant with this id counts"))?;
        let record = queue.answer_record(&app.reporter)?;
        queue.revoke(&id, &caller.name, record)
    };
    revoke().map_err(|error| problem(app, &error))?;
    Ok(json!({"grant_id": id, "revoked": true, "by": caller.name}).to_string())
}
