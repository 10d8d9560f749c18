//! The routes of the service.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{delete, get, post};
use countersign_audit_log::EndReason;
use countersign_canonical_json::{Canonical, Recipe};
use countersign_core::SessionId;
use countersign_host::serve_part::Duty;

use crate::access::Caller;
use crate::app::App;
use crate::body::JsonBody;
use crate::connection::Entrance;
use crate::page::page_routes;
use crate::path_id::PathId;
use crate::problem::{Problem, json_answer};
use crate::{answers, calls, check, grants, opening, sessions, status};

/// The caller of a request, by its credential.
pub(crate) struct Known(Arc<Caller>);

impl FromRequestParts<Arc<App>> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match parts.extensions.get() {
            Some(Entrance::Known(caller)) => Ok(Self(Arc::clone(caller))),
            Some(Entrance::Network) | None => app.callers.by_token(&parts.headers).map(Self),
        }
    }
}

type RouteResult = Result<Response, Problem>;

pub(crate) fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/sessions", post(open_session))
        .route("/v1/sessions/{id}", delete(end_session))
        .route("/v1/check", post(check_call))
        .route("/v1/outcome", post(report_outcome))
        .route("/v1/observe", post(observe_call))
        .route("/v1/questions", get(list_questions))
        .route("/v1/questions/{id}", get(show_question))
        .route("/v1/questions/{id}/answer", post(answer_question))
        .route("/v1/questions/{id}/grant", post(grant_question))
        .route("/v1/grants", get(list_grants))
        .route("/v1/grants/{id}", delete(revoke_grant))
        .route("/v1/registry", get(registry))
        .route("/v1/receipts/{id}", get(receipt))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .merge(page_routes())
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

/// Runs `work` with the body on a blocking thread, for a caller that has the duty.
async fn with_body(
    app: Arc<App>,
    caller: Arc<Caller>,
    body: JsonBody,
    recipe: Recipe,
    status: StatusCode,
    work: impl FnOnce(&App, &Caller, &Canonical) -> Result<String, Problem> + Send + 'static,
) -> RouteResult {
    let at = Arc::clone(&app);
    let answer = app.slots.run(move || {
        let value = body.read(recipe)?;
        work(&at, &caller, &value)
    });
    answer.await.map(|text| json_answer(status, text))
}

async fn without_body(
    app: Arc<App>,
    work: impl FnOnce(&App) -> Result<String, Problem> + Send + 'static,
) -> RouteResult {
    let at = Arc::clone(&app);
    app.slots.run(move || work(&at)).await.map(|text| json_answer(StatusCode::OK, text))
}

async fn open_session(State(app): State<Arc<App>>, Known(caller): Known, body: JsonBody) -> RouteResult {
    caller.require(&[Duty::Check])?;
    // Definitions are hashed by a recipe of their own; nothing else in the body has numbers.
    with_body(app, caller, body, Recipe::Rfc8785, StatusCode::CREATED, opening::open).await
}

async fn end_session(State(app): State<Arc<App>>, Known(caller): Known, PathId(id): PathId) -> RouteResult {
    caller.require(&[Duty::Check])?;
    without_body(app, move |app| {
        let id = SessionId::new(&id).map_err(|_| sessions::unknown())?;
        let session = app.sessions.get(&id, &caller)?;
        app.sessions.end(&id, &session, EndReason::Client);
        Ok(serde_json::json!({"session": id, "ended": true}).to_string())
    })
    .await
}

async fn check_call(State(app): State<Arc<App>>, Known(caller): Known, body: JsonBody) -> RouteResult {
    caller.require(&[Duty::Check])?;
    with_body(app, caller, body, Recipe::Jcs1, StatusCode::OK, check::check).await
}

async fn report_outcome(State(app): State<Arc<App>>, Known(caller): Known, body: JsonBody) -> RouteResult {
    caller.require(&[Duty::Check])?;
    with_body(app, caller, body, Recipe::Jcs1, StatusCode::OK, calls::outcome).await
}

async fn observe_call(State(app): State<Arc<App>>, Known(caller): Known, body: JsonBody) -> RouteResult {
    caller.require(&[Duty::Check])?;
    // The arguments of an observed call are not digested.
    with_body(app, caller, body, Recipe::Rfc8785, StatusCode::OK, calls::observe).await
}

async fn list_questions(State(app): State<Arc<App>>, Known(caller): Known) -> RouteResult {
    caller.require(&[Duty::Answer, Duty::Read])?;
    without_body(app, answers::list).await
}

async fn show_question(State(app): State<Arc<App>>, Known(caller): Known, PathId(id): PathId) -> RouteResult {
    without_body(app, move |app| answers::show(app, &caller, &id)).await
}

async fn answer_question(
    State(app): State<Arc<App>>,
    Known(caller): Known,
    PathId(id): PathId,
    body: JsonBody,
) -> RouteResult {
    caller.require(&[Duty::Answer])?;
    let answer = move |app: &App, caller: &Caller, body: &Canonical| answers::answer(app, caller, &id, body);
    with_body(app, caller, body, Recipe::Jcs1, StatusCode::OK, answer).await
}

async fn grant_question(
    State(app): State<Arc<App>>,
    Known(caller): Known,
    PathId(id): PathId,
    body: JsonBody,
) -> RouteResult {
    caller.require(&[Duty::Answer])?;
    let grant = move |app: &App, caller: &Caller, body: &Canonical| grants::give(app, caller, &id, body);
    with_body(app, caller, body, Recipe::Jcs1, StatusCode::CREATED, grant).await
}

async fn list_grants(State(app): State<Arc<App>>, Known(caller): Known) -> RouteResult {
    caller.require(&[Duty::Answer, Duty::Read])?;
    without_body(app, grants::list).await
}

async fn revoke_grant(State(app): State<Arc<App>>, Known(caller): Known, PathId(id): PathId) -> RouteResult {
    caller.require(&[Duty::Answer])?;
    without_body(app, move |app| grants::revoke(app, &caller, &id)).await
}

async fn registry(State(app): State<Arc<App>>, Known(caller): Known) -> RouteResult {
    caller.require(&[Duty::Read])?;
    without_body(app, status::registry).await
}

async fn receipt(
    State(app): State<Arc<App>>,
    Known(caller): Known,
    PathId(seq): PathId,
    uri: Uri,
) -> RouteResult {
    caller.require(&[Duty::Read])?;
    without_body(app, move |app| status::receipt(app, &seq, uri.query())).await
}

async fn metrics(State(app): State<Arc<App>>, Known(caller): Known) -> RouteResult {
    caller.require(&[Duty::Read])?;
    let mut answer = without_body(app, status::metrics).await?;
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    Ok(answer)
}

/// Answers as long as the process runs.
async fn health() -> Response {
    json_answer(StatusCode::OK, r#"{"ok":true}"#.to_owned())
}

async fn ready(State(app): State<Arc<App>>) -> RouteResult {
    without_body(app, status::ready).await
}

async fn unknown_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "PATH_UNKNOWN", "the service has no such path")
}

async fn wrong_method(method: Method) -> Problem {
    let text = format!("the path has no method {method}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", text)
}
