use countersign_core::{Audience, CallId, Digest, ImpactClass, Principal};
use countersign_keys::SigningKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::signing::{
    EVIDENCE_ID, Facts, Judge, KEY_ID, NOW, at, entry_of, keyring_of, parse, proposal_json, sign_object,
    sign_raw, sign_text, signer,
};
use crate::attestation::Broken;
use crate::{ATTESTATION_VERSION, AttestationDraft, Profile, ProposedCall};

/// Order of the group (RFC 8032, section 5.1), lowest byte first.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

const PIC: [Profile; 2] = [Profile::Pic09, Profile::Pic08];

/// The object with one member replaced.
fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().unwrap().remove(name).unwrap();
    object
}

#[test]
fn signed_draft_verifies_under_every_profile() {
    let facts = Facts::new();
    let entry = facts.entry();
    for profile in Profile::ALL {
        let verified = Judge::new(profile, &facts).judge(&entry).unwrap();
        assert_eq!(verified.key, signer().verifying_key());
        assert_eq!(&*verified.key_id, KEY_ID);
        assert_eq!(verified.signed.digest(), Digest::of(entry["payload"].as_str().unwrap().as_bytes()));
        assert!(verified.attestation.is_some());
    }
}

#[test]
fn the_signed_object_has_the_members_that_are_written_down() {
    let facts = Facts::new();
    let proposal = parse(&proposal_json(&[]));
    let expected = json!({
        "attestation_version": "PIC-ATT/1.0",
        "tool": "payments_send",
        "impact": "money",
        "args_digest": proposal.args_digest().to_string(),
        "claims_digest": proposal.claims_digest().to_string(),
        "intent_digest": proposal.intent_digest().to_string(),
        "provenance_ids": ["invoice", "mail"],
        "audience": "gate-1",
        "issued_at": "2026-01-31T11:59:59.000Z",
        "expires_at": "2026-01-31T12:00:59.000Z",
        "x_call_id": "call-1",
        "x_principal": "alice",
        "x_agent": "bot",
        "x_session": "s-1",
        "x_server": "bank",
        "x_registry_version": 7,
        "x_files": [],
        "x_evidence_id": "invoice",
        "x_key_id": "cfo-1",
        "x_nonce": "0123456789abcdef",
        "x_ask": facts.ask.to_string(),
        "x_plan_root": facts.plan.to_string(),
    });
    assert_eq!(facts.object(), expected);
}

#[test]
fn the_ticket_is_the_nonce_of_one_key() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    let ticket = judge.judge(&facts.entry()).unwrap().attestation.unwrap();
    let key = signer().verifying_key();
    let expected =
        Digest::framed("countersign/attestation-1").field(key.as_bytes()).field(b"0123456789abcdef").finish();
    assert_eq!(*ticket.spent.digest(), expected);
    assert_eq!(ticket.expires, at(NOW + 59_000));
    // Another spelling of the same object is the same ticket.
    let spelled = serde_json::to_string_pretty(&facts.object()).unwrap();
    let again = judge.judge(&sign_text(&spelled)).unwrap().attestation.unwrap();
    assert_eq!(again.spent, ticket.spent);
}

#[test]
fn each_signed_member_changed_alone_refuses() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    let other = Digest::of(b"other").to_string();
    for (name, value) in [
        ("tool", json!("payments_send2")),
        ("tool", json!("PAYMENTS_SEND")),
        ("impact", json!("read")),
        ("impact", json!("irreversible")),
        ("args_digest", json!(other)),
        ("claims_digest", json!(other)),
        ("intent_digest", json!(other)),
        ("provenance_ids", json!(["mail", "invoice"])),
        ("provenance_ids", json!(["invoice"])),
        ("provenance_ids", json!(["invoice", "mail", "more"])),
        ("provenance_ids", json!([])),
        ("provenance_ids", json!(["invoice", 1])),
        ("provenance_ids", json!("invoice")),
        ("audience", json!("gate-2")),
        ("x_call_id", json!("call-2")),
        ("x_principal", json!("eve")),
        ("x_agent", json!("other-bot")),
        ("x_session", json!("s-2")),
        ("x_server", json!("bank2")),
        ("x_registry_version", json!(8)),
        ("x_registry_version", json!(7.5)),
        ("x_registry_version", json!(-7)),
        ("x_registry_version", json!("7")),
        ("x_files", json!([{"id": "scan", "sha256": other}])),
        ("x_evidence_id", json!("mail")),
        ("x_key_id", json!("cfo-2")),
        ("x_ask", json!(other)),
        ("x_plan_root", json!(other)),
    ] {
        let entry = sign_object(&with(facts.object(), name, value.clone()));
        assert_eq!(judge.place(&entry), format!("payload/{name}"), "{value}");
    }
}

#[test]
fn each_member_left_out_or_of_another_type_refuses() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    for name in facts.object().as_object().unwrap().keys().filter(|name| *name != "attestation_version") {
        let entry = sign_object(&without(facts.object(), name));
        assert_eq!(judge.place(&entry), format!("payload/{name}"));
        for wrong in [json!(null), json!(true), json!({}), json!([1]), json!("")] {
            let entry = sign_object(&with(facts.object(), name, wrong.clone()));
            assert_eq!(judge.place(&entry), format!("payload/{name}"), "{wrong}");
        }
    }
}

#[test]
fn other_profiles_require_the_references_members() {
    let facts = Facts::new();
    let needed = ["tool", "impact", "args_digest", "claims_digest", "provenance_ids"];
    let reusable = without(facts.object(), "x_nonce");
    for profile in PIC {
        let judge = Judge::new(profile, &facts);
        for name in reusable.as_object().unwrap().keys().filter(|name| *name != "attestation_version") {
            let left_out = judge.judge(&sign_object(&without(reusable.clone(), name)));
            if needed.contains(&name.as_str()) {
                assert_eq!(left_out.unwrap_err().place, format!("payload/{name}"));
            } else {
                assert!(left_out.unwrap().attestation.is_none(), "{profile} {name}");
            }
            let changed = judge.judge(&sign_object(&with(reusable.clone(), name, json!(0))));
            let free = ["audience", "issued_at"].contains(&name.as_str());
            assert_eq!(changed.is_ok(), free, "{profile} {name}");
        }
        assert!(judge.judge(&sign_object(&with(reusable.clone(), "anything", json!({"at": "all"})))).is_ok());
    }
}

#[test]
fn a_stated_member_binds_under_every_profile() {
    let facts = Facts::new();
    let other = Digest::of(b"other").to_string();
    for (name, value) in [
        ("x_call_id", json!("call-2")),
        ("x_principal", json!("eve")),
        ("x_agent", json!("other-bot")),
        ("x_session", json!("s-2")),
        ("x_server", json!("bank2")),
        ("x_registry_version", json!(8)),
        ("x_files", json!([{"id": "scan", "sha256": other}])),
        ("x_evidence_id", json!("mail")),
        ("x_key_id", json!("cfo-2")),
        ("x_ask", json!(other)),
        ("x_plan_root", json!(other)),
    ] {
        for object in [facts.object(), without(facts.object(), "x_nonce")] {
            for profile in PIC {
                let entry = sign_object(&with(object.clone(), name, value.clone()));
                assert_eq!(Judge::new(profile, &facts).place(&entry), format!("payload/{name}"));
            }
        }
    }
}

#[test]
fn an_unknown_extension_is_refused_by_every_profile() {
    let facts = Facts::new();
    let entry = sign_object(&with(facts.object(), "x_limit", json!(500)));
    for profile in Profile::ALL {
        assert_eq!(Judge::new(profile, &facts).place(&entry), "payload");
    }
}

#[test]
fn a_nonce_is_single_use_under_every_profile() {
    let facts = Facts::new();
    let spent = |profile| Judge::new(profile, &facts).judge(&facts.entry()).unwrap().attestation.unwrap();
    for profile in PIC {
        let (here, strict) = (spent(profile), spent(Profile::Strict));
        assert_eq!((here.spent, here.issued), (strict.spent, strict.issued));
        assert_eq!((here.expires, here.keep_until), (strict.expires, strict.keep_until));
    }
}

#[test]
fn a_nonce_without_fresh_times_is_refused_by_every_profile() {
    let facts = Facts::new();
    let old = json!("2026-01-30T11:59:59Z");
    for profile in Profile::ALL {
        let judge = Judge::new(profile, &facts);
        for name in ["issued_at", "expires_at"] {
            assert_eq!(judge.place(&sign_object(&without(facts.object(), name))), format!("payload/{name}"));
        }
        let entry = sign_object(&with(facts.object(), "issued_at", old.clone()));
        assert_eq!(judge.place(&entry), "payload/issued_at");
    }
}

#[test]
fn a_nonce_for_another_audience_is_refused_by_every_profile() {
    let facts = Facts::new();
    for profile in Profile::ALL {
        let entry = sign_object(&with(facts.object(), "audience", json!("gate-2")));
        assert_eq!(Judge::new(profile, &facts).place(&entry), "payload/audience");
    }
}

#[test]
fn attestation_digest_has_one_spelling() {
    let facts = Facts::new();
    let (object, upper) = (facts.object(), |text: &str| text.to_uppercase());
    for name in ["args_digest", "claims_digest", "intent_digest"] {
        let digest = object[name].as_str().unwrap();
        for wrong in [
            upper(digest),
            digest[..63].to_owned(),
            format!("{digest}0"),
            format!("{digest}\n"),
            format!(" {digest}"),
        ] {
            for profile in Profile::ALL {
                let entry = sign_object(&with(object.clone(), name, json!(wrong)));
                assert_eq!(
                    Judge::new(profile, &facts).judge(&entry).unwrap_err(),
                    Broken { place: place_of(name), rule: "must be 64 lower-case hexadecimal digits" },
                );
            }
        }
    }
}

fn place_of(name: &str) -> &'static str {
    match name {
        "args_digest" => "payload/args_digest",
        "claims_digest" => "payload/claims_digest",
        _ => "payload/intent_digest",
    }
}

#[test]
fn a_fact_that_the_call_does_not_have_refuses() {
    let facts = Facts::new();
    let full = facts.call();
    for (call, place) in [
        (ProposedCall { call_id: None, ..full }, "payload/x_call_id"),
        (ProposedCall { principal: None, ..full }, "payload/x_principal"),
        (ProposedCall { agent: None, ..full }, "payload/x_agent"),
        (ProposedCall { session: None, ..full }, "payload/x_session"),
        (ProposedCall { server: None, ..full }, "payload/x_server"),
        (ProposedCall { registry_version: None, ..full }, "payload/x_registry_version"),
        (ProposedCall { ask: None, ..full }, "payload/x_ask"),
        (ProposedCall { plan: None, ..full }, "payload/x_plan_root"),
        (ProposedCall::unbound(), "payload/x_call_id"),
    ] {
        for profile in Profile::ALL {
            let judge = Judge { call, ..Judge::new(profile, &facts) };
            assert_eq!(judge.place(&facts.entry()), place);
        }
    }
}

#[test]
fn absent_goal_or_plan_must_be_omitted() {
    let facts = Facts::new();
    let call = ProposedCall { ask: None, plan: None, ..facts.call() };
    let judge = Judge { call, ..Judge::strict(&facts) };
    let bare = without(without(facts.object(), "x_ask"), "x_plan_root");
    assert!(judge.judge(&sign_object(&bare)).is_ok());
    assert_eq!(
        judge.place(&sign_object(&with(bare.clone(), "x_ask", json!(facts.ask.to_string())))),
        "payload/x_ask"
    );
    assert_eq!(judge.place(&sign_object(&with(bare, "x_plan_root", json!(null)))), "payload/x_plan_root");
}

#[test]
fn attestation_for_another_audience_is_refused() {
    let facts = Facts::new();
    for audience in [None, Some(Audience::new("gate-2").unwrap()), Some(Audience::new("Gate-1").unwrap())] {
        let judge = Judge { audience, ..Judge::strict(&facts) };
        assert_eq!(judge.place(&facts.entry()), "payload/audience");
    }
}

#[test]
fn an_attestation_without_freshness_is_refused() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    for name in ["issued_at", "expires_at"] {
        assert_eq!(judge.place(&sign_object(&without(facts.object(), name))), format!("payload/{name}"));
        for wrong in
            ["", "now", "2026-01-31T12:00:00", " 2026-01-31T12:00:00Z", "2026-01-31 12:00:00Z", "1769860800"]
        {
            let entry = sign_object(&with(facts.object(), name, json!(wrong)));
            assert_eq!(judge.place(&entry), format!("payload/{name}"), "{wrong}");
        }
    }
}

#[test]
fn times_are_held_against_the_clock_to_the_millisecond() {
    let facts = Facts::new();
    let day = 86_400_000;
    let entry = |issued: u64, expires: u64| {
        let draft = facts.draft().issued(at(issued)).expires(at(expires));
        serde_json::from_str::<Value>(&draft.sign(&signer(), KEY_ID).unwrap().to_entry_json()).unwrap()
    };
    let judge = Judge::strict(&facts);
    for (issued, expires, broken) in [
        (NOW, NOW + 1, None),
        (NOW - 1, NOW, Some("payload/expires_at")),
        (NOW + 5_000, NOW + 6_000, None),
        (NOW + 5_001, NOW + 6_000, Some("payload/issued_at")),
        (NOW - day, NOW + 1, None),
        (NOW - day - 1, NOW + 1, Some("payload/issued_at")),
    ] {
        let place = judge.judge(&entry(issued, expires)).err().map(|broken| broken.place);
        assert_eq!(place, broken, "{} {}", issued as i128 - NOW as i128, expires as i128 - NOW as i128);
    }
    let object = with(facts.object(), "expires_at", json!("2026-01-31T11:59:59Z"));
    let ends_first = Judge { now: NOW - 2_000, ..Judge::strict(&facts) };
    assert_eq!(ends_first.judge(&sign_object(&object)).unwrap_err().rule, "must be after the time of issue");
    let old = with(facts.object(), "issued_at", json!("1969-12-31T23:59:59Z"));
    assert_eq!(judge.place(&sign_object(&old)), "payload/issued_at");
    let ended = with(facts.object(), "expires_at", json!("1969-12-31T23:59:59Z"));
    assert_eq!(judge.place(&sign_object(&ended)), "payload/expires_at");
}

#[test]
fn an_attestation_that_is_over_is_refused_by_every_profile() {
    let facts = Facts::new();
    let reusable = sign_object(&without(facts.object(), "x_nonce"));
    for profile in PIC {
        let judge = |entry: &Value, now| {
            Judge { now, ..Judge::new(profile, &facts) }.judge(entry).map_err(|broken| broken.place)
        };
        // The reference accepts the last moment. Strict does not, nor does any profile with a nonce.
        assert!(judge(&reusable, NOW + 59_000).is_ok());
        assert_eq!(judge(&reusable, NOW + 59_001).unwrap_err(), "payload/expires_at");
        assert!(judge(&facts.entry(), NOW + 58_999).is_ok());
        assert_eq!(judge(&facts.entry(), NOW + 59_000).unwrap_err(), "payload/expires_at");
        for wrong in ["2099-01-01T00:00:00", " 2099-01-01T00:00:00Z", "2099-01-01", "1969-01-01T00:00:00Z"] {
            let entry = sign_object(&with(facts.object(), "expires_at", json!(wrong)));
            assert_eq!(Judge::new(profile, &facts).place(&entry), "payload/expires_at");
        }
    }
}

#[test]
fn an_attestation_moved_to_another_evidence_id_is_refused() {
    let facts = Facts::new();
    let moved = with(facts.entry(), "id", json!("mail"));
    assert_eq!(Judge::strict(&facts).place(&moved), "payload/x_evidence_id");
}

#[test]
fn an_attestation_under_another_id_of_the_key_is_refused() {
    let facts = Facts::new();
    let file = json!({"trusted_keys": {"other": signer().verifying_key().to_base64()}}).to_string();
    let keyring = crate::EvidenceKeyring::from_json(file.as_bytes()).unwrap();
    let judge = Judge { keyring, ..Judge::strict(&facts) };
    assert_eq!(judge.place(&with(facts.entry(), "key_id", json!("other"))), "payload/x_key_id");
}

#[test]
fn attestation_for_another_proposal_is_refused() {
    let facts = Facts::new();
    let entry = facts.entry();
    for (pointer, value, place) in [
        ("/action/args/amount", json!(501), "payload/args_digest"),
        ("/action/args/more", json!(1), "payload/args_digest"),
        ("/claims/0/text", json!("invoice 002 is approved"), "payload/claims_digest"),
        ("/intent", json!("pay invoice 002"), "payload/intent_digest"),
        ("/impact", json!("irreversible"), "payload/impact"),
        ("/provenance/1/id", json!("mail2"), "payload/provenance_ids"),
    ] {
        for profile in Profile::ALL {
            let mut proposal = proposal_json(std::slice::from_ref(&entry));
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            proposal.pointer_mut(parent).unwrap()[name] = value.clone();
            let broken = Judge::new(profile, &facts).judge_in(&proposal).unwrap_err();
            assert_eq!(broken.place, place, "{profile} {pointer}");
        }
    }
}

#[test]
fn an_unknown_member_is_refused() {
    let facts = Facts::new();
    for name in ["x_more", "X_nonce", "nonce", "", "expires_at "] {
        let entry = sign_object(&with(facts.object(), name, json!(null)));
        assert_eq!(Judge::strict(&facts).place(&entry), "payload", "{name}");
    }
}

#[test]
fn a_duplicate_member_is_refused_under_every_profile() {
    let facts = Facts::new();
    let text = facts.object().to_string();
    for doubled in [
        text.replacen('{', r#"{"tool":"payments_send","#, 1),
        text.replacen('{', r#"{"t\u006fol":"payments_send","#, 1),
        text.replacen('{', r#"{"more":{"a":1,"a":1},"#, 1),
        text.replacen('{', r#"{"attestation_version":"PIC-ATT/1.0","#, 1),
    ] {
        for profile in Profile::ALL {
            assert_eq!(Judge::new(profile, &facts).place(&sign_raw(&doubled)), "payload");
        }
    }
}

#[test]
fn unknown_attestation_version_is_refused() {
    let facts = Facts::new();
    for odd in [
        json!("PIC-ATT/2.0"),
        json!("PIC-ATT/1.0 "),
        json!("pic-att/1.0"),
        json!(""),
        json!(1),
        json!(null),
        json!([ATTESTATION_VERSION]),
        json!({}),
    ] {
        let object = with(facts.object(), "attestation_version", odd.clone());
        for profile in Profile::ALL {
            for entry in [sign_object(&object), sign_raw(&object.to_string())] {
                let place = Judge::new(profile, &facts).place(&entry);
                assert_eq!(place, "payload/attestation_version", "{profile} {odd}");
            }
        }
    }
}

#[test]
fn object_is_signed_in_canonical_form() {
    let facts = Facts::new();
    let pretty = serde_json::to_string_pretty(&facts.object()).unwrap();
    for profile in Profile::ALL {
        let judge = Judge::new(profile, &facts);
        assert!(judge.judge(&sign_text(&pretty)).is_ok());
        // A signature over the bytes as spelled differs.
        assert_eq!(judge.place(&sign_raw(&pretty)), "signature");
    }
}

#[test]
fn opaque_text_never_counts_under_strict() {
    let facts = Facts::new();
    for opaque in [
        "amount=500",
        "",
        "null",
        "[1,2]",
        "42",
        r#"{"approved":true}"#,
        "not { json",
        "\"text\"",
        "[",
        "nul",
    ] {
        let entry = sign_raw(opaque);
        for profile in PIC {
            let verified = Judge::new(profile, &facts).judge(&entry).unwrap();
            assert_eq!(verified.signed.digest(), Digest::of(opaque.as_bytes()));
            assert!(verified.attestation.is_none());
            assert_eq!(
                Judge::new(profile, &facts)
                    .place(&entry_of(&format!("{opaque} "), entry["signature"].as_str().unwrap())),
                "signature"
            );
        }
        assert_eq!(
            Judge::strict(&facts).judge(&entry).unwrap_err(),
            Broken { place: "payload", rule: "must be an attestation object" },
        );
    }
}

#[test]
fn malformed_object_payload_is_refused() {
    let facts = Facts::new();
    for object in [
        "{",
        "{}}",
        " \t\r\n{,}",
        "\u{feff}{}",
        "\u{a0}{\"attestation_version\":\"PIC-ATT/1.0\"}",
        r#"{"a":1,"a":2}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":9007199254740992}"#,
        r#"{"a":1e400}"#,
        r#"{"a":NaN}"#,
        r#"{"a":1,}"#,
        r#"{'a':1}"#,
    ] {
        for profile in Profile::ALL {
            assert_eq!(Judge::new(profile, &facts).place(&sign_raw(object)), "payload", "{object}");
        }
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for profile in Profile::ALL {
        assert_eq!(Judge::new(profile, &facts).place(&sign_raw(&deep)), "payload");
    }
}

#[test]
fn payload_over_the_limit_is_refused() {
    let facts = Facts::new();
    for profile in PIC {
        let judge = Judge::new(profile, &facts);
        assert!(judge.judge(&sign_raw(&"x".repeat(16_384))).is_ok());
        assert_eq!(judge.judge(&sign_raw(&"x".repeat(16_385))).unwrap_err().place, "payload");
        // Bytes are counted, not characters.
        assert_eq!(judge.place(&sign_raw(&"é".repeat(8_193))), "payload");
        // 1e20 takes four bytes as written and 21 in canonical form.
        let numbers = vec!["1e20"; 1_500].join(",");
        let grown = facts.object().to_string().replacen('{', &format!(r#"{{"more":[{numbers}],"#), 1);
        assert!(grown.len() < 16_384);
        let broken = judge.judge(&sign_text(&grown)).unwrap_err();
        assert_eq!(broken.rule, "must have no more bytes than the limit in canonical form");
    }
    let entry = facts.entry();
    let exact = entry["payload"].as_str().unwrap().len();
    assert!(Judge { payload_bytes: exact, ..Judge::strict(&facts) }.judge(&entry).is_ok());
    assert_eq!(Judge { payload_bytes: exact - 1, ..Judge::strict(&facts) }.place(&entry), "payload");
}

#[test]
fn a_signature_in_another_spelling_is_refused() {
    let facts = Facts::new();
    // A signature with both characters in which the alphabets differ.
    let (object, signature) = (0..)
        .map(|n| with(facts.object(), "x_nonce", json!(format!("nonce-of-16-bytes-{n}"))))
        .map(|object| (object.clone(), sign_object(&object)["signature"].as_str().unwrap().to_owned()))
        .find(|(_, signature)| signature.contains('+') && signature.contains('/'))
        .unwrap();
    let payload = object.to_string();
    for profile in Profile::ALL {
        let judge = Judge::new(profile, &facts);
        assert!(judge.judge(&entry_of(&payload, &signature)).is_ok());
        let last = signature.as_bytes()[85];
        for wrong in [
            signature.replace('+', "-").replace('/', "_"),
            signature.replace('+', "-"),
            signature.trim_end_matches('=').to_owned(),
            format!("{}=", signature.trim_end_matches('=')),
            format!("{signature}="),
            format!(" {signature}"),
            format!("{signature}\n"),
            format!("{}\n{}", &signature[..44], &signature[44..]),
            // The character before the padding has four spare bits.
            format!("{}{}==", &signature[..85], char::from(last + 1)),
            signature[..84].to_owned(),
            format!("{}AAAA", &signature[..84]),
            format!("AAAA{signature}"),
            "0".repeat(128),
            String::from("="),
        ] {
            assert_eq!(judge.place(&entry_of(&payload, &wrong)), "signature", "{wrong}");
        }
    }
}

#[test]
fn a_signature_with_a_malleated_s_is_refused() {
    let facts = Facts::new();
    let signed = facts.draft().sign(&signer(), KEY_ID).unwrap();
    let mut bytes = *signed.signature().as_bytes();
    let mut carry = false;
    for (byte, order) in bytes[32..].iter_mut().zip(ORDER) {
        let (sum, first) = byte.overflowing_add(order);
        let (sum, second) = sum.overflowing_add(u8::from(carry));
        (*byte, carry) = (sum, first || second);
    }
    assert!(!carry);
    let malleated = countersign_keys::Signature::from_bytes(bytes).to_base64();
    for profile in Profile::ALL {
        assert_eq!(Judge::new(profile, &facts).place(&entry_of(signed.payload(), &malleated)), "signature");
    }
}

#[test]
fn foreign_signature_is_refused() {
    let facts = Facts::new();
    let (object, other) = (facts.object().to_string(), SigningKey::from_seed([8; 32]));
    let of_other = other.sign(object.as_bytes()).to_base64();
    let over_other = signer().sign(b"another").to_base64();
    for profile in Profile::ALL {
        let judge = Judge::new(profile, &facts);
        assert_eq!(judge.place(&entry_of(&object, &of_other)), "signature");
        assert_eq!(judge.place(&entry_of(&object, &over_other)), "signature");
    }
}

/// Judges the generally accepted entry under a keyring with one changed key.
fn under(
    key: &Value,
    profile: Profile,
    call: impl Fn(ProposedCall<'_>) -> ProposedCall<'_>,
) -> Option<Broken> {
    let facts = Facts::new();
    let mut key_with_bytes = json!({"public_key": signer().verifying_key().to_base64()});
    key_with_bytes.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
    let judge = Judge { keyring: keyring_of(&key_with_bytes), ..Judge::new(profile, &facts) };
    let judge = Judge { call: call(judge.call), ..judge };
    judge.judge(&facts.entry()).err()
}

#[test]
fn a_key_that_is_expired_or_not_yet_valid_is_refused() {
    for profile in Profile::ALL {
        let broken = |key: Value| under(&key, profile, |call| call).map(|broken| (broken.place, broken.rule));
        assert_eq!(broken(json!({"expires_at": "2026-01-31T12:00:00.001Z"})), None);
        assert_eq!(
            broken(json!({"expires_at": "2026-01-31T12:00:00Z"})),
            Some(("key_id", "must not have expired")),
        );
        assert_eq!(broken(json!({"not_before": "2026-01-31T12:00:00Z"})), None);
        assert_eq!(
            broken(json!({"not_before": "2026-01-31T12:00:00.001Z"})),
            Some(("key_id", "must be valid already")),
        );
    }
}

#[test]
fn unknown_or_revoked_key_is_refused() {
    let facts = Facts::new();
    let key = signer().verifying_key();
    let trusted = json!({KEY_ID: key.to_base64()});
    for (file, rule) in [
        (json!({"trusted_keys": {}}), "must be in the keyring"),
        (json!({"trusted_keys": {"cfo-2": key.to_base64()}}), "must be in the keyring"),
        (json!({"trusted_keys": {"Cfo-1": key.to_base64()}}), "must be in the keyring"),
        (json!({"trusted_keys": trusted, "revoked_keys": [KEY_ID]}), "must not be revoked"),
        (
            json!({"trusted_keys": trusted, "revoked_fingerprints": [key.fingerprint().to_string()]}),
            "must not be revoked",
        ),
    ] {
        let keyring = crate::EvidenceKeyring::from_json(file.to_string().as_bytes()).unwrap();
        for profile in Profile::ALL {
            let judge = Judge { keyring: keyring.clone(), ..Judge::new(profile, &facts) };
            assert_eq!(judge.judge(&facts.entry()).unwrap_err(), Broken { place: "key_id", rule });
        }
    }
    for id in [" cfo-1", "cfo-1 ", "CFO-1"] {
        let entry = with(facts.entry(), "key_id", json!(id));
        assert_eq!(Judge::strict(&facts).place(&entry), "key_id", "{id:?}");
    }
}

#[test]
fn key_out_of_scope_is_refused() {
    let eve: &'static Principal = Box::leak(Box::new(Principal::new("eve").unwrap()));
    for profile in Profile::ALL {
        let rule = |key: Value| under(&key, profile, |call| call).map(|broken| broken.rule);
        assert_eq!(
            rule(json!({"tools": ["payments_send"], "impacts": ["money"], "principals": ["alice"]})),
            None
        );
        assert_eq!(rule(json!({"tools": ["payments_read"]})), Some("must be a key for this tool"));
        assert_eq!(rule(json!({"impacts": ["privacy"]})), Some("must be a key for this impact"));
        assert_eq!(rule(json!({"principals": ["bob"]})), Some("must be a key for this principal"));
        assert_eq!(rule(json!({"servers": ["bank"]})), None);
        assert_eq!(rule(json!({"servers": ["shop"]})), Some("must be a key for this server"));
        let nowhere =
            under(&json!({"servers": ["bank"]}), profile, |call| ProposedCall { server: None, ..call });
        assert_eq!(nowhere.unwrap().rule, "must be a key for this server");
        let other = under(&json!({"principals": ["alice"]}), profile, |call| call.principal(eve));
        assert_eq!(other.unwrap().rule, "must be a key for this principal");
        let nobody = under(&json!({"principals": ["alice"]}), profile, |call| ProposedCall {
            principal: None,
            ..call
        });
        assert_eq!(nobody.unwrap().rule, "must be a key for this principal");
    }
}

#[test]
fn key_must_cover_the_operators_impact() {
    for profile in Profile::ALL {
        let broken =
            under(&json!({"impacts": ["money"]}), profile, |call| call.impact(ImpactClass::Irreversible));
        assert_eq!(broken.unwrap().rule, "must be a key for this impact");
        let both = json!({"impacts": ["money", "irreversible"]});
        assert!(under(&both, profile, |call| call.impact(ImpactClass::Irreversible)).is_none());
        // The policy's impact counts beside the call's, and does not replace it.
        let keyring = keyring_of(&json!({
            "public_key": signer().verifying_key().to_base64(), "impacts": ["money", "read"],
        }));
        let facts = Facts::new();
        for (listed, allowed) in [("read", true), ("write", false), ("irreversible", false)] {
            let listed = Some(listed.parse().unwrap());
            let judge = Judge { keyring: keyring.clone(), listed, ..Judge::new(profile, &facts) };
            assert_eq!(judge.judge(&facts.entry()).is_ok(), allowed, "{listed:?}");
        }
    }
}

#[test]
fn a_nonce_that_is_short_long_or_invisible_is_refused() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    for nonce in ["x".repeat(16), "x".repeat(128), "!~ab".repeat(4)] {
        assert!(judge.judge(&sign_object(&with(facts.object(), "x_nonce", json!(nonce)))).is_ok(), "{nonce}");
    }
    for nonce in [
        "x".repeat(15),
        "x".repeat(129),
        "0123456789 abcdef".to_owned(),
        "é".repeat(16),
        "0123456789abcdef\n".to_owned(),
    ] {
        let entry = sign_object(&with(facts.object(), "x_nonce", json!(nonce)));
        assert_eq!(judge.place(&entry), "payload/x_nonce", "{nonce}");
    }
}

#[test]
fn signature_is_checked_before_the_payload() {
    let facts = Facts::new();
    let mut entry = sign_object(&with(facts.object(), "tool", json!("other")));
    assert_eq!(Judge::strict(&facts).place(&entry), "payload/tool");
    entry["signature"] = json!(signer().sign(b"another").to_base64());
    assert_eq!(Judge::strict(&facts).place(&entry), "signature");
}

#[test]
fn a_draft_that_no_verifier_could_accept_is_not_signed() {
    let facts = Facts::new();
    let code = |draft: AttestationDraft, id: &str| draft.sign(&signer(), id).unwrap_err().code();
    let proposal = parse(&proposal_json(&[]));
    assert_eq!(code(AttestationDraft::for_proposal(&proposal, "receipt"), KEY_ID), "ATTEST_EVIDENCE_ID");
    assert_eq!(code(AttestationDraft::for_proposal(&proposal, "Invoice"), KEY_ID), "ATTEST_EVIDENCE_ID");
    for id in ["", " cfo-1", "a\u{200b}"] {
        assert_eq!(code(facts.draft(), id), "ATTEST_KEY_ID");
    }
    for nonce in ["", "too-short-nonce", "0123456789 abcdef", &"x".repeat(129)] {
        assert_eq!(code(facts.draft().nonce(nonce), KEY_ID), "ATTEST_NONCE", "{nonce}");
    }
    assert_eq!(code(facts.draft().expires(at(NOW - 1_000)), KEY_ID), "ATTEST_TIMES");
    assert_eq!(code(facts.draft().expires(at(253_402_300_800_000)), KEY_ID), "ATTEST_TIMES");
    assert_eq!(code(facts.draft().issued(at(253_402_300_800_000)), KEY_ID), "ATTEST_TIMES");
    assert_eq!(code(facts.draft().registry_version((1 << 53) + 1), KEY_ID), "ATTEST_NOT_CANONICAL");
    assert_eq!(code(facts.draft().registry_version(1 << 53), KEY_ID), "ATTEST_NOT_CANONICAL");
    assert!(facts.draft().registry_version((1 << 53) - 1).sign(&signer(), KEY_ID).is_ok());

    let mut wide = proposal_json(&[]);
    let inputs = (0..64)
        .map(|n| json!({"id": format!("{n}-{}", "x".repeat(300)), "trust": "untrusted", "source": "s"}));
    wide["provenance"] = inputs.collect();
    let id = wide["provenance"][0]["id"].as_str().unwrap().to_owned();
    let wide = AttestationDraft::for_proposal(&parse(&wide), &id)
        .issued(at(NOW - 1_000))
        .expires(at(NOW + 59_000))
        .nonce("0123456789abcdef");
    assert_eq!(code(wide, KEY_ID), "ATTEST_TOO_LARGE");
}

#[test]
fn a_draft_for_ever_or_for_any_number_of_uses_is_not_signed() {
    let proposal = parse(&proposal_json(&[]));
    let bare = || AttestationDraft::for_proposal(&proposal, EVIDENCE_ID);
    let issued = || bare().issued(at(NOW - 1_000));
    let code = |draft: AttestationDraft| draft.sign(&signer(), KEY_ID).map_err(|error| error.code()).err();
    let nonce = "0123456789abcdef";
    assert_eq!(code(bare().nonce(nonce)), Some("ATTEST_TIMES"));
    assert_eq!(code(issued().nonce(nonce)), Some("ATTEST_TIMES"));
    assert_eq!(code(bare().expires(at(NOW + 59_000)).nonce(nonce)), Some("ATTEST_TIMES"));
    assert_eq!(code(issued().expires(at(NOW + 59_000))), Some("ATTEST_NONCE"));
    assert_eq!(code(issued().expires(at(NOW + 59_000)).nonce(nonce)), None);
    assert_eq!(code(issued().expires(at(253_402_300_799_999)).nonce(nonce)), None);
}

#[test]
fn a_draft_set_fact_by_fact_is_the_one_set_from_the_call() {
    let facts = Facts::new();
    let by_hand = AttestationDraft::for_proposal(&parse(&proposal_json(&[])), EVIDENCE_ID)
        .audience(&facts.audience)
        .issued(at(NOW - 1_000))
        .expires(at(NOW + 59_000))
        .call_id(&CallId::new("call-1").unwrap())
        .principal(&facts.principal)
        .agent(&facts.agent)
        .session(&facts.session)
        .server(&facts.server)
        .registry_version(7)
        .ask(facts.ask)
        .plan(facts.plan)
        .nonce("0123456789abcdef");
    let signed = |draft: AttestationDraft| draft.sign(&signer(), KEY_ID).unwrap();
    assert_eq!(signed(by_hand), signed(facts.draft()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_changed_bit_of_a_signed_entry_is_refused(at in 0_usize..2_000, bit in 0_u8..7) {
        let facts = Facts::new();
        let entry = facts.entry();
        let (payload, signature) = (entry["payload"].as_str().unwrap(), entry["signature"].as_str().unwrap());
        let mut bytes = [payload.as_bytes(), signature.as_bytes()].concat();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let (payload, signature) = bytes.split_at(payload.len());
        let changed = entry_of(std::str::from_utf8(payload).unwrap(), std::str::from_utf8(signature).unwrap());
        for profile in Profile::ALL {
            prop_assert!(Judge::new(profile, &facts).judge(&changed).is_err());
        }
    }

    #[test]
    fn any_payload_is_judged_without_a_fault(payload in r#"[\[\]{}":,0-9a-z\\ue+. \n-]{0,60}"#) {
        let facts = Facts::new();
        for profile in Profile::ALL {
            let judged = Judge::new(profile, &facts).judge(&sign_raw(&payload));
            if profile == Profile::Strict {
                prop_assert!(judged.is_err());
            }
        }
    }
}
