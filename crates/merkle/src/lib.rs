//! Merkle trees over SHA-256 as RFC 9162, section 2.1, has them: hashes of leaves and nodes, roots, inclusion and
//! consistency proofs, and one verifier for each kind of proof.
//!
//! A leaf is hashed behind the byte 0x00 and a node behind 0x01, so that neither passes for the other, and an odd leaf
//! at the end is moved up and never doubled: lists of different entries have different roots. [`Frontier`] appends
//! and gives roots in memory that grows with the logarithm of the size; [`MerkleTree`] keeps every node and gives proofs, and
//! [`StoredNodes`] gives them where the nodes are kept elsewhere.
//! [`verify_inclusion`] and [`verify_consistency`] need neither.
//!
//! This crate stores nothing, sends nothing and signs nothing, and does not know what its leaves mean. A proof is worth as
//! much as the [`TreeHead`] that it is verified against: root **and** size have to come from somebody who is trusted,
//! since one root can be read under several sizes (see [`verify_inclusion`]).
//!
//! ```
//! use countersign_merkle::{LeafHash, MerkleTree};
//! let tree: MerkleTree = [b"first", b"other", b"third"].map(|entry| LeafHash::of(entry)).into_iter().collect();
//! let proof = tree.prove_inclusion(2)?;
//! assert!(proof.verify(&LeafHash::of(b"third"), &tree.head()).is_ok());
//! assert!(proof.verify(&LeafHash::of(b"other"), &tree.head()).is_err());
//! # Ok::<(), countersign_merkle::TreeError>(())
//! ```

mod compress;
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
