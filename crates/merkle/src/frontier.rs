use crate::error::TreeError;
use crate::hash::{LeafHash, NodeHash, RootHash};
use crate::head::{MAX_SIZE, TreeHead};

/// A tree reduced to the hashes that appending leaves and computing roots need: at most 64.
///
/// It keeps the roots of the full subtrees that make up the tree, the largest first: one for each bit set in the size.
/// An append costs the leaf's hash and, on average, less than one node hash.
///
/// ```
/// use countersign_merkle::{Frontier, LeafHash, MerkleTree};
/// let (mut frontier, mut tree) = (Frontier::new(), MerkleTree::new());
/// for entry in [b"a", b"b", b"c"] {
///     frontier.append(LeafHash::of(entry))?;
///     tree.append(LeafHash::of(entry))?;
/// }
/// assert_eq!(frontier.head(), tree.head());
/// let resumed = Frontier::from_parts(frontier.size(), frontier.peaks().to_vec())?;
/// assert_eq!(resumed.root(), tree.root());
/// # Ok::<(), countersign_merkle::TreeError>(())
/// ```
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "WireFrontier")]
pub struct Frontier {
    size: u64,
    peaks: Vec<NodeHash>,
}

impl Clone for Frontier {
    fn clone(&self) -> Self {
        Self { size: self.size, peaks: self.peaks.clone() }
    }

    /// Copies `source` into the memory that this one has.
    fn clone_from(&mut self, source: &Self) {
        self.size = source.size;
        self.peaks.clone_from(&source.peaks);
    }
}

impl Frontier {
    /// Creates the frontier of the empty tree.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Resumes a tree from its size and its [`peaks`](Self::peaks). Other peaks of the same number give another tree,
    /// so compare [`root`](Self::root) with a trusted root if there is one.
    ///
    /// # Errors
    /// [`TreeError::Frontier`] if the size is above [`MAX_SIZE`], or needs another number of hashes.
    pub fn from_parts(size: u64, peaks: Vec<NodeHash>) -> Result<Self, TreeError> {
        let fitting = usize::try_from(size.count_ones()).is_ok_and(|count| count == peaks.len());
        if size > MAX_SIZE || !fitting {
            return Err(TreeError::Frontier);
        }
        Ok(Self { size, peaks })
    }

    /// Appends a leaf and returns its index, from 0.
    ///
    /// # Errors
    /// [`TreeError::Full`] at [`MAX_SIZE`] leaves; the tree is then unchanged.
    pub fn append(&mut self, leaf: LeafHash) -> Result<u64, TreeError> {
        self.append_with(leaf, |_| {})
    }

    /// As [`append`](Self::append), and passes `completed` the roots of the full subtrees that the leaf completes, the
    /// smallest first, without the leaf itself: as many as the index has trailing ones.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_with(
        &mut self,
        leaf: LeafHash,
        mut completed: impl FnMut(NodeHash),
    ) -> Result<u64, TreeError> {
        let index = self.size;
        if index >= MAX_SIZE {
            return Err(TreeError::Full);
        }
        let mut node = NodeHash::from(leaf);
        // Subtrees of equal size pair up, like carries of a binary counter. INVARIANT: there is a peak for each set
        // bit.
        for _ in 0..index.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = NodeHash::of(&left, &node);
                completed(node);
            }
        }
        self.peaks.push(node);
        self.size = index.saturating_add(1);
        Ok(index)
    }

    /// Number of leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The roots of the full subtrees, the largest first.
    #[must_use]
    pub fn peaks(&self) -> &[NodeHash] {
        &self.peaks
    }

    /// Computes the tree's root with fewer than 64 hashes.
    #[must_use]
    pub fn root(&self) -> RootHash {
        RootHash::of_peaks(self.peaks.iter().copied())
    }

    /// The tree's size and root.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        TreeHead::of_tree(self.size, self.root())
    }
}

/// Wire form of a frontier.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFrontier {
    size: u64,
    peaks: Vec<NodeHash>,
}

impl TryFrom<WireFrontier> for Frontier {
    type Error = TreeError;
    fn try_from(wire: WireFrontier) -> Result<Self, TreeError> {
        Self::from_parts(wire.size, wire.peaks)
    }
}
