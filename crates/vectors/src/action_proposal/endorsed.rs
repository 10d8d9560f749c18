//! Endorsed files, for the arguments that the endorsement binds and for others.

use serde_json::{Value, json};

use super::files::{endorsed, for_acme};
use super::made::*;

const TIMES: [(&str, i64); 2] = [("issued", 1_769_857_200_000), ("expires", 1_769_947_200_000)];

/// The transfer of 500 to `acme` and its invoice, endorsed with these members under a profile.
fn under(profile: &str, entry: &Value) -> Value {
    changed(endorsed(entry), |vector| vector["profile"] = profile.into())
}

/// An entry with these bounds.
fn bound(bounds: &Value) -> Value {
    let mut entry = json!({ "bounds": bounds });
    for (name, time) in TIMES {
        entry[name] = time.into();
    }
    entry
}

/// An entry that binds the arguments with this canonical form.
fn exact(args: &str) -> Value {
    let mut entry = json!({ "args": sha256(args) });
    for (name, time) in TIMES {
        entry[name] = time.into();
    }
    entry
}

/// The same call with other arguments.
fn with_args(vector: Value, args: &Value) -> Value {
    changed(vector, |vector| {
        vector["proposal"]["action"]["args"] = args.clone();
        vector["call"]["args"] = args.clone();
    })
}

/// The same at another impact.
fn at_impact(vector: Value, impact: &str) -> Value {
    changed(vector, |vector| {
        vector["proposal"]["impact"] = impact.into();
        vector["call"]["impact"] = impact.into();
    })
}

pub(super) fn accepted() -> Vec<Case> {
    let nested = json!({"to": "acme", "amount": 500, "lines": [{"a/b": 1, "m~n": null}]});
    let places = bound(&json!([
        {"pointer": "/lines/0/a~1b", "equals": 1}, {"pointer": "/lines/0/m~0n", "equals": null},
        {"pointer": "/lines", "equals": [{"a/b": 1, "m~n": null}]},
    ]));
    let edges =
        bound(&json!([{"pointer": "/amount", "min": 500, "max": 500}, {"pointer": "/to", "equals": "acme"}]));
    let as_text = with_args(under("strict", &for_acme(&json!({}))), &json!({}));
    let as_text = changed(as_text, |vector| {
        vector["live_args_text"] = r#"{"to":"acme","amount":5.0e2}"#.into();
        vector["proposal"]["action"]["args"] = json!({"to": "acme", "amount": 500});
        vector["call"].as_object_mut().unwrap().remove("args");
    });
    vec![
        (
            "endorsed_for_exact_arguments",
            allowed(
                "the arguments are those that were signed",
                under("strict", &exact(r#"{"amount":500,"to":"acme"}"#)),
            ),
        ),
        ("endorsed_within_bounds", allowed("the least and the most are included", under("strict", &edges))),
        ("endorsed_number_in_another_spelling", allowed("1.0 and 1 are one number", as_text)),
        (
            "endorsed_places_with_escapes",
            allowed("escaped names, and a whole value", with_args(under("strict", &places), &nested)),
        ),
        ("endorsed_within_bounds_in_pic_0_9", allowed("in pic-0.9", under("pic-0.9", &edges))),
        ("endorsed_within_bounds_in_pic_0_8", allowed("in pic-0.8", under("pic-0.8", &edges))),
        (
            "endorsed_without_arguments_at_a_low_impact",
            allowed(
                "an entry that binds nothing counts at other impacts",
                changed(at_impact(under("strict", &json!({})), "write"), |vector| {
                    vector["high"] = json!(["write"]);
                }),
            ),
        ),
    ]
}

pub(super) fn refused() -> Vec<Case> {
    let fails = |about: &str, vector| blocked(about, "PIC_VERIFIER_FAILED", "/claims", vector);
    let at_most = bound(&json!([{"pointer": "/to", "equals": "acme"}, {"pointer": "/amount", "max": 500}]));
    let bounded = |about: &str, bounds: &Value| fails(about, under("strict", &bound(bounds)));
    let given =
        |about: &str, profile: &str, args: &Value| fails(about, with_args(under(profile, &at_most), args));
    let mut cases = Vec::new();
    for (slugs, profile) in [
        (["endorsed_without_arguments", "endorsed_for_a_smaller_amount"], "strict"),
        (["endorsed_without_arguments_in_pic_0_9", "endorsed_for_a_smaller_amount_in_pic_0_9"], "pic-0.9"),
        (["endorsed_without_arguments_in_pic_0_8", "endorsed_for_a_smaller_amount_in_pic_0_8"], "pic-0.8"),
    ] {
        let unbound = under(profile, &json!({"tools": ["payments_send"], "impacts": ["money"]}));
        cases.push((slugs[0], fails("it binds no arguments, and money is moved", unbound)));
        let more = json!({"to": "acme", "amount": 500.01});
        cases.push((slugs[1], given("more than was endorsed", profile, &more)));
    }
    cases.extend([
        (
            "endorsed_without_arguments_at_privacy",
            fails("it binds no arguments", at_impact(under("strict", &json!({})), "privacy")),
        ),
        (
            "endorsed_without_arguments_at_irreversible",
            fails("it binds no arguments", at_impact(under("strict", &json!({})), "irreversible")),
        ),
        (
            "endorsed_for_another_recipient",
            given("for another recipient", "strict", &json!({"to": "mallory", "amount": 500})),
        ),
        (
            "endorsed_amount_is_missing",
            given("the bound place is not there", "strict", &json!({"to": "acme"})),
        ),
        (
            "endorsed_amount_is_a_text",
            given("a text is no number", "strict", &json!({"to": "acme", "amount": "500"})),
        ),
        (
            "endorsed_recipient_is_a_list",
            given("the value stands in a list", "strict", &json!({"to": ["acme"], "amount": 500})),
        ),
        (
            "endorsed_for_other_exact_arguments",
            fails(
                "one more argument than was signed",
                with_args(
                    under("strict", &exact(r#"{"amount":500,"to":"acme"}"#)),
                    &json!({"to": "acme", "amount": 500, "memo": ""}),
                ),
            ),
        ),
        (
            "endorsed_for_a_text_like_the_number",
            bounded("a number is no text", &json!([{"pointer": "/amount", "equals": "500"}])),
        ),
        (
            "endorsed_for_no_less",
            bounded("less than the least", &json!([{"pointer": "/amount", "min": 500.01}])),
        ),
        (
            "endorsed_for_one_of_two_places",
            bounded(
                "every bound has to hold",
                &json!([{"pointer": "/to", "equals": "acme"}, {"pointer": "/iban", "equals": "DE02"}]),
            ),
        ),
        (
            "endorsed_until_now_for_the_arguments",
            fails(
                "until this very moment",
                under("strict", &for_acme(&json!({"expires": 1_769_860_800_000_i64}))),
            ),
        ),
    ]);
    cases
}
