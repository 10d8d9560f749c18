use crate::error::HeadError;
use crate::hash::RootHash;

/// Maximum number of leaves: 2^63, so that no sum of sizes overflows and no path is longer than 64 hashes.
pub const MAX_SIZE: u64 = 1 << 63;

/// A tree's size (its number of leaves) and root, which together identify it. A checkpoint states both (RFC 9162,
/// section 4.9).
///
/// ```
/// use countersign_merkle::{RootHash, TreeHead};
/// assert!(TreeHead::new(0, RootHash::empty()).is_ok());
/// assert!(TreeHead::new(u64::MAX, RootHash::empty()).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "WireHead")]
pub struct TreeHead {
    size: u64,
    root: RootHash,
}

impl TreeHead {
    /// Creates a head. The caller asserts that size and root belong together.
    ///
    /// # Errors
    /// [`HeadError`] if the size is above [`MAX_SIZE`], or is 0 and the root is not that of the empty tree.
    pub fn new(size: u64, root: RootHash) -> Result<Self, HeadError> {
        if size > MAX_SIZE {
            return Err(HeadError::TooLarge);
        }
        if size == 0 && root != RootHash::empty() {
            return Err(HeadError::EmptyRoot);
        }
        Ok(Self { size, root })
    }

    /// The head of a tree of this crate, which needs no checks.
    pub(crate) const fn of_tree(size: u64, root: RootHash) -> Self {
        Self { size, root }
    }

    /// Number of leaves of the tree.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The tree's root.
    #[must_use]
    pub const fn root(&self) -> &RootHash {
        &self.root
    }
}

/// Wire form of a head.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHead {
    size: u64,
    root: RootHash,
}

impl TryFrom<WireHead> for TreeHead {
    type Error = HeadError;
    fn try_from(wire: WireHead) -> Result<Self, HeadError> {
        Self::new(wire.size, wire.root)
    }
}
