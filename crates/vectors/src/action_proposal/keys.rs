//! Keys and signatures: refused keyrings, keys whose signatures do not count, and invalid signatures.

use base64ct::{Base64, Encoding as _};
use countersign::core::Digest;
use countersign::keys::SigningKey;
use serde_json::{Value, json};

use super::made::*;

/// The order of the group (RFC 8032, section 5.1), lowest byte first.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

pub(super) fn digits(key: &SigningKey) -> String {
    hex(key.verifying_key().as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key as PEM (RFC 8410, section 10.1).
pub(super) fn armoured(key: &SigningKey) -> String {
    let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let der = [&head[..], key.verifying_key().as_bytes()].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", Base64::encode_string(&der))
}

pub(super) fn refused() -> Vec<Case> {
    let mut cases = signatures();
    cases.extend(statuses());
    cases.extend(keyrings());
    cases.extend(policies());
    cases
}

/// The valid proposal with another signature in its entry.
fn signatures() -> Vec<Case> {
    let signature = good()["evidence"][0]["signature"].as_str().unwrap().to_owned();
    let bytes = Base64::decode_vec(&signature).unwrap();
    let case = |about: &str, signature: String| {
        let proposal = changed(good(), |proposal| proposal["evidence"][0]["signature"] = signature.into());
        evidence_failed(about, "/evidence/0/signature", strict(proposal))
    };
    let flipped = changed_bytes(&bytes, |bytes| bytes[0] ^= 1);
    let malleable = changed_bytes(&bytes, |bytes| {
        let mut carry = 0;
        for (byte, add) in bytes[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            (*byte, carry) = ((sum & 0xff) as u8, sum >> 8);
        }
    });
    // 64 bytes end in one character with four spare bits, and two of padding.
    let spare = char::from(signature.as_bytes()[85] + 1);
    let other = canonical(&attestation(&transfer(), "invoice", "cfo-1"));
    let other = entry("invoice", &other, &other, &mallory(), "cfo-1");
    vec![
        ("signature_changed", case("a bit of the signature changed", flipped)),
        ("signature_malleable", case("the same signature with the group's order added", malleable)),
        ("signature_short", case("63 bytes", Base64::encode_string(&bytes[..63]))),
        ("signature_unpadded", case("no padding", signature.trim_end_matches('=').to_owned())),
        ("signature_spare_bits", case("spare bits set", format!("{}{spare}==", &signature[..85]))),
        ("signature_with_a_line_end", case("a line end after it", format!("{signature}\n"))),
        ("signature_url_safe", case("the other alphabet", format!("-_{}", &signature[2..]))),
        ("signature_empty", case("none", String::new())),
        (
            "signed_by_another_key",
            evidence_failed(
                "another key's signature under this key's id",
                "/evidence/0/signature",
                strict(with_entry(transfer(), other)),
            ),
        ),
        (
            "args_changed_after_signing",
            evidence_failed(
                "proposal and call are changed together, and the signature stays",
                "/evidence/0/payload/args_digest",
                strict(changed(good(), |proposal| proposal["action"]["args"]["amount"] = 5_000.into())),
            ),
        ),
    ]
}

fn changed_bytes(bytes: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    Base64::encode_string(&bytes)
}

/// Valid keys that do not count here and now.
fn statuses() -> Vec<Case> {
    let case = |about: &str, keyring: Value| {
        let vector = changed(strict(good()), |vector| vector["embedded_keyring"] = keyring);
        evidence_failed(about, "/evidence/0/key_id", vector)
    };
    let with = |name: &str, value: Value| changed(keyring(), |keyring| keyring[name] = value);
    let fingerprint = cfo().verifying_key().fingerprint();
    let nobody = changed(strict(good()), |vector| {
        vector["embedded_keyring"] = scoped(&json!({"principals": ["alice"]}));
        without(&mut vector["call"], "principal");
    });
    let blank = changed(good(), |proposal| proposal["evidence"][0]["key_id"] = "cfo-1 ".into());
    let more = changed(
        strict(signed_by(
            changed(transfer(), |proposal| proposal["impact"] = "privacy".into()),
            "invoice",
            &cfo(),
            "cfo-1",
        )),
        |vector| {
            vector["call"]["impact"] = "money".into();
            vector["embedded_keyring"] = scoped(&json!({"impacts": ["money"]}));
        },
    );
    vec![
        (
            "unknown_key",
            case("a key that is not in the keyring", json!({"trusted_keys": {"cto-1": public(&cto())}})),
        ),
        ("empty_keyring", case("no key at all", json!({"trusted_keys": {}}))),
        (
            "key_id_with_a_blank",
            evidence_failed("an id that only looks the same", "/evidence/0/key_id", strict(blank)),
        ),
        ("revoked_by_id", case("its id is revoked", with("revoked_keys", json!(["cfo-1"])))),
        (
            "revoked_by_fingerprint",
            case("the key itself is revoked", with("revoked_fingerprints", json!([fingerprint]))),
        ),
        ("key_expired", case("it expires now", scoped(&json!({"expires_at": NOW})))),
        (
            "key_expired_of_no_zone",
            case("a time of no zone is UTC", scoped(&json!({"expires_at": "2026-01-31T12:00:00"}))),
        ),
        (
            "key_not_yet_valid",
            case(
                "it counts from the next millisecond on",
                scoped(&json!({"not_before": "2026-01-31T12:00:00.001Z"})),
            ),
        ),
        (
            "key_for_another_tool",
            case("it is for another tool", scoped(&json!({"tools": ["payments_cancel"]}))),
        ),
        ("key_for_another_server", case("it is for another server", scoped(&json!({"servers": ["shop"]})))),
        (
            "key_for_another_impact",
            case("it is for another impact", scoped(&json!({"impacts": ["irreversible"]}))),
        ),
        (
            "key_for_another_principal",
            case("it is for another principal", scoped(&json!({"principals": ["bob"]}))),
        ),
        (
            "key_for_somebody",
            evidence_failed("it is for one principal, and the call has none", "/evidence/0/key_id", nobody),
        ),
        (
            "key_for_less",
            evidence_failed(
                "it is for the operator's impact, and the proposal says worse",
                "/evidence/0/key_id",
                more,
            ),
        ),
    ]
}

/// Keyrings that are refused with all their keys.
fn keyrings() -> Vec<Case> {
    let case = |about: &str, code: &str, keyring: Value| {
        let vector = changed(strict(good()), |vector| vector["embedded_keyring"] = keyring);
        file_refused(about, "keyring_refused", code, vector)
    };
    let text = |about: &str, code: &str, text: String| {
        let vector = changed(strict(good()), |vector| {
            without(vector, "embedded_keyring");
            vector["keyring_text"] = text.into();
        });
        file_refused(about, "keyring_refused", code, vector)
    };
    let with = |name: &str, value: Value| changed(keyring(), |keyring| keyring[name] = value);
    let key = |value: Value| changed(keyring(), |keyring| keyring["trusted_keys"]["extra"] = value);
    let id = |id: &str| changed(keyring(), |keyring| keyring["trusted_keys"][id] = public(&mallory()).into());
    let twice = keyring().to_string().replacen(
        r#""cfo-1""#,
        &format!(r#""cfo-1":"{}","cfo-1""#, public(&mallory())),
        1,
    );
    let mut high = [0xff_u8; 32];
    (high[0], high[31]) = (0xee, 0x7f);
    vec![
        ("keyring_member_twice", text("an id twice", "JSON_DUPLICATE_NAME", twice)),
        ("keyring_not_json", text("no JSON", "JSON_UNEXPECTED_END", "{".to_owned())),
        ("keyring_array", text("an array", "KEYRING_MALFORMED", "[]".to_owned())),
        (
            "keyring_unknown_member",
            case("a member that there is not", "KEYRING_MALFORMED", with("revoked", json!(["cfo-1"]))),
        ),
        (
            "keyring_unknown_member_of_a_key",
            case("a word misspelt", "KEYRING_MALFORMED", scoped(&json!({"expires": NOW}))),
        ),
        ("keyring_null_scope", case("null lifts no limit", "KEYRING_SCOPE", scoped(&json!({"tools": null})))),
        (
            "keyring_of_revocations_alone",
            case(
                "a full keyring that lost its keys",
                "KEYRING_MALFORMED",
                json!({"revoked_keys": ["cfo-1"]}),
            ),
        ),
        (
            "keyring_short_fingerprint",
            case(
                "half a fingerprint",
                "KEYRING_MALFORMED",
                with("revoked_fingerprints", json!(["ab".repeat(16)])),
            ),
        ),
        (
            "keyring_bare_sha256_for_a_fingerprint",
            case(
                "a digest of a key that is not its fingerprint",
                "KEYRING_MALFORMED",
                with("revoked_fingerprints", json!([Digest::of(cfo().verifying_key().as_bytes())])),
            ),
        ),
        ("key_id_empty", case("no id", "KEYRING_KEY_ID", id(""))),
        ("key_id_padded", case("an id with a blank after it", "KEYRING_KEY_ID", id("cfo-1 "))),
        (
            "key_id_hidden",
            case("an id with a character that is not seen", "KEYRING_KEY_ID", id("cfo\u{200b}-1")),
        ),
        ("key_id_long", case("an id of 257 bytes", "KEYRING_KEY_ID", id(&"k".repeat(257)))),
        (
            "key_of_small_order",
            case("the neutral point", "KEY_WEAK", key(format!("01{}", "00".repeat(31)).into())),
        ),
        (
            "key_of_mixed_order",
            case(
                "a good key and a point of order two",
                "KEY_WEAK",
                key(hex(&plus_torsion(&mallory())).into()),
            ),
        ),
        (
            "key_not_canonical",
            case("the neutral point in its other spelling", "KEY_WEAK", key(hex(&high).into())),
        ),
        ("key_of_31_bytes", case("a byte too few", "KEY_MALFORMED", key("ab".repeat(31).into()))),
        (
            "key_with_spare_bits",
            case("spare bits set", "KEY_MALFORMED", key(format!("{}//=", &public(&mallory())[..41]).into())),
        ),
        (
            "key_private",
            case(
                "a private key's armour",
                "KEY_MALFORMED",
                key(armoured(&mallory()).replace("PUBLIC", "PRIVATE").into()),
            ),
        ),
        ("key_twice", case("one key under two ids", "KEYRING_DUPLICATE_KEY", key(digits(&cfo()).into()))),
        (
            "key_time",
            case(
                "a time that is none",
                "KEYRING_TIME",
                scoped(&json!({"expires_at": "2026-13-01T00:00:00Z"})),
            ),
        ),
        ("key_scope_empty", case("a scope of nothing", "KEYRING_SCOPE", scoped(&json!({"tools": []})))),
        (
            "key_scope_wildcard",
            case("a scope that looks like everything", "KEYRING_SCOPE", scoped(&json!({"tools": ["*"]}))),
        ),
        (
            "key_scope_unknown_impact",
            case("an impact that there is not", "KEYRING_SCOPE", scoped(&json!({"impacts": ["Money"]}))),
        ),
        (
            "threshold_zero",
            case("nobody must sign", "KEYRING_THRESHOLD", with("thresholds", json!({"irreversible": 0}))),
        ),
        (
            "threshold_out_of_reach",
            case(
                "more must sign than there are",
                "KEYRING_THRESHOLD",
                with("thresholds", json!({"irreversible": 3})),
            ),
        ),
        (
            "threshold_of_no_impact",
            case(
                "for an impact that there is not",
                "KEYRING_THRESHOLD",
                with("thresholds", json!({"destroy": 1})),
            ),
        ),
    ]
}

/// The key's point plus the point of order two, (0, -1): that is (-x, -y).
fn plus_torsion(key: &SigningKey) -> [u8; 32] {
    let mut encoding = *key.verifying_key().as_bytes();
    let sign = encoding[31] & 0x80;
    encoding[31] &= 0x7f;
    let mut prime = [0xff_u8; 32];
    (prime[0], prime[31]) = (0xed, 0x7f);
    let mut borrow = false;
    for (byte, p) in encoding.iter_mut().zip(prime) {
        let (difference, first) = p.overflowing_sub(*byte);
        let (difference, second) = difference.overflowing_sub(u8::from(borrow));
        (*byte, borrow) = (difference, first || second);
    }
    encoding[31] |= sign ^ 0x80;
    encoding
}

fn policies() -> Vec<Case> {
    let case = |about: &str, code: &str, text: &str| {
        let vector = changed(strict(good()), |vector| vector["policy_text"] = text.into());
        file_refused(about, "policy_refused", code, vector)
    };
    vec![
        ("policy_unknown_member", case("a word misspelt", "POLICY_MALFORMED", r#"{"impact_by_tools":{}}"#)),
        (
            "policy_unknown_impact",
            case("an impact that there is not", "POLICY_IMPACT", r#"{"impact_by_tool":{"a":"none"}}"#),
        ),
        (
            "policy_tool_twice",
            case("a tool twice", "POLICY_MALFORMED", r#"{"impact_by_tool":{"a":"money","a":"read"}}"#),
        ),
    ]
}
