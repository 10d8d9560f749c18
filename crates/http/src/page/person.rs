//! The person who is logged in.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};

use super::frame::redirect;
use crate::app::App;
use crate::people::{Login, People};
use crate::problem::Problem;

/// The person who is logged in. Anyone else is sent to the login.
pub(super) struct Person(pub(super) Login);

impl FromRequestParts<Arc<App>> for Person {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let people = people_of(app).map_err(|problem| problem.into_response())?;
        people.logins.find(&parts.headers).map(Self).ok_or_else(|| redirect("/page/login"))
    }
}

/// Returns the people who may log in, if the configuration names any.
pub(super) fn people_of(app: &App) -> Result<&People, Problem> {
    let missing = || {
        let text = "the page is off: `users_file` of `serve` names the people who may log in";
        Problem::new(StatusCode::NOT_FOUND, "PAGE_OFF", text)
    };
    app.people.as_ref().ok_or_else(missing)
}
