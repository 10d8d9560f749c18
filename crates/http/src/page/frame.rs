//! The answers of the page: documents, redirections and errors, with the headers of all of them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use super::html::{Html, document};
use crate::app::App;
use crate::people::Login;
use crate::problem::Problem;

/// Scripts and styles come from this server, and nothing else loads; no other page frames it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

pub(super) type PageState = State<Arc<App>>;

pub(super) fn asset(kind: &'static str, text: &'static str) -> Response {
    guarded(Response::new(Body::from(text)), kind)
}

/// Makes the answer with a whole page.
pub(super) fn shown(status: StatusCode, title: &str, login: Option<&Login>, body: &Html) -> Response {
    let mut response =
        guarded(Response::new(Body::from(document(title, login, body))), "text/html; charset=utf-8");
    *response.status_mut() = status;
    response
}

/// Makes the answer with an error that a person can read.
pub(super) fn failed(problem: &Problem, login: Option<&Login>) -> Response {
    let mut body = Html::default();
    body.raw("<h1>").text(problem.detail()).raw("</h1><p><code>").text(problem.code()).raw("</code></p>");
    body.raw("<p><a href=\"/page\">To the questions that wait</a></p>");
    shown(problem.status(), "Error", login, &body)
}

pub(super) fn redirect(to: &str) -> Response {
    let mut response = guarded(Response::new(Body::empty()), "text/plain");
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

pub(super) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Adds the headers of every answer of the page.
pub(super) fn guarded(mut response: Response, kind: &'static str) -> Response {
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("content-security-policy"), POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        // why: with `no-referrer`, browsers say `Origin: null` of this page's own forms.
        (HeaderName::from_static("referrer-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Runs `work` on a blocking thread and shows its result, or its problem, to the person.
pub(super) async fn worked(
    app: Arc<App>,
    login: Login,
    work: impl FnOnce(&App, &Login) -> Result<Response, Problem> + Send + 'static,
) -> Response {
    let (at, person) = (Arc::clone(&app), login.clone());
    match app.slots.run(move || work(&at, &person)).await {
        Ok(response) => response,
        Err(problem) => failed(&problem, Some(&login)),
    }
}
