use crate::error::ProofError;
use crate::hash::NodeHash;
use crate::head::{MAX_SIZE, TreeHead};

/// Maximum number of hashes in a proof for at most [`MAX_SIZE`] leaves.
const MAX_PATH: usize = 64;

/// Verifies that the tree with the head `new` begins with all leaves of the tree with the head `old`, in order
/// (RFC 9162, section 2.1.4.2).
///
/// Two heads of the same size are consistent if their roots are equal and the path is empty. An empty old tree is
/// refused: consistency with it cannot be proved.
///
/// The work is bounded by the number of bits of the size, for any length of `path`.
///
/// # Errors
/// [`ProofError`] if the proof does not hold, or the path has too few or too many hashes.
pub fn verify_consistency(old: &TreeHead, new: &TreeHead, path: &[NodeHash]) -> Result<(), ProofError> {
    if old.size() == 0 || old.size() > new.size() {
        return Err(ProofError::Size);
    }
    if old.size() == new.size() {
        let same = if old.root() == new.root() { Ok(()) } else { Err(ProofError::Root) };
        return if path.is_empty() { same } else { Err(ProofError::Length) };
    }
    let (mut at, mut last) = (old.size().saturating_sub(1), new.size().saturating_sub(1));
    let whole = at.trailing_ones();
    (at, last) = (at.unbounded_shr(whole), last.unbounded_shr(whole));
    let mut path = path.iter().copied();
    // An old tree whose size is a power of two is a subtree of the new one, and the proof omits its root.
    let whole = old.size().is_power_of_two();
    let first = if whole { Some(NodeHash::from_digest(old.root().digest())) } else { path.next() };
    let Some(first) = first else {
        return Err(ProofError::Length);
    };
    let (mut in_old, mut in_new) = (first, first);
    for node in path {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if at % 2 == 1 || at == last {
            in_old = NodeHash::of(&node, &in_old);
            in_new = NodeHash::of(&node, &in_new);
            if at % 2 == 0 {
                let alone = at.trailing_zeros();
                (at, last) = (at.unbounded_shr(alone), last.unbounded_shr(alone));
            }
        } else {
            in_new = NodeHash::of(&in_new, &node);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    if last != 0 {
        return Err(ProofError::Length);
    }
    let met = in_old.digest() == old.root().digest() && in_new.digest() == new.root().digest();
    if met { Ok(()) } else { Err(ProofError::Root) }
}

/// Proof that a tree only grew: the two sizes, and the hashes that lead to both roots.
///
/// ```
/// use countersign_merkle::{LeafHash, MerkleTree};
/// let mut tree: MerkleTree = [b"a", b"b"].map(|entry| LeafHash::of(entry)).into_iter().collect();
/// let old = tree.head();
/// tree.append(LeafHash::of(b"c"))?;
/// assert!(tree.prove_consistency(2)?.verify(&old, &tree.head()).is_ok());
/// # Ok::<(), countersign_merkle::TreeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "WireConsistencyProof")]
pub struct ConsistencyProof {
    old_size: u64,
    new_size: u64,
    path: Vec<NodeHash>,
}

impl ConsistencyProof {
    /// Creates a proof, unverified until [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`ProofError`] if no two trees can have such a proof: the old size is 0 or above the new one, the new one is
    /// above [`MAX_SIZE`], or there are more than 64 hashes.
    pub fn new(old_size: u64, new_size: u64, path: Vec<NodeHash>) -> Result<Self, ProofError> {
        if old_size == 0 || old_size > new_size || new_size > MAX_SIZE {
            return Err(ProofError::Size);
        }
        if path.len() > MAX_PATH {
            return Err(ProofError::Length);
        }
        Ok(Self { old_size, new_size, path })
    }

    /// A proof made by a tree of this crate, which needs no checks.
    pub(crate) const fn of_tree(old_size: u64, new_size: u64, path: Vec<NodeHash>) -> Self {
        Self { old_size, new_size, path }
    }

    /// Verifies that the tree with the head `new` is an extension of the one with the head `old`.
    ///
    /// # Errors
    /// [`ProofError`] if the proof does not hold; [`ProofError::Size`] if it is for trees of other sizes.
    pub fn verify(&self, old: &TreeHead, new: &TreeHead) -> Result<(), ProofError> {
        if (self.old_size, self.new_size) != (old.size(), new.size()) {
            return Err(ProofError::Size);
        }
        verify_consistency(old, new, &self.path)
    }

    /// Number of leaves of the old tree.
    #[must_use]
    pub const fn old_size(&self) -> u64 {
        self.old_size
    }

    /// Number of leaves of the new tree.
    #[must_use]
    pub const fn new_size(&self) -> u64 {
        self.new_size
    }

    /// The hashes, in the order of RFC 9162, section 2.1.4.1.
    #[must_use]
    pub fn path(&self) -> &[NodeHash] {
        &self.path
    }
}

/// Wire form of a proof.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireConsistencyProof {
    old_size: u64,
    new_size: u64,
    path: Vec<NodeHash>,
}

impl TryFrom<WireConsistencyProof> for ConsistencyProof {
    type Error = ProofError;
    fn try_from(wire: WireConsistencyProof) -> Result<Self, ProofError> {
        Self::new(wire.old_size, wire.new_size, wire.path)
    }
}
