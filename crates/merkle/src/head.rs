use crate::error::HeadError;
use crate::hash::RootHash;

/// The most leaves that a tree can have: 2^63, so that no sum of sizes overflows and no path is longer than 64 hashes.
pub const MAX_SIZE: u64 = 1 << 63;

/// Holds what identifies a tree: how many leaves it has, and its root. What a checkpoint says (RFC 9162, section 4.9).
///
/// ```
/// use countersign_merkle::{RootHash, TreeHead};
/// assert!(TreeHead::new(0, RootHash::empty()).is_ok());
/// assert!(TreeHead::new(u64::MAX, RootHash::empty()).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct TreeHead {
    size: u64,
    root: RootHash,
}

impl TreeHead {
    /// Puts a size and a root together. That they belong together is the caller's word.
    ///
    /// # Errors
    /// [`HeadError`] above [`MAX_SIZE`], or when there are no leaves and the root is not that of an empty tree.
    pub fn new(size: u64, root: RootHash) -> Result<Self, HeadError> {
        if size > MAX_SIZE {
            return Err(HeadError::TooLarge);
        }
        if size == 0 && root != RootHash::empty() {
            return Err(HeadError::EmptyRoot);
        }
        Ok(Self { size, root })
    }

    /// The head of a tree of this crate's.
    pub(crate) const fn of_tree(size: u64, root: RootHash) -> Self {
        Self { size, root }
    }

    /// How many leaves the tree has.
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

/// A head as it travels.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    size: u64,
    root: RootHash,
}

impl TryFrom<Wire> for TreeHead {
    type Error = HeadError;
    fn try_from(wire: Wire) -> Result<Self, HeadError> {
        Self::new(wire.size, wire.root)
    }
}

impl From<TreeHead> for Wire {
    fn from(head: TreeHead) -> Self {
        Self { size: head.size, root: head.root }
    }
}
