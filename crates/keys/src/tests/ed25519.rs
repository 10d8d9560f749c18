use super::{key, unhex};
use base64ct::{Base64, Encoding as _};

use crate::{KeyError, Signature, SignatureError, SigningKey, VerifyingKey, base64};
use proptest::prelude::*;

/// The encodings of the eight points of small order.
const SMALL_ORDER: [&str; 8] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
];

#[test]
fn the_first_two_vectors_of_rfc_8032_section_7_1_hold() {
    let vectors: [(&str, &str, &[u8], &str); 2] = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            b"",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            b"\x72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
    ];
    for (seed, public, message, signature) in vectors {
        let key = SigningKey::from_seed(unhex(seed));
        assert_eq!(key.verifying_key().as_bytes(), &unhex(public));
        assert_eq!(key.sign(message).as_bytes(), &unhex(signature));
        key.verifying_key().verify(message, &Signature::from_bytes(unhex(signature))).unwrap();
    }
}

#[test]
fn a_small_order_key_is_refused() {
    for encoding in SMALL_ORDER {
        assert_eq!(VerifyingKey::from_bytes(&unhex(encoding)), Err(KeyError::Weak), "{encoding}");
    }
}

#[test]
fn a_second_spelling_of_a_key_is_refused() {
    let mut accepted_elsewhere = 0;
    for (low, sign) in (0..19).flat_map(|low| [(low, 0x7f), (low, 0xff)]) {
        let mut bytes = [0xff; 32];
        (bytes[0], bytes[31]) = (0xed + low, sign);
        let elsewhere = ed25519_dalek::VerifyingKey::from_bytes(&bytes);
        accepted_elsewhere += usize::from(elsewhere.is_ok_and(|key| !key.is_weak()));
        assert!(VerifyingKey::from_bytes(&bytes).is_err(), "{low} {sign}");
    }
    // Without the check these would be second encodings of valid keys.
    assert!(accepted_elsewhere > 0);
    // The sign bit of x = 0.
    let mut identity = [0; 32];
    (identity[0], identity[31]) = (1, 0x80);
    assert_eq!(VerifyingKey::from_bytes(&identity), Err(KeyError::Weak));
}

#[test]
fn a_key_of_mixed_order_is_refused() {
    let good = ed25519_dalek::VerifyingKey::from_bytes(key(1).verifying_key().as_bytes()).unwrap();
    for encoding in &SMALL_ORDER[1..] {
        let torsion = ed25519_dalek::VerifyingKey::from_bytes(&unhex(encoding)).unwrap();
        let mixed = ed25519_dalek::VerifyingKey::from(good.to_edwards() + torsion.to_edwards());
        assert!(!mixed.is_weak());
        assert_eq!(VerifyingKey::from_bytes(mixed.as_bytes()), Err(KeyError::Weak));
    }
}

#[test]
fn bytes_that_are_no_point_of_the_curve_are_refused() {
    let mut bytes = [0; 32];
    bytes[0] = 2;
    assert_eq!(VerifyingKey::from_bytes(&bytes), Err(KeyError::Malformed));
}

#[test]
fn a_signature_with_a_malleated_s_is_refused() {
    let group_order: [u8; 32] = unhex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut bytes = *key(1).sign(b"m").as_bytes();
    let mut carry = 0;
    for (byte, add) in bytes[32..].iter_mut().zip(group_order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = u8::try_from(sum & 0xff).unwrap();
        carry = sum >> 8;
    }
    assert_eq!(key(1).verifying_key().verify(b"m", &Signature::from_bytes(bytes)), Err(SignatureError));
}

#[test]
fn a_signature_of_another_key_or_message_is_refused() {
    let signature = key(1).sign(b"m");
    assert_eq!(key(1).verifying_key().verify(b"m", &signature), Ok(()));
    assert_eq!(key(2).verifying_key().verify(b"m", &signature), Err(SignatureError));
    assert_eq!(key(1).verifying_key().verify(b"n", &signature), Err(SignatureError));
    assert_eq!(SignatureError.code(), "SIGNATURE_INVALID");
}

#[test]
fn a_key_and_a_signature_have_one_base64_spelling() {
    let public = key(1).verifying_key();
    let text = public.to_base64();
    assert_eq!(VerifyingKey::from_base64(&text), Ok(public));
    let spare =
        format!("{}{}=", &text[..42], "BCDFGHJ".chars().find(|c| !text[42..].starts_with(*c)).unwrap());
    let url = text.replace('+', "-").replace('/', "_");
    for bad in
        [text.trim_end_matches('='), &format!("{text}\n"), &format!(" {text}"), &format!("{text}="), ""]
    {
        assert_eq!(VerifyingKey::from_base64(bad), Err(KeyError::Malformed), "{bad:?}");
    }
    assert!(VerifyingKey::from_base64(&spare).is_err());
    assert!(url == text || VerifyingKey::from_base64(&url).is_err());
    let signature = key(1).sign(b"m");
    assert_eq!(Signature::from_base64(&signature.to_base64()), Ok(signature));
    assert_eq!(Signature::from_base64(signature.to_base64().trim_end_matches('=')), Err(SignatureError));
}

#[test]
fn a_key_id_is_derived_from_the_public_key() {
    let (id, fingerprint) = (key(1).key_id(), key(1).verifying_key().fingerprint().to_string());
    assert_eq!(id.as_str(), format!("ed25519:{}", &fingerprint[..32]));
    assert_ne!(id, key(2).key_id());
    assert_eq!(id, key(1).verifying_key().key_id());
}

#[test]
fn a_signing_key_is_printed_without_its_secret() {
    let key = SigningKey::from_seed([0xab; 32]);
    let shown = format!("{key:?} {key:#?}");
    assert!(shown.starts_with("SigningKey(ed25519:"));
    assert!(
        !shown.contains("171") && !shown.contains("abab") && !shown.contains(&base64::encode(&[0xab; 32]))
    );
}

proptest! {
    #[test]
    fn one_changed_bit_in_a_signature_or_message_is_refused(
        message in proptest::collection::vec(any::<u8>(), 1..64), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let (public, signature) = (key(1).verifying_key(), key(1).sign(&message));
        let mut changed = *signature.as_bytes();
        changed[at.index(64)] ^= 1 << bit;
        prop_assert!(public.verify(&message, &Signature::from_bytes(changed)).is_err());
        let mut other = message.clone();
        other[at.index(message.len())] ^= 1 << bit;
        prop_assert!(public.verify(&other, &signature).is_err());
    }

    #[test]
    fn accepted_base64_is_canonical(text in "[A-Za-d+/_=\\- \n-]{0,12}") {
        if let Some(bytes) = base64::decode(&text) {
            prop_assert_eq!(base64::encode(&bytes), text.clone());
        }
        let mut out = [0; 12];
        if let Some(length) = base64::decode_url(text.as_bytes(), &mut out) {
            prop_assert_eq!(base64::encode_url(&out[..length]), text);
        }
    }

    #[test]
    fn every_base64_decoder_agrees(
        bytes in proptest::collection::vec(any::<u8>(), 0..70), digit in "[A-Za-z0-9+/=_ \n-]", at in any::<prop::sample::Index>(),
    ) {
        fn same<const N: usize>(text: &str) -> bool {
            base64::decode_array::<N>(text).map(Vec::from) == base64::decode(text).filter(|bytes| bytes.len() == N)
        }
        let good = base64::encode(&bytes);
        let mut other = good.clone();
        let at = at.index(good.len().max(1));
        if at < good.len() { other.replace_range(at..=at, &digit) } else { other.push_str(&digit) }
        let padding = good.trim_end_matches('=').len();
        for text in [good.as_str(), &other, &good[..padding], &format!("{}=", &good[..padding]), &format!("{good}=")] {
            prop_assert_eq!(base64::decode(text), Base64::decode_vec(text).ok(), "{}", text);
            prop_assert!(same::<0>(text) && same::<1>(text) && same::<2>(text) && same::<3>(text), "{}", text);
            prop_assert!(same::<31>(text) && same::<32>(text) && same::<33>(text) && same::<64>(text), "{}", text);
        }
    }

    #[test]
    fn the_last_digit_of_a_signature_has_no_spare_bits(bytes in any::<[u8; 32]>(), others in any::<[u8; 32]>()) {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&bytes);
        signature[32..].copy_from_slice(&others);
        let good = base64::encode(&signature);
        prop_assert_eq!(base64::decode_array(&good), Some(signature));
        let read = |digit: char| base64::decode_array::<64>(&format!("{}{digit}==", &good[..85]));
        let accepted = ('\u{0}'..='\u{ff}').filter(|digit| read(*digit).is_some_and(|read| read[..63] == signature[..63]));
        // The digit has two bits of the 64th byte and four spare bits, which must be zero.
        prop_assert_eq!(accepted.collect::<String>(), "AQgw");
    }

    #[test]
    fn reading_any_bytes_as_a_key_never_panics(bytes in any::<[u8; 32]>()) {
        if let Ok(key) = VerifyingKey::from_bytes(&bytes) {
            prop_assert_eq!(key.as_bytes(), &bytes);
        }
    }
}
