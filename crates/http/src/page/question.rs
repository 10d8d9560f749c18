//! One question on one screen: the shown call is the signed one.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use countersign_approval_token::{DenialReason, PendingApproval, PendingApprovals as _};
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::Timestamp;
use countersign_host::error::HostError;
use countersign_host::escape::{shown_json, shown_line, spelled};
use countersign_host::questions::{ArgChange, QuestionContext, QuestionQueue, WaitingPlan, proposal_lines};
use countersign_host::time::now;

use super::frame::{PageState, shown, worked};
use super::html::{Html, csrf_field};
use super::person::Person;
use super::queue::{left, path_text};
use crate::answers::problem;
use crate::app::App;
use crate::path_id::PathId;
use crate::people::Login;
use crate::problem::Problem;

/// Characters of a value that are shown before the rest is folded.
const FOLD: usize = 600;

/// Longest arguments, in bytes, that can be edited here: a form has 64 KiB, and a byte can take three.
const MAX_EDITABLE: usize = 16 << 10;

pub(super) async fn show(
    State(app): PageState,
    Person(login): Person,
    id: Result<PathId, Problem>,
) -> Response {
    worked(app, login, |app, login| {
        let PathId(typed) = id?;
        let found = found(app, &typed).map_err(|error| problem(app, &error))?;
        Ok(shown(StatusCode::OK, &found.title, Some(login), &screen(&found, login)))
    })
    .await
}

/// A question with all that the screen shows.
struct FoundQuestion {
    title: String,
    pending: PendingApproval,
    state: &'static str,
    context: QuestionContext,
    denial: Option<(String, Option<String>)>,
    args: Canonical,
    now: Timestamp,
}

fn found(app: &App, typed: &str) -> Result<FoundQuestion, HostError> {
    let now = now()?;
    let queue = QuestionQueue::open(&app.config)?.ok_or_else(QuestionQueue::unknown)?;
    let (pending, state) = queue.get(&queue.find(typed, false, now)?)?;
    let (store, binding) = (queue.store(), pending.binding());
    let state = queue.state(&pending, &state, now)?;
    let denial = store.find_denied(binding, now)?;
    let denial = denial
        .map(|it| (it.by.to_string(), it.reason.as_ref().map(|it| DenialReason::as_str(it).to_owned())));
    let title = WaitingPlan::of(&pending).map_or_else(|| binding.tool.to_string(), |plan| plan.title());
    Ok(FoundQuestion {
        title,
        context: queue.context(&pending)?,
        denial,
        args: read(pending.args().as_bytes(), Recipe::Jcs1, &Limits::hard_caps())?,
        state,
        pending,
        now,
    })
}

fn screen(found: &FoundQuestion, login: &Login) -> Html {
    let FoundQuestion { pending, state, .. } = found;
    let binding = pending.binding();
    let mut html = Html::default();
    html.raw("<h1>").text(&found.title).raw("</h1>");
    let is_waiting = *state == "waiting";
    html.raw("<p class=\"small\" role=\"status\">");
    if is_waiting {
        html.text("waits for an answer, ").text(&left(pending, found.now));
    } else {
        html.text(state);
    }
    if let Some((by, reason)) = &found.denial {
        html.raw(", denied by ").text(by);
        if let Some(reason) = reason {
            html.raw(": \u{201c}").text(reason).raw("\u{201d}");
        }
    }
    html.raw("</p>");
    html.raw("<dl>").row("For", binding.principal.as_str());
    if let Some(agent) = &binding.agent {
        html.row("Agent", agent.as_str());
    }
    if let Some(goal) = &found.context.goal {
        html.row("Goal", goal);
    }
    if let Some(tool) = &found.context.tool {
        html.row("Impact", tool.impact.as_str());
        if let Some(description) = &tool.description {
            html.raw("<div><dt>Tool, as signed</dt><dd>").html(&folded(description)).raw("</dd></div>");
        }
    }
    html.raw("</dl>");
    match WaitingPlan::of(pending) {
        Some(plan) => {
            html.raw("<h2>Steps</h2><pre>").spelled(&plan.describe()).raw("</pre>");
        }
        None => {
            html.raw("<h2>Arguments</h2>").html(&arguments(found));
        }
    }
    if let Some(edited) = pending.edited_text() {
        html.raw("<h2>Approved with other arguments</h2>").html(&folded(&shown_json(edited)));
    }
    if let Some(lines) = pending.proposal().map(proposal_lines) {
        html.raw("<h2>Why the agent asks</h2><pre>").spelled(lines.trim_start()).raw("</pre>");
    }
    if is_waiting {
        html.html(&forms(pending, login));
    }
    html.html(&bindings(pending)).raw("<p><a href=\"/page\">To the questions that wait</a></p>");
    html
}

/// Each argument in a row. What differs from the call that was approved last is marked.
fn arguments(found: &FoundQuestion) -> Html {
    let changes = found.context.changes(&found.pending);
    let mut html = Html::default();
    let mut args = found.args.value().members().peekable();
    if args.peek().is_none() {
        html.raw("<p>none</p>");
    }
    html.raw("<dl class=\"arguments\">");
    for (name, value) in args {
        html.raw("<div><dt>").spelled(&shown_text(name));
        if let Some(change) = changes.as_ref().and_then(|changes| changes.get(name)) {
            html.raw(" <em>").text(change.word()).raw("</em>");
        }
        html.raw("</dt><dd>").html(&folded(&shown_json(&value.canonical_text()))).raw("</dd></div>");
    }
    html.raw("</dl>");
    if let Some(changes) = changes {
        let gone = changes.iter().filter(|(_, change)| **change == ArgChange::Missing);
        let gone: Vec<_> = gone.map(|(name, _)| shown_text(name)).collect();
        html.raw("<p class=\"small\">Compared with the last approved call of this tool for the same person.");
        if !gone.is_empty() {
            html.raw(" Missing now: ").spelled(&gone.join(", ")).raw(".");
        }
        html.raw("</p>");
    }
    html
}

/// A name without the quotation marks of its JSON.
fn shown_text(name: &str) -> String {
    let quoted = spelled(name);
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(&quoted).to_owned()
}

/// A value on the screen. The rest of a long one is folded, and never left out.
fn folded(text: &str) -> Html {
    let mut html = Html::default();
    let Some((at, _)) = text.char_indices().nth(FOLD) else {
        html.raw("<pre>").spelled(text).raw("</pre>");
        return html;
    };
    let (head, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    html.raw("<pre>").spelled(head).raw("</pre><details><summary>");
    html.text(&format!("{} more characters", rest.chars().count())).raw("</summary><pre>").spelled(rest);
    html.raw("</pre></details>");
    html
}

fn forms(pending: &PendingApproval, login: &Login) -> Html {
    let mut html = Html::default();
    let begin = |html: &mut Html, verb: &'static str| {
        html.raw("<form method=\"post\" class=\"stack\" action=\"/page/q/");
        html.text(&path_text(pending.id().as_str())).raw("/").raw(verb).raw("\">").html(&csrf_field(login));
        html.raw("<input type=\"hidden\" name=\"args\" value=\"")
            .text(&pending.binding().args.to_string())
            .raw("\">");
    };
    html.raw("<section class=\"answers\" aria-label=\"Your answer\">");
    begin(&mut html, "deny");
    html.raw("<label for=\"reason\">Reason for a denial, which the agent reads (optional)</label>")
        .raw("<input id=\"reason\" name=\"reason\" maxlength=\"200\" autocomplete=\"off\">")
        .raw("<button class=\"deny\" autofocus>Deny</button></form>");
    if pending.needs_approval() {
        begin(&mut html, "approve");
        html.raw("<button class=\"main\">Approve exactly this, once</button></form>");
    } else {
        html.raw("<p>This call lacks evidence. A person with a signing key attests to it: <code>countersign attest ");
        html.text(pending.id().as_str()).raw("</code></p>");
    }
    if pending.takes_edits() && pending.args().len() <= MAX_EDITABLE {
        html.raw("<details><summary>Approve with other arguments</summary>");
        begin(&mut html, "edit");
        html.raw(
            "<label for=\"edited\">Arguments as a JSON object. The gate decides the call anew with them, ",
        )
        .raw("and the agent gets the arguments that ran</label>")
        .raw("<textarea id=\"edited\" name=\"edited\" rows=\"8\" spellcheck=\"false\" required>")
        .text(&shown_json(pending.args()))
        .raw("</textarea><button>Approve as edited, once</button></form></details>");
    }
    if pending.takes_grants() && pending.evidence().is_none() {
        html.raw("<details><summary>Grant several calls like this one</summary>");
        begin(&mut html, "grant");
        html.raw("<label for=\"uses\">Number of calls, this one included (1 to 100)</label>")
            .raw("<input id=\"uses\" name=\"uses\" inputmode=\"numeric\" value=\"5\" required>")
            .raw("<label for=\"ttl\">For how long (such as 30m or 8h)</label>")
            .raw("<input id=\"ttl\" name=\"ttl\" value=\"1h\" required>")
            .raw("<label for=\"where\">Conditions on the arguments, as a JSON list of constraints; ")
            .raw("empty for exactly these arguments</label>")
            .raw("<textarea id=\"where\" name=\"where\" rows=\"3\" spellcheck=\"false\"></textarea>")
            .raw("<button>Grant</button></form></details>");
    }
    html.raw("</section>");
    html
}

/// Every fact that an approval binds, and the text whose digest it signs.
fn bindings(pending: &PendingApproval) -> Html {
    let binding = pending.binding();
    let mut html = Html::default();
    html.raw("<details><summary>All that an approval binds</summary><dl>")
        .row("call", binding.call_id.as_str())
        .row("tool", &binding.tool.to_string())
        .row("arguments (sha-256)", &binding.args.to_string());
    let optional = [
        ("session", binding.session.as_ref().map(ToString::to_string)),
        ("goal (sha-256)", binding.ask.as_ref().map(ToString::to_string)),
        ("plan (root)", binding.plan.as_ref().map(ToString::to_string)),
        ("definition (sha-256)", binding.definition.as_ref().map(ToString::to_string)),
        ("registry version", binding.registry_version.as_ref().map(ToString::to_string)),
        ("gate", binding.audience.as_ref().map(ToString::to_string)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            html.row(name, &value);
        }
    }
    html.row("requested", &pending.requested().to_string()).row("expires", &pending.expires().to_string());
    html.raw(
        "</dl><p class=\"small\">The canonical text of the arguments. Its SHA-256 is the digest above, ",
    )
    .raw("unless invisible characters are escaped here.</p><pre>")
    .spelled(&shown_line(pending.args()))
    .raw("</pre></details>");
    html
}

#[cfg(test)]
mod tests {
    use super::shown_text;

    #[test]
    fn name_keeps_its_own_quotation_marks() {
        assert_eq!(shown_text("to"), "to");
        assert_eq!(shown_text("\"to\""), "\\\"to\\\"");
        assert_eq!(shown_text("\""), "\\\"");
        assert_eq!(shown_text("a\u{202e}b"), "a\\u202eb");
        assert_eq!(shown_text(""), "");
    }
}
