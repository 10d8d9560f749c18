//! Headers proved by a root, and helpers that runs and headers share.

use super::*;

pub(super) fn told(context: &PlanContext) -> Value {
    let (goal, session, version) = (context.goal(), context.session(), context.registry_version());
    json!({ "goal": goal, "session": session, "registry_version": version })
}

pub(super) fn header_text(plan: &CommittedPlan) -> String {
    plan.header_proof().unwrap().to_json()
}

/// A header proved by a root.
fn header(about: &str, expect: &str, change: impl FnOnce(String) -> String) -> Value {
    let plan = plan_of(steps());
    let text = change(header_text(&plan));
    json!({
        "description": about, "kind": "header", "root": plan.root(), "header_proof": text, "expect": expect,
    })
}

/// The header with one piece of its text replaced.
fn header_with(about: &str, expect: &str, from: &str, to: &str) -> Value {
    header(about, expect, |text| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    let plan = plan_of(steps());
    let new = Plan::new(context(), steps()).unwrap().amending(*plan.root(), 3).commit(&Anything).unwrap();
    let mut proved = header("the header of a plan of three steps, proved by the root", "ok", |text| text);
    proved["leaf"] = plan.header().to_json().into();
    let linked = header_text(&new);
    let mut amending = header("the header of an amendment", "ok", |_| linked);
    amending["root"] = json!(new.root());
    amending["leaf"] = new.header().to_json().into();
    vec![
        ("header", proved),
        (
            "header_other_spelling",
            header("the same header in another spelling", "ok", |text| text.replace(",\"", " ,\n\"")),
        ),
        ("header_of_an_amendment", amending),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    let other = plan_of(steps()[..2].to_vec());
    let path = |change: fn(&mut Vec<Value>)| {
        move |text: String| {
            let mut proof: Value = serde_json::from_str(&text).unwrap();
            change(proof["path"].as_array_mut().unwrap());
            proof.to_string()
        }
    };
    let unproved = "PLAN_HEADER_UNPROVED";
    let mut other_root = header("the root of another plan", unproved, |text| text);
    other_root["root"] = json!(other.root());
    let goal = Digest::of(b"goal").to_string();
    let amends = format!("{{\"amends\":{{\"position\":0,\"root\":\"{goal}\"}},\"goal\"");
    vec![
        ("header_other_root", other_root),
        (
            "header_other_goal",
            header_with("another goal", unproved, &goal, &Digest::of(b"other").to_string()),
        ),
        ("header_other_session", header_with("another session", unproved, "s-1", "s-2")),
        ("header_other_version", header_with("another registry", unproved, "_version\":7", "_version\":8")),
        (
            "header_more_steps",
            header_with("more steps than were committed", unproved, "\"steps\":3", "\"steps\":8"),
        ),
        (
            "header_fewer_steps",
            header_with(
                "fewer steps, among which the path is as long",
                unproved,
                "\"steps\":3",
                "\"steps\":2",
            ),
        ),
        ("header_made_an_amendment", header_with("a link that was added", unproved, "{\"goal\"", &amends)),
        (
            "header_hash_changed",
            header("another hash in the path", unproved, path(|path| path[0] = path[1].clone())),
        ),
        (
            "header_hashes_exchanged",
            header("the hashes the other way round", unproved, path(|path| path.reverse())),
        ),
        ("header_too_short", header("a hash left out", unproved, path(|path| drop(path.pop())))),
        ("header_too_long", header("a hash too many", unproved, path(|path| path.push(path[0].clone())))),
        (
            "header_hash_upper_case",
            header(
                "a hash in upper case",
                "PLAN_SHAPE",
                path(|path| {
                    path[0] = path[0].as_str().unwrap().to_uppercase().into();
                }),
            ),
        ),
        (
            "header_unknown_member",
            header_with(
                "a member beside header and path",
                "PLAN_SHAPE",
                ",\"path\"",
                ",\"index\":0,\"path\"",
            ),
        ),
        (
            "header_unknown_member_within",
            header_with(
                "a member that headers do not have",
                "PLAN_SHAPE",
                "{\"goal\"",
                "{\"approved\":true,\"goal\"",
            ),
        ),
        (
            "header_repeated_member",
            header_with(
                "the session twice, once behind an escape",
                "PLAN_JSON",
                "\"session\"",
                "\"s\\u0065ssion\":\"s-2\",\"session\"",
            ),
        ),
        ("header_other_recipe", header_with("another recipe", "PLAN_RECIPE", "plan-1", "plan-2")),
        (
            "header_goal_upper_case",
            header_with("the goal is no digest", "PLAN_ID", "\"goal\":\"", "\"goal\":\"A"),
        ),
        (
            "header_version_above_2_53",
            header_with(
                "a registry version that JSON does not tell",
                "PLAN_REGISTRY_VERSION",
                "_version\":7",
                "_version\":9007199254740992",
            ),
        ),
        ("header_no_steps", header_with("a plan without steps", "PLAN_EMPTY", "\"steps\":3", "\"steps\":0")),
        (
            "header_steps_text",
            header_with("the steps as a text", "PLAN_SHAPE", "\"steps\":3", "\"steps\":\"3\""),
        ),
    ]
}
