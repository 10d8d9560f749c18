//! Attestation objects: their members, and the binding to proposal, call and time.

use countersign_core::{Audience, CallId, Digest};
use serde_json::{Value, json};

use super::signing::{
    EVIDENCE_ID, Facts, Judge, KEY_ID, NOW, PIC, at, parse, proposal_json, refused_by_all, sign_object,
    sign_raw, sign_text, signer, with, without,
};
use crate::{ATTESTATION_VERSION, AttestationDraft, Profile, ProposedCall};

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
    refused_by_all(&facts, &entry, "payload");
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
    for name in ["issued_at", "expires_at"] {
        refused_by_all(&facts, &sign_object(&without(facts.object(), name)), &format!("payload/{name}"));
    }
    let entry = sign_object(&with(facts.object(), "issued_at", old));
    refused_by_all(&facts, &entry, "payload/issued_at");
}

#[test]
fn a_nonce_for_another_audience_is_refused_by_every_profile() {
    let facts = Facts::new();
    let entry = sign_object(&with(facts.object(), "audience", json!("gate-2")));
    refused_by_all(&facts, &entry, "payload/audience");
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
                let broken = Judge::new(profile, &facts).judge(&entry).unwrap_err();
                assert_eq!(broken.place, format!("payload/{name}"));
                assert_eq!(broken.rule, "must be 64 lower-case hexadecimal digits");
            }
        }
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
        refused_by_all(&facts, &sign_raw(&doubled), "payload");
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
        let object = with(facts.object(), "attestation_version", odd);
        for entry in [sign_object(&object), sign_raw(&object.to_string())] {
            refused_by_all(&facts, &entry, "payload/attestation_version");
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
