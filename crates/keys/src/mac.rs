use std::fmt;

use countersign_core::Digest;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::error::{KeyError, TagError};

/// Minimum length of a secret: that of the hash's output (RFC 2104, section 3).
pub(crate) const MIN_SECRET_BYTES: usize = 32;

/// An HMAC-SHA-256 key (RFC 2104). Contains the prepared state instead of the key; both are wiped on drop and never
/// printed.
///
/// ```
/// use countersign_keys::MacKey;
/// let key = MacKey::from_bytes(&[7; 32])?;
/// let tag = key.tag(b"message");
/// assert!(key.verify(b"message", &tag).is_ok());
/// assert!(key.verify(b"another", &tag).is_err());
/// # Ok::<(), countersign_keys::KeyError>(())
/// ```
pub struct MacKey {
    prepared: Hmac<Sha256>,
}

impl MacKey {
    /// Prepares a key of at least 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::TooShort`] below 32 bytes, [`KeyError::Weak`] if every byte is zero.
    pub fn from_bytes(secret: &[u8]) -> Result<Self, KeyError> {
        check_secret(secret)?;
        let prepared = Hmac::new_from_slice(secret).map_err(|_| KeyError::Malformed)?;
        Ok(Self { prepared })
    }

    /// Tags a message. Callers include a domain label.
    #[must_use]
    pub fn tag(&self, message: &[u8]) -> Tag {
        self.tag_parts(&[message])
    }

    /// Verifies a tag in constant time.
    ///
    /// # Errors
    /// [`TagError`] if the tag is not this key's over this message.
    pub fn verify(&self, message: &[u8], tag: &Tag) -> Result<(), TagError> {
        if self.tag(message) == *tag { Ok(()) } else { Err(TagError) }
    }

    /// Tags the concatenation of the parts.
    pub(crate) fn tag_parts(&self, parts: &[&[u8]]) -> Tag {
        let mut mac = self.prepared.clone();
        for part in parts {
            mac.update(part);
        }
        Tag(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(redacted)")
    }
}

/// Checks a shared secret: long enough, and not the zeros of an unfilled buffer.
pub(crate) fn check_secret(secret: &[u8]) -> Result<(), KeyError> {
    if secret.len() < MIN_SECRET_BYTES {
        return Err(KeyError::TooShort { min: MIN_SECRET_BYTES });
    }
    if secret.iter().all(|byte| *byte == 0) {
        return Err(KeyError::Weak);
    }
    Ok(())
}

/// An HMAC-SHA-256 output. Equality runs in constant time. Never printed: a token's tag and payload are the token.
#[derive(Clone, Copy)]
pub struct Tag([u8; 32]);

impl Tag {
    /// Wraps the 32 bytes of a received tag.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        // Equality of digests runs in constant time.
        Digest::from_bytes(self.0) == Digest::from_bytes(other.0)
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(redacted)")
    }
}
