//! Merkle trees over SHA-256 (RFC 9162, section 2.1): hashes of leaves and nodes, roots, inclusion and consistency
//! proofs, and one verifier for each kind of proof.
//!
//! Leaves are hashed with the prefix 0x00 and nodes with 0x01, so that neither passes for the other. A last odd leaf
//! moves up and is never doubled. Different lists of entries therefore have different roots. [`Frontier`] appends and
//! computes roots in memory logarithmic in the size; [`MerkleTree`] keeps every node and gives proofs; [`StoredNodes`]
//! gives proofs over nodes kept elsewhere. [`verify_inclusion`] and [`verify_consistency`] need none of them.
//!
//! This crate does not store, send or sign anything, and does not interpret its leaves. A proof is worth as much as
//! the [`TreeHead`] that it is verified against: root **and** size must come from a trusted source, since one root
//! can match several sizes (see [`verify_inclusion`]).
//!
//! ```
//! use countersign_merkle::{LeafHash, MerkleTree};
//! let tree: MerkleTree = [b"first", b"other", b"third"].map(|entry| LeafHash::of(entry)).into_iter().collect();
//! let proof = tree.prove_inclusion(2)?;
//! assert!(proof.verify(&LeafHash::of(b"third"), &tree.head()).is_ok());
//! assert!(proof.verify(&LeafHash::of(b"other"), &tree.head()).is_err());
//! # Ok::<(), countersign_merkle::TreeError>(())
//! ```

mod consistency;
mod error;
mod frontier;
mod hash;
mod head;
mod inclusion;
mod nodes;
mod tree;

#[cfg(test)]
mod tests;

pub use consistency::{ConsistencyProof, verify_consistency};
pub use error::{HashError, HeadError, ProofError, TreeError};
pub use frontier::Frontier;
pub use hash::{LeafHash, NodeHash, RootHash};
pub use head::{MAX_SIZE, TreeHead};
pub use inclusion::{InclusionProof, verify_inclusion};
pub use nodes::StoredNodes;
pub use tree::MerkleTree;
