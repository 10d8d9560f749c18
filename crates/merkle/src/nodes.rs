use crate::consistency::ConsistencyProof;
use crate::error::TreeError;
use crate::frontier::Frontier;
use crate::hash::NodeHash;
use crate::inclusion::InclusionProof;

/// Proofs of a tree whose nodes are stored elsewhere. `node(level, index)` returns the root of the full subtree over
/// the `2^level` leaves from `index * 2^level`.
///
/// A proof reads fewer nodes than twice the number of bits of the size, and only nodes that a tree of that size has. It
/// is worth as much as the nodes: verify it against a trusted [`TreeHead`](crate::TreeHead) before handing it out.
///
/// ```
/// use countersign_merkle::{LeafHash, MerkleTree, NodeHash, StoredNodes};
/// let leaves = [b"a", b"b", b"c"].map(|entry| NodeHash::from(LeafHash::of(entry)));
/// let pair = NodeHash::of(&leaves[0], &leaves[1]);
/// let mut nodes = StoredNodes(|level, index| if level == 0 { leaves.get(index as usize).copied() } else { Some(pair) });
/// let tree: MerkleTree = [b"a", b"b", b"c"].map(|entry| LeafHash::of(entry)).into_iter().collect();
/// assert_eq!(nodes.frontier(3)?, tree.frontier());
/// assert_eq!(nodes.prove_inclusion(2, 3)?, tree.prove_inclusion(2)?);
/// # Ok::<(), countersign_merkle::TreeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is the function")]
pub struct StoredNodes<N>(
    /// Returns the node of a level and an index, if it is stored.
    pub N,
);

impl<N: FnMut(u32, u64) -> Option<NodeHash>> StoredNodes<N> {
    /// The frontier of the tree of that size, which can be appended to.
    ///
    /// # Errors
    /// [`TreeError::NoSuchNode`] if a node is missing; [`TreeError::Frontier`] above [`MAX_SIZE`](crate::MAX_SIZE).
    pub fn frontier(&mut self, size: u64) -> Result<Frontier, TreeError> {
        Frontier::from_parts(size, self.peaks(0, size)?)
    }

    /// Proves that the leaf with that index is in the tree of that size (RFC 9162, section 2.1.3.1).
    ///
    /// # Errors
    /// [`TreeError::NoSuchLeaf`] if a tree of that size has no such leaf; [`TreeError::NoSuchNode`] if a node is
    /// missing.
    pub fn prove_inclusion(&mut self, index: u64, size: u64) -> Result<InclusionProof, TreeError> {
        if index >= size {
            return Err(TreeError::NoSuchLeaf);
        }
        let (mut start, mut end, mut path) = (0, size, Vec::new());
        while let Some(middle) = split(start, end) {
            if index < middle {
                path.push(self.subtree(middle, end)?);
                end = middle;
            } else {
                path.push(self.subtree(start, middle)?);
                start = middle;
            }
        }
        path.reverse();
        Ok(InclusionProof::of_tree(index, size, path))
    }

    /// Proves that the tree of the new size extends the tree of the old size (RFC 9162, section 2.1.4.1).
    ///
    /// # Errors
    /// [`TreeError::NoSuchSize`] if the old size is 0 or above the new one; [`TreeError::NoSuchNode`] if a node is
    /// missing.
    pub fn prove_consistency(&mut self, old_size: u64, new_size: u64) -> Result<ConsistencyProof, TreeError> {
        if old_size == 0 || old_size > new_size {
            return Err(TreeError::NoSuchSize);
        }
        let (mut start, mut end, mut path) = (0, new_size, Vec::new());
        while end != old_size {
            let Some(middle) = split(start, end) else { break };
            if old_size <= middle {
                path.push(self.subtree(middle, end)?);
                end = middle;
            } else {
                path.push(self.subtree(start, middle)?);
                start = middle;
            }
        }
        // If only right halves were split off, this subtree is the old tree, whose root the verifier has.
        if start != 0 {
            path.push(self.subtree(start, end)?);
        }
        path.reverse();
        Ok(ConsistencyProof::of_tree(old_size, new_size, path))
    }

    /// The hash over the leaves `start..end`, which must be a subtree of the tree at some size.
    fn subtree(&mut self, start: u64, end: u64) -> Result<NodeHash, TreeError> {
        let peaks = self.peaks(start, end)?.into_iter().rev();
        peaks.reduce(|right, left| NodeHash::of(&left, &right)).ok_or(TreeError::NoSuchNode)
    }

    /// The roots of the full subtrees of `start..end`, the largest first.
    fn peaks(&mut self, start: u64, end: u64) -> Result<Vec<NodeHash>, TreeError> {
        let (mut at, mut peaks) = (start, Vec::new());
        while let Some(level) = end.saturating_sub(at).checked_ilog2() {
            peaks.push((self.0)(level, at.unbounded_shr(level)).ok_or(TreeError::NoSuchNode)?);
            at = at.saturating_add(1_u64.unbounded_shl(level));
        }
        Ok(peaks)
    }
}

/// The start of a subtree's right half; the size of the left half is the largest power of two below the size. `None`
/// for one leaf.
fn split(start: u64, end: u64) -> Option<u64> {
    let half = end.saturating_sub(start).saturating_sub(1).checked_ilog2()?;
    Some(start.saturating_add(1_u64.unbounded_shl(half)))
}
