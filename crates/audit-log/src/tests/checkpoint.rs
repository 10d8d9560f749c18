//! One log's name, key, tree and notes, for the tests of receipts and for vectors.

use countersign_keys::SigningKey;
use countersign_merkle::{LeafHash, MerkleTree};
use countersign_tlog::note::KeyName;

use crate::{AddCheckpoint, Checkpoint, LogKey};

pub(super) const ORIGIN: &str = "log.example/desk";

pub(super) fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

pub(super) fn signing_key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

pub(super) fn log_key() -> LogKey {
    LogKey::new(name(ORIGIN), signing_key().verifying_key())
}

pub(super) fn tree(size: u64) -> MerkleTree {
    (0..size).map(|n| LeafHash::of(&n.to_be_bytes())).collect()
}

/// Returns the note of the log's checkpoint at that size.
pub(super) fn note(tree: &MerkleTree, size: u64) -> String {
    Checkpoint::new(name(ORIGIN), tree.head_at(size).unwrap()).sign(&signing_key())
}

/// Builds the request of a log to a witness that it assumes has seen `old` records.
pub(super) fn request(tree: &MerkleTree, old: u64, new: u64) -> AddCheckpoint {
    if old == 0 {
        return AddCheckpoint::first(&note(tree, new)).unwrap();
    }
    AddCheckpoint::new(&tree.prove_consistency_at(old, new).unwrap(), &note(tree, new)).unwrap()
}
