//! Attacks on the tree itself.

use super::*;

#[test]
fn doubled_last_leaf_changes_the_root() {
    // CVE-2012-2459: if an odd leaf is paired with itself, these two lists have the same root.
    for size in 1..=65 {
        let (whole, mut doubled) = (tree(size), tree(size));
        doubled.append(leaf(size - 1)).unwrap();
        assert_ne!(whole.root(), doubled.root(), "{size}");
        let proof = doubled.prove_inclusion(size).unwrap();
        assert_eq!(proof.verify(&leaf(size - 1), &doubled.head()), Ok(()));
        assert!(proof.verify(&leaf(size - 1), &whole.head()).is_err());
    }
}

#[test]
fn lists_of_different_length_have_different_roots() {
    let roots: std::collections::HashSet<RootHash> = (0..=SIZES).map(|size| tree(size).root()).collect();
    assert_eq!(roots.len() as u64, SIZES + 1);
}

#[test]
fn a_node_does_not_pass_for_a_leaf() {
    // The bytes of two hashes as an entry: without prefixes it would hash to their node.
    let tree = tree(4);
    let (a, b) = (NodeHash::from(leaf(0)), NodeHash::from(leaf(1)));
    let forged = LeafHash::of(&[a.as_bytes().as_slice(), b.as_bytes()].concat());
    let right = NodeHash::of(&leaf(2).into(), &leaf(3).into());
    let two = TreeHead::new(2, *tree.head().root()).unwrap();
    assert_eq!(verify_inclusion(&forged, 0, &two, &[right]), Err(ProofError::Root));
    assert_eq!(verify_inclusion(&forged, 0, &tree.head(), &[right]), Err(ProofError::Length));
    let forged = LeafHash::of(&[&[1], a.as_bytes().as_slice(), b.as_bytes()].concat());
    assert_eq!(verify_inclusion(&forged, 0, &two, &[right]), Err(ProofError::Root));
}

#[test]
fn a_leaf_does_not_pass_for_a_node() {
    // An entry with the bytes of a node's input has another hash than that node.
    let (a, b) = (NodeHash::from(leaf(0)), NodeHash::from(leaf(1)));
    let input = [&[1], a.as_bytes().as_slice(), b.as_bytes()].concat();
    assert_ne!(LeafHash::of(&input).digest(), NodeHash::of(&a, &b).digest());
    assert_ne!(LeafHash::of(&input[1..]).digest(), NodeHash::of(&a, &b).digest());
}

#[test]
fn a_proof_for_another_tree_is_refused() {
    let other: MerkleTree = (1_000..1_013).map(leaf).collect();
    let tree = tree(13);
    for index in 0..13 {
        let proof = other.prove_inclusion(index).unwrap();
        assert_eq!(proof.verify(&leaf(index), &tree.head()), Err(ProofError::Root));
        assert_eq!(proof.verify(&leaf(index + 1_000), &tree.head()), Err(ProofError::Root));
    }
}
