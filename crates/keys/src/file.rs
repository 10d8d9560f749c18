//! Key files: one key each, as JSON. Files with a secret are readable by their owner alone.
//!
//! ```json
//! {"format":"countersign-key-1","kind":"ed25519-signing","key_id":"ed25519:..","secret":"<32 bytes in base64>"}
//! {"format":"countersign-key-1","kind":"ed25519-public","key_id":"ed25519:..","public":"<32 bytes in base64>"}
//! {"format":"countersign-key-1","kind":"ed25519-log","key_id":"ed25519:..","secret":"<32 bytes in base64>"}
//! {"format":"countersign-key-1","kind":"hmac","key_id":"2026-01","secret":"<32 to 1024 bytes in base64>"}
//! ```
//!
//! An operator's signing key and a log's key have different kinds, so that neither is used for the other.
//!
//! A file is opened once; kind, permissions, owner and size are checked on the open handle. Writing creates a new
//! file and never replaces one. Secrets are read into buffers that are wiped. Key files therefore do not pass through
//! the strict JSON reader, which does not wipe its buffers. On systems without Unix permissions only the contents are
//! checked.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use base64ct::{Base64, Encoding as _};
use countersign_core::KeyId;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::ed25519::{SigningKey, VerifyingKey};
use crate::error::KeyError;
use crate::keyring::ServerSecret;
use crate::trusted::{self, PRIVATE_MODE, PUBLIC_MODE, UntrustedFile, check_trusted, open_regular};

/// Value of `format`.
const FORMAT: &str = "countersign-key-1";

/// Maximum size of a key file.
const MAX_FILE_BYTES: usize = 16 * 1024;

/// A key file cannot be read or written. The error never contains its contents or its path, which the caller knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// File not found.
    #[error("the key file does not exist")]
    Missing,
    /// The file cannot be opened or read, or is not a regular file.
    #[error("the key file cannot be read")]
    Unreadable(#[source] Option<std::io::Error>),
    /// The file contains a secret, and users other than its owner have permissions on it.
    #[error("key file accessible to others than its owner: mode {mode:04o}, 0600 expected")]
    TooOpen {
        /// The permission bits.
        mode: u32,
    },
    /// A user other than root and the process's user may have written the file.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// The file exceeds the limit.
    #[error("the key file is longer than {max} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        max: usize,
    },
    /// The contents are not the JSON of a key file: a field is missing, unknown, repeated or of another type, base64
    /// is not strict, or the key id is not that of the key.
    #[error("the key file is malformed")]
    Malformed,
    /// The format has another version.
    #[error("the key file is not in format `countersign-key-1`")]
    Version,
    /// The kind of the key is unknown or not the expected one.
    #[error("wrong kind of key in the key file: `{expected}` expected")]
    Kind {
        /// The expected kind.
        expected: &'static str,
    },
    /// The key is invalid.
    #[error("weak or malformed key in the key file")]
    Key(#[source] KeyError),
    /// The file exists. It is not replaced.
    #[error("a file of this name already exists")]
    Exists,
    /// The file cannot be written. A partial file is removed.
    #[error("the key file cannot be written")]
    Write(#[source] std::io::Error),
}

impl KeyFileError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing => "KEY_FILE_MISSING",
            Self::Unreadable(_) => "KEY_FILE_UNREADABLE",
            Self::TooOpen { .. } => "KEY_FILE_TOO_OPEN",
            Self::Untrusted(error) => error.code(),
            Self::TooLarge { .. } => "KEY_FILE_TOO_LARGE",
            Self::Malformed => "KEY_FILE_MALFORMED",
            Self::Version => "KEY_FILE_VERSION",
            Self::Kind { .. } => "KEY_FILE_KIND",
            Self::Key(KeyError::Malformed) => "KEY_FILE_MALFORMED",
            Self::Key(source) => source.code(),
            Self::Exists => "KEY_FILE_EXISTS",
            Self::Write(_) => "KEY_FILE_WRITE",
        }
    }
}

countersign_core::coded!(KeyFileError);

/// A key of any kind, for commands that display keys.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyKey {
    /// An operator's signing key.
    Signing(SigningKey),
    /// An operator's public key.
    Public(VerifyingKey),
    /// The key that signs the checkpoints of a log.
    Log(SigningKey),
    /// A gate's server secret.
    Server(ServerSecret),
}

/// Reads a key of any kind.
///
/// # Errors
/// [`KeyFileError`].
pub fn read_any_key(path: &Path) -> Result<AnyKey, KeyFileError> {
    read_key(path, "any")
}

/// Reads an operator's signing key.
///
/// # Errors
/// [`KeyFileError`].
pub fn read_signing_key(path: &Path) -> Result<SigningKey, KeyFileError> {
    let AnyKey::Signing(key) = read_key(path, SIGNING)? else {
        return Err(KeyFileError::Kind { expected: SIGNING });
    };
    Ok(key)
}

/// Reads the key of a log.
///
/// # Errors
/// [`KeyFileError`].
pub fn read_log_key(path: &Path) -> Result<SigningKey, KeyFileError> {
    let AnyKey::Log(key) = read_key(path, LOG)? else {
        return Err(KeyFileError::Kind { expected: LOG });
    };
    Ok(key)
}

/// Reads an operator's public key. The file may be readable by all users.
///
/// # Errors
/// [`KeyFileError`].
pub fn read_public_key(path: &Path) -> Result<VerifyingKey, KeyFileError> {
    let AnyKey::Public(key) = read_key(path, PUBLIC)? else {
        return Err(KeyFileError::Kind { expected: PUBLIC });
    };
    Ok(key)
}

/// Reads a gate's server secret.
///
/// # Errors
/// [`KeyFileError`].
pub fn read_server_secret(path: &Path) -> Result<ServerSecret, KeyFileError> {
    let AnyKey::Server(secret) = read_key(path, HMAC)? else {
        return Err(KeyFileError::Kind { expected: HMAC });
    };
    Ok(secret)
}

/// Writes an operator's signing key to a new file that its owner alone can read.
///
/// # Errors
/// [`KeyFileError::Exists`] or [`KeyFileError::Write`].
pub fn write_signing_key(path: &Path, key: &SigningKey) -> Result<(), KeyFileError> {
    write_secret(path, SIGNING, &key.key_id(), key.seed())
}

/// Writes the key of a log to a new file that its owner alone can read.
///
/// # Errors
/// [`KeyFileError::Exists`] or [`KeyFileError::Write`].
pub fn write_log_key(path: &Path, key: &SigningKey) -> Result<(), KeyFileError> {
    write_secret(path, LOG, &key.key_id(), key.seed())
}

/// Writes a gate's server secret to a new file that its owner alone can read.
///
/// # Errors
/// [`KeyFileError::Exists`] or [`KeyFileError::Write`].
pub fn write_server_secret(path: &Path, secret: &ServerSecret) -> Result<(), KeyFileError> {
    write_secret(path, HMAC, secret.key_id(), secret.bytes())
}

/// Writes an operator's public key to a new file.
///
/// # Errors
/// [`KeyFileError::Exists`] or [`KeyFileError::Write`].
pub fn write_public_key(path: &Path, key: &VerifyingKey) -> Result<(), KeyFileError> {
    let (id, text) = (key.key_id(), key.to_base64());
    write_new(path, &WireKey::new(PUBLIC, &id, None, Some(&text)), PUBLIC_MODE)
}

const SIGNING: &str = "ed25519-signing";
const PUBLIC: &str = "ed25519-public";
const LOG: &str = "ed25519-log";
const HMAC: &str = "hmac";

/// Wire form of a key file. Borrows from the buffer that is wiped. A secret with a JSON escape, which would have to be
/// copied, is refused.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKey<'a> {
    format: &'a str,
    kind: &'a str,
    #[serde(borrow)]
    key_id: Cow<'a, str>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    public: Option<&'a str>,
}

/// The one field that files of every version have.
#[derive(Deserialize)]
struct WireFormat<'a> {
    format: &'a str,
}

impl<'a> WireKey<'a> {
    fn new(kind: &'static str, id: &'a KeyId, secret: Option<&'a str>, public: Option<&'a str>) -> Self {
        Self { format: FORMAT, kind, key_id: Cow::Borrowed(id.as_str()), secret, public }
    }

    fn key(&self, expected: &'static str) -> Result<AnyKey, KeyFileError> {
        match (self.kind, self.secret, self.public) {
            (kind @ (SIGNING | LOG), Some(secret), None) => {
                let seed = decode_secret(secret)?;
                let seed = Zeroizing::new(<[u8; 32]>::try_from(seed.as_slice()).map_err(|_| {
                    if seed.len() < 32 {
                        KeyFileError::Key(KeyError::TooShort { min: 32 })
                    } else {
                        KeyFileError::Key(KeyError::TooLong { max: 32 })
                    }
                })?);
                crate::mac::check_secret(seed.as_ref()).map_err(KeyFileError::Key)?;
                let key = SigningKey::from_seed(*seed);
                self.check_id(&key.key_id())?;
                Ok(if kind == LOG { AnyKey::Log(key) } else { AnyKey::Signing(key) })
            }
            (PUBLIC, None, Some(public)) => {
                let key = VerifyingKey::from_base64(public).map_err(KeyFileError::Key)?;
                self.check_id(&key.key_id())?;
                Ok(AnyKey::Public(key))
            }
            (HMAC, Some(secret), None) => {
                let id = KeyId::new(&self.key_id).map_err(|_| KeyFileError::Malformed)?;
                let secret = ServerSecret::new(id, &decode_secret(secret)?).map_err(KeyFileError::Key)?;
                Ok(AnyKey::Server(secret))
            }
            (SIGNING | PUBLIC | LOG | HMAC, _, _) => Err(KeyFileError::Malformed),
            _ => Err(KeyFileError::Kind { expected }),
        }
    }

    fn check_id(&self, derived: &KeyId) -> Result<(), KeyFileError> {
        if self.key_id == derived.as_str() { Ok(()) } else { Err(KeyFileError::Malformed) }
    }
}

/// Reads a present member, which must be a string: `null` does not mean absent.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<&'de str>, D::Error> {
    <&str>::deserialize(d).map(Some)
}

fn decode_secret(text: &str) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    Base64::decode_vec(text).map(Zeroizing::new).map_err(|_| KeyFileError::Malformed)
}

fn read_key(path: &Path, expected: &'static str) -> Result<AnyKey, KeyFileError> {
    let (text, about) = read_file(path)?;
    let format: WireFormat<'_> = serde_json::from_slice(&text).map_err(|_| KeyFileError::Malformed)?;
    if format.format != FORMAT {
        return Err(KeyFileError::Version);
    }
    let wire: WireKey<'_> = serde_json::from_slice(&text).map_err(|_| KeyFileError::Malformed)?;
    let mode = mode_of(&about);
    if wire.kind != PUBLIC && mode & 0o077 != 0 {
        return Err(KeyFileError::TooOpen { mode });
    }
    check_trusted(path, &about)?;
    wire.key(expected)
}

/// Reads a whole file, with the metadata of its handle.
///
/// why: the buffer has the maximum size from the start, since growing it would leave unwiped copies of the secret.
fn read_file(path: &Path) -> Result<(Zeroizing<Vec<u8>>, Metadata), KeyFileError> {
    let unreadable = |error: std::io::Error| {
        if error.kind() == ErrorKind::NotFound {
            KeyFileError::Missing
        } else {
            KeyFileError::Unreadable(Some(error))
        }
    };
    let (file, about) = open_regular(path).map_err(unreadable)?;
    let most = (MAX_FILE_BYTES as u64).saturating_add(1);
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES.saturating_add(64)));
    file.take(most).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() > MAX_FILE_BYTES {
        return Err(KeyFileError::TooLarge { max: MAX_FILE_BYTES });
    }
    Ok((text, about))
}

#[cfg(unix)]
fn mode_of(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o7777
}

#[cfg(not(unix))]
fn mode_of(_: &Metadata) -> u32 {
    0o600
}

fn write_secret(path: &Path, kind: &'static str, id: &KeyId, secret: &[u8]) -> Result<(), KeyFileError> {
    let text = Zeroizing::new(Base64::encode_string(secret));
    write_new(path, &WireKey::new(kind, id, Some(&text), None), PRIVATE_MODE)
}

fn write_new(path: &Path, wire: &WireKey<'_>, mode: u32) -> Result<(), KeyFileError> {
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES));
    serde_json::to_writer(&mut *text, wire).map_err(|error| KeyFileError::Write(error.into()))?;
    text.push(b'\n');
    let mut file = trusted::create_new(path, mode).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            KeyFileError::Exists
        } else {
            KeyFileError::Write(error)
        }
    })?;
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // A partial key file would go unnoticed until the key is needed.
        let _ = std::fs::remove_file(path);
        KeyFileError::Write(error)
    })
}
