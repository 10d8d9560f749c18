//! Strict base64, in which every byte string has exactly one text: fixed padding, no spare bits, no whitespace.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64ct::{Base64, Base64UrlUnpadded, Encoding as _};

/// Encodes in the standard alphabet, padded (RFC 4648, section 4).
pub(crate) fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Decodes the standard alphabet, padded. Not constant-time: only for public texts.
///
/// why: of a large registry, a constant-time decoder takes longer than the signature.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; base64::decoded_len_estimate(text.len())];
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// Decodes exactly `N` bytes, at most 96, in the standard alphabet, padded. Not constant-time, so for public data
/// alone.
///
/// why: signatures are decoded at every call, and a constant-time decoder takes four times as long.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    const { assert!(N <= 96, "what is longer would never be read") };
    let mut bytes = [0; 96];
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes.get(..length)?.try_into().ok()
}

/// Encodes in the URL-safe alphabet without padding (RFC 4648, section 5).
pub(crate) fn encode_url(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Decodes the URL-safe alphabet without padding into the start of `out`, which has room for it, and returns the number
/// of bytes. Not constant-time: the text of a token is known to its holder.
///
/// why: a token is decoded at every call, and the constant-time decoder takes longer than the HMAC. One with vector
/// instructions takes half as long as this one, but reads untrusted text in unsafe code.
pub(crate) fn decode_url(text: &[u8], out: &mut [u8]) -> Option<usize> {
    URL_SAFE_NO_PAD.decode_slice(text, out).ok()
}
