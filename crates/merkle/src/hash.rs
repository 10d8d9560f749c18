use std::fmt;

use countersign_core::{Digest, DigestError};
use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};

use crate::error::HashError;

/// Defines one kind of hash. Kinds are types, so that none can be passed for another.
macro_rules! hash_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(Digest);

        impl $name {
            /// Wraps a digest. The caller asserts that it is a hash of this kind.
            #[must_use]
            pub const fn from_digest(digest: Digest) -> Self {
                Self(digest)
            }

            /// The hash as a plain digest.
            #[must_use]
            pub const fn digest(&self) -> Digest {
                self.0
            }

            /// The 32 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                self.0.as_bytes()
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = HashError;
            fn try_from(bytes: &[u8]) -> Result<Self, HashError> {
                bytes.try_into().map(|bytes| Self(Digest::from_bytes(bytes))).map_err(|_| HashError)
            }
        }

        impl std::str::FromStr for $name {
            type Err = DigestError;
            fn from_str(text: &str) -> Result<Self, DigestError> {
                text.parse().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

hash_newtype! {
    /// Hash of one entry (recipe `leaf-1`): SHA-256 over 0x00 and the entry's bytes (RFC 9162, section 2.1.1).
    ///
    /// The text form of all hashes is 64 lower-case hexadecimal digits.
    ///
    /// ```
    /// use countersign_merkle::LeafHash;
    /// let empty = LeafHash::of(b"");
    /// assert_eq!(empty.to_string(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    /// ```
    LeafHash
}

hash_newtype! {
    /// Hash of one subtree: over its two halves (recipe `node-1`), or the leaf hash if it is one leaf.
    NodeHash
}

hash_newtype! {
    /// Hash of a whole tree. It does not determine the tree's size.
    RootHash
}

impl LeafHash {
    /// Hashes an entry.
    #[must_use]
    pub fn of(entry: &[u8]) -> Self {
        let hash = Sha256::new_with_prefix([0x00]).chain_update(entry).finalize();
        Self(Digest::from_bytes(hash.into()))
    }
}

impl NodeHash {
    /// Hashes two halves: SHA-256 over 0x01, the left hash and the right one.
    #[must_use]
    pub fn of(left: &Self, right: &Self) -> Self {
        Self(Digest::from_bytes(hash_node(left.as_bytes(), right.as_bytes())))
    }
}

impl RootHash {
    /// The root of the empty tree: SHA-256 of the empty string.
    #[must_use]
    pub fn empty() -> Self {
        Self(Digest::of(b""))
    }

    /// The root of the tree that consists of these full subtrees, the largest first.
    pub(crate) fn of_peaks(peaks: impl DoubleEndedIterator<Item = NodeHash>) -> Self {
        let whole = peaks.rev().reduce(|right, left| NodeHash::of(&left, &right));
        whole.map_or_else(Self::empty, |whole| Self(whole.0))
    }
}

/// A leaf is a subtree of one leaf.
impl From<LeafHash> for NodeHash {
    fn from(leaf: LeafHash) -> Self {
        Self(leaf.0)
    }
}

/// Initial hash value of SHA-256 (FIPS 180-4, section 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Length of a node's input in bits: one byte and two hashes. The padding ends with it.
const BITS: u16 = 8 * 65;

/// SHA-256 of 0x01, `left` and `right`.
///
/// Works without `Sha256`'s buffer, which costs about a tenth more; verifying a proof is nothing but such hashes.
fn hash_node(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut blocks = [[0; 64]; 2];
    let [first, second] = &mut blocks;
    let [body @ .., end] = right;
    let [prefix, rest @ ..] = first;
    let (whole, most) = rest.split_at_mut(32);
    *prefix = 0x01;
    whole.copy_from_slice(left);
    most.copy_from_slice(body);
    // Padding (FIPS 180-4, section 5.1.1): a one bit, zeros, and the length in the last bytes.
    let [last, one, .., high, low] = second;
    (*last, *one) = (*end, 0x80);
    [*high, *low] = BITS.to_be_bytes();

    let mut state = INITIAL;
    compress256(&mut state, &blocks);
    let mut hash = [0; 32];
    let (words, _) = hash.as_chunks_mut();
    for (bytes, word) in words.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}
