use std::fmt;

use countersign_core::{Digest, KeyId};
use ed25519_dalek::Signer as _;
use zeroize::Zeroizing;

use crate::base64;
use crate::error::{KeyError, SignatureError};

/// Signs as an operator (Ed25519, RFC 8032). The secret is wiped when the key is dropped and never printed.
///
/// ```
/// use countersign_keys::SigningKey;
/// let key = SigningKey::from_seed([7; 32]);
/// let signature = key.sign(b"message");
/// assert!(key.verifying_key().verify(b"message", &signature).is_ok());
/// assert!(key.verifying_key().verify(b"another", &signature).is_err());
/// ```
pub struct SigningKey {
    // Boxed, so that a move of the key leaves no second copy of the secret on the stack.
    inner: Box<ed25519_dalek::SigningKey>,
}

impl SigningKey {
    /// Makes the key of a seed: 32 bytes that the caller drew at random.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        Self { inner: Box::new(ed25519_dalek::SigningKey::from_bytes(&seed)) }
    }

    /// The public half.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.inner.verifying_key())
    }

    /// The id, as derived from the public half: [`VerifyingKey::key_id`].
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.verifying_key().key_id()
    }

    /// Signs the bytes as they are. Callers put a domain label or a payload type inside them.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.inner.sign(message).to_bytes())
    }

    /// The seed, for the key file alone.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        self.inner.as_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.key_id())
    }
}

/// Verifies what an operator signed. A value of this type is a canonical point of the prime-order group.
///
/// It says whose key signed, not whether that key is trusted: [`TrustRoot`](crate::TrustRoot) says that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// Reads the 32 bytes of RFC 8032, section 5.1.2.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when they are no point of the curve, [`KeyError::Weak`] when the point has small or
    /// mixed order, or when the bytes are a second spelling of it.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::Malformed)?;
        let point = key.to_edwards();
        // Decompression follows ZIP 215 and takes y at or above the field's prime: two spellings of one key would
        // count as two keys. That all of those points happen to be of small or mixed order is nothing to rely on.
        let canonical = point.compress().as_bytes() == bytes;
        if key.is_weak() || !canonical || !point.is_torsion_free() {
            return Err(KeyError::Weak);
        }
        Ok(Self(key))
    }

    /// Reads standard base64, padded, in its one spelling.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes); [`KeyError::Malformed`] when the text is not 32 bytes in base64.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(&base64::decode_array(text).ok_or(KeyError::Malformed)?)
    }

    /// Verifies strictly: canonical `R` and `S`, no point of small order (RFC 8032, section 5.1.7, and more).
    ///
    /// # Errors
    /// [`SignatureError`] when the signature is not this key's over this message.
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

    /// The whole fingerprint: a digest over a label and the public key.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Self::fingerprint_of(self.as_bytes())
    }

    /// The fingerprint that a key of these bytes would have, whether they are one or not.
    #[must_use]
    pub fn fingerprint_of(bytes: &[u8; 32]) -> Digest {
        Digest::framed("countersign/ed25519-key-1").field(bytes).finish()
    }

    /// The id: `ed25519:` and the first 32 hexadecimal digits of the fingerprint. It helps to find a key; what
    /// counts keys compares the keys themselves.
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

/// Keys sort by their bytes, so that a set of keys has one spelling.
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

/// Holds an Ed25519 signature: 64 bytes that may or may not verify.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Wraps the 64 bytes of `R` and `S`.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// Reads standard base64, padded, in its one spelling.
    ///
    /// # Errors
    /// [`SignatureError`] when the text is not 64 bytes in base64.
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
