use super::{key, root, root_of_version as next};
use crate::dsse::EnvelopeError;
use crate::{RootError, SigningKey, TrustRoot, VerifyingKey, base64};

fn signed(root: &TrustRoot, seeds: &[u8]) -> crate::dsse::Envelope {
    let keys: Vec<SigningKey> = seeds.iter().map(|seed| key(*seed)).collect();
    root.sign(&keys.iter().collect::<Vec<_>>())
}

fn none_revoked(_: &VerifyingKey) -> bool {
    false
}

#[test]
fn root_file_does_not_depend_on_key_order() {
    let one = root(2, &[1, 2, 3]);
    let two = root(2, &[3, 1, 2]);
    assert_eq!(TrustRoot::from_json(one.to_json().as_bytes()), Ok(two.clone()));
    assert_eq!(one.to_json(), two.to_json());
    assert_eq!(one.fingerprint(), two.fingerprint());
    assert_ne!(one.fingerprint(), root(1, &[1, 2, 3]).fingerprint());
    assert_ne!(one.fingerprint(), next(2, 2, &[1, 2, 3]).fingerprint());
    assert_ne!(one.fingerprint(), root(2, &[1, 2, 4]).fingerprint());
}

#[test]
fn root_with_values_out_of_range_is_refused() {
    let keys = |n: u8| (1..=n).map(|seed| key(seed).verifying_key());
    assert_eq!(TrustRoot::new(1, 1, []), Err(RootError::Keys { max: 64 }));
    assert_eq!(TrustRoot::new(1, 0, keys(2)), Err(RootError::Threshold));
    assert_eq!(TrustRoot::new(1, 3, keys(2)), Err(RootError::Threshold));
    assert_eq!(TrustRoot::new(1, 1, keys(65)), Err(RootError::Keys { max: 64 }));
    assert!(TrustRoot::new(1, 64, keys(64)).is_ok());
    assert_eq!(TrustRoot::new(0, 1, keys(1)), Err(RootError::Version { expected: 1 }));
    assert_eq!(TrustRoot::new(1 << 53, 1, keys(1)), Err(RootError::Version { expected: 1 }));
}

#[test]
fn a_root_that_names_one_key_twice_is_refused() {
    let twice = [key(1), key(1)].map(|key| key.verifying_key());
    assert_eq!(TrustRoot::new(1, 2, twice), Err(RootError::Keys { max: 64 }));
    let json = root(1, &[1]).to_json();
    let (start, end) = (json.find('[').unwrap() + 1, json.find(']').unwrap());
    let doubled = format!("{},{}", &json[..end], &json[start..]);
    assert_eq!(TrustRoot::from_json(doubled.as_bytes()), Err(RootError::Keys { max: 64 }));
}

#[test]
fn a_root_with_a_weak_key_is_refused() {
    let good = root(1, &[1]);
    let mut identity = [0; 32];
    identity[0] = 1;
    let json = good.to_json().replace(&key(1).verifying_key().to_base64(), &base64::encode(&identity));
    let refused = TrustRoot::from_json(json.as_bytes()).unwrap_err();
    assert_eq!(refused.code(), "KEY_WEAK");
}

#[test]
fn malformed_root_file_is_refused() {
    let good = root(1, &[1, 2]).to_json();
    let id = key(1).key_id();
    let cases = [
        (good.replacen('{', r#"{"extra":1,"#, 1), "ROOT_MALFORMED"),
        (good.replace(r#"{"key_id""#, r#"{"algorithm":"none","key_id""#), "ROOT_MALFORMED"),
        (good.replace(r#""threshold":1,"#, ""), "ROOT_MALFORMED"),
        (good.replace(r#""threshold":1"#, r#""threshold":"1""#), "ROOT_MALFORMED"),
        (good.replace(r#""threshold":1"#, r#""threshold":-1"#), "ROOT_MALFORMED"),
        (good.replace(r#""threshold":1"#, r#""threshold":1.5"#), "ROOT_MALFORMED"),
        (good.replace(r#""version":1"#, r#""version":1,"version":2"#), "ROOT_MALFORMED"),
        (good.replace(r#""version":1"#, r#""version":9223372036854775808"#), "ROOT_MALFORMED"),
        (good.replace(r#""version":1"#, r#""version":9007199254740992"#), "ROOT_VERSION"),
        (good.replace(r#""threshold":1"#, r#""threshold":3"#), "ROOT_THRESHOLD"),
        (good.replace("root-1", "root-2"), "ROOT_FORMAT"),
        (good.replace(id.as_str(), key(3).key_id().as_str()), "ROOT_MALFORMED"),
        (good.replace("ed25519:", "ed448:"), "ROOT_MALFORMED"),
        (good.replace(r#""format":"countersign-trust-root-1","#, ""), "ROOT_MALFORMED"),
        (format!("{good} x"), "ROOT_MALFORMED"),
        (String::new(), "ROOT_MALFORMED"),
        (" ".repeat(32 * 1024 + 1), "ROOT_TOO_LARGE"),
    ];
    for (json, code) in cases {
        assert_ne!(json, good);
        assert_eq!(TrustRoot::from_json(json.as_bytes()).unwrap_err().code(), code, "{json:.200}");
    }
}

#[test]
fn root_update_needs_both_thresholds() {
    let old = root(2, &[1, 2, 3]);
    let new = next(2, 2, &[3, 4, 5]);
    assert_eq!(old.update(&signed(&new, &[1, 2, 4, 5]), &none_revoked), Ok(new.clone()));
    assert_eq!(old.update(&signed(&new, &[2, 3, 4]), &none_revoked), Ok(new.clone()));
    let threshold = |have| RootError::Envelope(EnvelopeError::Threshold { have, need: 2 });
    assert_eq!(old.update(&signed(&new, &[1, 2]), &none_revoked), Err(threshold(0)));
    assert_eq!(old.update(&signed(&new, &[1, 2, 4]), &none_revoked), Err(threshold(1)));
    assert_eq!(old.update(&signed(&new, &[4, 5]), &none_revoked), Err(threshold(0)));
    assert_eq!(old.update(&signed(&new, &[1, 4, 5]), &none_revoked), Err(threshold(1)));
}

#[test]
fn a_skipped_root_is_refused_and_a_chain_is_walked() {
    let (one, two, three) = (root(1, &[1]), next(2, 1, &[2]), next(3, 1, &[3]));
    let to_two = signed(&two, &[1, 2]);
    let to_three = signed(&three, &[1, 2, 3]);
    assert_eq!(one.update(&to_three, &none_revoked), Err(RootError::Version { expected: 2 }));
    let at_two = one.update(&to_two, &none_revoked).unwrap();
    assert_eq!(at_two.update(&to_three, &none_revoked), Ok(three));
    assert_eq!(at_two.update(&to_two, &none_revoked), Err(RootError::Version { expected: 3 }));
}

#[test]
fn update_of_a_root_needs_the_next_version() {
    let at_two = next(2, 1, &[1]);
    for version in [1, 2, 4, (1 << 53) - 1] {
        let other = next(version, 1, &[1, 9]);
        assert_eq!(
            at_two.update(&signed(&other, &[1]), &none_revoked),
            Err(RootError::Version { expected: 3 }),
            "{version}"
        );
    }
}

#[test]
fn a_root_of_the_last_version_cannot_be_replaced() {
    let last = next((1 << 53) - 1, 1, &[1]);
    let json = last.to_json().replace("9007199254740991", "9007199254740992");
    let envelope = crate::dsse::Envelope::sign(crate::root_update::PAYLOAD_TYPE, json.as_bytes(), &[&key(1)]);
    assert_eq!(last.update(&envelope, &none_revoked).unwrap_err().code(), "ROOT_VERSION");
}

#[test]
fn a_signed_payload_of_another_type_is_no_root() {
    let new = next(2, 1, &[1]);
    let envelope = crate::dsse::Envelope::sign("text/plain", new.to_json().as_bytes(), &[&key(1)]);
    assert_eq!(
        root(1, &[1]).update(&envelope, &none_revoked),
        Err(RootError::Envelope(EnvelopeError::PayloadType))
    );
}

#[test]
fn a_revoked_key_does_not_sign_the_next_root() {
    let (old, new) = (root(1, &[1, 2]), next(2, 1, &[3]));
    let stolen = key(1).verifying_key();
    let refused = old.update(&signed(&new, &[1, 3]), &|key| *key == stolen);
    assert_eq!(refused, Err(RootError::Envelope(EnvelopeError::Threshold { have: 0, need: 1 })));
    assert_eq!(old.update(&signed(&new, &[2, 3]), &|key| *key == stolen), Ok(new));
    // It does not count for the new root either, even if that still contains it.
    let keeps = next(2, 1, &[1, 4]);
    let refused = old.update(&signed(&keeps, &[1, 2]), &|key| *key == stolen);
    assert_eq!(refused, Err(RootError::Envelope(EnvelopeError::Threshold { have: 0, need: 1 })));
}
