//! The page: people read the questions that wait, and answer them, in a browser.
//!
//! The server writes all of it. A script only refreshes the list, so that showing and answering work without one.

mod answer;
mod events;
mod form;
mod frame;
mod html;
mod login;
mod person;
mod question;
mod queue;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::app::App;
use crate::origin::PAGE;
use frame::{PageState, asset, redirect};
use person::people_of;

pub(crate) fn page_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(home))
        .route(PAGE, get(queue::show))
        .route("/page/queue", get(queue::list))
        .route("/page/events", get(events::follow))
        .route("/page/q/{id}", get(question::show))
        .route("/page/q/{id}/{answer}", post(answer::give))
        .route("/page/status", get(status::show))
        .route("/page/login", get(login::show).post(login::enter))
        .route("/page/logout", post(login::leave))
        .route("/page/style.css", get(style))
        .route("/page/script.js", get(script))
}

async fn home(State(app): PageState) -> Response {
    people_of(&app).map_or_else(IntoResponse::into_response, |_| redirect(PAGE))
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("page/style.css"))
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("page/script.js"))
}
