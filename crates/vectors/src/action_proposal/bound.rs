//! Proposals refused because they are for another tool, arguments, impact or call, or because nothing backs them.

use serde_json::{Value, json};

use super::accepted::{low_transfer, twice_signed};
use super::files::{endorsed, for_acme, hash};
use super::made::*;

pub(super) fn refused() -> Vec<Case> {
    let mut cases = calls();
    cases.extend(members());
    cases.extend(times());
    cases.extend(facts());
    cases.extend(payloads());
    cases.extend(trust());
    cases.extend(files_beside());
    cases
}

fn calls() -> Vec<Case> {
    let tool = |about: &str, name: &str| {
        let vector = changed(strict(good()), |vector| vector["call"]["tool"] = name.into());
        blocked(about, "PIC_TOOL_BINDING_MISMATCH", "/action/tool", vector)
    };
    let args = |about: &str, args: Value| {
        let vector = changed(strict(good()), |vector| vector["call"]["args"] = args);
        blocked(about, "PIC_ARG_BINDING_MISMATCH", "/action/args", vector)
    };
    let unreadable = changed(pic09(good()), |vector| {
        without(&mut vector["call"], "args");
        vector["live_args_text"] = r#"{"amount":9007199254740993,"to":"acme"}"#.into();
    });
    let understated = |vector| blocked("the operator says more", "IMPACT_UNDERSTATED", "/impact", vector);
    let policy = |tool: &str, impact: &str| json!({"impact_by_tool": { tool: impact }});
    vec![
        ("other_tool", tool("a proposal for another tool", "payments_cancel")),
        ("tool_in_other_case", tool("the same name in capitals", "Payments_Send")),
        ("tool_with_a_blank", tool("a blank after the name", "payments_send ")),
        ("other_args", args("another amount", json!({"amount": 501, "to": "acme"}))),
        (
            "one_argument_more",
            args("an argument beside the proposal's", json!({"amount": 500, "to": "acme", "urgent": true})),
        ),
        (
            "null_argument_more",
            args("null is not absent", json!({"amount": 500, "to": "acme", "memo": null})),
        ),
        ("number_as_text", args("a text is not a number", json!({"amount": "500", "to": "acme"}))),
        (
            "args_unknown",
            blocked(
                "a tool is called, and nobody says with what",
                "PIC_ARG_BINDING_MISMATCH",
                "the call",
                changed(strict(good()), |vector| without(&mut vector["call"], "args")),
            ),
        ),
        (
            "unreadable_args",
            blocked("arguments that have no digest", "PIC_ARG_BINDING_MISMATCH", "/action/args", unreadable),
        ),
        (
            "understated_to_the_registry",
            understated(changed(strict(good()), |vector| {
                vector["call"]["impact"] = "irreversible".into();
            })),
        ),
        (
            "understated_as_a_look",
            understated(changed(strict(look()), |vector| {
                vector["call"]["impact"] = "money".into();
            })),
        ),
        (
            "understated_to_the_policy",
            understated(changed(strict(look()), |vector| {
                vector["options"]["policy"] = policy("docs_search", "privacy");
            })),
        ),
        (
            "understated_in_pic_0_9",
            understated(changed(pic09(look()), |vector| {
                vector["options"]["policy"] = policy("docs_search", "write");
            })),
        ),
        (
            "unlisted_tool",
            blocked(
                "the policy lists tools, and not this one",
                "PIC_POLICY_VIOLATION",
                "/action/tool",
                changed(strict(good()), |vector| {
                    without(&mut vector["call"], "impact");
                    vector["options"]["policy"] = policy("payments_cancel", "money");
                }),
            ),
        ),
    ]
}

/// Every member of the attestation, one at a time.
fn members() -> Vec<Case> {
    let zeros = "0".repeat(64);
    let changes: [(&'static str, &'static str, Value); 19] = [
        ("signed_other_tool", "tool", "payments_cancel".into()),
        ("signed_other_impact", "impact", "irreversible".into()),
        ("signed_other_args", "args_digest", zeros.clone().into()),
        ("signed_other_claims", "claims_digest", zeros.clone().into()),
        ("signed_other_intent", "intent_digest", zeros.clone().into()),
        (
            "signed_digest_in_capitals",
            "intent_digest",
            sha256("pay the invoice of March").to_uppercase().into(),
        ),
        ("signed_other_inputs", "provenance_ids", json!(["mail", "invoice"])),
        ("signed_fewer_inputs", "provenance_ids", json!(["invoice"])),
        ("signed_for_another_gate", "audience", "gate-2".into()),
        ("signed_for_another_call", "x_call_id", "call-2".into()),
        ("signed_for_another_principal", "x_principal", "mallory".into()),
        ("signed_for_another_agent", "x_agent", "other-bot".into()),
        ("signed_for_another_session", "x_session", "session-2".into()),
        ("signed_for_another_server", "x_server", "shop".into()),
        ("signed_for_another_registry", "x_registry_version", 6.into()),
        ("signed_registry_as_text", "x_registry_version", "7".into()),
        ("moved_to_another_evidence_id", "x_evidence_id", "mail".into()),
        ("signed_under_another_key_id", "x_key_id", "cto-1".into()),
        ("other_attestation_version", "attestation_version", "PIC-ATT/1.1".into()),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (slug, name, value) in changes {
        let vector = strict(attested(|object| object[name] = value));
        cases.push((slug, evidence_failed("a member says something else", &at(name), vector)));
    }
    let missing: [(&'static str, &'static str); 13] = [
        ("without_tool", "tool"),
        ("without_args_digest", "args_digest"),
        ("without_intent_digest", "intent_digest"),
        ("without_audience", "audience"),
        ("without_issued_at", "issued_at"),
        ("without_expires_at", "expires_at"),
        ("without_call_id", "x_call_id"),
        ("without_principal", "x_principal"),
        ("without_registry_version", "x_registry_version"),
        ("without_evidence_id", "x_evidence_id"),
        ("without_key_id", "x_key_id"),
        ("without_nonce", "x_nonce"),
        ("without_files", "x_files"),
    ];
    for (slug, name) in missing {
        let vector = strict(attested(|object| without(object, name)));
        cases.push((slug, evidence_failed("a member is missing", &at(name), vector)));
    }
    let other: [(&'static str, &'static str, Value); 5] = [
        ("short_nonce", "x_nonce", "fifteen-charact".into()),
        ("long_nonce", "x_nonce", "n".repeat(129).into()),
        ("nonce_with_a_blank", "x_nonce", "a nonce with blanks in it".into()),
        ("goal_of_no_call", "x_ask", sha256("ask").into()),
        ("plan_of_no_call", "x_plan_root", sha256("plan").into()),
    ];
    for (slug, name, value) in other {
        let vector = strict(attested(|object| object[name] = value));
        cases.push((slug, evidence_failed("a member is none that can be", &at(name), vector)));
    }
    cases.push((
        "unknown_signed_member",
        evidence_failed(
            "a member that nobody compares",
            "/evidence/0/payload",
            strict(attested(|object| object["x_amount_limit"] = 100.into())),
        ),
    ));
    cases
}

fn at(member: &str) -> String {
    format!("/evidence/0/payload/{member}")
}

fn times() -> Vec<Case> {
    let case = |about: &str, place: &str, issued: &str, expires: &str| {
        let vector = strict(attested(|object| {
            object["issued_at"] = issued.into();
            object["expires_at"] = expires.into();
        }));
        evidence_failed(about, &at(place), vector)
    };
    let (before, after) = ("2026-01-31T11:59:00Z", "2026-01-31T12:01:00Z");
    vec![
        ("end_is_now_strictly", case("the moment of the end is too late", "expires_at", before, NOW)),
        ("ended", case("its time is over", "expires_at", before, "2026-01-31T11:59:59.999Z")),
        (
            "ends_before_it_begins",
            case("an end before the beginning", "expires_at", "2026-01-31T11:59:30Z", before),
        ),
        (
            "issued_ahead",
            case(
                "a millisecond further ahead than clocks may be",
                "issued_at",
                "2026-01-31T12:00:05.001Z",
                after,
            ),
        ),
        ("too_old", case("a millisecond older than a day", "issued_at", "2026-01-30T11:59:59.999Z", after)),
        ("time_without_offset", case("a time of no zone", "issued_at", "2026-01-31T11:59:00", after)),
        (
            "time_with_a_blank",
            case("a blank where the T stands", "expires_at", before, "2026-01-31 12:01:00Z"),
        ),
        ("time_in_lower_case", case("a small z", "expires_at", before, "2026-01-31T12:01:00z")),
        (
            "time_that_is_none",
            case("the thirtieth of February", "expires_at", before, "2026-02-30T12:01:00Z"),
        ),
        (
            "time_as_number",
            evidence_failed(
                "a number for a time",
                &at("expires_at"),
                strict(attested(|object| {
                    object["expires_at"] = 1_769_864_460_i64.into();
                })),
            ),
        ),
        (
            "ended_in_pic_0_9",
            evidence_failed(
                "a millisecond after the end",
                &at("expires_at"),
                pic09(attested(|object| {
                    object["expires_at"] = "2026-01-31T11:59:59.999Z".into();
                })),
            ),
        ),
    ]
}

/// Facts that the attestation binds and the gate does not know.
fn facts() -> Vec<Case> {
    let facts: [(&'static str, &'static str, &'static str); 6] = [
        ("call_id_unknown", "call_id", "x_call_id"),
        ("principal_unknown", "principal", "x_principal"),
        ("agent_unknown", "agent", "x_agent"),
        ("session_unknown", "session", "x_session"),
        ("server_unknown", "server", "x_server"),
        ("registry_version_unknown", "registry_version", "x_registry_version"),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (slug, fact, name) in facts {
        let vector = changed(strict(good()), |vector| without(&mut vector["call"], fact));
        cases.push((slug, evidence_failed("the gate does not know what was bound", &at(name), vector)));
    }
    cases.push((
        "audience_unknown",
        evidence_failed(
            "the gate has no name",
            &at("audience"),
            changed(strict(good()), |vector| without(vector, "audience")),
        ),
    ));
    for (slug, fact, name) in [("goal_not_bound", "ask", "x_ask"), ("plan_not_bound", "plan", "x_plan_root")]
    {
        let vector = changed(strict(good()), |vector| vector["call"][fact] = sha256(fact).into());
        cases.push((
            slug,
            evidence_failed("the call has one, and the attestation does not", &at(name), vector),
        ));
    }
    cases
}

/// Payloads that are attestation objects, and payloads that must not be read as anything else.
fn payloads() -> Vec<Case> {
    let object = canonical(&attestation(&transfer(), "invoice", "cfo-1"));
    let case = |profile: &str, about: &str, place: &str, payload: &str| {
        let proposal = with_entry(transfer(), entry("invoice", payload, payload, &cfo(), "cfo-1"));
        evidence_failed(about, place, base(profile, proposal))
    };
    let twice = object.replacen('{', r#"{"tool":"payments_cancel","#, 1);
    let numbers = format!(r#"{{"n":[{}1],{}"#, "1e20,".repeat(2_000), &object[1..]);
    let whole = "/evidence/0/payload";
    vec![
        (
            "opaque_payload_strictly",
            case("strict", "a signature over any text is over nothing", whole, "I approve"),
        ),
        (
            "object_of_no_version",
            case("strict", "an object that is no attestation", whole, r#"{"approved":true}"#),
        ),
        (
            "version_as_number",
            case(
                "pic-0.9",
                "a version that is no text",
                &at("attestation_version"),
                r#"{"attestation_version":1}"#,
            ),
        ),
        ("signed_member_twice", case("pic-0.9", "a member twice is not opaque text", whole, &twice)),
        (
            "broken_object",
            case(
                "pic-0.9",
                "an object that ends too early is not opaque text",
                whole,
                &object[..object.len() - 1],
            ),
        ),
        (
            "mark_before_an_object",
            case("pic-0.9", "an object behind a byte order mark", whole, &format!("\u{feff}{object}")),
        ),
        ("canonical_form_too_long", case("pic-0.9", "numbers that grow in canonical form", whole, &numbers)),
        ("opaque_payload_too_long", case("pic-0.9", "one byte too many", whole, &"x".repeat(16_385))),
        (
            "signed_as_spelled",
            evidence_failed(
                "the signature is over the text and not over its canonical form",
                "/evidence/0/signature",
                strict(with_entry(
                    transfer(),
                    entry("invoice", &format!(" {object}"), &format!(" {object}"), &cfo(), "cfo-1"),
                )),
            ),
        ),
    ]
}

fn trust() -> Vec<Case> {
    let fails = |about: &str, place: &str, vector| blocked(about, "PIC_VERIFIER_FAILED", place, vector);
    let cites = |ids: Value| changed(transfer(), |proposal| proposal["claims"][0]["evidence"] = ids);
    let signed = |proposal| signed_by(proposal, "invoice", &cfo(), "cfo-1");
    let claimed = changed(transfer(), |proposal| proposal["provenance"][0]["trust"] = "trusted".into());
    let looked = changed(look(), |proposal| {
        proposal["claims"] = json!([{"text": "it is open", "evidence": ["site"]}]);
    });
    let not_input = changed(transfer(), |proposal| {
        proposal["claims"][0]["evidence"] = json!(["mail"]);
        proposal["provenance"].as_array_mut().unwrap().remove(0);
    });
    let same_key = changed(transfer(), |proposal| {
        proposal["impact"] = "irreversible".into();
        proposal["claims"][0]["evidence"] = json!(["invoice", "mail"]);
    });
    let same_key = signed_by(signed_by(same_key, "invoice", &cfo(), "cfo-1"), "mail", &cfo(), "cfo-1");
    let two_of = |vector: Value| {
        changed(vector, |vector| vector["embedded_keyring"]["thresholds"] = json!({"irreversible": 2}))
    };
    let uncited = changed(twice_signed("irreversible"), |_| ());
    let uncited = signed_by(
        signed_by(
            changed(uncited, |proposal| {
                without(proposal, "evidence");
                proposal["claims"][0]["evidence"] = json!(["invoice"]);
            }),
            "invoice",
            &cfo(),
            "cfo-1",
        ),
        "mail",
        &cto(),
        "cto-1",
    );
    let needs = |about: &str, vector| blocked(about, "PIC_EVIDENCE_REQUIRED", "/evidence", vector);
    let hashed = with_entry(transfer(), hash("invoice", "file://invoice.txt"));
    let scope = |about: &str, scope: &Value| fails(about, "/claims", endorsed(&for_acme(scope)));
    vec![
        ("no_evidence", needs("a high impact without evidence", strict(transfer()))),
        ("self_asserted_trust", needs("the proposal calls its own input trusted", strict(claimed.clone()))),
        (
            "operators_high_impact",
            needs(
                "an impact that the operator counts as high",
                changed(
                    strict(changed(look(), |proposal| proposal["impact"] = "external".into())),
                    |vector| vector["high"] = json!(["external"]),
                ),
            ),
        ),
        (
            "policy_asks_for_evidence",
            needs(
                "an impact for which the policy asks for evidence",
                changed(strict(look()), |vector| {
                    vector["options"]["policy"] = json!({"impact_by_tool": {"docs_search": "read"}, "require_evidence_for_impacts": ["read"]});
                }),
            ),
        ),
        (
            "policy_asks_for_evidence_in_pic_0_9",
            needs(
                "the same in pic-0.9",
                changed(pic09(transfer()), |vector| {
                    vector["options"]["policy"] = json!({"impact_by_tool": {"payments_send": "money"}});
                }),
            ),
        ),
        (
            "self_asserted_trust_in_pic_0_9",
            fails(
                "no trust is taken as claimed",
                "/claims",
                changed(pic09(claimed), |vector| {
                    vector["mode"] = "core".into();
                    vector["options"]["verify_evidence"] = false.into();
                }),
            ),
        ),
        ("untrusted_in_pic_0_8", fails("nobody even claims trust", "/claims", base("pic-0.8", transfer()))),
        (
            "claim_cites_another_input",
            fails("what is signed is not what is cited", "/claims", strict(signed(cites(json!(["mail"]))))),
        ),
        (
            "claim_cites_nothing",
            fails("a claim that stands alone", "/claims", strict(signed(cites(json!([]))))),
        ),
        (
            "no_claims",
            fails(
                "evidence for no claim",
                "/claims",
                strict(signed(changed(transfer(), |proposal| {
                    proposal["claims"] = json!([]);
                }))),
            ),
        ),
        (
            "cited_input_is_not_there",
            fails(
                "a claim cites what is not there",
                "/claims/0/evidence",
                strict(signed(cites(json!(["invoice", "order"])))),
            ),
        ),
        (
            "cited_input_of_low_impact_is_not_there",
            fails("whatever the impact", "/claims/0/evidence", strict(looked)),
        ),
        (
            "evidence_for_no_input",
            fails("evidence of an id that no input has", "/claims", pic09(signed(not_input))),
        ),
        (
            "one_key_of_two",
            fails(
                "a threshold of two keys, and one has signed",
                "/evidence",
                two_of(strict(signed(changed(transfer(), |proposal| {
                    proposal["impact"] = "irreversible".into();
                })))),
            ),
        ),
        ("one_key_twice", fails("one key signs twice", "/evidence", two_of(strict(same_key)))),
        (
            "second_key_for_nothing_cited",
            fails("the second key signs what no claim cites", "/evidence", two_of(strict(uncited))),
        ),
        (
            "hash_raises_no_trust",
            fails("a file that matches, and nobody vouches for it", "/claims", strict(hashed.clone())),
        ),
        ("hash_raises_no_trust_in_pic_0_9", fails("the same in pic-0.9", "/claims", pic09(hashed))),
        (
            "endorsed_for_another_tool",
            scope("the operator vouches for it elsewhere", &json!({"tools": ["payments_cancel"]})),
        ),
        ("endorsed_for_another_impact", scope("for something less", &json!({"impacts": ["write"]}))),
        ("endorsed_for_another_principal", scope("for somebody else", &json!({"principals": ["bob"]}))),
        ("endorsed_until_now", scope("until this very moment", &json!({"expires": 1_769_860_800_000_i64}))),
        (
            "endorsed_is_another_file",
            scope("the operator vouches for another file", &json!({"sha256": sha256("other")})),
        ),
        ("endorsed_for_another_server", scope("for another server", &json!({"servers": ["shop"]}))),
        (
            "threshold_of_one_at_a_low_impact_unmet",
            fails(
                "a stated threshold of one, and nobody signed",
                "/evidence",
                changed(strict(low_transfer()), |vector| {
                    vector["embedded_keyring"]["thresholds"] = json!({"write": 1});
                }),
            ),
        ),
        (
            "more_stated_than_what_the_operator_counts_as_high",
            needs(
                "the operator counts its own impact as high, and the proposal says worse",
                changed(
                    strict(changed(look(), |proposal| proposal["impact"] = "compute".into())),
                    |vector| {
                        vector["call"]["impact"] = "external".into();
                        vector["high"] = json!(["external"]);
                    },
                ),
            ),
        ),
        (
            "more_listed_than_what_the_operator_counts_as_high",
            needs(
                "the call's impact counts as high, and the policy lists a worse one",
                changed(
                    strict(changed(look(), |proposal| proposal["impact"] = "compute".into())),
                    |vector| {
                        vector["call"]["impact"] = "external".into();
                        vector["high"] = json!(["external"]);
                        vector["options"]["policy"] = json!({"impact_by_tool": {"docs_search": "compute"}});
                    },
                ),
            ),
        ),
    ]
}

/// Files beside an attestation, which names every one of them.
fn files_beside() -> Vec<Case> {
    let order = || with_entry(transfer(), hash("order", "file://order.txt"));
    let signed = |proposal| signed_by(proposal, "invoice", &cfo(), "cfo-1");
    let refused = |about: &str, index: usize, proposal: Value| {
        evidence_failed(about, &format!("/evidence/{index}/payload/x_files"), strict(proposal))
    };
    let exchanged = changed(signed(order()), |proposal| {
        proposal["evidence"][0]["ref"] = "file://invoice.txt".into();
        proposal["evidence"][0]["sha256"] = hash("", "file://invoice.txt")["sha256"].clone();
    });
    let renamed = changed(signed(order()), |proposal| proposal["evidence"][0]["id"] = "contract".into());
    let swapped = changed(signed(with_entry(order(), hash("scan", "file://invoice.txt"))), |proposal| {
        proposal["evidence"].as_array_mut().unwrap().swap(0, 1)
    });
    let dropped = changed(signed(order()), |proposal| {
        proposal["evidence"].as_array_mut().unwrap().remove(0);
    });
    vec![
        (
            "file_added_after_it_was_signed",
            refused(
                "a file that nobody signed for",
                0,
                with_entry(good(), hash("order", "file://order.txt")),
            ),
        ),
        ("file_left_out_after_it_was_signed", refused("a file that was signed for is gone", 0, dropped)),
        ("file_exchanged_after_it_was_signed", refused("another file under the id", 1, exchanged)),
        ("file_renamed_after_it_was_signed", refused("the file under another id", 1, renamed)),
        ("files_in_another_order", refused("the files in another order", 2, swapped)),
    ]
}
