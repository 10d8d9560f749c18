//! Sealed texts of the form `<prefix>.<payload>.<tag>`. Only the holder of the key can create one, and the payload is
//! accessible only after the tag has verified.
//!
//! Payload and tag are strict base64url without padding. The tag is HMAC-SHA-256 over the length of the label (eight
//! big-endian bytes), the label and the payload. Sealing does not encrypt the payload.

use std::fmt;

use crate::base64;
use crate::error::TagError;
use crate::mac::{MacKey, Tag};

/// Maximum size of a sealed payload in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024;

/// Maximum length of a payload in base64url.
const MAX_PAYLOAD_TEXT: usize = MAX_PAYLOAD_BYTES.div_ceil(3).saturating_mul(4);

/// Length of a dot and a tag of 32 bytes in base64url.
const TAG_TEXT: usize = 44;

/// Bytes of a payload that are decoded without an allocation. Tokens with ids of usual length have about 1,000.
const SHORT_PAYLOAD: usize = 2 * 1024;

/// A text cannot be sealed or opened. A wrong tag gives no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The payload exceeds the limit.
    #[error("sealed payload too long: at most {max} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        max: usize,
    },
    /// The text is malformed or its tag does not verify.
    #[error("the sealed text does not verify")]
    Invalid,
}

impl SealError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "SEAL_TOO_LARGE",
            Self::Invalid => "SEAL_INVALID",
        }
    }
}

countersign_core::coded!(SealError);

impl From<TagError> for SealError {
    fn from(_: TagError) -> Self {
        Self::Invalid
    }
}

/// Seals a payload under a key, a domain label, and a visible prefix.
///
/// # Errors
/// [`SealError::TooLarge`] above [`MAX_PAYLOAD_BYTES`], which [`SealedText::parse`] would refuse.
pub fn seal(prefix: &str, label: &str, key: &MacKey, payload: &[u8]) -> Result<String, SealError> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(SealError::TooLarge { max: MAX_PAYLOAD_BYTES });
    }
    let tag = tag_of(label, key, payload);
    Ok(format!("{prefix}.{}.{}", base64::encode_url(payload), base64::encode_url(tag.as_bytes())))
}

/// Computes the tag. The only function that builds its input.
fn tag_of(label: &str, key: &MacKey, payload: &[u8]) -> Tag {
    let size = (label.len() as u64).to_be_bytes();
    key.tag_parts(&[&size, label.as_bytes(), payload])
}

/// Memory for the payload of one sealed text: 2 KiB in place, and the heap for longer payloads.
pub struct PayloadBuffer {
    short: [u8; SHORT_PAYLOAD],
    long: Vec<u8>,
}

impl Default for PayloadBuffer {
    fn default() -> Self {
        Self { short: [0; SHORT_PAYLOAD], long: Vec::new() }
    }
}

impl fmt::Debug for PayloadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PayloadBuffer(redacted)")
    }
}

impl PayloadBuffer {
    fn decode(&mut self, text: &[u8]) -> Option<&[u8]> {
        let most = text.len().div_ceil(4).saturating_mul(3);
        let room = if most <= SHORT_PAYLOAD {
            self.short.as_mut_slice()
        } else {
            self.long.resize(most, 0);
            self.long.as_mut_slice()
        };
        let length = base64::decode_url(text, room)?;
        room.get(..length)
    }
}

/// A sealed text with an unverified tag. Only [`open`](Self::open) returns the payload.
///
/// ```
/// use countersign_keys::{MacKey, sealed::{PayloadBuffer, SealedText, seal}};
/// let key = MacKey::from_bytes(&[7; 32])?;
/// let text = seal("x1", "example/note-1", &key, b"note")?;
/// let mut buffer = PayloadBuffer::default();
/// let sealed = SealedText::parse("x1", &text, &mut buffer)?;
/// assert_eq!(sealed.open("example/note-1", &key)?, b"note");
/// assert!(sealed.open("example/other-1", &key).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SealedText<'b> {
    payload: &'b [u8],
    tag: Tag,
}

impl<'b> SealedText<'b> {
    /// Parses the text without verifying the tag. `buffer` receives the payload.
    ///
    /// # Errors
    /// [`SealError::Invalid`] on another prefix, padding, spare bits, whitespace, a tag of another length, or leading
    /// or trailing data; [`SealError::TooLarge`] if the payload exceeds the limit.
    pub fn parse(prefix: &str, text: &str, buffer: &'b mut PayloadBuffer) -> Result<Self, SealError> {
        let rest = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
        let (payload, [b'.', tag @ ..]) =
            rest.and_then(|rest| rest.as_bytes().split_last_chunk::<TAG_TEXT>()).ok_or(SealError::Invalid)?
        else {
            return Err(SealError::Invalid);
        };
        if payload.len() > MAX_PAYLOAD_TEXT {
            return Err(SealError::TooLarge { max: MAX_PAYLOAD_BYTES });
        }
        let payload = buffer.decode(payload).ok_or(SealError::Invalid)?;
        // The decoder rounds the room that it asks for up to whole groups of three bytes.
        let mut bytes = [0; 33];
        let length = base64::decode_url(tag, &mut bytes);
        let tag = length.and_then(|length| bytes.get(..length)?.try_into().ok()).ok_or(SealError::Invalid)?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(SealError::TooLarge { max: MAX_PAYLOAD_BYTES });
        }
        Ok(Self { payload, tag: Tag::from_bytes(tag) })
    }

    /// Verifies the tag, then returns the payload.
    ///
    /// # Errors
    /// [`SealError::Invalid`] if the tag is not this key's over this label and the payload.
    pub fn open(&self, label: &str, key: &MacKey) -> Result<&'b [u8], SealError> {
        if tag_of(label, key, self.payload) != self.tag {
            return Err(SealError::Invalid);
        }
        Ok(self.payload)
    }
}

impl fmt::Debug for SealedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedText(redacted, {} payload bytes)", self.payload.len())
    }
}
