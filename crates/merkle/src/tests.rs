#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "sizes are small, and a value out of range fails the test"
)]

mod attacks;
mod consistency;
mod frontier;
mod hashes;
mod inclusion;
mod laws;
mod reference;
mod suites;
mod vectors;
mod wire;

use crate::*;

/// Maximum size of trees in exhaustive tests, beyond two powers of two.
const SIZES: u64 = 130;

/// The entry at an index. Entries are distinct and have several lengths.
fn entry(index: u64) -> Vec<u8> {
    let mut entry = index.to_be_bytes().to_vec();
    entry.resize(8 + (index % 90) as usize, 0xA5);
    entry
}

fn leaf(index: u64) -> LeafHash {
    LeafHash::of(&entry(index))
}

fn tree(size: u64) -> MerkleTree {
    (0..size).map(leaf).collect()
}

/// The node with one bit changed.
fn flip(node: NodeHash, bit: usize) -> NodeHash {
    let mut bytes = *node.as_bytes();
    bytes[bit / 8] ^= 1 << (bit % 8);
    NodeHash::from_digest(countersign_core::Digest::from_bytes(bytes))
}

/// The head with one bit of its root changed.
fn flip_root(head: &TreeHead, bit: usize) -> TreeHead {
    let flipped = flip(NodeHash::from_digest(head.root().digest()), bit);
    TreeHead::new(head.size(), RootHash::from_digest(flipped.digest())).unwrap()
}
