use base64ct::{Base64, Base64Unpadded, Encoding as _};
use countersign_keys::{KeyError, VerifyingKey};

/// Text lines around a public key (RFC 7468, section 13).
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

/// `SubjectPublicKeyInfo` of Ed25519 up to the key (RFC 8410, section 4): a sequence of the algorithm `1.3.101.112`
/// without parameters and a bit string of 32 whole bytes. DER has no other spelling of it.
const HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Reads a public key in any spelling of keyring files: 64 hexadecimal digits, also after `0x`; base64 with either
/// alphabet, padded or not; PEM. Surrounding ASCII whitespace is stripped.
///
/// The text alone decides the spelling, and no text spells two keys. Spare bits of base64 must be zero.
pub(crate) fn parse(text: &str) -> Result<VerifyingKey, KeyError> {
    VerifyingKey::from_bytes(&bytes(text).ok_or(KeyError::Malformed)?)
}

/// Returns the 32 bytes that a text spells, valid key or not.
pub(crate) fn bytes(text: &str) -> Option<[u8; 32]> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if is_pem(text) { parse_pem(text) } else { hex(text).or_else(|| base64(text)) }
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (high, low) = (char::from(*high).to_digit(16)?, char::from(*low).to_digit(16)?);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}

fn base64(text: &str) -> Option<[u8; 32]> {
    // 32 bytes take 43 characters, or 44 with padding. Longer texts are not copied.
    if text.len() > 44 {
        return None;
    }
    let standard = text.replace('-', "+").replace('_', "/");
    // Only 43 digits decode to 32 bytes, so the padding can follow at one length only.
    let digits = standard.strip_suffix('=').unwrap_or(&standard);
    let mut bytes = [0; 32];
    let whole = Base64Unpadded::decode(digits, &mut bytes).ok()?;
    whole.try_into().ok()
}

/// Returns whether a text claims to be PEM.
fn is_pem(text: &str) -> bool {
    text.starts_with("-----BEGIN")
}

/// Reads the 32 bytes of an Ed25519 public key: one key without surrounding text or headers, in the one base64
/// spelling, over any number of lines.
fn parse_pem(text: &str) -> Option<[u8; 32]> {
    let mut lines = text.lines();
    if lines.next() != Some(BEGIN) || lines.next_back() != Some(END) {
        return None;
    }
    let body: String = lines.collect();
    let mut der = [0; 44];
    let whole = decode_padded(&body, &mut der)?;
    whole.strip_prefix(&HEAD)?.try_into().ok()
}

/// Decodes exactly `room.len()` bytes, in the standard alphabet, padded.
fn decode_padded<'b>(text: &str, room: &'b mut [u8]) -> Option<&'b [u8]> {
    let size = room.len();
    let whole = Base64::decode(text, room).ok()?;
    (whole.len() == size).then_some(whole)
}
