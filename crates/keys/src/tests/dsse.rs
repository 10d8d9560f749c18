use proptest::prelude::*;

use super::{key, root, root_of_version};
use crate::dsse::{Envelope, EnvelopeError, pre_authentication_encoding};
use crate::{SigningKey, TrustRoot, VerifyingKey, base64, threshold_met};

const TYPE: &str = "application/vnd.countersign.test+json";

fn read(json: &str) -> Result<Envelope, EnvelopeError> {
    Envelope::from_json(json.as_bytes(), 64 * 1024)
}

fn verify(envelope: &Envelope, root: &TrustRoot) -> Result<Vec<VerifyingKey>, EnvelopeError> {
    envelope.verify(TYPE, root, &|_| false).map(|verified| verified.signers().to_vec())
}

/// An envelope with the given signatures, composed by hand.
fn envelope(payload: &[u8], signatures: &[(&str, &SigningKey)]) -> String {
    let signed = pre_authentication_encoding(TYPE, payload);
    let signatures: Vec<_> = signatures
        .iter()
        .map(|(id, key)| format!(r#"{{"keyid":"{id}","sig":"{}"}}"#, key.sign(&signed).to_base64()))
        .collect();
    format!(
        r#"{{"payload":"{}","payloadType":"{TYPE}","signatures":[{}]}}"#,
        base64::encode(payload),
        signatures.join(",")
    )
}

#[test]
fn the_encoding_is_that_of_the_dsse_specification() {
    let encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world");
    assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    // Lengths are in bytes.
    assert_eq!(pre_authentication_encoding("\u{e9}", b""), "DSSEv1 2 \u{e9} 0 ".as_bytes());
}

#[test]
fn an_envelope_is_written_and_read_again() {
    let json = Envelope::sign(TYPE, b"payload", &[&key(1), &key(2)]).to_json();
    let id = key(1).key_id();
    let again = read(&json).unwrap();
    assert_eq!(again.to_json(), json);
    assert_eq!(again.unverified_payload(), b"payload");
    assert_eq!(again.unverified_key_ids().next(), Some(id.as_str()));
    let verified = again.verify(TYPE, &root(2, &[1, 2, 3]), &|_| false).unwrap();
    assert_eq!(verified.payload(), b"payload");
    assert_eq!(verified.signers().len(), 2);
}

#[test]
fn a_threshold_met_by_one_key_twice_is_refused() {
    let id = key(1).key_id();
    let twice = read(&envelope(b"p", &[(id.as_str(), &key(1)), (id.as_str(), &key(1))])).unwrap();
    assert_eq!(verify(&twice, &root(2, &[1, 2])), Err(EnvelopeError::Threshold { have: 1, need: 2 }));
}

#[test]
fn a_threshold_met_by_two_ids_of_one_key_is_refused() {
    let (signer, other) = (key(1), key(2).key_id());
    for ids in [["a", "b"], ["a", other.as_str()], [other.as_str(), "a"]] {
        let twice = read(&envelope(b"p", &ids.map(|id| (id, &signer)))).unwrap();
        assert_eq!(verify(&twice, &root(2, &[1, 2])), Err(EnvelopeError::Threshold { have: 1, need: 2 }));
    }
}

#[test]
fn a_key_is_counted_once_however_often_it_is_named() {
    let (one, two) = (key(1).verifying_key(), key(2).verifying_key());
    let two_of_two = root(2, &[1, 2]);
    assert!(!threshold_met([&one, &one, &one].into_iter(), &two_of_two));
    assert!(!threshold_met([&one, &key(3).verifying_key()].into_iter(), &two_of_two));
    assert!(!threshold_met([].into_iter(), &root(1, &[1])));
    assert!(threshold_met([&one, &two].into_iter(), &two_of_two));
}

#[test]
fn key_id_is_only_a_hint() {
    // Unknown or missing key ids do not prevent verifying. A stranger's signature with a trusted key's id does not
    // count.
    let named = envelope(b"p", &[("whatever", &key(1)), ("", &key(2))]);
    assert_eq!(verify(&read(&named).unwrap(), &root(2, &[1, 2])).unwrap().len(), 2);
    let unnamed = named.replace(r#""keyid":"","#, "");
    assert_eq!(verify(&read(&unnamed).unwrap(), &root(2, &[1, 2])).unwrap().len(), 2);
    let (good, swapped) = (key(1).key_id(), key(2).key_id());
    let stranger = read(&envelope(b"p", &[(good.as_str(), &key(9))])).unwrap();
    assert_eq!(verify(&stranger, &root(1, &[1])), Err(EnvelopeError::Threshold { have: 0, need: 1 }));
    let crossed = read(&envelope(b"p", &[(swapped.as_str(), &key(1)), (good.as_str(), &key(2))])).unwrap();
    assert_eq!(verify(&crossed, &root(2, &[1, 2])).unwrap().len(), 2);
}

#[test]
fn a_revoked_key_does_not_count() {
    let signed = Envelope::sign(TYPE, b"p", &[&key(1), &key(2)]);
    let gone = key(2).verifying_key();
    let refused = signed.verify(TYPE, &root(2, &[1, 2]), &|key| *key == gone).map(|_| ());
    assert_eq!(refused, Err(EnvelopeError::Threshold { have: 1, need: 2 }));
}

#[test]
fn signature_over_respelt_json_is_refused() {
    let json = envelope(br#"{"a":1}"#, &[("", &key(1))]);
    let other = json.replace(&base64::encode(br#"{"a":1}"#), &base64::encode(br#"{"a": 1}"#));
    assert_ne!(json, other);
    assert!(verify(&read(&json).unwrap(), &root(1, &[1])).is_ok());
    assert_eq!(
        verify(&read(&other).unwrap(), &root(1, &[1])),
        Err(EnvelopeError::Threshold { have: 0, need: 1 })
    );
}

#[test]
fn a_payload_of_another_type_is_refused() {
    let signed = Envelope::sign("text/plain", b"p", &[&key(1)]);
    assert_eq!(verify(&signed, &root(1, &[1])), Err(EnvelopeError::PayloadType));
    // The signed bytes include the type.
    let json = signed.to_json().replace("text/plain", TYPE);
    assert!(matches!(verify(&read(&json).unwrap(), &root(1, &[1])), Err(EnvelopeError::Threshold { .. })));
}

#[test]
fn an_envelope_without_signatures_is_refused() {
    let unsigned = read(&envelope(b"p", &[])).unwrap();
    assert_eq!(verify(&unsigned, &root(1, &[1])), Err(EnvelopeError::Threshold { have: 0, need: 1 }));
}

#[test]
fn operators_sign_one_after_another() {
    let first = Envelope::sign(TYPE, b"p", &[&key(1)]);
    let both = read(&first.to_json()).unwrap().add_signature(&key(2)).add_signature(&key(2));
    assert_eq!(both.unverified_key_ids().count(), 2);
    assert_eq!(verify(&both, &root(2, &[1, 2])).unwrap().len(), 2);
}

#[test]
fn malformed_envelope_is_refused() {
    let good = envelope(b"pay", &[("k", &key(1))]);
    let sig = key(1).sign(&pre_authentication_encoding(TYPE, b"pay")).to_base64();
    let url = good.replace(&sig, &sig.replace('+', "-").replace('/', "_").replace('=', ""));
    let bad = [
        good.replacen('{', r#"{"extra":1,"#, 1),
        good.replace(r#"{"keyid""#, r#"{"alg":"none","keyid""#),
        good.replace("payloadType", "payloadtype"),
        good.replacen('{', r#"{"payload":"cGF5","#, 1),
        good.replace("cGF5", "cGF5\\n"),
        good.replace("cGF5", "cGF5="),
        good.replace(r#""cGF5""#, "null"),
        good.replace(r#""cGF5""#, "7"),
        good.replace(r#""keyid":"k""#, r#""keyid":null"#),
        good.replace(&sig, &sig[4..]),
        url,
        format!("{good}{{}}"),
        format!("\u{feff}{good}"),
        "[]".to_owned(),
        String::new(),
    ];
    for json in bad {
        assert_ne!(json, good);
        assert_eq!(read(&json).unwrap_err().code(), "ENVELOPE_MALFORMED", "{json}");
    }
}

#[test]
fn an_envelope_with_more_than_64_signatures_is_refused() {
    let signer = key(1);
    assert!(read(&envelope(b"p", &vec![("k", &signer); 64])).is_ok());
    let many = read(&envelope(b"p", &vec![("k", &signer); 65])).map(|_| ());
    assert_eq!(many, Err(EnvelopeError::TooManySignatures { max: 64 }));
}

#[test]
fn oversized_envelope_is_refused() {
    let junk = "x".repeat(101);
    let refused = Envelope::from_json(junk.as_bytes(), 100).map(|_| ());
    assert_eq!(refused, Err(EnvelopeError::TooLarge { max: 100 }));
}

#[test]
fn an_envelope_is_printed_without_its_payload() {
    let shown = format!("{:?}", Envelope::sign(TYPE, b"payload", &[&key(1)]));
    assert!(shown.contains("payload_bytes: 7") && !shown.contains("112"), "{shown}");
}

proptest! {
    #[test]
    fn changed_bit_never_changes_a_verified_payload(
        payload in proptest::collection::vec(any::<u8>(), 1..40), at in any::<prop::sample::Index>(), bit in 0..7_u8,
    ) {
        let json = Envelope::sign(TYPE, &payload, &[&key(1)]).to_json();
        let mut bytes = json.clone().into_bytes();
        bytes[at.index(json.len())] ^= 1 << bit;
        let verified = Envelope::from_json(&bytes, 4096)
            .and_then(|envelope| envelope.verify(TYPE, &root(1, &[1]), &|_| false));
        // Only a changed key id has no effect.
        if let Ok(verified) = verified {
            prop_assert_eq!(verified.payload(), &payload[..]);
        }
    }

    #[test]
    fn reading_any_bytes_as_an_envelope_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Envelope::from_json(&bytes, 1024).is_err());
    }
}

#[test]
fn excess_signatures_are_refused_unverified() {
    let strangers: Vec<SigningKey> = (100..164).map(key).collect();
    let crowd: Vec<&SigningKey> = strangers.iter().collect();
    let refused = |keys: &[&SigningKey], root: &TrustRoot| verify(&Envelope::sign(TYPE, b"p", keys), root);
    let good = key(1);
    let with_good = |count: usize| [&[&good][..], crowd.get(..count).unwrap()].concat();
    assert_eq!(refused(&with_good(8), &root(1, &[1])), Err(EnvelopeError::TooManySignatures { max: 8 }));
    assert!(refused(&with_good(7), &root(1, &[1])).is_ok());
    let ten: Vec<u8> = (1..=10).collect();
    assert_eq!(refused(&with_good(20), &root(1, &ten)), Err(EnvelopeError::TooManySignatures { max: 20 }));
    assert!(refused(&with_good(19), &root(1, &ten)).is_ok());
}

#[test]
fn unnamed_signatures_are_tried_up_to_a_bound() {
    let seeds: Vec<u8> = (1..=64).collect();
    let root = root(1, &seeds);
    let strangers: Vec<SigningKey> = (100..163).map(key).collect();
    let good = key(64);
    let crowd: Vec<_> = strangers.iter().map(|key| ("", key)).chain([("", &good)]).collect();
    let unnamed = read(&envelope(b"p", &crowd)).unwrap();
    assert_eq!(verify(&unnamed, &root), Err(EnvelopeError::Threshold { have: 0, need: 1 }));
    // With its key id, the same signature is found at any position.
    let id = good.key_id();
    let crowd: Vec<_> = strangers.iter().map(|key| ("", key)).chain([(id.as_str(), &good)]).collect();
    assert!(verify(&read(&envelope(b"p", &crowd)).unwrap(), &root).is_ok());
}

#[test]
fn root_update_may_have_more_signatures_than_old_keys() {
    let old = root(1, &[1]);
    let seeds: Vec<u8> = (2..=30).collect();
    let new = root_of_version(2, 29, &seeds);
    let keys: Vec<SigningKey> = (1..=30).map(key).collect();
    assert_eq!(old.update(&new.sign(&keys.iter().collect::<Vec<_>>()), &|_| false), Ok(new));
}
