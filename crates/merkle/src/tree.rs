use crate::consistency::ConsistencyProof;
use crate::error::TreeError;
use crate::frontier::Frontier;
use crate::hash::{LeafHash, NodeHash, RootHash};
use crate::head::{MAX_SIZE, TreeHead};
use crate::inclusion::InclusionProof;
use crate::nodes::StoredNodes;

/// A growing tree with every node in memory. Gives proofs for its present size and for every earlier one.
///
/// It takes 64 bytes per leaf and does not keep the entries. A root or a proof costs fewer hashes than the size has
/// bits, because full subtrees are looked up.
///
/// ```
/// use countersign_merkle::{LeafHash, MerkleTree};
/// let mut tree = MerkleTree::new();
/// assert_eq!(tree.append(LeafHash::of(b"a"))?, 0);
/// assert_eq!(tree.append(LeafHash::of(b"b"))?, 1);
/// assert!(tree.prove_inclusion(2).is_err());
/// # Ok::<(), countersign_merkle::TreeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MerkleTree {
    /// The leaves, then level by level the nodes over each complete pair.
    levels: Vec<Vec<NodeHash>>,
}

impl MerkleTree {
    /// Creates the empty tree.
    #[must_use]
    pub const fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Appends a leaf and returns its index, from 0.
    ///
    /// # Errors
    /// [`TreeError::Full`] at [`MAX_SIZE`] leaves.
    pub fn append(&mut self, leaf: LeafHash) -> Result<u64, TreeError> {
        let index = self.size();
        if index >= MAX_SIZE {
            return Err(TreeError::Full);
        }
        self.push(leaf.into());
        Ok(index)
    }

    fn push(&mut self, mut node: NodeHash) {
        for level in &mut self.levels {
            level.push(node);
            if level.len() % 2 == 1 {
                return;
            }
            let [.., left, right] = level.as_slice() else {
                return;
            };
            node = NodeHash::of(left, right);
        }
        self.levels.push(vec![node]);
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }

    /// The hash of one leaf.
    #[must_use]
    pub fn leaf(&self, index: u64) -> Option<LeafHash> {
        self.node(0, index).map(|node| LeafHash::from_digest(node.digest()))
    }

    /// The tree's root.
    #[must_use]
    pub fn root(&self) -> RootHash {
        self.frontier().root()
    }

    /// The tree's size and root.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        TreeHead::of_tree(self.size(), self.root())
    }

    /// The head of the tree at an earlier size.
    ///
    /// # Errors
    /// [`TreeError::NoSuchSize`] if the tree is smaller.
    pub fn head_at(&self, size: u64) -> Result<TreeHead, TreeError> {
        if size > self.size() {
            return Err(TreeError::NoSuchSize);
        }
        self.nodes().frontier(size).map(|frontier| frontier.head())
    }

    /// The tree's frontier, which appends without the nodes.
    #[must_use]
    pub fn frontier(&self) -> Frontier {
        // INVARIANT: a tree has every peak of its own size.
        self.nodes().frontier(self.size()).unwrap_or_default()
    }

    /// Proves that the leaf with that index is in the present tree.
    ///
    /// # Errors
    /// [`TreeError::NoSuchLeaf`] if the tree has no such leaf.
    pub fn prove_inclusion(&self, index: u64) -> Result<InclusionProof, TreeError> {
        self.prove_inclusion_at(index, self.size())
    }

    /// Proves that the leaf with that index was in the tree of that size (RFC 9162, section 2.1.3.1).
    ///
    /// # Errors
    /// [`TreeError::NoSuchSize`] if the tree is smaller; [`TreeError::NoSuchLeaf`] if the tree of that size had no
    /// such leaf.
    pub fn prove_inclusion_at(&self, index: u64, size: u64) -> Result<InclusionProof, TreeError> {
        if size > self.size() {
            return Err(TreeError::NoSuchSize);
        }
        self.nodes().prove_inclusion(index, size)
    }

    /// Proves that the present tree extends the tree of that size.
    ///
    /// # Errors
    /// As [`prove_consistency_at`](Self::prove_consistency_at).
    pub fn prove_consistency(&self, old_size: u64) -> Result<ConsistencyProof, TreeError> {
        self.prove_consistency_at(old_size, self.size())
    }

    /// Proves that the tree of the new size extends the tree of the old size (RFC 9162, section 2.1.4.1).
    ///
    /// # Errors
    /// [`TreeError::NoSuchSize`] if the tree is smaller than the new size, or the old size is 0 or above the new one.
    pub fn prove_consistency_at(&self, old_size: u64, new_size: u64) -> Result<ConsistencyProof, TreeError> {
        if new_size > self.size() {
            return Err(TreeError::NoSuchSize);
        }
        self.nodes().prove_consistency(old_size, new_size)
    }

    fn node(&self, level: u32, index: u64) -> Option<NodeHash> {
        let level = self.levels.get(usize::try_from(level).ok()?)?;
        level.get(usize::try_from(index).ok()?).copied()
    }

    fn nodes(&self) -> StoredNodes<impl FnMut(u32, u64) -> Option<NodeHash> + '_> {
        StoredNodes(|level, index| self.node(level, index))
    }
}

impl FromIterator<LeafHash> for MerkleTree {
    fn from_iter<I: IntoIterator<Item = LeafHash>>(leaves: I) -> Self {
        let mut tree = Self::new();
        tree.extend(leaves);
        tree
    }
}

impl Extend<LeafHash> for MerkleTree {
    fn extend<I: IntoIterator<Item = LeafHash>>(&mut self, leaves: I) {
        leaves.into_iter().for_each(|leaf| self.push(leaf.into()));
    }
}
