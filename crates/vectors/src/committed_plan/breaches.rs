//! Breaches of a plan that tolerates some of them.

use super::roots::{Run, amendment, check, with, without};
use super::*;

/// A run of a plan that is halted by breach number `breaches`.
fn of(breaches: u32, run: Run, about: &str) -> Value {
    with(run.case(about), "breaches", breaches)
}

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    let new = amendment(context(), plan_of(steps()).root(), 1);
    vec![
        (
            "root_breach_refused",
            of(
                2,
                Run::new()
                    .refused(check(2, SEARCH), "PLAN_STEP_MISMATCH", Some("other-tool"), 0)
                    .runs(1, SEARCH, 0)
                    .runs(3, SEND, 1),
                "a call that is not the next one is refused, and the next one passes",
            ),
        ),
        (
            "root_breaches_of_others_do_not_count",
            of(
                1,
                Run::new()
                    .refused(
                        with(check(1, SEARCH), "registry_version", 8),
                        "PLAN_REQUIRED",
                        Some("other-registry"),
                        0,
                    )
                    .ok(check(1, SEARCH), 0)
                    .refused(check(2, SEARCH), "PLAN_OUT_OF_ORDER", Some("busy"), 0)
                    .ok(serde_json::json!({ "do": "accept" }), 1),
                "another registry and another call's turn are no breaches",
            ),
        ),
        (
            "root_breach_amended",
            of(
                2,
                Run::new()
                    .runs(1, SEARCH, 0)
                    .refused(check(2, SEARCH), "PLAN_STEP_MISMATCH", Some("other-tool"), 1)
                    .amended(&new, 1),
                "a plan that outlived a breach can be amended",
            ),
        ),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    let new = amendment(context(), plan_of(steps()).root(), 1);
    let no_proof = || without(check(1, SEARCH), "proof");
    vec![
        (
            "root_last_breach",
            of(
                2,
                Run::new()
                    .refused(check(2, SEARCH), "PLAN_STEP_MISMATCH", Some("other-tool"), 0)
                    .runs(1, SEARCH, 0)
                    .halts(no_proof(), "PLAN_STEP_MISMATCH", "no-proof", 1)
                    .refused(check(2, REFUND), "PLAN_HALTED", Some("no-proof"), 1),
                "the second of two breaches halts",
            ),
        ),
        (
            "root_last_breach_after_an_amendment",
            of(
                2,
                Run::new()
                    .runs(1, SEARCH, 0)
                    .refused(check(2, SEARCH), "PLAN_STEP_MISMATCH", Some("other-tool"), 1)
                    .amended(&new, 1)
                    .halts(check(2, REFUND), "PLAN_STEP_MISMATCH", "leaf", 0),
                "breaches are counted over amendments",
            ),
        ),
    ]
}
