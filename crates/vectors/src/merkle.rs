//! Merkle trees: roots, inclusion and consistency proofs.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding as _};
use countersign::core::Digest;
use countersign_merkle::{LeafHash, MAX_SIZE, MerkleTree, NodeHash, RootHash};
use countersign_test_vectors::numbered;
use serde_json::{Value, json};

pub(crate) fn files() -> BTreeMap<String, String> {
    let mut made = numbered("accept", accepted());
    made.extend(numbered("reject", rejected()));
    made
}

fn text(hash: Digest) -> Value {
    Base64::encode_string(hash.as_bytes()).into()
}

fn texts(path: &[NodeHash]) -> Vec<Value> {
    path.iter().map(|node| text(node.digest())).collect()
}

fn small(size: u64) -> MerkleTree {
    (0..size).map(small_leaf).collect()
}

/// An entry of one letter, easy to type.
fn small_entry(index: u64) -> Vec<u8> {
    vec![b'a' + u8::try_from(index).unwrap()]
}

fn small_leaf(index: u64) -> LeafHash {
    LeafHash::of(&small_entry(index))
}

fn inclusion(index: u64, size: u64) -> Value {
    let tree = small(size);
    json!({
        "leafIdx": index,
        "treeSize": size,
        "root": text(tree.root().digest()),
        "leafHash": text(small_leaf(index).digest()),
        "proof": texts(tree.prove_inclusion(index).unwrap().path()),
    })
}

fn consistency(old: u64, new: u64) -> Value {
    let tree = small(new);
    json!({
        "size1": old,
        "size2": new,
        "root1": text(tree.head_at(old).unwrap().root().digest()),
        "root2": text(tree.root().digest()),
        "proof": texts(tree.prove_consistency(old).unwrap().path()),
    })
}

fn root(entries: &[Vec<u8>]) -> Value {
    let tree: MerkleTree = entries.iter().map(|entry| LeafHash::of(entry)).collect();
    let entries: Vec<String> = entries.iter().map(|entry| Base64::encode_string(entry)).collect();
    json!({ "entries": entries, "root": text(tree.root().digest()) })
}

fn case(about: &str, kind: &str, expect: &str, input: &Value) -> Value {
    json!({ "description": about, "kind": kind, "input": input, "expect": expect })
}

/// The input with one member replaced.
fn with(mut input: Value, name: &str, value: Value) -> Value {
    input[name] = value;
    input
}

/// The input with its list of hashes edited.
fn edited(mut input: Value, edit: impl FnOnce(&mut Vec<Value>)) -> Value {
    edit(input["proof"].as_array_mut().unwrap());
    input
}

fn accepted() -> Vec<(&'static str, Value)> {
    let letters = |count| (0..count).map(small_entry).collect::<Vec<_>>();
    let ok = |about, kind, input| case(about, kind, "ok", &input);
    vec![
        ("root_of_nothing", ok("no entries", "root", root(&[]))),
        ("root_of_empty_entry", ok("one entry of no bytes", "root", root(&[Vec::new()]))),
        ("root_of_three", ok("the odd leaf moves up", "root", root(&letters(3)))),
        ("root_of_seven", ok("two odd nodes move up", "root", root(&letters(7)))),
        ("only_leaf", ok("one leaf needs no hash", "inclusion", inclusion(0, 1))),
        ("last_of_three", ok("a leaf that moved up", "inclusion", inclusion(2, 3))),
        ("middle_of_thirteen", ok("a leaf in a tree of thirteen", "inclusion", inclusion(6, 13))),
        ("grown_from_power_of_two", ok("the old root is a subtree", "consistency", consistency(4, 7))),
        ("grown_from_odd_size", ok("the first hash is told", "consistency", consistency(7, 13))),
        ("same_tree", ok("equal sizes need no hash", "consistency", consistency(5, 5))),
    ]
}

fn rejected() -> Vec<(&'static str, Value)> {
    let (three, seven) = (inclusion(2, 3), inclusion(4, 7));
    let grown = consistency(6, 13);
    let other = text(small_leaf(25).digest());
    let in_ = |about, code, input| case(about, "inclusion", code, &input);
    let con = |about, code, input| case(about, "consistency", code, &input);
    let flipped = |value: &Value| {
        let bytes = Base64::decode_vec(value.as_str().unwrap()).unwrap();
        let mut bytes: [u8; 32] = bytes.try_into().unwrap();
        bytes[31] ^= 0x80;
        text(Digest::from_bytes(bytes))
    };
    let doubled = (0..4_u64).map(|at| small_entry(at.min(2))).collect::<Vec<_>>();
    let node_bytes = [small_leaf(0).as_bytes().as_slice(), small_leaf(1).as_bytes()].concat();
    let right = NodeHash::of(&small_leaf(2).into(), &small_leaf(3).into());
    let node_as_leaf = json!({
        "leafIdx": 0, "treeSize": 2, "root": text(small(4).root().digest()),
        "leafHash": text(LeafHash::of(&node_bytes).digest()), "proof": texts(&[right]),
    });
    vec![
        (
            "cve_2012_2459",
            case(
                "three leaves under the root of four with the last one doubled",
                "root",
                "MERKLE_ROOT",
                &with(
                    root(&(0..3).map(small_entry).collect::<Vec<_>>()),
                    "root",
                    root(&doubled)["root"].clone(),
                ),
            ),
        ),
        (
            "root_of_nothing_is_not_zeros",
            case(
                "zeros as the root of no entries",
                "root",
                "MERKLE_EMPTY_ROOT",
                &with(root(&[]), "root", text(Digest::from_bytes([0; 32]))),
            ),
        ),
        ("node_as_leaf", in_("two hashes given out as an entry", "MERKLE_ROOT", node_as_leaf)),
        (
            "other_leaf",
            in_("the hash of another entry", "MERKLE_ROOT", with(seven.clone(), "leafHash", other.clone())),
        ),
        ("other_root", in_("another root", "MERKLE_ROOT", with(seven.clone(), "root", other.clone()))),
        (
            "changed_bit",
            in_(
                "one bit of the second hash changed",
                "MERKLE_ROOT",
                edited(seven.clone(), |path| path[1] = flipped(&path[1])),
            ),
        ),
        (
            "swapped_hashes",
            in_("two hashes swapped", "MERKLE_ROOT", edited(seven.clone(), |path| path.swap(0, 1))),
        ),
        (
            "missing_hash",
            in_("the last hash left out", "MERKLE_LENGTH", edited(seven.clone(), |path| drop(path.pop()))),
        ),
        ("no_hashes", in_("no hashes", "MERKLE_LENGTH", edited(seven.clone(), Vec::clear))),
        (
            "added_hash",
            in_(
                "the root added at the end",
                "MERKLE_LENGTH",
                edited(seven.clone(), |path| path.push(seven["root"].clone())),
            ),
        ),
        (
            "only_leaf_with_a_hash",
            in_(
                "a hash where one leaf needs none",
                "MERKLE_LENGTH",
                edited(inclusion(0, 1), |path| path.push(other.clone())),
            ),
        ),
        (
            "index_one_less",
            in_("the neighbour's index", "MERKLE_LENGTH", with(three.clone(), "leafIdx", 1.into())),
        ),
        (
            "index_one_more",
            in_("the other half's index", "MERKLE_ROOT", with(seven.clone(), "leafIdx", 5.into())),
        ),
        (
            "index_at_size",
            in_("the index after the last one", "MERKLE_INDEX", with(three.clone(), "leafIdx", 3.into())),
        ),
        (
            "index_largest",
            in_("the largest index", "MERKLE_INDEX", with(three.clone(), "leafIdx", u64::MAX.into())),
        ),
        (
            "size_zero",
            in_(
                "a tree without leaves that has a root",
                "MERKLE_EMPTY_ROOT",
                with(three.clone(), "treeSize", 0.into()),
            ),
        ),
        ("size_doubled", in_("twice the size", "MERKLE_LENGTH", with(seven.clone(), "treeSize", 14.into()))),
        (
            "size_above_2_63",
            in_(
                "a size above 2^63",
                "MERKLE_TOO_LARGE",
                with(three.clone(), "treeSize", (MAX_SIZE + 1).into()),
            ),
        ),
        (
            "short_hash",
            in_(
                "a hash of 31 bytes",
                "MERKLE_HASH_LENGTH",
                edited(seven.clone(), |path| path[0] = Base64::encode_string(&[7; 31]).into()),
            ),
        ),
        (
            "long_leaf_hash",
            in_(
                "a leaf hash of 33 bytes",
                "MERKLE_HASH_LENGTH",
                with(seven, "leafHash", Base64::encode_string(&[7; 33]).into()),
            ),
        ),
        (
            "from_nothing",
            con(
                "an old tree without leaves",
                "MERKLE_SIZE",
                with(with(grown.clone(), "size1", 0.into()), "root1", text(RootHash::empty().digest())),
            ),
        ),
        (
            "backwards",
            con(
                "the heads swapped",
                "MERKLE_SIZE",
                with(
                    with(
                        with(with(grown.clone(), "size1", 13.into()), "size2", 6.into()),
                        "root1",
                        grown["root2"].clone(),
                    ),
                    "root2",
                    grown["root1"].clone(),
                ),
            ),
        ),
        (
            "roots_swapped",
            con(
                "the roots swapped",
                "MERKLE_ROOT",
                with(with(grown.clone(), "root1", grown["root2"].clone()), "root2", grown["root1"].clone()),
            ),
        ),
        (
            "fork",
            con("one size and two roots", "MERKLE_ROOT", with(consistency(5, 5), "root2", other.clone())),
        ),
        (
            "same_tree_with_a_hash",
            con(
                "equal sizes and a hash",
                "MERKLE_LENGTH",
                edited(consistency(5, 5), |path| path.push(other.clone())),
            ),
        ),
        (
            "grown_without_hashes",
            con("a grown tree and no hashes", "MERKLE_LENGTH", edited(grown.clone(), Vec::clear)),
        ),
        (
            "grown_missing_hash",
            con("the last hash left out", "MERKLE_LENGTH", edited(grown.clone(), |path| drop(path.pop()))),
        ),
        (
            "grown_added_hash",
            con(
                "a hash added at the end",
                "MERKLE_LENGTH",
                edited(grown.clone(), |path| path.push(other.clone())),
            ),
        ),
        (
            "grown_changed_bit",
            con(
                "one bit of the first hash changed",
                "MERKLE_ROOT",
                edited(grown.clone(), |path| path[0] = flipped(&path[0])),
            ),
        ),
        (
            "grown_other_old_root",
            con("another old root", "MERKLE_ROOT", with(grown.clone(), "root1", other.clone())),
        ),
        ("grown_other_new_root", con("another new root", "MERKLE_ROOT", with(grown.clone(), "root2", other))),
        (
            "grown_size_one_less",
            con("the old tree is said to be smaller", "MERKLE_LENGTH", with(grown, "size1", 5.into())),
        ),
    ]
}
