use ct_merkle::mem_backed_tree::MemoryBackedTree;

use super::reference;
use super::*;

fn heads(whole: &MerkleTree) -> Vec<TreeHead> {
    (0..=whole.size()).map(|size| whole.head_at(size).unwrap()).collect()
}

#[test]
fn consistency_proofs_follow_the_definition() {
    let whole = tree(SIZES);
    let heads = heads(&whole);
    let entries: Vec<Vec<u8>> = (0..SIZES).map(entry).collect();
    let mut other = MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
    for new in 1..=SIZES {
        other.push(entry(new - 1));
        for old in 1..=new {
            let proof = whole.prove_consistency_at(old, new).unwrap();
            let (old_head, new_head) = (&heads[old as usize], &heads[new as usize]);
            assert_eq!(proof.verify(old_head, new_head), Ok(()), "{old} to {new}");
            let path: Vec<[u8; 32]> = proof.path().iter().map(|node| *node.as_bytes()).collect();
            assert_eq!(path, reference::proof(old as usize, &entries[..new as usize]), "{old} to {new}");
            if old < new {
                let added = (new - old) as usize;
                assert_eq!(path.concat(), other.prove_consistency(added).as_bytes(), "{old} to {new}");
            }
            assert_eq!(ConsistencyProof::new(old, new, proof.path().to_vec()), Ok(proof));
        }
    }
}

#[test]
fn empty_or_shrinking_tree_proves_nothing() {
    let whole = tree(9);
    let heads = heads(&whole);
    assert_eq!(whole.prove_consistency(0), Err(TreeError::NoSuchSize));
    assert_eq!(whole.prove_consistency(10), Err(TreeError::NoSuchSize));
    assert_eq!(whole.prove_consistency_at(5, 4), Err(TreeError::NoSuchSize));
    assert_eq!(whole.prove_consistency_at(5, 10), Err(TreeError::NoSuchSize));
    assert_eq!(MerkleTree::new().prove_consistency(0), Err(TreeError::NoSuchSize));
    for new in 0..=9 {
        assert_eq!(verify_consistency(&heads[0], &heads[new], &[]), Err(ProofError::Size));
    }
    for old in 2..=9 {
        let path = whole.prove_consistency_at(old - 1, old).unwrap();
        let (before, after) = (&heads[old as usize - 1], &heads[old as usize]);
        assert_eq!(verify_consistency(after, before, path.path()), Err(ProofError::Size));
    }
    assert_eq!(ConsistencyProof::new(0, 1, Vec::new()), Err(ProofError::Size));
    assert_eq!(ConsistencyProof::new(2, 1, Vec::new()), Err(ProofError::Size));
    assert_eq!(ConsistencyProof::new(2, MAX_SIZE + 1, Vec::new()), Err(ProofError::Size));
}

#[test]
fn heads_of_one_size_are_equal_or_a_fork() {
    let (one, mut other) = (tree(5), tree(4));
    other.append(leaf(77)).unwrap();
    assert_eq!(verify_consistency(&one.head(), &one.head(), &[]), Ok(()));
    assert_eq!(verify_consistency(&one.head(), &other.head(), &[]), Err(ProofError::Root));
    assert_eq!(verify_consistency(&one.head(), &one.head(), &[leaf(0).into()]), Err(ProofError::Length));
}

#[test]
fn consistency_proof_is_for_its_sizes() {
    let whole = tree(20);
    let heads = heads(&whole);
    for new in 2..=20 {
        for old in 1..new {
            let proof = whole.prove_consistency_at(old, new).unwrap();
            for other in (1..=20).filter(|other| *other != old) {
                let wrong = TreeHead::new(other, *heads[old as usize].root()).unwrap();
                assert_eq!(proof.verify(&wrong, &heads[new as usize]), Err(ProofError::Size));
                let other = &heads[other as usize];
                let result = verify_consistency(other, &heads[new as usize], proof.path());
                assert!(result.is_err(), "{old} to {new} from {}", other.size());
            }
            for other in (1..=20).filter(|other| *other != new) {
                let wrong = TreeHead::new(other, *heads[new as usize].root()).unwrap();
                assert_eq!(proof.verify(&heads[old as usize], &wrong), Err(ProofError::Size));
                let result = verify_consistency(&heads[old as usize], &heads[other as usize], proof.path());
                // Includes equal sizes, which need an empty path.
                assert!(result.is_err(), "{old} to {new} as {other}");
            }
        }
    }
}

#[test]
fn rewritten_past_is_detected() {
    let old = tree(11);
    for rewritten in 0..11 {
        let new: MerkleTree = (0..23).map(|at| if at == rewritten { leaf(99) } else { leaf(at) }).collect();
        let proof = new.prove_consistency(11).unwrap();
        assert_eq!(proof.verify(&old.head(), &new.head()), Err(ProofError::Root), "{rewritten}");
    }
}

#[test]
fn missing_added_swapped_and_changed_hashes_are_refused() {
    let whole = tree(20);
    let heads = heads(&whole);
    for new in 2..=20_u64 {
        for old in 1..new {
            let (before, after) = (&heads[old as usize], &heads[new as usize]);
            let path = whole.prove_consistency_at(old, new).unwrap().path().to_vec();
            let refused = |path: &[NodeHash]| {
                assert!(verify_consistency(before, after, path).is_err(), "{old} to {new}");
            };
            refused(&[]);
            for at in 0..=path.len() {
                for added in [before.root().digest(), after.root().digest(), leaf(0).digest()] {
                    let mut longer = path.clone();
                    longer.insert(at, NodeHash::from_digest(added));
                    refused(&longer);
                }
            }
            for at in 0..path.len() {
                let mut shorter = path.clone();
                shorter.remove(at);
                refused(&shorter);
                let mut changed = path.clone();
                changed[at] = flip(changed[at], (old as usize * 31 + at) % 256);
                refused(&changed);
                if at > 0 {
                    let mut swapped = path.clone();
                    swapped.swap(at - 1, at);
                    refused(&swapped);
                }
            }
            for bit in [0, 100, 255] {
                let result = verify_consistency(&flip_root(before, bit), after, &path);
                assert_eq!(result, Err(ProofError::Root));
                let result = verify_consistency(before, &flip_root(after, bit), &path);
                assert_eq!(result, Err(ProofError::Root));
            }
        }
    }
}

#[test]
fn work_on_a_consistency_path_is_bounded() {
    let root = *tree(3).head().root();
    let head = |size| TreeHead::new(size, root).unwrap();
    let path = vec![NodeHash::from(leaf(0)); 1_000_000];
    // Growing by the last leaf takes one hash for each level and one for the start.
    let (old, new) = (head(MAX_SIZE - 1), head(MAX_SIZE));
    assert_eq!(verify_consistency(&old, &new, &path[..63]), Err(ProofError::Length));
    assert_eq!(verify_consistency(&old, &new, &path[..64]), Err(ProofError::Root));
    assert_eq!(verify_consistency(&old, &new, &path), Err(ProofError::Length));
    assert!(ConsistencyProof::new(MAX_SIZE - 1, MAX_SIZE, path[..64].to_vec()).is_ok());
    assert_eq!(ConsistencyProof::new(1, MAX_SIZE, path[..65].to_vec()), Err(ProofError::Length));
}
