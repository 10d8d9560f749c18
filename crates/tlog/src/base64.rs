//! Base64 (RFC 4648, section 4) with exactly one encoding of every byte string, as in notes, checkpoints and proofs.

use base64ct::{Base64, Encoding as _};
use countersign_core::Digest;

/// Encodes bytes, with padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Decodes bytes; `None` for any text that [`encode`] does not write.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    Base64::decode_vec(text).ok()
}

/// Decodes the 32 bytes of a hash.
#[must_use]
pub fn decode_hash(text: &str) -> Option<Digest> {
    let bytes: [u8; 32] = decode(text)?.try_into().ok()?;
    Some(Digest::from_bytes(bytes))
}
