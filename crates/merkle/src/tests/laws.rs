use countersign_core::Digest;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::reference;
use super::*;

fn any_entries() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..80), 1..200)
}

fn any_path() -> impl Strategy<Value = Vec<NodeHash>> {
    let node = any::<[u8; 32]>().prop_map(|bytes| NodeHash::try_from(bytes.as_slice()).unwrap());
    vec(node, 0..70)
}

fn built(entries: &[Vec<u8>]) -> MerkleTree {
    entries.iter().map(|entry| LeafHash::of(entry)).collect()
}

proptest! {
    #[test]
    fn root_of_any_entries_follows_the_definition(entries in any_entries(), at in any::<Index>()) {
        let (tree, at) = (built(&entries), at.index(entries.len()));
        prop_assert_eq!(*tree.root().as_bytes(), reference::root(&entries));
        let proof = tree.prove_inclusion(at as u64).unwrap();
        prop_assert_eq!(proof.verify(&LeafHash::of(&entries[at]), &tree.head()), Ok(()));
        let old = built(&entries[..=at]);
        let proof = tree.prove_consistency(at as u64 + 1).unwrap();
        prop_assert_eq!(proof.verify(&old.head(), &tree.head()), Ok(()));
    }

    #[test]
    fn node_hash_covers_prefix_and_halves(left in any::<[u8; 32]>(), right in any::<[u8; 32]>()) {
        let node = |bytes: [u8; 32]| NodeHash::from_digest(Digest::from_bytes(bytes));
        let input = [&[0x01], left.as_slice(), right.as_slice()].concat();
        prop_assert_eq!(NodeHash::of(&node(left), &node(right)).digest(), Digest::of(&input));
    }

    #[test]
    fn one_changed_bit_in_an_entry_is_refused(
        entries in any_entries(), at in any::<Index>(), bit in any::<Index>(),
    ) {
        let (tree, at) = (built(&entries), at.index(entries.len()));
        let mut entry = entries[at].clone();
        prop_assume!(!entry.is_empty());
        let bit = bit.index(entry.len() * 8);
        entry[bit / 8] ^= 1 << (bit % 8);
        let proof = tree.prove_inclusion(at as u64).unwrap();
        prop_assert_eq!(proof.verify(&LeafHash::of(&entry), &tree.head()), Err(ProofError::Root));
    }

    #[test]
    fn one_changed_bit_in_a_proof_or_root_is_refused(
        size in 1..5_000_u64, at in any::<Index>(), hash in any::<Index>(), bit in 0..256_usize,
    ) {
        let (tree, index) = (tree(size), at.index(size as usize) as u64);
        let (head, proof) = (tree.head(), tree.prove_inclusion(index).unwrap());
        let mut path = proof.path().to_vec();
        let result = verify_inclusion(&leaf(index), index, &flip_root(&head, bit), &path);
        prop_assert_eq!(result, Err(ProofError::Root));
        if !path.is_empty() {
            let hash = hash.index(path.len());
            path[hash] = flip(path[hash], bit);
            prop_assert_eq!(verify_inclusion(&leaf(index), index, &head, &path), Err(ProofError::Root));
        }
    }

    #[test]
    fn verifying_any_proof_at_any_sizes_never_panics(
        path in any_path(), root in any::<[u8; 32]>(), sizes in any::<[u64; 2]>(), shifts in any::<[u8; 2]>(),
        index in any::<u64>(),
    ) {
        let root = RootHash::try_from(root.as_slice()).unwrap();
        let [one, two] = [0, 1].map(|at| (sizes[at] >> (shifts[at] % 64)).clamp(1, MAX_SIZE));
        let (one, two) = (TreeHead::new(one, root).unwrap(), TreeHead::new(two, root).unwrap());
        prop_assert!(verify_inclusion(&leaf(0), index, &one, &path).is_err());
        prop_assert!(verify_inclusion(&leaf(0), index % one.size(), &one, &path).is_err());
        let result = verify_consistency(&one, &two, &path);
        prop_assert_eq!(result.is_ok(), one == two && path.is_empty());
    }

    #[test]
    fn path_length_follows_from_index_and_size(size in 1..=MAX_SIZE, index in any::<u64>()) {
        let head = TreeHead::new(size, *tree(3).head().root()).unwrap();
        let index = index % size;
        let path = [NodeHash::from(leaf(0)); 64];
        let fitting = (0..=64).filter(|length| {
            verify_inclusion(&leaf(0), index, &head, &path[..*length]) != Err(ProofError::Length)
        });
        // One hash per level below the point where the paths to the leaf and to the last leaf part, and one for each
        // right turn above it.
        let parted = 64 - (index ^ (size - 1)).leading_zeros();
        let expected = parted + index.unbounded_shr(parted).count_ones();
        prop_assert_eq!(fitting.collect::<Vec<_>>(), vec![expected as usize]);
    }
}
