use clap::Args;
use countersign_merkle::{
    HashError, HeadError, LeafHash, MAX_SIZE, NodeHash, ProofError, RootHash, TreeHead, verify_consistency,
    verify_inclusion,
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::entries::{decode, malformed};
use crate::failure::{Exit, Failure};
use crate::files::{Source, TEXT_BYTES};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Inclusion {}

#[derive(Debug, Args)]
pub(crate) struct Consistency {}

/// What `verify-inclusion` reads. Only what is there is read: a member that is missing is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct InclusionInput {
    leaf_idx: u64,
    tree_size: u64,
    #[serde(deserialize_with = "perhaps")]
    root: Option<String>,
    #[serde(deserialize_with = "perhaps")]
    leaf_hash: Option<String>,
    #[serde(deserialize_with = "perhaps")]
    proof: Option<Vec<String>>,
    #[serde(rename = "desc", default)]
    _desc: IgnoredAny,
    #[serde(rename = "wantErr", default)]
    _want_err: IgnoredAny,
}

/// Input of `verify-consistency`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsistencyInput {
    size1: u64,
    size2: u64,
    #[serde(deserialize_with = "perhaps")]
    root1: Option<String>,
    #[serde(deserialize_with = "perhaps")]
    root2: Option<String>,
    #[serde(deserialize_with = "perhaps")]
    proof: Option<Vec<String>>,
    #[serde(rename = "desc", default)]
    _desc: IgnoredAny,
    #[serde(rename = "wantErr", default)]
    _want_err: IgnoredAny,
}

/// Deserializes a required member that may be null.
fn perhaps<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

impl Inclusion {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let input: InclusionInput = input()?;
        let root = bytes(input.root.as_ref())?;
        let leaf = bytes(input.leaf_hash.as_ref())?;
        let path = path(input.proof.as_ref())?;
        let leaf = LeafHash::try_from(leaf.as_slice()).map_err(no_hash)?;
        let head = head(input.tree_size, &root)?;
        verify_inclusion(&leaf, input.leaf_idx, &head, &hashes(&path)?).map_err(refused)?;
        let report = json!({"ok": true, "leafIdx": input.leaf_idx, "treeSize": input.tree_size});
        out.result(&report, &format!("leaf {} is in the tree of {}", input.leaf_idx, input.tree_size))?;
        Ok(Exit::Done)
    }
}

impl Consistency {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let input: ConsistencyInput = input()?;
        let roots = (bytes(input.root1.as_ref())?, bytes(input.root2.as_ref())?);
        let path = path(input.proof.as_ref())?;
        if path.is_empty() && is_same_size(input.size1, input.size2) {
            is_same_root(&roots.0, &roots.1)?;
        } else {
            let (old, new) = (head(input.size1, &roots.0)?, head(input.size2, &roots.1)?);
            verify_consistency(&old, &new, &hashes(&path)?).map_err(refused)?;
        }
        let report = json!({"ok": true, "size1": input.size1, "size2": input.size2});
        out.result(&report, &format!("the tree of {} goes on from that of {}", input.size2, input.size1))?;
        Ok(Exit::Done)
    }
}

const fn is_same_size(old: u64, new: u64) -> bool {
    old == new && old > 0 && new <= MAX_SIZE
}

/// Compares the roots of two trees of the same size. They are only compared, so their bytes need not have the length of
/// a hash. An empty root is refused.
fn is_same_root(old: &[u8], new: &[u8]) -> Result<(), Failure> {
    for root in [old, new] {
        if root.is_empty() {
            RootHash::try_from(root).map_err(no_hash)?;
        }
    }
    if old == new { Ok(()) } else { Err(refused(ProofError::Root)) }
}

/// Reads one strict object: every member known, of the right type and at most once. Sizes are exact up to the largest
/// 64-bit integer.
fn input<T: DeserializeOwned>() -> Result<T, Failure> {
    let bytes = Source::Stdin.read_prefix(TEXT_BYTES.saturating_add(1))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > TEXT_BYTES) {
        return Err(Failure::new("FILE_TOO_LARGE", "proof too large: at most 1 MiB"));
    }
    let what = "member missing, unknown, duplicate or of the wrong type";
    // `serde_json` would also accept an array of the members' values.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Failure::new("MERKLE_INPUT", "not an object in JSON"));
    }
    serde_json::from_slice(&bytes).map_err(|error| malformed(what, &error))
}

fn bytes(text: Option<&String>) -> Result<Vec<u8>, Failure> {
    text.map_or_else(|| Ok(Vec::new()), |text| decode(text))
}

fn path(proof: Option<&Vec<String>>) -> Result<Vec<Vec<u8>>, Failure> {
    proof.into_iter().flatten().map(|text| decode(text)).collect()
}

fn hashes(path: &[Vec<u8>]) -> Result<Vec<NodeHash>, Failure> {
    path.iter().map(|hash| NodeHash::try_from(hash.as_slice()).map_err(no_hash)).collect()
}

fn head(size: u64, root: &[u8]) -> Result<TreeHead, Failure> {
    let root = RootHash::try_from(root).map_err(no_hash)?;
    TreeHead::new(size, root).map_err(|error: HeadError| Failure::refused(error.code(), error.to_string()))
}

/// Refuses bytes that are not a hash: they cannot lead to a root.
fn no_hash(error: HashError) -> Failure {
    Failure::refused(error.code(), error.to_string())
}

fn refused(error: ProofError) -> Failure {
    Failure::refused(error.code(), error.to_string())
}
