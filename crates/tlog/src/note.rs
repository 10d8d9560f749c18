//! Signed notes (C2SP signed-note): a text, an empty line, and one line per signature over the text.
//!
//! [`SignedNote`] is a parsed, unverified note; [`SignedNote::open`] verifies it against [`VerifierKey`]s and returns
//! the text. [`sign`] creates a note. Two algorithms are supported: Ed25519 over the text (0x01), and the timestamped
//! cosignatures of witnesses (0x04, C2SP tlog-cosignature).
//!
//! The format signs the text without a label. So a key that signs notes must sign nothing else, and if it signs two
//! kinds of text, no text may be valid as both.
//!
//! ```
//! use countersign_keys::SigningKey;
//! use countersign_tlog::note::{KeyName, SignedNote, VerifierKey, sign};
//! let (name, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
//! let note = sign("first line\nother line\n", &name, &key)?;
//! let trusted = VerifierKey::new(name, key.verifying_key());
//! assert_eq!(SignedNote::parse(&note)?.open(&[trusted])?.text(), "first line\nother line\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod key;

pub use key::{Algorithm, KeyName, VerifierKey, VerifierKeyError};

use countersign_core::Timestamp;
use countersign_keys::{Signature, SigningKey};

use crate::base64;

/// Maximum size of a note in bytes. Sixteen of the largest signatures in use take less than half.
pub const MAX_NOTE_BYTES: usize = 256 << 10;

/// Maximum number of signature lines. The specification asks for 16 or more.
pub const MAX_SIGNATURES: usize = 100;

/// Maximum time of a cosignature, in seconds since 1970 (C2SP tlog-cosignature).
pub const MAX_COSIGNED_SECONDS: u64 = (1 << 63) - 1;

/// Prefix of a signature line: an em dash and a space.
const DASH: &str = "\u{2014} ";

/// First line of a cosigned message.
const COSIGNATURE: &str = "cosignature/v1\n";

/// A note is malformed or does not verify. The error never contains any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// The note is longer than [`MAX_NOTE_BYTES`] or has more than [`MAX_SIGNATURES`] signature lines.
    #[error("the note is too long")]
    TooLong,
    /// The note is not a text with a final newline, an empty line and signature lines, or has control characters.
    #[error("the note is malformed")]
    Malformed,
    /// No known key signed the note.
    #[error("the note is not signed by a known key")]
    Unsigned,
    /// A signature line has the name and id of a known key and does not verify.
    #[error("a signature of the note does not verify")]
    Signature,
}

impl NoteError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "NOTE_TOO_LONG",
            Self::Malformed => "NOTE_MALFORMED",
            Self::Unsigned => "NOTE_UNSIGNED",
            Self::Signature => "NOTE_SIGNATURE",
        }
    }
}

countersign_core::coded!(NoteError);

/// Signs a text and returns the note: the text, an empty line, the signature line.
///
/// # Errors
/// [`NoteError::Malformed`] if the text does not end in a newline, has other control characters, or begins like a
/// cosigned message, so that the signature could pass for a cosignature of the same key; [`NoteError::TooLong`] if
/// the note exceeds [`MAX_NOTE_BYTES`].
pub fn sign(text: &str, name: &KeyName, key: &SigningKey) -> Result<String, NoteError> {
    if !text.ends_with('\n') || !is_plain(text) || text.starts_with(COSIGNATURE) {
        return Err(NoteError::Malformed);
    }
    let note = format!("{text}\n{}", signature_line(text, name, key));
    if note.len() > MAX_NOTE_BYTES { Err(NoteError::TooLong) } else { Ok(note) }
}

/// Signs a text (0x01) and returns the signature line with its newline, for appending to a note of that text. The
/// text is not checked.
#[must_use]
pub fn signature_line(text: &str, name: &KeyName, key: &SigningKey) -> String {
    let signature = key.sign(text.as_bytes());
    line(&VerifierKey::new(name.clone(), key.verifying_key()), &[], &signature)
}

/// Cosigns a text as a witness (0x04): at that time, truncated to seconds, it was the latest checkpoint of its log.
/// Returns the signature line with its newline. The text is not checked.
#[must_use]
pub fn cosignature_line(text: &str, name: &KeyName, key: &SigningKey, at: Timestamp) -> String {
    let seconds = at.as_millis() / 1_000;
    let signature = key.sign(cosigned(text, seconds).as_bytes());
    line(&VerifierKey::cosigner(name.clone(), key.verifying_key()), &seconds.to_be_bytes(), &signature)
}

/// The cosigned message: two lines and the text.
fn cosigned(text: &str, seconds: u64) -> String {
    format!("{COSIGNATURE}time {seconds}\n{text}")
}

fn line(key: &VerifierKey, prefix: &[u8], signature: &Signature) -> String {
    let bytes = [&key.id(), prefix, signature.as_bytes()].concat();
    format!("{DASH}{} {}\n", key.name(), base64::encode(&bytes))
}

/// Returns whether a text has no control characters below U+0020 but newlines.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b >= 0x20 || b == b'\n')
}

/// A parsed note, untrusted until [`open`](Self::open) finds a signature of a known key.
///
/// ```
/// use countersign_tlog::note::{NoteError, SignedNote};
/// let note = SignedNote::parse("a text\n\n\u{2014} example.com AAAAAAA=\n")?;
/// assert_eq!(note.open(&[]).map_err(|e| e.code()).err(), Some("NOTE_UNSIGNED"));
/// # Ok::<(), NoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNote<'a> {
    text: &'a str,
    lines: Vec<SignatureLine<'a>>,
}

/// A parsed signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SignatureLine<'a> {
    name: &'a str,
    id: [u8; 4],
    signature: Vec<u8>,
}

impl<'a> SignedNote<'a> {
    /// Parses a note: the text up to its last empty line, followed by one or more signature lines.
    ///
    /// # Errors
    /// [`NoteError::TooLong`], [`NoteError::Malformed`].
    pub fn parse(note: &'a str) -> Result<Self, NoteError> {
        if note.len() > MAX_NOTE_BYTES {
            return Err(NoteError::TooLong);
        }
        if !is_plain(note) {
            return Err(NoteError::Malformed);
        }
        let gap = note.rfind("\n\n").ok_or(NoteError::Malformed)?;
        let (text, rest) = note.split_at_checked(gap.saturating_add(1)).ok_or(NoteError::Malformed)?;
        let rest = rest.strip_prefix('\n').ok_or(NoteError::Malformed)?;
        Ok(Self { text, lines: parse_lines(rest)? })
    }

    /// The unverified text, for selecting the keys to open the note with.
    #[must_use]
    pub const fn unverified_text(&self) -> &'a str {
        self.text
    }

    /// Number of signature lines, verified or not.
    #[must_use]
    pub const fn signature_lines(&self) -> usize {
        self.lines.len()
    }

    /// Verifies every signature line with the name and id of one of these keys, and ignores the others.
    ///
    /// # Errors
    /// [`NoteError::Signature`] if one of those lines does not verify; [`NoteError::Unsigned`] if there are no such
    /// lines.
    pub fn open(&self, keys: &[VerifierKey]) -> Result<OpenedNote<'a>, NoteError> {
        let mut signers = Vec::new();
        for line in &self.lines {
            // why: two keys with the same name and id are a deliberate collision, so the line is ambiguous.
            let mut known = keys.iter().filter(|key| key.name().as_str() == line.name && key.id() == line.id);
            let Some(key) = known.next() else { continue };
            if known.any(|other| other != key) {
                return Err(NoteError::Signature);
            }
            signers.push(Signer { key: key.clone(), seconds: self.verify(key, &line.signature)? });
        }
        if signers.is_empty() {
            return Err(NoteError::Unsigned);
        }
        Ok(OpenedNote { text: self.text, signers })
    }

    /// Verifies one signature and returns the time of a cosignature.
    fn verify(&self, key: &VerifierKey, signature: &[u8]) -> Result<Option<u64>, NoteError> {
        let (seconds, signature) = match key.algorithm() {
            Algorithm::Ed25519 => (None, signature),
            Algorithm::Cosignature => {
                let (time, rest) = signature.split_first_chunk::<8>().ok_or(NoteError::Signature)?;
                (Some(u64::from_be_bytes(*time)), rest)
            }
        };
        if seconds.is_some_and(|seconds| seconds > MAX_COSIGNED_SECONDS) {
            return Err(NoteError::Signature);
        }
        let signature = signature.try_into().map(Signature::from_bytes).map_err(|_| NoteError::Signature)?;
        let verified = match seconds {
            None => key.verifying_key().verify(self.text.as_bytes(), &signature),
            Some(seconds) => key.verifying_key().verify(cosigned(self.text, seconds).as_bytes(), &signature),
        };
        verified.map(|()| seconds).map_err(|_| NoteError::Signature)
    }
}

/// Parses one or more signature lines, each with its newline.
fn parse_lines(text: &str) -> Result<Vec<SignatureLine<'_>>, NoteError> {
    let lines = text.strip_suffix('\n').ok_or(NoteError::Malformed)?;
    if lines.split('\n').count() > MAX_SIGNATURES {
        return Err(NoteError::TooLong);
    }
    lines.split('\n').map(|line| parse_line(line).ok_or(NoteError::Malformed)).collect()
}

fn parse_line(line: &str) -> Option<SignatureLine<'_>> {
    let (name, signature) = line.strip_prefix(DASH)?.split_once(' ')?;
    let bytes = base64::decode(signature)?;
    let (id, signature) = bytes.split_first_chunk::<4>()?;
    if !key::is_name(name) || signature.is_empty() {
        return None;
    }
    Some(SignatureLine { name, id: *id, signature: signature.to_vec() })
}

/// The text of a verified note and its signers. Only [`SignedNote::open`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedNote<'a> {
    text: &'a str,
    signers: Vec<Signer>,
}

impl<'a> OpenedNote<'a> {
    /// The signed text with its final newline.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// One signer for each verified line, in the order of the lines. A key can occur twice.
    #[must_use]
    pub fn signers(&self) -> &[Signer] {
        &self.signers
    }
}

/// A verified signature: its key, and its time if it is a cosignature.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signer {
    /// The known key.
    pub key: VerifierKey,
    /// Time of a cosignature, in seconds since 1970. `None` for an ordinary signature.
    pub seconds: Option<u64>,
}
