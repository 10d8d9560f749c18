use countersign_core::Digest;
use ct_merkle::mem_backed_tree::MemoryBackedTree;

use super::reference;
use super::*;

#[test]
fn leaf_and_node_hashes_have_prefixes() {
    assert_eq!(LeafHash::of(b"abc").digest(), Digest::of(b"\0abc"));
    let (left, right) = (NodeHash::from(leaf(0)), NodeHash::from(leaf(1)));
    let input = [&[1], left.as_bytes().as_slice(), right.as_bytes().as_slice()].concat();
    assert_eq!(NodeHash::of(&left, &right).digest(), Digest::of(&input));
    assert_ne!(NodeHash::of(&left, &right), NodeHash::of(&right, &left));
}

#[test]
fn empty_tree_has_the_hash_of_the_empty_string() {
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(RootHash::empty().to_string(), nothing);
    assert_eq!(MerkleTree::new().root(), RootHash::empty());
    assert_eq!(Frontier::new().root(), RootHash::empty());
    assert_eq!(MerkleTree::new().head(), TreeHead::new(0, RootHash::empty()).unwrap());
}

#[test]
fn root_follows_the_definition() {
    let mut other = MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
    let (mut tree, mut entries) = (MerkleTree::new(), Vec::new());
    for index in 0..=SIZES {
        assert_eq!(*tree.root().as_bytes(), reference::root(&entries), "{index}");
        assert_eq!(tree.root().as_bytes().as_slice(), other.root().as_bytes().as_slice(), "{index}");
        assert_eq!((tree.size(), other.len()), (index, index));
        assert_eq!(tree.append(leaf(index)), Ok(index));
        other.push(entry(index));
        entries.push(entry(index));
    }
}

#[test]
fn tree_returns_its_earlier_heads() {
    let whole = tree(SIZES);
    for size in 0..=SIZES {
        assert_eq!(whole.head_at(size), Ok(tree(size).head()));
        assert_eq!(whole.leaf(size), (size < SIZES).then(|| leaf(size)));
    }
    assert_eq!(whole.head_at(SIZES + 1), Err(TreeError::NoSuchSize));
    assert_eq!(whole.leaf(u64::MAX), None);
}

#[test]
fn impossible_head_is_refused() {
    let root = *tree(3).head().root();
    assert_eq!(TreeHead::new(MAX_SIZE + 1, root), Err(HeadError::TooLarge));
    assert_eq!(TreeHead::new(0, root), Err(HeadError::EmptyRoot));
    assert!(TreeHead::new(MAX_SIZE, root).is_ok());
}

#[test]
fn a_hash_is_32_bytes_and_one_text() {
    assert_eq!(NodeHash::try_from([7; 31].as_slice()), Err(HashError));
    assert_eq!(NodeHash::try_from([7; 33].as_slice()), Err(HashError));
    assert_eq!(LeafHash::try_from([7; 32].as_slice()).unwrap().as_bytes(), &[7; 32]);
    let text = leaf(3).to_string();
    assert_eq!(text.parse::<LeafHash>(), Ok(leaf(3)));
    assert!(text.to_uppercase().parse::<LeafHash>().is_err());
    assert_eq!(format!("{:?}", leaf(3)), format!("LeafHash({text})"));
}
