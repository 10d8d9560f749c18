use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use countersign_core::Digest;
use serde::Deserialize;

use super::*;

/// Folder of the public suite. A test that is run without it fails.
fn suite() -> PathBuf {
    let folder = std::env::var_os("COUNTERSIGN_VECTORS")
        .expect("COUNTERSIGN_VECTORS names the folder of public suites");
    PathBuf::from(folder).join("merkle-rfc9162/testdata")
}

/// All files of a folder, recursively.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Inclusion {
    leaf_idx: u64,
    tree_size: u64,
    root: Option<String>,
    leaf_hash: Option<String>,
    proof: Option<Vec<String>>,
    #[serde(rename = "desc")]
    _description: String,
    want_err: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Consistency {
    size1: u64,
    size2: u64,
    root1: Option<String>,
    root2: Option<String>,
    proof: Option<Vec<String>>,
    #[serde(rename = "desc")]
    _description: String,
    want_err: bool,
}

fn bytes(text: Option<&String>) -> Vec<u8> {
    text.map(|text| Base64::decode_vec(text).unwrap()).unwrap_or_default()
}

/// Parses the hashes of a proof, or returns the code of the refusal.
fn path(proof: Option<&Vec<String>>) -> Result<Vec<NodeHash>, &'static str> {
    let hashes = proof.into_iter().flatten().map(|text| NodeHash::try_from(bytes(Some(text)).as_slice()));
    hashes.collect::<Result<_, _>>().map_err(|error| error.code())
}

fn head(size: u64, root: &[u8]) -> Result<TreeHead, &'static str> {
    let root = RootHash::try_from(root).map_err(|error| error.code())?;
    TreeHead::new(size, root).map_err(|error| error.code())
}

fn included(vector: &Inclusion) -> Result<(), &'static str> {
    let leaf =
        LeafHash::try_from(bytes(vector.leaf_hash.as_ref()).as_slice()).map_err(|error| error.code())?;
    let head = head(vector.tree_size, &bytes(vector.root.as_ref()))?;
    verify_inclusion(&leaf, vector.leaf_idx, &head, &path(vector.proof.as_ref())?)
        .map_err(|error| error.code())
}

fn consistent(vector: &Consistency) -> Result<(), &'static str> {
    let mut roots = [&vector.root1, &vector.root2].map(|root| bytes(root.as_ref()));
    // Vectors for two trees of the same size have words instead of roots, which are only compared. Digests of the words
    // compare like the words.
    if vector.size1 == vector.size2 && roots.iter().all(|root| root.len() != 32) {
        roots = roots.map(|root| Digest::of(&root).as_bytes().to_vec());
    }
    let (old, new) = (head(vector.size1, &roots[0])?, head(vector.size2, &roots[1])?);
    verify_consistency(&old, &new, &path(vector.proof.as_ref())?).map_err(|error| error.code())
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn public_inclusion_vectors_hold() {
    let (mut held, mut refused) = (0, 0);
    for file in files(&suite().join("inclusion")) {
        let vector: Inclusion = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let result = included(&vector);
        assert_eq!(result.is_err(), vector.want_err, "{}: {result:?}", file.display());
        if vector.want_err { refused += 1 } else { held += 1 }
    }
    println!("{held} hold, {refused} refused");
    assert!(held >= 6 && refused >= 80);
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn public_consistency_vectors_hold() {
    let (mut held, mut refused) = (0, 0);
    for file in files(&suite().join("consistency")) {
        let vector: Consistency = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let result = consistent(&vector);
        // For an empty old tree either result is a convention. This crate refuses.
        let expected = vector.want_err || vector.size1 == 0;
        assert_eq!(result.is_err(), expected, "{}: {result:?}", file.display());
        if expected { refused += 1 } else { held += 1 }
    }
    println!("{held} hold, {refused} refused");
    assert!(held >= 6 && refused >= 85);
}
