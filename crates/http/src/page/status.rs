//! The second view: acceptance rates of agents, recent decisions, and the state of registry and record.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{PageState, shown, worked};
use super::html::Html;
use super::person::Person;
use crate::app::App;
use crate::read_logs::{AgentConduct, HOUR_MS, HOURS, RecordedConduct, hour_of};

pub(super) async fn show(State(app): PageState, Person(login): Person) -> Response {
    worked(app, login, |app, login| {
        let mut html = Html::default();
        html.raw("<h1>Status</h1>").html(&registry(app));
        if let Some(failed) = app.notices.failed().filter(|failed| *failed > 0) {
            html.raw("<p role=\"alert\" class=\"alert\">The webhook was not given ");
            html.text(&format!("{failed} notices since the start.")).raw("</p>");
        }
        let read =
            app.config.record_folder().map_or(Ok(None), |folder| app.read_logs.read(&folder).map(Some));
        match read {
            Ok(Some(past)) => html.html(&past.shown(app.config.alarm_line())),
            Ok(None) => html.raw("<h2>Agents</h2><p>There is no record yet.</p>"),
            Err(error) => {
                app.reporter.warn_of(&error);
                html.raw(
                    "<h2>Agents</h2><p role=\"alert\" class=\"alert\">The record cannot be shown: <code>",
                );
                html.text(error.code()).raw("</code></p>")
            }
        };
        Ok(shown(StatusCode::OK, "Status", Some(login), &html))
    })
    .await
}

fn registry(app: &App) -> Html {
    let mut html = Html::default();
    html.raw("<h2>Registry</h2>");
    match app.look.look(&app.config) {
        Ok((now, registry)) => {
            let view = registry.view();
            let snapshot = view.snapshot();
            let age = now.since(snapshot.issued()).as_millis() / HOUR_MS;
            html.raw("<dl>").row("Version", &snapshot.version().to_string());
            html.row("Issued", &format!("{} ({age} h ago)", snapshot.issued()));
            let left = if now >= snapshot.expires() { " (expired: every call is refused)" } else { "" };
            html.row("Expires", &format!("{}{left}", snapshot.expires())).raw("</dl>");
        }
        Err(error) => {
            html.raw("<p role=\"alert\" class=\"alert\">The registry does not verify: <code>");
            html.text(error.code()).raw("</code></p>");
        }
    }
    html
}

impl RecordedConduct {
    fn shown(&self, alarm_line: f64) -> Html {
        let mut html = Html::default();
        html.raw("<h2>Record</h2><dl>").row("Logs", &self.logs.to_string());
        html.row("Entries", &self.entries.to_string());
        html.row("Last entry", &self.last.map_or_else(|| "none".to_owned(), |last| last.to_string()));
        html.raw("</dl><h2>Agents</h2><p class=\"small\">Share of accepted calls by hour, over 24 hours. ");
        html.text(&format!("The dashed line is the alarm's: {:.0} %.", alarm_line * 100.0)).raw("</p>");
        for (agent, past) in &self.agents {
            html.html(&past.shown(agent, alarm_line, self.now.map_or(0, hour_of)));
        }
        if self.agents.is_empty() {
            html.raw("<p>The record has no decision.</p>");
        }
        html.raw("<h2>Recent decisions</h2><div class=\"wide\" tabindex=\"0\" role=\"region\" ")
            .raw("aria-label=\"Recent decisions\"><table><thead><tr><th scope=\"col\">Time</th>")
            .raw("<th scope=\"col\">Agent</th><th scope=\"col\">Tool</th><th scope=\"col\">Answer</th>")
            .raw("<th scope=\"col\">Reason</th></tr></thead><tbody>");
        for call in self.recent.iter().rev() {
            let tool = format!("{}:{}", call.tool.server.as_str(), call.tool.name.as_str());
            let answer = call.code.as_ref().map_or("accepted", |code| code.as_str());
            let reason = call.reason.as_ref().map_or("", |reason| reason.as_str());
            let cells = [&call.time.to_string(), call.agent.as_str(), &tool, answer, reason];
            html.raw("<tr>");
            for cell in cells {
                html.raw("<td>").text(cell).raw("</td>");
            }
            html.raw("</tr>");
        }
        html.raw("</tbody></table></div>");
        html
    }
}

impl AgentConduct {
    /// `this` is the present hour.
    fn shown(&self, agent: &str, alarm_line: f64, this: u64) -> Html {
        let first = this.saturating_sub(HOURS.saturating_sub(1));
        let (yes, all) = self
            .hours
            .range(first..)
            .map(|(_, counts)| counts)
            .fold((0_u64, 0_u64), |(yes, all), (more_yes, more)| {
                (yes.saturating_add(*more_yes), all.saturating_add(*more))
            });
        let words = match share(yes, all) {
            Some(share) => format!("{:.0} % of {all} calls accepted", share * 100.0),
            None => "no call".to_owned(),
        };
        let mut html = Html::default();
        html.raw("<h3>").text(agent).raw("</h3><p>").text(&words);
        html.text(&format!(" in 24 hours; {} attempts at undisclosed tools", self.undisclosed)).raw("</p>");
        html.raw("<svg viewBox=\"0 0 240 60\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
        html.text(&format!("Acceptance rate of {agent} by hour: {words}")).raw("\">");
        let y = |share: f64| 58.0 - share * 56.0;
        let line = y(alarm_line);
        html.raw("<line class=\"alarm\" x1=\"0\" x2=\"240\" y1=\"").text(&format!("{line:.1}"));
        html.raw("\" y2=\"").text(&format!("{line:.1}")).raw("\"/><polyline class=\"rate\" points=\"");
        for hour in (0..HOURS).rev() {
            let at = this.saturating_sub(hour);
            let Some(share) = self.hours.get(&at).and_then(|(yes, all)| share(*yes, *all)) else {
                continue;
            };
            // Both ends of the hour, so that a single hour is a line too.
            let x = (HOURS.saturating_sub(1).saturating_sub(hour)).saturating_mul(10);
            html.text(&format!("{x},{0:.1} {1},{0:.1} ", y(share), x.saturating_add(10)));
        }
        html.raw("\"/></svg>");
        html
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share on a screen")]
fn share(yes: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| yes as f64 / all as f64)
}
