//! Accepted proposals. The refused ones are one step away from them.

use countersign::core::Digest;
use serde_json::{Value, json};

use super::files::{endorsed, for_acme, hash};
use super::keys::{armoured, digits};
use super::made::*;

pub(super) fn accepted() -> Vec<Case> {
    let mut cases = strict_ones();
    cases.extend(reference_ones());
    cases
}

/// Two attestations over one proposal, each for an input that a claim cites.
pub(super) fn twice_signed(impact: &str) -> Value {
    let both = changed(transfer(), |proposal| {
        proposal["impact"] = impact.into();
        proposal["claims"][0]["evidence"] = json!(["invoice", "mail"]);
    });
    signed_by(signed_by(both, "invoice", &cfo(), "cfo-1"), "mail", &cto(), "cto-1")
}

/// The transfer as a mere `write`.
pub(super) fn low_transfer() -> Value {
    changed(transfer(), |proposal| proposal["impact"] = "write".into())
}

fn strict_ones() -> Vec<Case> {
    let respelled = serde_json::to_string_pretty(&attestation(&transfer(), "invoice", "cfo-1")).unwrap();
    let signed = canonical(&attestation(&transfer(), "invoice", "cfo-1"));
    let ask = sha256("ask");
    let plan = sha256("plan");
    vec![
        ("attested_transfer", allowed("an attestation that binds everything", strict(good()))),
        (
            "args_respelled",
            allowed(
                "the call spells the same arguments otherwise",
                changed(strict(good()), |vector| {
                    without(&mut vector["call"], "args");
                    vector["live_args_text"] = r#" {"to":"\u0061cme", "__pic": {}, "amount":5e2} "#.into();
                }),
            ),
        ),
        (
            "payload_respelled",
            allowed(
                "the payload is spelled with blanks and signed in canonical form",
                strict(with_entry(transfer(), entry("invoice", &respelled, &signed, &cfo(), "cfo-1"))),
            ),
        ),
        (
            "goal_and_plan",
            allowed(
                "the pinned goal and the committed plan are bound",
                changed(
                    strict(attested(|object| {
                        object["x_ask"] = ask.clone().into();
                        object["x_plan_root"] = plan.clone().into();
                    })),
                    |vector| {
                        vector["call"]["ask"] = ask.clone().into();
                        vector["call"]["plan"] = plan.clone().into();
                    },
                ),
            ),
        ),
        ("low_impact", allowed("a look at something needs no ceremony", strict(look()))),
        (
            "unbound",
            allowed(
                "looked at outside of any call, nothing is asked of a call",
                changed(strict(look()), |vector| {
                    without(vector, "call");
                }),
            ),
        ),
        (
            "more_than_the_operator_says",
            allowed(
                "the proposal says worse of the call than the operator",
                changed(strict(twice_signed("irreversible")), |vector| {
                    vector["call"]["impact"] = "money".into();
                }),
            ),
        ),
        (
            "two_keys_of_two",
            allowed(
                "as many keys as the keyring asks for",
                changed(strict(twice_signed("irreversible")), |vector| {
                    vector["embedded_keyring"]["thresholds"] = json!({"irreversible": 2});
                }),
            ),
        ),
        (
            "scoped_key",
            allowed(
                "a key within its scope and its time",
                changed(strict(good()), |vector| {
                    vector["embedded_keyring"] = scoped(&json!({
                        "not_before": NOW, "expires_at": "2026-01-31T13:00:00.001+01:00",
                        "tools": ["payments_send"], "impacts": ["money", "irreversible"], "principals": ["alice"],
                    }));
                }),
            ),
        ),
        (
            "last_moment",
            allowed(
                "a millisecond before the end, to the end of the day that it may be old",
                changed(
                    strict(attested(|object| {
                        object["issued_at"] = "2026-01-30T12:00:00Z".into();
                        object["expires_at"] = "2026-01-31T13:00:00.001+01:00".into();
                    })),
                    |_| (),
                ),
            ),
        ),
        (
            "issued_ahead_within_skew",
            allowed(
                "issued by a clock that runs as far ahead as it may",
                strict(attested(|object| {
                    object["issued_at"] = "2026-01-31T12:00:05Z".into();
                })),
            ),
        ),
        (
            "keys_in_other_spellings",
            allowed(
                "hexadecimal digits and PEM",
                changed(strict(twice_signed("money")), |vector| {
                    vector["embedded_keyring"] = json!({"trusted_keys": {
                        "cfo-1": format!("0x{}", digits(&cfo())),
                        "cto-1": armoured(&cto()),
                    }});
                }),
            ),
        ),
        ("endorsed_file", allowed("a file whose digest an operator signed", endorsed(&for_acme(&json!({}))))),
        (
            "endorsed_file_in_scope",
            allowed(
                "a file whose digest an operator signed for this",
                endorsed(&for_acme(&json!({
                    "tools": ["payments_send"], "impacts": ["money"], "principals": ["alice"],
                }))),
            ),
        ),
        (
            "endorsed_file_for_a_server",
            allowed(
                "a file whose digest an operator signed for this server",
                endorsed(&for_acme(&json!({"servers": ["bank"]}))),
            ),
        ),
        (
            "attested_beside_a_file",
            allowed(
                "an attestation that names the file beside it",
                strict(signed_by(
                    with_entry(transfer(), hash("invoice-scan", "file://invoice.txt")),
                    "invoice",
                    &cfo(),
                    "cfo-1",
                )),
            ),
        ),
        (
            "threshold_of_one_at_a_low_impact",
            allowed(
                "a stated threshold of one, and one who signed",
                changed(strict(signed_by(low_transfer(), "invoice", &cfo(), "cfo-1")), |vector| {
                    vector["embedded_keyring"]["thresholds"] = json!({"write": 1});
                }),
            ),
        ),
        (
            "listed_by_the_policy",
            allowed(
                "the policy lists the tool, with the same impact",
                changed(strict(good()), |vector| {
                    without(&mut vector["call"], "impact");
                    vector["options"]["policy"] = json!({"impact_by_tool": {"payments_send": "money"}});
                }),
            ),
        ),
        (
            "no_proposal_where_none_is_needed",
            allowed(
                "a call with a low impact, and no proposal",
                changed(strict(look()), |vector| {
                    without(vector, "proposal");
                    vector["mode"] = "core".into();
                    vector["live_args"] = json!({"q": "hours"});
                }),
            ),
        ),
        (
            "numbers_round",
            allowed(
                "a fraction is the nearest double, on both sides",
                changed(
                    strict(changed(look(), |proposal| proposal["action"]["args"] = json!({"q": 0.3}))),
                    |vector| {
                        without(&mut vector["call"], "args");
                        vector["live_args_text"] = r#"{"q":0.30000000000000001}"#.into();
                    },
                ),
            ),
        ),
    ]
}

fn reference_ones() -> Vec<Case> {
    let few = |object: &mut Value| {
        for name in ["intent_digest", "audience", "issued_at", "expires_at", "x_call_id", "x_nonce"] {
            without(object, name);
        }
        object["note"] = "anything".into();
    };
    let opaque = with_entry(transfer(), entry("invoice", "I approve", "I approve", &cfo(), "cfo-1"));
    let hashed = with_entry(transfer(), hash("invoice", "file://invoice.txt"));
    let claimed = changed(transfer(), |proposal| proposal["provenance"][0]["trust"] = "trusted".into());
    let bad = with_entry(
        look(),
        changed(hash("invoice", "file://invoice.txt"), |entry| {
            entry["sha256"] = Digest::of(b"other").to_string().into();
        }),
    );
    vec![
        (
            "few_members",
            allowed("pic-0.9 asks for less, and takes a note that it does not know", pic09(attested(few))),
        ),
        ("opaque_payload", allowed("pic-0.9 takes a signature over any text", pic09(opaque))),
        (
            "end_is_now",
            allowed(
                "pic-0.9 lets the last moment itself pass where there is no nonce",
                pic09(attested(|object| {
                    without(object, "x_nonce");
                    object["expires_at"] = NOW.into();
                })),
            ),
        ),
        (
            "hash_of_low_impact",
            allowed(
                "a file that matches, and nothing that needs trust",
                pic09(with_entry(look(), hash("invoice", "file://invoice.txt"))),
            ),
        ),
        (
            "hash_raises_trust_in_0_8",
            allowed("in pic-0.8 a file that matches raises trust", base("pic-0.8", hashed)),
        ),
        (
            "trust_as_claimed",
            allowed(
                "pic-0.9 where the operator takes trust as claimed",
                changed(pic09(claimed.clone()), |vector| {
                    vector["mode"] = "core".into();
                    vector["options"]["verify_evidence"] = false.into();
                    vector["options"]["strict_trust"] = false.into();
                }),
            ),
        ),
        ("trust_as_claimed_in_0_8", allowed("pic-0.8 takes trust as claimed", base("pic-0.8", claimed))),
        (
            "evidence_not_looked_at",
            allowed(
                "pic-0.9 where the operator does not look at evidence",
                changed(pic09(bad), |vector| {
                    vector["mode"] = "core".into();
                    vector["options"]["verify_evidence"] = false.into();
                }),
            ),
        ),
    ]
}
