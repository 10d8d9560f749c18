use countersign_core::{Digest, ImpactClass, Principal};
use countersign_keys::{SigningKey, VerifyingKey};
use serde_json::{Value, json};

use super::signing::{NOW, at, signer};
use crate::{EvidenceKeyring, KeyStatus, KeyringError};

/// Encodings of the eight points of small order, and of points with a coordinate above the field's prime.
const SMALL_ORDER: [&str; 11] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000080",
];

fn read(file: &Value) -> Result<EvidenceKeyring, KeyringError> {
    EvidenceKeyring::from_json(file.to_string().as_bytes())
}

/// Code and place of the refusal of a file.
fn refusal(file: &Value) -> (&'static str, Option<String>) {
    let error = read(file).unwrap_err();
    (error.code(), error.place().map(str::to_owned))
}

fn public(seed: u8) -> VerifyingKey {
    SigningKey::from_seed([seed; 32]).verifying_key()
}

fn base64(seed: u8) -> String {
    public(seed).to_base64()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> [u8; 32] {
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// `SubjectPublicKeyInfo` of Ed25519 in PEM.
fn pem(key: &VerifyingKey) -> String {
    use base64ct::Encoding as _;
    let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let der = [head.as_slice(), key.as_bytes()].concat();
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        base64ct::Base64::encode_string(&der)
    )
}

/// A key as JSON under the id `a`.
fn with(key: &Value) -> Value {
    json!({"trusted_keys": {"a": key}})
}

#[test]
fn a_key_is_one_key_in_every_spelling() {
    // With `+` and `/` in base64, so that the two alphabets differ.
    let key =
        (0..=255).map(public).find(|key| key.to_base64().contains('+') && key.to_base64().contains('/'));
    let key = key.unwrap();
    let (digits, text) = (hex(key.as_bytes()), key.to_base64());
    let url = text.replace('+', "-").replace('/', "_");
    let spellings = [
        digits.clone(),
        digits.to_uppercase(),
        format!("0x{digits}"),
        text.clone(),
        text.trim_end_matches('=').to_owned(),
        url.clone(),
        url.trim_end_matches('=').to_owned(),
        format!(" {text}\n"),
        pem(&key),
        pem(&key).replace('\n', "\r\n"),
        pem(&key).trim_end().to_owned(),
    ];
    for spelling in spellings {
        for form in [json!(spelling), json!({"public_key": spelling})] {
            let keyring = read(&with(&form)).unwrap();
            assert_eq!(keyring.keys().map(|(_, key)| *key.key()).collect::<Vec<_>>(), [key], "{spelling}");
        }
    }
}

#[test]
fn malformed_key_is_refused_in_any_spelling() {
    let (digits, text, armoured) = (hex(public(1).as_bytes()), base64(1), pem(&public(1)));
    let mut other_algorithm = armoured.clone();
    // 1.3.101.110 is X25519.
    other_algorithm = other_algorithm.replace("MCowBQYDK2Vw", "MCowBQYDK2Vu");
    assert_ne!(other_algorithm, armoured);
    for wrong in [
        String::new(),
        " ".to_owned(),
        digits[..62].to_owned(),
        format!("{digits}00"),
        format!("0x0x{digits}"),
        format!("0X{digits}"),
        digits.replacen(&digits[..1], "g", 1),
        text[..40].to_owned(),
        format!("{text}="),
        format!("{}==", text.trim_end_matches('=')),
        format!("{} {}", &text[..20], &text[20..]),
        other_algorithm,
        armoured.replace("PUBLIC KEY", "PRIVATE KEY"),
        armoured.replacen("-----BEGIN PUBLIC KEY-----", "-----BEGIN PUBLIC KEY----- ", 1),
        armoured.replacen('\n', "\nComment: a key\n\n", 1),
        format!("{armoured}{armoured}"),
        format!("{armoured}trailing"),
        armoured.replace("\n-----END PUBLIC KEY-----\n", ""),
        armoured.replace("=\n", "\n"),
    ] {
        assert_eq!(
            refusal(&with(&json!(wrong))),
            ("KEY_MALFORMED", Some("/trusted_keys/a".to_owned())),
            "{wrong}"
        );
    }
}

#[test]
fn a_small_order_or_non_canonical_key_never_becomes_active() {
    for digits in SMALL_ORDER {
        for spelling in [digits.to_owned(), {
            use base64ct::Encoding as _;
            base64ct::Base64::encode_string(&unhex(digits))
        }] {
            let code = refusal(&with(&json!(spelling))).0;
            assert!(["KEY_WEAK", "KEY_MALFORMED"].contains(&code), "{digits}: {code}");
        }
    }
}

#[test]
fn a_mixed_order_key_never_becomes_active() {
    // A point plus the point of order two, (0, -1), is (-x, -y).
    let mut encoding = *public(1).as_bytes();
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
    assert_eq!(refusal(&with(&json!(hex(&encoding)))).0, "KEY_WEAK");
}

#[test]
fn spare_base64_bits_of_a_key_are_refused() {
    // 32 bytes end in a character of which two bits are spare.
    let text = base64(1);
    let last = text.as_bytes()[42];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = alphabet.iter().position(|b| *b == last).unwrap();
    assert_eq!(value % 4, 0);
    for spare in 1..4 {
        let spelling = format!("{}{}", &text[..42], char::from(alphabet[value + spare]));
        assert_eq!(refusal(&with(&json!(spelling))).0, "KEY_MALFORMED");
        assert_eq!(refusal(&with(&json!(format!("{spelling}=")))).0, "KEY_MALFORMED");
    }
}

#[test]
fn one_public_key_under_two_ids_is_refused() {
    let file = json!({"trusted_keys": {"a": base64(1), "b": {"public_key": hex(public(1).as_bytes())}}});
    assert_eq!(refusal(&file), ("KEYRING_DUPLICATE_KEY", Some("/trusted_keys/b".to_owned())));
    let short = json!({"a": base64(1), "b": base64(1)});
    assert_eq!(refusal(&short), ("KEYRING_DUPLICATE_KEY", Some("/b".to_owned())));
}

#[test]
fn the_short_form_holds_ids_and_keys_and_nothing_else() {
    let keyring = read(&json!({"a": base64(1), "b": hex(public(2).as_bytes())})).unwrap();
    assert_eq!(keyring.len(), 2);
    assert!(read(&json!({})).unwrap().is_empty());
    for wrong in [
        json!({"a": {"public_key": base64(1)}}),
        json!({"a": base64(1), "revoked_keys": ["a"]}),
        json!({"revoked_keys": ["a"]}),
        json!({"revoked_fingerprints": []}),
        json!({"thresholds": "1"}),
        json!({"a": null}),
        json!([]),
        json!("a"),
        json!(null),
    ] {
        assert_eq!(refusal(&wrong).0, "KEYRING_MALFORMED", "{wrong}");
    }
}

#[test]
fn unknown_and_mistyped_members_are_refused_with_their_place() {
    let key = base64(1);
    for (file, place) in [
        (json!({"trusted_keys": [key]}), "/trusted_keys"),
        (json!({"trusted_keys": null}), "/trusted_keys"),
        (json!({"trusted_keys": {}, "a": key}), "/a"),
        (json!({"trusted_keys": {}, "Thresholds": {}}), "/Thresholds"),
        (json!({"trusted_keys": {"a": 1}}), "/trusted_keys/a"),
        (json!({"trusted_keys": {"a": {}}}), "/trusted_keys/a"),
        (json!({"trusted_keys": {"a": {"public_key": 1}}}), "/trusted_keys/a/public_key"),
        (json!({"trusted_keys": {"a": {"public_key": key, "scope": []}}}), "/trusted_keys/a/scope"),
        (
            json!({"trusted_keys": {"a": {"public_key": key, "expires_at": null}}}),
            "/trusted_keys/a/expires_at",
        ),
        (json!({"trusted_keys": {"a": {"public_key": key, "not_before": 0}}}), "/trusted_keys/a/not_before"),
        (json!({"trusted_keys": {}, "revoked_keys": "a"}), "/revoked_keys"),
        (json!({"trusted_keys": {}, "revoked_keys": null}), "/revoked_keys"),
        (json!({"trusted_keys": {}, "revoked_keys": ["a", 1]}), "/revoked_keys/1"),
        (json!({"trusted_keys": {}, "revoked_fingerprints": ["ab"]}), "/revoked_fingerprints/0"),
        (json!({"trusted_keys": {}, "thresholds": []}), "/thresholds"),
    ] {
        assert_eq!(refusal(&file), ("KEYRING_MALFORMED", Some(place.to_owned())), "{file}");
    }
    let upper = public(1).fingerprint().to_string().to_uppercase();
    assert_eq!(refusal(&json!({"trusted_keys": {}, "revoked_fingerprints": [upper]})).0, "KEYRING_MALFORMED");
}

#[test]
fn a_duplicate_member_is_refused_anywhere() {
    let key = base64(1);
    for file in [
        format!(r#"{{"a": "{key}", "a": "{key}"}}"#),
        format!(r#"{{"trusted_keys": {{"a": "{key}", "\u0061": "{}"}}}}"#, base64(2)),
        r#"{"trusted_keys": {}, "trusted_keys": {}}"#.to_owned(),
        format!(r#"{{"trusted_keys": {{"a": {{"public_key": "{key}", "public_key": "{key}"}}}}}}"#),
        r#"{"trusted_keys": {}, "revoked_keys": ["a"], "revoked_keys": []}"#.to_owned(),
    ] {
        assert_eq!(
            EvidenceKeyring::from_json(file.as_bytes()).unwrap_err().code(),
            "JSON_DUPLICATE_NAME",
            "{file}"
        );
    }
}

#[test]
fn ids_that_look_like_others_are_refused() {
    let long = "a".repeat(257);
    for id in ["", " ", " a", "a ", "a\n", "a\u{200b}", "\u{202e}a", "a\u{a0}", long.as_str()] {
        assert_eq!(refusal(&json!({"trusted_keys": {id: base64(1)}})).0, "KEYRING_KEY_ID", "{id:?}");
        assert_eq!(refusal(&json!({id: base64(1)})).0, "KEYRING_KEY_ID", "{id:?}");
        assert_eq!(refusal(&json!({"trusted_keys": {}, "revoked_keys": [id]})).0, "KEYRING_KEY_ID", "{id:?}");
    }
    let longest = "a".repeat(256);
    assert!(read(&json!({"trusted_keys": {longest: base64(1)}})).is_ok());
}

#[test]
fn ids_are_compared_as_they_are() {
    let keyring = read(&with(&json!(base64(1)))).unwrap();
    assert_eq!(keyring.status("a", at(NOW)), KeyStatus::Ok);
    for id in ["A", " a", "a ", "", "a\u{0}", "b"] {
        assert_eq!(keyring.status(id, at(NOW)), KeyStatus::Missing, "{id:?}");
        assert!(keyring.active(id, at(NOW)).is_none());
    }
}

#[test]
fn a_key_counts_from_not_before_until_just_before_it_expires() {
    let keyring = read(&with(&json!({
        "public_key": base64(1), "not_before": "2026-01-31T12:00:00Z", "expires_at": "2026-01-31T13:00:01+01:00",
    })))
    .unwrap();
    for (now, status) in [
        (0, KeyStatus::NotYetValid),
        (NOW - 1, KeyStatus::NotYetValid),
        (NOW, KeyStatus::Ok),
        (NOW + 999, KeyStatus::Ok),
        (NOW + 1_000, KeyStatus::Expired),
        (NOW + 1_001, KeyStatus::Expired),
    ] {
        assert_eq!(keyring.status("a", at(now)), status, "{now}");
        assert_eq!(keyring.active("a", at(now)).is_some(), status == KeyStatus::Ok, "{now}");
    }
}

#[test]
fn a_time_without_an_offset_is_utc() {
    let keyring =
        read(&with(&json!({"public_key": base64(1), "expires_at": "2026-01-31T12:00:00"}))).unwrap();
    assert_eq!(keyring.keys().next().unwrap().1.expires(), Some(at(NOW)));
}

#[test]
fn a_key_that_expired_before_1970_is_expired_at_any_time() {
    let keyring =
        read(&with(&json!({"public_key": base64(1), "expires_at": "1969-07-20T20:17:00Z"}))).unwrap();
    assert_eq!(keyring.status("a", at(0)), KeyStatus::Expired);
    let keyring =
        read(&with(&json!({"public_key": base64(1), "not_before": "1969-07-20T20:17:00Z"}))).unwrap();
    assert_eq!(keyring.status("a", at(0)), KeyStatus::Ok);
}

#[test]
fn times_that_are_not_of_rfc_3339_are_refused() {
    for name in ["expires_at", "not_before"] {
        for time in
            ["", "tomorrow", "2026-01-31", "2026-02-30T00:00:00Z", " 2026-01-31T12:00:00Z", "1769860800"]
        {
            let file = with(&json!({"public_key": base64(1), name: time}));
            assert_eq!(refusal(&file), ("KEYRING_TIME", Some(format!("/trusted_keys/a/{name}"))), "{time}");
        }
    }
}

#[test]
fn a_revoked_id_is_revoked_whether_its_key_is_there_or_not() {
    let file = json!({"trusted_keys": {"a": base64(1), "b": base64(2)}, "revoked_keys": ["a", "c", "a"]});
    let keyring = read(&file).unwrap();
    let status = |id| keyring.status(id, at(NOW));
    assert_eq!(
        [status("a"), status("b"), status("c")],
        [KeyStatus::Revoked, KeyStatus::Ok, KeyStatus::Revoked]
    );
    assert!(keyring.active("a", at(NOW)).is_none());
}

#[test]
fn a_revoked_fingerprint_revokes_the_key_under_any_id() {
    let revoked = [public(1).fingerprint().to_string()];
    for id in ["a", "renamed"] {
        let file = json!({"trusted_keys": {id: base64(1), "b": base64(2)}, "revoked_fingerprints": revoked});
        let keyring = read(&file).unwrap();
        assert_eq!(keyring.status(id, at(NOW)), KeyStatus::Revoked);
        assert!(keyring.active(id, at(NOW)).is_none());
        assert_eq!(keyring.status("b", at(NOW)), KeyStatus::Ok);
    }
}

#[test]
fn the_bare_sha256_of_a_key_is_no_fingerprint_of_it() {
    let bare = |key: u8| Digest::of(public(key).as_bytes()).to_string();
    let file = |revoked: String| json!({"trusted_keys": {"a": base64(1)}, "revoked_fingerprints": [revoked]});
    assert_eq!(refusal(&file(bare(1))), ("KEYRING_MALFORMED", Some("/revoked_fingerprints".to_owned())));
    // The digest of an absent key looks like a fingerprint.
    assert!(read(&file(bare(2))).is_ok());
}

#[test]
fn absent_scope_allows_everything() {
    let keyring = read(&with(&json!({
        "public_key": base64(1), "tools": ["pay"], "impacts": ["money", "write"], "principals": ["alice"],
    })))
    .unwrap();
    let (alice, eve) = (Principal::new("alice").unwrap(), Principal::new("eve").unwrap());
    let scope = keyring.active("a", at(NOW)).unwrap().scope();
    assert!(scope.allows_tool("pay") && !scope.allows_tool("Pay") && !scope.allows_tool("pa"));
    assert!(scope.allows_impact(ImpactClass::Money) && !scope.allows_impact(ImpactClass::Irreversible));
    assert!(scope.allows_principal(Some(&alice)) && !scope.allows_principal(Some(&eve)));
    assert!(!scope.allows_principal(None));
    let keyring = read(&with(&json!(base64(1)))).unwrap();
    let scope = keyring.active("a", at(NOW)).unwrap().scope();
    assert!(scope.allows_tool("any") && scope.allows_principal(None) && scope.allows_principal(Some(&eve)));
    assert!(ImpactClass::ALL.iter().all(|impact| scope.allows_impact(*impact)));
}

#[test]
fn a_scope_that_can_match_nothing_is_refused() {
    for (name, scope) in [
        ("tools", json!([])),
        ("tools", json!(["pay", "pay"])),
        ("tools", json!(["*"])),
        ("tools", json!(["pay*"])),
        ("tools", json!([""])),
        ("tools", json!([" pay"])),
        ("tools", json!(["pay\u{200b}"])),
        ("tools", json!("pay")),
        ("tools", json!(null)),
        ("servers", json!([])),
        ("servers", json!(["bank", "bank"])),
        ("servers", json!([""])),
        ("servers", json!(null)),
        ("impacts", json!([])),
        ("impacts", json!(["Money"])),
        ("impacts", json!(["all"])),
        ("impacts", json!(["money", "money"])),
        ("principals", json!([])),
        ("principals", json!([""])),
        ("principals", json!([1])),
    ] {
        let file = with(&json!({"public_key": base64(1), name: scope}));
        assert_eq!(refusal(&file).0, "KEYRING_SCOPE", "{name} {scope}");
    }
}

#[test]
fn thresholds_are_between_one_and_the_number_of_keys() {
    let file = |thresholds: Value| json!({"trusted_keys": {"a": base64(1), "b": base64(2)}, "thresholds": thresholds});
    let keyring = read(&file(json!({"irreversible": 2, "money": 1}))).unwrap();
    assert_eq!(keyring.threshold(ImpactClass::Irreversible), 2);
    assert_eq!(keyring.threshold(ImpactClass::Money), 1);
    assert_eq!(keyring.threshold(ImpactClass::Read), 1);
    let stated: Vec<_> = keyring.thresholds().collect();
    assert_eq!(stated, [(ImpactClass::Money, 1), (ImpactClass::Irreversible, 2)]);
    assert_eq!(EvidenceKeyring::empty().threshold(ImpactClass::Irreversible), 1);
    for wrong in [
        json!({"irreversible": 0}),
        json!({"irreversible": 3}),
        json!({"irreversible": -1}),
        json!({"irreversible": 1.5}),
        json!({"irreversible": "2"}),
        json!({"irreversible": null}),
        json!({"Irreversible": 2}),
        json!({"all": 2}),
    ] {
        assert_eq!(refusal(&file(wrong.clone())).0, "KEYRING_THRESHOLD", "{wrong}");
    }
}

#[test]
fn a_file_over_a_limit_is_refused_unread() {
    let padded = format!("{{}}{}", " ".repeat((1 << 20) - 2));
    assert!(EvidenceKeyring::from_json(padded.as_bytes()).is_ok());
    let error = EvidenceKeyring::from_json(format!("{padded} ").as_bytes()).unwrap_err();
    assert_eq!(error.code(), "KEYRING_TOO_LARGE");
    let ids = |count: usize| (0..count).map(|n| json!(format!("k{n}"))).collect::<Vec<_>>();
    assert!(read(&json!({"trusted_keys": {}, "revoked_keys": ids(4_096)})).is_ok());
    let error = read(&json!({"trusted_keys": {}, "revoked_keys": ids(4_097)})).unwrap_err();
    assert_eq!(error.code(), "KEYRING_TOO_MANY");
    let keys: serde_json::Map<_, _> = (0..4_097).map(|n| (format!("k{n}"), json!("x"))).collect();
    assert_eq!(refusal(&json!({"trusted_keys": keys})).0, "KEYRING_TOO_MANY");
}

#[test]
fn lax_json_is_refused() {
    for (file, code) in [
        (&b""[..], "JSON_UNEXPECTED_END"),
        (b"{", "JSON_UNEXPECTED_END"),
        (b"{} {}", "JSON_TRAILING_DATA"),
        (b"\xef\xbb\xbf{}", "JSON_BOM"),
        (b"{\"a\": \"\xff\"}", "JSON_INVALID_UTF8"),
        (br#"{"trusted_keys": {}, "thresholds": {"money": 9007199254740993}}"#, "JSON_INEXACT_NUMBER"),
    ] {
        assert_eq!(EvidenceKeyring::from_json(file).unwrap_err().code(), code);
    }
}

#[test]
fn a_keyring_that_is_written_is_read_back_the_same() {
    let file = json!({
        "trusted_keys": {
            "a": {
                "public_key": pem(&public(1)), "expires_at": "2027-01-01T00:00:00.5+02:00",
                "not_before": "2026-01-01T00:00:00", "tools": ["b", "a"], "impacts": ["privacy", "money"],
                "principals": ["alice"], "servers": ["shop", "bank"],
            },
            "b": hex(public(2).as_bytes()),
        },
        "revoked_keys": ["z", "b"],
        "revoked_fingerprints": [public(3).fingerprint().to_string()],
        "thresholds": {"irreversible": 1},
    });
    let keyring = read(&file).unwrap();
    let written = keyring.to_json();
    assert_eq!(EvidenceKeyring::from_json(written.as_bytes()).unwrap(), keyring);
    assert_eq!(EvidenceKeyring::from_json(written.as_bytes()).unwrap().to_json(), written);
    assert!(written.contains(r#""expires_at":"2026-12-31T22:00:00.500Z""#), "{written}");
    assert_eq!(EvidenceKeyring::empty().to_json(), r#"{"trusted_keys":{}}"#);
}

#[test]
fn a_refusal_names_no_key_and_no_id() {
    let secret = "do-not-print-this";
    let file = json!({"trusted_keys": {secret: {"public_key": base64(1), "tools": [secret, secret]}}});
    let error = read(&file).unwrap_err();
    assert!(!error.to_string().contains(secret));
    assert_eq!(error.place(), Some("/trusted_keys/do-not-print-this"));
    let odd = json!({"trusted_keys": {"a/b~c\u{202e}": base64(1)}});
    assert_eq!(read(&odd).unwrap_err().place(), Some("/trusted_keys/a~1b~0c\\u{202e}"));
}

#[test]
fn empty_keyring_has_no_keys() {
    assert_eq!(EvidenceKeyring::empty().status("a", at(NOW)), KeyStatus::Missing);
    assert!(EvidenceKeyring::empty().active(signer().key_id().as_ref(), at(NOW)).is_none());
}

#[test]
fn a_threshold_that_active_keys_cannot_meet_is_refused() {
    let expired = json!({"public_key": base64(2), "expires_at": "2020-01-01T00:00:00Z"});
    let file = |more: Value| {
        let mut file = json!({"trusted_keys": {"a": base64(1), "b": base64(2)}, "thresholds": {"money": 2}});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file
    };
    let refused_at = |file: &Value| {
        let error = EvidenceKeyring::from_json_at(file.to_string().as_bytes(), at(NOW)).unwrap_err();
        (error.code(), error.place().map(str::to_owned))
    };
    let expected = ("KEYRING_THRESHOLD", Some("/thresholds/money".to_owned()));
    assert!(EvidenceKeyring::from_json_at(file(json!({})).to_string().as_bytes(), at(NOW)).is_ok());
    for more in [
        json!({"revoked_keys": ["b"]}),
        json!({"revoked_fingerprints": [public(2).fingerprint().to_string()]}),
    ] {
        assert_eq!(refused_at(&file(more.clone())), expected, "{more}");
        assert_eq!(refusal(&file(more.clone())), expected, "without a clock, {more}");
    }
    let with_expired = file(json!({"trusted_keys": {"a": base64(1), "b": expired}}));
    assert_eq!(refused_at(&with_expired), expected);
    assert!(read(&with_expired).is_ok(), "without a clock no key has expired");
}

#[test]
fn a_weak_key_that_is_revoked_or_expired_is_inactive() {
    let weak = SMALL_ORDER[0];
    let digest = VerifyingKey::fingerprint_of(&unhex(weak)).to_string();
    let until = |time: &str| json!({"public_key": weak, "expires_at": time});
    let over = "2020-01-01T00:00:00Z";
    for (key, more, status) in [
        (json!(weak), json!({"revoked_keys": ["old"]}), KeyStatus::Revoked),
        (json!(weak), json!({"revoked_fingerprints": [digest]}), KeyStatus::Revoked),
        (until(over), json!({}), KeyStatus::Expired),
    ] {
        let mut file = json!({"trusted_keys": {"old": key, "a": base64(1)}});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let keyring = EvidenceKeyring::from_json_at(file.to_string().as_bytes(), at(NOW)).unwrap();
        assert_eq!((keyring.status("old", at(NOW)), keyring.len()), (status, 1), "{file}");
        assert!(keyring.active("old", at(0)).is_none(), "a clock that goes back makes it no better");
        assert!(keyring.active("a", at(NOW)).is_some());
        assert_eq!(keyring.weak_ids().collect::<Vec<_>>(), ["old"]);
        let again = EvidenceKeyring::from_json_at(keyring.to_json().as_bytes(), at(NOW)).unwrap();
        assert_eq!(again, keyring);
        let short = json!({"trusted_keys": file["trusted_keys"], "thresholds": {"money": 2}});
        assert!(EvidenceKeyring::from_json_at(short.to_string().as_bytes(), at(NOW)).is_err());
    }
    for key in [json!(weak), until("2190-01-01T00:00:00Z")] {
        let file = json!({"trusted_keys": {"old": key}}).to_string();
        let error = EvidenceKeyring::from_json_at(file.as_bytes(), at(NOW)).unwrap_err();
        assert_eq!(error.code(), "KEY_WEAK");
    }
    let malformed = json!({"trusted_keys": {"old": "AAAA"}, "revoked_keys": ["old"]});
    assert_eq!(refusal(&malformed).0, "KEY_MALFORMED");
}
