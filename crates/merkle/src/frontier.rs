use crate::error::TreeError;
use crate::hash::{LeafHash, NodeHash, RootHash};
use crate::head::{MAX_SIZE, TreeHead};

/// Appends leaves and gives roots, and remembers no more than both need: at most 64 hashes.
///
/// What it keeps are the roots of the full subtrees that a tree of its size falls into, the largest first: one for each
/// bit that is set in the size. An append costs the leaf's hash and, on average, less than one more.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Frontier {
    size: u64,
    peaks: Vec<NodeHash>,
}

impl Frontier {
    /// Starts with no leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Takes up a tree again from its size and its [`peaks`](Self::peaks). Whoever knows the tree's root from elsewhere
    /// compares it with [`root`](Self::root): other peaks of the same number are another tree.
    ///
    /// # Errors
    /// [`TreeError::Frontier`] when the size is above [`MAX_SIZE`], or the hashes are not as many as it calls for.
    pub fn from_parts(size: u64, peaks: Vec<NodeHash>) -> Result<Self, TreeError> {
        let fitting = usize::try_from(size.count_ones()).is_ok_and(|count| count == peaks.len());
        if size > MAX_SIZE || !fitting {
            return Err(TreeError::Frontier);
        }
        Ok(Self { size, peaks })
    }

    /// Appends a leaf and gives its index.
    ///
    /// # Errors
    /// [`TreeError::Full`] at [`MAX_SIZE`] leaves; nothing is appended then.
    pub fn append(&mut self, leaf: LeafHash) -> Result<u64, TreeError> {
        self.append_with(leaf, |_| {})
    }

    /// As [`append`](Self::append), and hands over the roots of the full subtrees that the leaf completes, the smallest first, without
    /// the leaf itself: as many as the index has trailing ones.
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
        // Subtrees of one size pair up, as bits carry when one is added. INVARIANT: there is a peak for each set bit.
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

    /// How many leaves were appended.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The roots of the full subtrees, the largest first.
    #[must_use]
    pub fn peaks(&self) -> &[NodeHash] {
        &self.peaks
    }

    /// The tree's root, at the cost of fewer than 64 hashes.
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

/// A frontier as it travels.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    size: u64,
    peaks: Vec<NodeHash>,
}

impl TryFrom<Wire> for Frontier {
    type Error = TreeError;
    fn try_from(wire: Wire) -> Result<Self, TreeError> {
        Self::from_parts(wire.size, wire.peaks)
    }
}

impl From<Frontier> for Wire {
    fn from(frontier: Frontier) -> Self {
        Self { size: frontier.size, peaks: frontier.peaks }
    }
}
