//! Base64 (RFC 4648, section 4) with exactly one encoding of every byte string.

use base64ct::{Base64, Encoding as _};
use countersign_core::Digest;

pub(crate) fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Decodes the 32 bytes of a hash.
pub(crate) fn decode_hash(text: &str) -> Option<Digest> {
    let bytes: [u8; 32] = Base64::decode_vec(text).ok()?.try_into().ok()?;
    Some(Digest::from_bytes(bytes))
}
