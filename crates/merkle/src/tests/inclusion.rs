use ct_merkle::mem_backed_tree::MemoryBackedTree;

use super::reference;
use super::*;

fn bytes(path: &[NodeHash]) -> Vec<[u8; 32]> {
    path.iter().map(|node| *node.as_bytes()).collect()
}

#[test]
fn inclusion_proofs_follow_the_definition() {
    let whole = tree(SIZES);
    let entries: Vec<Vec<u8>> = (0..SIZES).map(entry).collect();
    let mut other = MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
    for size in 1..=SIZES {
        other.push(entry(size - 1));
        let head = whole.head_at(size).unwrap();
        for index in 0..size {
            let proof = whole.prove_inclusion_at(index, size).unwrap();
            assert_eq!((proof.index(), proof.size()), (index, size));
            assert_eq!(proof.verify(&leaf(index), &head), Ok(()), "{index} of {size}");
            let at = index as usize;
            let path = bytes(proof.path());
            assert_eq!(path, reference::path(at, &entries[..size as usize]), "{index} of {size}");
            assert_eq!(path.concat(), other.prove_inclusion(at).as_bytes(), "{index} of {size}");
            assert_eq!(InclusionProof::new(index, size, proof.path().to_vec()), Ok(proof));
        }
    }
}

#[test]
fn missing_leaf_is_not_proved() {
    let tree = tree(7);
    assert_eq!(tree.prove_inclusion(7), Err(TreeError::NoSuchLeaf));
    assert_eq!(tree.prove_inclusion(u64::MAX), Err(TreeError::NoSuchLeaf));
    assert_eq!(tree.prove_inclusion_at(5, 5), Err(TreeError::NoSuchLeaf));
    assert_eq!(tree.prove_inclusion_at(0, 0), Err(TreeError::NoSuchLeaf));
    assert_eq!(tree.prove_inclusion_at(0, 8), Err(TreeError::NoSuchSize));
    assert_eq!(MerkleTree::new().prove_inclusion(0), Err(TreeError::NoSuchLeaf));
}

#[test]
fn leaf_does_not_pass_for_another_index() {
    for size in 1..=33 {
        let tree = tree(size);
        for index in 0..size {
            let proof = tree.prove_inclusion(index).unwrap();
            for other in (0..size + 2).filter(|other| *other != index) {
                let result = verify_inclusion(&leaf(index), other, &tree.head(), proof.path());
                assert!(result.is_err(), "{index} as {other} of {size}");
                let result = verify_inclusion(&leaf(other), index, &tree.head(), proof.path());
                assert_eq!(result, Err(ProofError::Root), "{other} at {index} of {size}");
            }
        }
    }
}

#[test]
fn inclusion_proof_is_for_its_size() {
    for size in 1..=33 {
        let tree = tree(size);
        for index in 0..size {
            let proof = tree.prove_inclusion(index).unwrap();
            for other in (0..=70).filter(|other| *other != size) {
                let Ok(head) = TreeHead::new(other, *tree.head().root()) else {
                    assert_eq!(other, 0);
                    continue;
                };
                assert_eq!(proof.verify(&leaf(index), &head), Err(ProofError::Size));
                let Ok(claimed) = InclusionProof::new(index, other, proof.path().to_vec()) else {
                    assert!(index >= other);
                    continue;
                };
                assert_eq!(claimed.verify(&leaf(index), &tree.head()), Err(ProofError::Size));
            }
        }
    }
}

#[test]
fn one_path_can_match_two_sizes() {
    let three = tree(3);
    let path = three.prove_inclusion(2).unwrap();
    let two = TreeHead::new(2, *three.head().root()).unwrap();
    assert_eq!(verify_inclusion(&leaf(2), 2, &three.head(), path.path()), Ok(()));
    assert_eq!(verify_inclusion(&leaf(2), 1, &two, path.path()), Ok(()));
    assert_eq!(path.verify(&leaf(2), &two), Err(ProofError::Size));
}

#[test]
fn path_of_the_wrong_length_is_refused() {
    for size in 1..=33 {
        let tree = tree(size);
        for index in 0..size {
            let (head, leaf) = (tree.head(), leaf(index));
            let path = tree.prove_inclusion(index).unwrap().path().to_vec();
            for at in 0..=path.len() {
                for added in [NodeHash::from(leaf), NodeHash::from_digest(head.root().digest())] {
                    let mut longer = path.clone();
                    longer.insert(at, added);
                    assert!(verify_inclusion(&leaf, index, &head, &longer).is_err(), "{index} of {size}");
                }
                if at < path.len() {
                    let mut shorter = path.clone();
                    shorter.remove(at);
                    assert!(verify_inclusion(&leaf, index, &head, &shorter).is_err(), "{index} of {size}");
                }
            }
            let mut longer = path.clone();
            longer.push(leaf.into());
            assert_eq!(verify_inclusion(&leaf, index, &head, &longer), Err(ProofError::Length));
            if let Some((_, shorter)) = path.split_last() {
                assert_eq!(verify_inclusion(&leaf, index, &head, shorter), Err(ProofError::Length));
            }
        }
    }
}

#[test]
fn swapped_hashes_are_refused() {
    for size in 3..=33 {
        let tree = tree(size);
        for index in 0..size {
            let path = tree.prove_inclusion(index).unwrap().path().to_vec();
            for at in 1..path.len() {
                let mut swapped = path.clone();
                swapped.swap(at - 1, at);
                let result = verify_inclusion(&leaf(index), index, &tree.head(), &swapped);
                assert_eq!(result, Err(ProofError::Root), "{index} of {size}");
            }
        }
    }
}

#[test]
fn one_changed_bit_is_refused() {
    for size in [1, 2, 3, 5, 7, 8, 13] {
        let tree = tree(size);
        for index in 0..size {
            let (head, leaf) = (tree.head(), leaf(index));
            let path = tree.prove_inclusion(index).unwrap().path().to_vec();
            for bit in 0..256 {
                for at in 0..path.len() {
                    let mut changed = path.clone();
                    changed[at] = flip(changed[at], bit);
                    assert_eq!(verify_inclusion(&leaf, index, &head, &changed), Err(ProofError::Root));
                }
                let other = flip_root(&head, bit);
                assert_eq!(verify_inclusion(&leaf, index, &other, &path), Err(ProofError::Root));
                let other = LeafHash::from_digest(flip(leaf.into(), bit).digest());
                assert_eq!(verify_inclusion(&other, index, &head, &path), Err(ProofError::Root));
            }
        }
    }
}

#[test]
fn an_index_is_below_the_size_and_a_size_within_bounds() {
    let tree = tree(3);
    let empty = TreeHead::new(0, RootHash::empty()).unwrap();
    assert_eq!(verify_inclusion(&leaf(0), 0, &empty, &[]), Err(ProofError::Index));
    for index in [3, 4, MAX_SIZE, u64::MAX] {
        assert_eq!(verify_inclusion(&leaf(0), index, &tree.head(), &[]), Err(ProofError::Index));
        assert_eq!(InclusionProof::new(index, 3, Vec::new()), Err(ProofError::Index));
    }
    assert_eq!(InclusionProof::new(0, 0, Vec::new()), Err(ProofError::Index));
    assert_eq!(InclusionProof::new(0, MAX_SIZE + 1, Vec::new()), Err(ProofError::Size));
    assert_eq!(InclusionProof::new(0, u64::MAX, Vec::new()), Err(ProofError::Size));
}

#[test]
fn work_on_an_inclusion_path_is_bounded() {
    let head = TreeHead::new(MAX_SIZE, *tree(3).head().root()).unwrap();
    let path = vec![NodeHash::from(leaf(0)); 1_000_000];
    for index in [0, 1, MAX_SIZE / 2, MAX_SIZE - 1] {
        assert_eq!(verify_inclusion(&leaf(0), index, &head, &path[..62]), Err(ProofError::Length));
        assert_eq!(verify_inclusion(&leaf(0), index, &head, &path[..63]), Err(ProofError::Root));
        assert_eq!(verify_inclusion(&leaf(0), index, &head, &path), Err(ProofError::Length));
    }
    assert!(InclusionProof::new(0, MAX_SIZE, path[..63].to_vec()).is_ok());
    assert_eq!(InclusionProof::new(0, MAX_SIZE, path[..64].to_vec()), Err(ProofError::Length));
}

#[test]
fn missing_node_is_no_proof() {
    let nothing = |_, _| None;
    assert_eq!(StoredNodes(nothing).prove_inclusion(0, 2), Err(TreeError::NoSuchNode));
    assert_eq!(StoredNodes(nothing).prove_consistency(1, 2), Err(TreeError::NoSuchNode));
    assert_eq!(StoredNodes(nothing).frontier(3), Err(TreeError::NoSuchNode));
    assert_eq!(StoredNodes(nothing).prove_inclusion(0, 1).unwrap().path(), []);
}
