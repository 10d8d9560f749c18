use std::fmt;

use countersign_core::{Digest, KeyId};
use ed25519_dalek::Signer as _;
use zeroize::Zeroizing;

use crate::base64;
use crate::error::{KeyError, SignatureError};

/// An Ed25519 signing key (RFC 8032). The secret is wiped on drop and never printed.
///
/// ```
/// use countersign_keys::SigningKey;
/// let key = SigningKey::from_seed([7; 32]);
/// let signature = key.sign(b"message");
/// assert!(key.verifying_key().verify(b"message", &signature).is_ok());
/// assert!(key.verifying_key().verify(b"another", &signature).is_err());
/// ```
pub struct SigningKey {
    // why: boxed, so that moving the key leaves no copy of the secret on the stack.
    inner: Box<ed25519_dalek::SigningKey>,
}

impl SigningKey {
    /// Creates the key of a seed: 32 random bytes from the caller.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        Self { inner: Box::new(ed25519_dalek::SigningKey::from_bytes(&seed)) }
    }

    /// The public key.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.inner.verifying_key())
    }

    /// The id of the public key: [`VerifyingKey::key_id`].
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.verifying_key().key_id()
    }

    /// Signs the bytes without a label. Callers include a domain label or a payload type.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.inner.sign(message).to_bytes())
    }

    /// The seed, for key files only.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        self.inner.as_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.key_id())
    }
}

/// An Ed25519 public key. Every value of this type is a canonical point of the prime-order group.
///
/// It identifies the signer; [`TrustRoot`](crate::TrustRoot) determines whether the signer is trusted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// Decodes the 32 bytes of RFC 8032, section 5.1.2.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] if the bytes are not a point of the curve, [`KeyError::Weak`] if the point has small
    /// or mixed order, or the encoding is not canonical.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::Malformed)?;
        let point = key.to_edwards();
        // why: decompression follows ZIP 215 and accepts y at or above the field's prime, so one key could count as
        // two. All those points have small or mixed order, but this check does not rely on it.
        let canonical = point.compress().as_bytes() == bytes;
        if key.is_weak() || !canonical || !point.is_torsion_free() {
            return Err(KeyError::Weak);
        }
        Ok(Self(key))
    }

    /// Decodes strict standard base64, padded.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes); [`KeyError::Malformed`] if the text is not 32 bytes in base64.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(&base64::decode_array(text).ok_or(KeyError::Malformed)?)
    }

    /// Verifies a signature strictly: canonical `R` and `S`, no point of small order (stricter than RFC 8032, section
    /// 5.1.7).
    ///
    /// # Errors
    /// [`SignatureError`] if the signature is not this key's over this message.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), SignatureError> {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify_strict(message, &signature).map_err(|_| SignatureError)
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The key in standard base64, padded.
    #[must_use]
    pub fn to_base64(&self) -> String {
        base64::encode(self.as_bytes())
    }

    /// The fingerprint: a digest over a label and the public key.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Self::fingerprint_of(self.as_bytes())
    }

    /// The fingerprint of 32 bytes that need not be a valid key.
    #[must_use]
    pub fn fingerprint_of(bytes: &[u8; 32]) -> Digest {
        Digest::framed("countersign/ed25519-key-1").field(bytes).finish()
    }

    /// The id: `ed25519:` and the first 32 hexadecimal digits of the fingerprint. For look-ups only: checks compare
    /// keys.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "forty visible ASCII characters are a valid key id"
    )]
    pub fn key_id(&self) -> KeyId {
        let digits: String = self.fingerprint().to_string().chars().take(32).collect();
        KeyId::new(&format!("ed25519:{digits}")).expect("a derived key id is valid")
    }
}

/// Keys sort by their bytes, so that a set of keys has one order.
impl Ord for VerifyingKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for VerifyingKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({})", self.key_id())
    }
}

impl serde::Serialize for VerifyingKey {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_base64())
    }
}

impl<'de> serde::Deserialize<'de> for VerifyingKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::from_base64(&text).map_err(serde::de::Error::custom)
    }
}

/// An unverified Ed25519 signature of 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Wraps the 64 bytes of `R` and `S`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// Decodes strict standard base64, padded.
    ///
    /// # Errors
    /// [`SignatureError`] if the text is not 64 bytes in base64.
    pub fn from_base64(text: &str) -> Result<Self, SignatureError> {
        base64::decode_array(text).map(Self).ok_or(SignatureError)
    }

    /// The 64 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// The signature in standard base64, padded.
    #[must_use]
    pub fn to_base64(&self) -> String {
        base64::encode(&self.0)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", self.to_base64())
    }
}
