//! The list of questions that wait.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use countersign_approval_token::{PendingApproval, PendingApprovals as _};
use countersign_core::Timestamp;
use countersign_host::error::HostError;
use countersign_host::escape::shown_line;
use countersign_host::questions::{QuestionQueue, WaitingPlan};
use countersign_host::time::now;

use super::frame::{PageState, guarded, shown, worked};
use super::html::Html;
use super::person::Person;
use crate::answers::problem;
use crate::app::App;
use crate::problem::Problem;

pub(super) async fn show(State(app): PageState, Person(login): Person) -> Response {
    worked(app, login, |app, login| {
        let mut html = Html::default();
        html.raw("<h1>Questions that wait</h1><div id=\"queue\" aria-live=\"polite\">");
        html.html(&listed(app)?).raw("</div>");
        Ok(shown(StatusCode::OK, "Questions", Some(login), &html))
    })
    .await
}

/// Answers with the list alone, for the script.
pub(super) async fn list(State(app): PageState, Person(login): Person) -> Response {
    worked(app, login, |app, _| {
        let list = listed(app)?.into_text();
        Ok(guarded(Response::new(Body::from(list)), "text/html; charset=utf-8"))
    })
    .await
}

fn listed(app: &App) -> Result<Html, Problem> {
    let rows = rows(app).map_err(|error| problem(app, &error))?;
    let mut html = Html::default();
    if rows.is_empty() {
        html.raw("<p>Nothing waits for an answer.</p>");
        return Ok(html);
    }
    html.raw("<ul class=\"queue\">");
    for (pending, short, now) in &rows {
        let binding = pending.binding();
        let what = WaitingPlan::of(pending).map_or_else(|| binding.tool.to_string(), |plan| plan.title());
        html.raw("<li><a href=\"/page/q/")
            .text(&path_text(pending.id().as_str()))
            .raw("\"><strong>")
            .text(&what);
        html.raw("</strong> <span class=\"excerpt\">")
            .spelled(&excerpt(&shown_line(pending.args())))
            .raw("</span><span class=\"small\">");
        let agent = binding.agent.as_ref().map_or_else(String::new, ToString::to_string);
        html.text(short).raw(" \u{b7} ").text(&agent).raw(" for ").text(binding.principal.as_str());
        html.raw(" \u{b7} ").text(&left(pending, *now)).raw("</span></a></li>");
    }
    html.raw("</ul>");
    Ok(html)
}

fn rows(app: &App) -> Result<Vec<(PendingApproval, String, Timestamp)>, HostError> {
    let now = now()?;
    let Some(queue) = QuestionQueue::open(&app.config)? else { return Ok(Vec::new()) };
    let waiting = queue.store().list(now)?;
    let row = |pending: PendingApproval| {
        let short = queue.store().short_id(pending.id(), now)?;
        Ok((pending, short, now))
    };
    waiting.into_iter().map(row).collect()
}

/// Most characters of the arguments in the list.
const EXCERPT: usize = 120;

/// Beginning of the arguments, so that calls that look alike can be told apart.
fn excerpt(args: &str) -> String {
    let mut text: String = args.chars().take(EXCERPT).collect();
    if text.len() < args.len() {
        text.push('\u{2026}');
    }
    text
}

/// Time that is left, in words.
pub(super) fn left(pending: &PendingApproval, now: Timestamp) -> String {
    match pending.expires().since(now).as_millis() / 1_000 {
        0 => "expired".to_owned(),
        seconds @ 1..=119 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds / 60),
    }
}

/// Percent-encodes an id for a path. Ids of plans' steps contain `/`.
pub(super) fn path_text(id: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    id.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{excerpt, path_text};

    #[test]
    fn id_in_a_path_is_percent_encoded() {
        assert_eq!(path_text("k3f9/step 1\u{e9}"), "k3f9%2Fstep%201%C3%A9");
    }

    #[test]
    fn long_arguments_are_cut_in_the_list() {
        assert_eq!(excerpt("{}"), "{}");
        assert_eq!(excerpt(&"\u{e9}".repeat(121)).chars().count(), 121);
    }
}
