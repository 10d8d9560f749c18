//! Logging in and out.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use countersign_host::error::HostError;
use countersign_host::time::now;

use super::form::Form;
use super::frame::{PageState, failed, redirect, shown, with_cookie};
use super::html::Html;
use super::person::{Person, people_of};
use crate::app::App;
use crate::origin::PAGE;
use crate::people::COOKIE_NAME;
use crate::problem::Problem;

pub(super) async fn show(State(app): PageState) -> Response {
    match people_of(&app) {
        Ok(_) => form(StatusCode::OK, None),
        Err(problem) => failed(&problem, None),
    }
}

fn form(status: StatusCode, problem: Option<&Problem>) -> Response {
    let mut html = Html::default();
    html.raw("<h1>Log in</h1>");
    if let Some(problem) = problem {
        html.raw("<p role=\"alert\" class=\"alert\">").text(problem.detail()).raw("</p>");
    }
    html.raw("<form method=\"post\" action=\"/page/login\" class=\"stack\"><label for=\"name\">Name</label>")
        .raw("<input id=\"name\" name=\"name\" autocomplete=\"username\" autocapitalize=\"none\" required autofocus>")
        .raw("<label for=\"password\">Password</label><input id=\"password\" name=\"password\" type=\"password\" ")
        .raw("autocomplete=\"current-password\" required><button class=\"main\">Log in</button></form>");
    shown(status, "Log in", None, &html)
}

pub(super) async fn enter(State(app): PageState, given: Result<Form, Problem>) -> Response {
    let given = match given {
        Ok(given) => given,
        Err(problem) => return failed(&problem, None),
    };
    let at = Arc::clone(&app);
    let entered = app.slots.run(move || begin(&at, &given)).await;
    match entered {
        Ok(value) => {
            let cookie = format!("{COOKIE_NAME}={value}; Path=/page; HttpOnly; SameSite=Strict");
            with_cookie(redirect(PAGE), &cookie)
        }
        Err(problem) => form(problem.status(), Some(&problem)),
    }
}

fn begin(app: &App, given: &Form) -> Result<String, Problem> {
    let people = people_of(app)?;
    let fault = |error: HostError| Problem::fault(&error, &app.reporter);
    let name = given.field("name");
    // why: made-up names must not fill the memory, nor have more attempts than a known one.
    let counted = if people.users.has(name) { name } else { "" };
    people.logins.attempt(counted, now().map_err(fault)?)?;
    let user = people
        .users
        .find(name, given.field("password"))
        .ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "LOGIN_WRONG", "name or password is wrong"))?;
    people.logins.forgive(counted);
    people.logins.begin(user).map_err(fault)
}

pub(super) async fn leave(
    State(app): PageState,
    headers: HeaderMap,
    Person(login): Person,
    given: Result<Form, Problem>,
) -> Response {
    let checked = given.and_then(|given| login.check(given.field("csrf")));
    match (checked, people_of(&app)) {
        (Ok(()), Ok(people)) => {
            people.logins.end(&headers);
            let gone = format!("{COOKIE_NAME}=; Path=/page; HttpOnly; SameSite=Strict; Max-Age=0");
            with_cookie(redirect("/page/login"), &gone)
        }
        (Err(problem), _) | (_, Err(problem)) => failed(&problem, Some(&login)),
    }
}
