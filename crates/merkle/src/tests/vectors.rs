//! Public vectors under `tests/vectors/merkle`, run through the library. `cargo run -p xtask -- vectors` makes them.

use std::collections::BTreeSet;

use base64ct::{Base64, Encoding as _};
use countersign_test_vectors::Vectors;
use serde_json::Value;

use super::*;

#[test]
fn every_vector_on_disk_has_its_verdict() {
    let files = Vectors::of("merkle").on_disk();
    let mut codes = BTreeSet::new();
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let expected = case["expect"].as_str().unwrap();
        assert_eq!(name.starts_with("accept/"), expected == "ok", "{name}");
        assert_eq!(run(&case).map_or_else(|code| code, |()| "ok"), expected, "{name}");
        codes.insert(expected.to_owned());
    }
    assert!(files.len() >= 40);
    let all = [
        "MERKLE_EMPTY_ROOT",
        "MERKLE_HASH_LENGTH",
        "MERKLE_INDEX",
        "MERKLE_LENGTH",
        "MERKLE_ROOT",
        "MERKLE_SIZE",
    ];
    assert!(codes.iter().eq(all.iter().chain(&["MERKLE_TOO_LARGE", "ok"])), "{codes:?}");
}

fn run(case: &Value) -> Result<(), &'static str> {
    let input = &case["input"];
    let bytes = |value: &Value| Base64::decode_vec(value.as_str().unwrap()).unwrap();
    let head = |size: &Value, root: &Value| {
        let root = RootHash::try_from(bytes(root).as_slice()).map_err(|error| error.code())?;
        TreeHead::new(size.as_u64().unwrap(), root).map_err(|error| error.code())
    };
    let path = || {
        let hashes = input["proof"].as_array().unwrap().iter();
        let path: Result<Vec<_>, _> = hashes.map(|text| NodeHash::try_from(bytes(text).as_slice())).collect();
        path.map_err(|error| error.code())
    };
    match case["kind"].as_str().unwrap() {
        "root" => {
            let entries = input["entries"].as_array().unwrap();
            let tree: MerkleTree = entries.iter().map(|entry| LeafHash::of(&bytes(entry))).collect();
            let said = head(&tree.size().into(), &input["root"])?;
            if said == tree.head() { Ok(()) } else { Err(ProofError::Root.code()) }
        }
        "inclusion" => {
            let leaf =
                LeafHash::try_from(bytes(&input["leafHash"]).as_slice()).map_err(|error| error.code())?;
            let head = head(&input["treeSize"], &input["root"])?;
            verify_inclusion(&leaf, input["leafIdx"].as_u64().unwrap(), &head, &path()?)
                .map_err(|error| error.code())
        }
        "consistency" => {
            let old = head(&input["size1"], &input["root1"])?;
            let new = head(&input["size2"], &input["root2"])?;
            verify_consistency(&old, &new, &path()?).map_err(|error| error.code())
        }
        other => panic!("{other} is no kind of vector"),
    }
}
