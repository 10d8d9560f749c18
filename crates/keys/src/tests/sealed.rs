use base64ct::{Base64UrlUnpadded, Encoding as _};
use proptest::prelude::*;

use crate::MacKey;
use crate::sealed::{MAX_PAYLOAD_BYTES, PayloadBuffer, SealError, SealedText, seal};

const LABEL: &str = "countersign/test-1";

fn mac() -> MacKey {
    MacKey::from_bytes(&[1; 32]).unwrap()
}

fn opens(text: &str) -> bool {
    let mut buffer = PayloadBuffer::default();
    SealedText::parse("t1", text, &mut buffer).is_ok_and(|sealed| sealed.open(LABEL, &mac()).is_ok())
}

#[test]
fn sealed_text_opens_only_under_its_label_and_key() {
    let text = seal("t1", LABEL, &mac(), b"payload").unwrap();
    assert!(text.starts_with("t1.cGF5bG9hZA."));
    let mut buffer = PayloadBuffer::default();
    let sealed = SealedText::parse("t1", &text, &mut buffer).unwrap();
    assert_eq!(sealed.open(LABEL, &mac()), Ok(&b"payload"[..]));
    assert_eq!(sealed.open("countersign/test-2", &mac()), Err(SealError::Invalid));
    assert_eq!(sealed.open(LABEL, &MacKey::from_bytes(&[2; 32]).unwrap()), Err(SealError::Invalid));
}

#[test]
fn label_is_framed() {
    let text = seal("t1", "label", &mac(), b"spayload").unwrap();
    let tag = text.rsplit_once('.').unwrap().1;
    let moved = format!("t1.{}.{tag}", crate::base64::encode_url(b"payload"));
    let mut buffer = PayloadBuffer::default();
    assert!(SealedText::parse("t1", &moved, &mut buffer).unwrap().open("labels", &mac()).is_err());
}

#[test]
fn a_sealed_text_has_one_spelling() {
    let good = seal("t1", LABEL, &mac(), b"payload").unwrap();
    assert!(opens(&good));
    let (head, tag) = good.rsplit_once('.').unwrap();
    // The last character of 32 bytes has two spare bits, that of seven bytes four.
    let spare_tag = format!("{head}.{}{}", &tag[..42], char::from(tag.as_bytes()[42] + 1));
    let bad = [
        format!("{good}="),
        format!("{good} "),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{head}=.{tag}"),
        format!("{good}.x"),
        good.replacen("t1", "T1", 1),
        good.replacen("t1", "t2", 1),
        good.replacen("t1.", "t1", 1),
        good.replacen("cGF5bG9hZA", "cGF5bG9hZB", 1),
        spare_tag,
        format!("{head}.{}", tag.to_uppercase()),
        format!("{head}.{}", &tag[..22]),
        format!("{head}.{}", &tag[..42]),
        format!("{head}.{tag}A"),
        format!("{head}."),
        format!("t1..{tag}"),
        head.to_owned(),
        String::new(),
    ];
    for text in bad {
        assert!(!opens(&text), "{text:?}");
    }
}

#[test]
fn a_payload_over_the_limit_is_refused_on_both_sides() {
    let most = vec![b'x'; MAX_PAYLOAD_BYTES];
    assert!(opens(&seal("t1", LABEL, &mac(), &most).unwrap()));
    let over = vec![b'x'; MAX_PAYLOAD_BYTES + 1];
    let too_large = SealError::TooLarge { max: MAX_PAYLOAD_BYTES };
    assert_eq!(seal("t1", LABEL, &mac(), &over), Err(too_large));
    for size in [MAX_PAYLOAD_BYTES + 1, MAX_PAYLOAD_BYTES + 2, MAX_PAYLOAD_BYTES * 2] {
        let text = format!("t1.{}.{}", crate::base64::encode_url(&vec![0; size]), "A".repeat(43));
        let mut buffer = PayloadBuffer::default();
        assert_eq!(SealedText::parse("t1", &text, &mut buffer).map(|_| ()), Err(too_large), "{size}");
    }
}

#[test]
fn a_sealed_text_is_printed_without_its_contents() {
    let (mut buffer, text) = (PayloadBuffer::default(), seal("t1", LABEL, &mac(), b"payload").unwrap());
    let sealed = SealedText::parse("t1", &text, &mut buffer).unwrap();
    assert_eq!(format!("{sealed:?}"), "SealedText(redacted, 7 payload bytes)");
    assert_eq!(format!("{buffer:?}"), "PayloadBuffer(redacted)");
}

#[test]
fn payload_of_any_length_opens_unchanged() {
    // Around the lengths that are decoded in place, and the limit.
    for size in (0..80).chain(2_000..2_100).chain(MAX_PAYLOAD_BYTES - 8..=MAX_PAYLOAD_BYTES) {
        let payload: Vec<u8> = (0..=250).cycle().take(size).collect();
        let (mut buffer, text) = (PayloadBuffer::default(), seal("t1", LABEL, &mac(), &payload).unwrap());
        let sealed = SealedText::parse("t1", &text, &mut buffer).unwrap();
        assert_eq!(sealed.open(LABEL, &mac()), Ok(payload.as_slice()), "{size}");
    }
}

proptest! {
    #[test]
    fn fast_decoder_agrees_with_the_constant_time_one(
        text in proptest::string::string_regex("[A-Za-z0-9_-]{0,200}[A-Za-z0-9_+/= .-]{0,3}").unwrap(),
    ) {
        let mut out = [0; 256];
        let decoded = crate::base64::decode_url(text.as_bytes(), &mut out).map(|length| out[..length].to_vec());
        prop_assert_eq!(decoded, Base64UrlUnpadded::decode_vec(&text).ok());
    }

    #[test]
    fn one_changed_bit_in_a_sealed_text_is_refused(
        payload in proptest::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), bit in 0..7_u8,
    ) {
        let text = seal("t1", LABEL, &mac(), &payload).unwrap();
        let mut bytes = text.clone().into_bytes();
        bytes[at.index(text.len())] ^= 1 << bit;
        prop_assert!(!opens(&String::from_utf8(bytes).unwrap()));
    }

    #[test]
    fn parsing_any_text_never_panics(text in "(t1)?[.]?\\PC{0,60}[.]\\PC{0,60}") {
        prop_assert!(!opens(&text));
    }
}
