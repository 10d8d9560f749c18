use clap::Args;
use countersign_merkle::{
    ConsistencyProof, Frontier, InclusionProof, LeafHash, MerkleTree, NodeHash, TreeError, TreeHead,
};
use serde_json::{Value, json};

use super::entries::{EntrySource, encode};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Root {
    #[command(flatten)]
    entries: EntrySource,
}

#[derive(Debug, Args)]
pub(crate) struct MerkleProveArgs {
    #[command(flatten)]
    entries: EntrySource,
    /// Prove that the entry with this index, from 0 on, is in the list.
    #[arg(long, value_name = "N", required_unless_present = "old_size", conflicts_with = "old_size")]
    index: Option<u64>,
    /// Prove consistency with the list at this earlier number of entries.
    #[arg(long, value_name = "N")]
    old_size: Option<u64>,
    /// Prove it for the list at this number of entries; without it, for the whole list.
    #[arg(long, value_name = "N")]
    size: Option<u64>,
}

impl Root {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        // The list may exceed memory; a frontier grows with the logarithm of its size.
        let mut tree = Frontier::new();
        self.entries.each(|leaf| tree.append(leaf).map(drop).map_err(|error| failure(&error)))?;
        let head = tree.head();
        let root = encode(head.root().as_bytes());
        let report = json!({"ok": true, "size": head.size(), "root": root, "root_hex": head.root()});
        out.result(&report, &format!("{} {root}", head.size()))?;
        Ok(Exit::Done)
    }
}

impl MerkleProveArgs {
    /// Prints the proof as JSON in either output format: the verifying verbs read it.
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let mut tree = MerkleTree::new();
        self.entries.each(|leaf| tree.append(leaf).map(drop).map_err(|error| failure(&error)))?;
        let size = self.size.unwrap_or_else(|| tree.size());
        let proof = match (self.index, self.old_size) {
            (Some(index), None) => inclusion(&tree, index, size),
            (None, Some(old_size)) => consistency(&tree, old_size, size),
            _ => return Err(Failure::usage("either --index or --old-size expected, not both")),
        };
        out.json(&proof.map_err(|error| failure(&error))?)?;
        Ok(Exit::Done)
    }
}

fn inclusion(tree: &MerkleTree, index: u64, size: u64) -> Result<Value, TreeError> {
    let proof = tree.prove_inclusion_at(index, size)?;
    let leaf = tree.leaf(index).ok_or(TreeError::NoSuchLeaf)?;
    Ok(inclusion_report(&proof, &leaf, &tree.head_at(size)?))
}

fn consistency(tree: &MerkleTree, old_size: u64, size: u64) -> Result<Value, TreeError> {
    let proof = tree.prove_consistency_at(old_size, size)?;
    Ok(consistency_report(&proof, &tree.head_at(old_size)?, &tree.head_at(size)?))
}

/// Returns an inclusion proof in the form that the verifying verb reads.
pub(crate) fn inclusion_report(proof: &InclusionProof, leaf: &LeafHash, head: &TreeHead) -> Value {
    json!({
        "leafIdx": proof.index(),
        "treeSize": proof.size(),
        "root": encode(head.root().as_bytes()),
        "leafHash": encode(leaf.as_bytes()),
        "proof": path(proof.path()),
    })
}

/// Returns a consistency proof in the form that the verifying verb reads.
pub(crate) fn consistency_report(proof: &ConsistencyProof, old: &TreeHead, new: &TreeHead) -> Value {
    json!({
        "size1": proof.old_size(),
        "size2": proof.new_size(),
        "root1": encode(old.root().as_bytes()),
        "root2": encode(new.root().as_bytes()),
        "proof": path(proof.path()),
    })
}

fn path(hashes: &[NodeHash]) -> Vec<String> {
    hashes.iter().map(|hash| encode(hash.as_bytes())).collect()
}

fn failure(error: &TreeError) -> Failure {
    Failure::new(error.code(), error.to_string())
}
