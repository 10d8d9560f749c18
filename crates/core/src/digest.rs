use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::ops::BitOr;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The text is not a digest, which has 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hexadecimal digits")]
#[non_exhaustive]
pub struct DigestError;

/// A SHA-256 digest (FIPS 180-4). Equality runs in constant time.
///
/// The only text form is 64 lower-case hexadecimal digits.
///
/// ```
/// use countersign_core::Digest;
/// let empty = Digest::of(b"");
/// assert_eq!(empty.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// assert_eq!(empty.to_string().parse::<Digest>()?, empty);
/// # Ok::<(), countersign_core::DigestError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

/// Most bytes of a label and its fields, with their lengths, that are hashed in one piece.
const PIECE: usize = 320;

impl Digest {
    /// Hashes the bytes, without a label.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Starts a digest over a domain label and length-framed fields. The encoding is injective: two field lists never
    /// give the same bytes.
    #[inline]
    pub fn framed(label: &str) -> DigestBuilder {
        DigestBuilder { hash: Sha256::new() }.field(label.as_bytes())
    }

    /// The digest of [`framed`](Self::framed) with these fields. If label and fields are short, they are hashed in one piece, which is
    /// faster than one after another.
    #[must_use]
    #[inline]
    pub fn of_fields<const N: usize>(label: &str, fields: [&[u8]; N]) -> Self {
        let mut piece = [0; PIECE];
        let mut room = piece.as_mut_slice();
        let fits =
            put_field(&mut room, label.as_bytes()) && fields.iter().all(|bytes| put_field(&mut room, bytes));
        if !fits {
            return fields.iter().fold(Self::framed(label), |hash, bytes| hash.field(bytes)).finish();
        }
        let end = PIECE.saturating_sub(room.len());
        Self::of(piece.get(..end).unwrap_or_default())
    }

    /// Wraps the 32 bytes of a digest that was computed elsewhere.
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

/// Hashes a domain label and fields, each preceded by its length as eight big-endian bytes.
#[derive(Clone, Debug)]
#[must_use]
pub struct DigestBuilder {
    hash: Sha256,
}

impl DigestBuilder {
    /// Adds one field.
    #[inline]
    pub fn field(mut self, bytes: &[u8]) -> Self {
        self.hash.update((bytes.len() as u64).to_be_bytes());
        self.hash.update(bytes);
        self
    }

    /// Returns the digest of the label and all fields.
    #[must_use]
    #[inline]
    pub fn finish(self) -> Digest {
        Digest(self.hash.finalize().into())
    }
}

/// Writes a field behind its length, and leaves the room behind both. Returns `false` if there is too little.
#[inline(always)]
fn put_field(room: &mut &mut [u8], bytes: &[u8]) -> bool {
    let Some((length, rest)) = mem::take(room).split_first_chunk_mut() else { return false };
    let Some((place, rest)) = rest.split_at_mut_checked(bytes.len()) else { return false };
    *length = (bytes.len() as u64).to_be_bytes();
    place.copy_from_slice(bytes);
    *room = rest;
    true
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        let ((these, _), (those, _)) = (self.0.as_chunks::<8>(), other.0.as_chunks::<8>());
        let differ = |(a, b): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b);
        these.iter().zip(those).map(differ).fold(0, BitOr::bitor).ct_eq(&0).into()
    }
}

impl Eq for Digest {}

impl std::hash::Hash for Digest {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl std::str::FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| DigestError)?;
        // No early exit, so the loops vectorise.
        let (mut nibbles, mut is_other) = ([0; 64], false);
        for (nibble, digit) in nibbles.iter_mut().zip(digits) {
            let (number, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
            is_other |= (number > 9) & (letter > 5);
            *nibble = if number > 9 { letter.wrapping_add(10) } else { number };
        }
        if is_other {
            return Err(DigestError);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(nibbles.as_chunks().0) {
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Most digests that a [`SeenDigests`] remembers.
const MAX_SEEN: usize = 256;

/// The last digests of a stream, at most 256, to recognise one that comes again.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SeenDigests(VecDeque<Digest>);

impl SeenDigests {
    /// Builds an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Returns `false` if the digest is among the remembered ones; otherwise remembers it.
    pub fn is_new(&mut self, digest: Digest) -> bool {
        if self.0.contains(&digest) {
            return false;
        }
        if self.0.len() >= MAX_SEEN {
            self.0.pop_front();
        }
        self.0.push_back(digest);
        true
    }
}
