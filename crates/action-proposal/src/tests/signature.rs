//! Signatures of evidence: the signed bytes, the signature itself, and its key.

use countersign_core::{Digest, ImpactClass, Principal};
use countersign_keys::SigningKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::signing::{
    Facts, Judge, KEY_ID, PIC, entry_of, keyring_of, refused_by_all, sign_object, sign_raw, sign_text,
    signer, with,
};
use crate::attestation::Broken;
use crate::{Profile, ProposedCall};

/// Order of the group (RFC 8032, section 5.1), lowest byte first.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

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
        refused_by_all(&facts, &sign_raw(object), "payload");
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    refused_by_all(&facts, &sign_raw(&deep), "payload");
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
        assert!(Judge::new(profile, &facts).judge(&entry_of(&payload, &signature)).is_ok());
    }
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
        refused_by_all(&facts, &entry_of(&payload, &wrong), "signature");
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
    refused_by_all(&facts, &entry_of(signed.payload(), &malleated), "signature");
}

#[test]
fn foreign_signature_is_refused() {
    let facts = Facts::new();
    let (object, other) = (facts.object().to_string(), SigningKey::from_seed([8; 32]));
    let of_other = other.sign(object.as_bytes()).to_base64();
    let over_other = signer().sign(b"another").to_base64();
    refused_by_all(&facts, &entry_of(&object, &of_other), "signature");
    refused_by_all(&facts, &entry_of(&object, &over_other), "signature");
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
fn signature_is_checked_before_the_payload() {
    let facts = Facts::new();
    let mut entry = sign_object(&with(facts.object(), "tool", json!("other")));
    assert_eq!(Judge::strict(&facts).place(&entry), "payload/tool");
    entry["signature"] = json!(signer().sign(b"another").to_base64());
    assert_eq!(Judge::strict(&facts).place(&entry), "signature");
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
