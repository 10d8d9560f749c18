//! Base64 with exactly one spelling of every byte string: padding as the alphabet says, no spare bits, no white space.

use base64ct::{Base64, Base64UrlUnpadded, Encoding as _};

/// Writes the standard alphabet, padded (RFC 4648, section 4).
pub(crate) fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Reads the standard alphabet, padded.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    Base64::decode_vec(text).ok()
}

/// Reads exactly `N` bytes in the standard alphabet.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    decode(text)?.try_into().ok()
}

/// Writes the URL-safe alphabet without padding (RFC 4648, section 5).
pub(crate) fn encode_url(bytes: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(bytes)
}

/// Reads the URL-safe alphabet without padding.
pub(crate) fn decode_url(text: &str) -> Option<Vec<u8>> {
    Base64UrlUnpadded::decode_vec(text).ok()
}
