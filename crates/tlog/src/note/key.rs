use std::fmt;
use std::str::FromStr;

use countersign_core::{Digest, is_hidden};
use countersign_keys::{KeyError, VerifyingKey};

use crate::base64;

/// Maximum length of a key's name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Returns whether a text can be a key's name in a signature line: not empty, no whitespace, no plus sign.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c == '+')
}

/// Name of a key: 1 to 255 bytes without whitespace, plus signs or invisible characters. A URL without its scheme is
/// recommended, because it is unique; it need not resolve.
///
/// ```
/// use countersign_tlog::note::KeyName;
/// assert_eq!(KeyName::new("example.com/log")?.as_str(), "example.com/log");
/// assert!(KeyName::new("two words").is_err() && KeyName::new("a+b").is_err() && KeyName::new("").is_err());
/// # Ok::<(), countersign_tlog::note::VerifierKeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(Box<str>);

impl KeyName {
    /// Validates a name.
    ///
    /// # Errors
    /// [`VerifierKeyError::Name`] if the text is not a valid name.
    pub fn new(name: &str) -> Result<Self, VerifierKeyError> {
        let fits = is_name(name) && name.len() <= MAX_NAME_BYTES && !name.chars().any(is_hidden);
        if fits { Ok(Self(name.into())) } else { Err(VerifierKeyError::Name) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = VerifierKeyError;
    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        Self::new(text)
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyName({})", self.0)
    }
}

/// Signature algorithm of a key. A key with one name may use several, and has an id for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Ed25519 over the text (0x01).
    Ed25519,
    /// Ed25519 over a time and the text, for witnesses (0x04).
    Cosignature,
}

impl Algorithm {
    /// The byte for the algorithm in keys and ids.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ed25519 => 0x01,
            Self::Cosignature => 0x04,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0x01 => Some(Self::Ed25519),
            0x04 => Some(Self::Cosignature),
            _ => None,
        }
    }
}

/// Verifies signatures on notes: a name, an algorithm and a public key.
///
/// The text form is `name+id+key`: the id in eight lower-case hexadecimal digits, and in base64 the algorithm's byte
/// and the 32 bytes of the key.
///
/// ```
/// use countersign_tlog::note::VerifierKey;
/// let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
/// let key: VerifierKey = text.parse()?;
/// assert_eq!((key.name().as_str(), key.id(), key.to_string()), ("PeterNeumann", [0xc7, 0x4f, 0x20, 0xa3], text.into()));
/// # Ok::<(), countersign_tlog::note::VerifierKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VerifierKey {
    name: KeyName,
    algorithm: Algorithm,
    key: VerifyingKey,
}

impl VerifierKey {
    /// Creates a key of algorithm [`Ed25519`](Algorithm::Ed25519).
    #[must_use]
    pub const fn new(name: KeyName, key: VerifyingKey) -> Self {
        Self { name, algorithm: Algorithm::Ed25519, key }
    }

    /// Creates a key of algorithm [`Cosignature`](Algorithm::Cosignature), for witnesses.
    #[must_use]
    pub const fn cosigner(name: KeyName, key: VerifyingKey) -> Self {
        Self { name, algorithm: Algorithm::Cosignature, key }
    }

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// The signature algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The public key.
    #[must_use]
    pub const fn verifying_key(&self) -> &VerifyingKey {
        &self.key
    }

    /// The id: the first four bytes of SHA-256 over the name, a newline, the algorithm's byte and the public key.
    /// Collisions are cheap, so it is for look-ups only.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        let named = [self.name.as_str().as_bytes(), &[b'\n', self.algorithm.byte()], self.key.as_bytes()];
        let [a, b, c, d, ..] = *Digest::of(&named.concat()).as_bytes();
        [a, b, c, d]
    }

    fn material(&self) -> String {
        base64::encode(&[&[self.algorithm.byte()][..], self.key.as_bytes()].concat())
    }
}

impl FromStr for VerifierKey {
    type Err = VerifierKeyError;

    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(material)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VerifierKeyError::Malformed);
        };
        let name = KeyName::new(name)?;
        let material = base64::decode(material).ok_or(VerifierKeyError::Malformed)?;
        let (algorithm, key) = material.split_first().ok_or(VerifierKeyError::Malformed)?;
        let algorithm = Algorithm::from_byte(*algorithm).ok_or(VerifierKeyError::Algorithm)?;
        let key = key.try_into().map_err(|_| VerifierKeyError::Malformed)?;
        let key = Self { name, algorithm, key: VerifyingKey::from_bytes(key)? };
        if id == hex(key.id()) { Ok(key) } else { Err(VerifierKeyError::Id) }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}+{}", self.name, hex(self.id()), self.material())
    }
}

fn hex(id: [u8; 4]) -> String {
    format!("{:08x}", u32::from_be_bytes(id))
}

/// Invalid verifier key or key name. The error never contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifierKeyError {
    /// The text is not a name, an id and a key, separated by plus signs.
    #[error("malformed verifier key: `name+id+key` expected, with the key in base64")]
    Malformed,
    /// The name is empty or too long, or has whitespace, plus signs or invisible characters.
    #[error(
        "invalid key name: 1 to 255 bytes without whitespace, plus signs or invisible characters expected"
    )]
    Name,
    /// The algorithm is unknown or not the expected one.
    #[error("unsupported key algorithm")]
    Algorithm,
    /// The id does not match the name and the key.
    #[error("key id mismatch: it does not match name and key")]
    Id,
    /// The public key is malformed or weak.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl VerifierKeyError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "VERIFIER_KEY_MALFORMED",
            Self::Name => "VERIFIER_KEY_NAME",
            Self::Algorithm => "VERIFIER_KEY_ALGORITHM",
            Self::Id => "VERIFIER_KEY_ID",
            Self::Key(error) => error.code(),
        }
    }
}

countersign_core::coded!(VerifierKeyError);
