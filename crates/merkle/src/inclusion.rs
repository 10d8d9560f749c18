use crate::error::ProofError;
use crate::hash::{LeafHash, NodeHash};
use crate::head::{MAX_SIZE, TreeHead};

/// Maximum number of hashes in a path for at most [`MAX_SIZE`] leaves.
const MAX_PATH: usize = 63;

/// Verifies that a leaf has that index in the tree with that head (RFC 9162, section 2.1.3.2).
///
/// The size must be as trusted as the root, because the hashes alone do not determine it: the third leaf of three has
/// the path that the second leaf of two would have under the same root. A leaf that contains its index and the size is
/// safer still.
///
/// The work is bounded by the number of bits of the size, for any length of `path`.
///
/// # Errors
/// [`ProofError`] if the proof does not hold, or the path has too few or too many hashes.
pub fn verify_inclusion(
    leaf: &LeafHash,
    index: u64,
    head: &TreeHead,
    path: &[NodeHash],
) -> Result<(), ProofError> {
    if index >= head.size() {
        return Err(ProofError::Index);
    }
    let (mut at, mut last) = (index, head.size().saturating_sub(1));
    let mut node = NodeHash::from(*leaf);
    for sibling in path {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if at % 2 == 1 || at == last {
            node = NodeHash::of(sibling, &node);
            if at % 2 == 0 {
                // The last node of its level has no right sibling and moves up unchanged.
                let alone = at.trailing_zeros();
                (at, last) = (at.unbounded_shr(alone), last.unbounded_shr(alone));
            }
        } else {
            node = NodeHash::of(&node, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    if last != 0 {
        return Err(ProofError::Length);
    }
    if node.digest() == head.root().digest() { Ok(()) } else { Err(ProofError::Root) }
}

/// Proof that a leaf is in a tree: the leaf's index, the tree's size, and the sibling's hash at each level from the
/// leaf to the root.
///
/// ```
/// use countersign_merkle::{InclusionProof, LeafHash, MerkleTree, ProofError};
/// let tree: MerkleTree = [b"a", b"b", b"c"].map(|entry| LeafHash::of(entry)).into_iter().collect();
/// let proof = tree.prove_inclusion(1)?;
/// let moved = InclusionProof::new(0, 3, proof.path().to_vec())?;
/// assert_eq!(moved.verify(&LeafHash::of(b"b"), &tree.head()), Err(ProofError::Root));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "WireInclusionProof")]
pub struct InclusionProof {
    index: u64,
    size: u64,
    path: Vec<NodeHash>,
}

impl InclusionProof {
    /// Creates a proof, unverified until [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`ProofError`] if no tree can have such a proof: the index is not below the size, the size is above
    /// [`MAX_SIZE`], or there are more than 63 hashes.
    pub fn new(index: u64, size: u64, path: Vec<NodeHash>) -> Result<Self, ProofError> {
        if size > MAX_SIZE {
            return Err(ProofError::Size);
        }
        if index >= size {
            return Err(ProofError::Index);
        }
        if path.len() > MAX_PATH {
            return Err(ProofError::Length);
        }
        Ok(Self { index, size, path })
    }

    /// A proof made by a tree of this crate, which needs no checks.
    pub(crate) const fn of_tree(index: u64, size: u64, path: Vec<NodeHash>) -> Self {
        Self { index, size, path }
    }

    /// Verifies that the leaf is in the tree with that head.
    ///
    /// # Errors
    /// [`ProofError`] if the proof does not hold; [`ProofError::Size`] if it is for a tree of another size.
    pub fn verify(&self, leaf: &LeafHash, head: &TreeHead) -> Result<(), ProofError> {
        if self.size != head.size() {
            return Err(ProofError::Size);
        }
        verify_inclusion(leaf, self.index, head, &self.path)
    }

    /// The leaf's index, from 0.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Number of leaves of the tree.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The hashes, from the leaf's sibling upwards.
    #[must_use]
    pub fn path(&self) -> &[NodeHash] {
        &self.path
    }
}

/// Wire form of a proof.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireInclusionProof {
    index: u64,
    size: u64,
    path: Vec<NodeHash>,
}

impl TryFrom<WireInclusionProof> for InclusionProof {
    type Error = ProofError;
    fn try_from(wire: WireInclusionProof) -> Result<Self, ProofError> {
        Self::new(wire.index, wire.size, wire.path)
    }
}
