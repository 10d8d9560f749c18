use super::*;

#[test]
fn frontier_has_the_root_of_the_tree() {
    let (mut frontier, mut tree) = (Frontier::new(), MerkleTree::new());
    for index in 0..1_000_u64 {
        assert_eq!((frontier.head(), &frontier), (tree.head(), &tree.frontier()), "{index}");
        assert_eq!(frontier.peaks().len(), index.count_ones() as usize);
        assert_eq!(frontier.append(leaf(index)), Ok(index));
        tree.append(leaf(index)).unwrap();
    }
}

#[test]
fn frontier_resumes_at_every_size() {
    for stop in 0..=70 {
        let mut frontier = tree(stop).frontier();
        frontier = Frontier::from_parts(frontier.size(), frontier.peaks().to_vec()).unwrap();
        for index in stop..90 {
            frontier.append(leaf(index)).unwrap();
        }
        assert_eq!(frontier.head(), tree(90).head(), "{stop}");
    }
}

#[test]
fn a_frontier_has_as_many_hashes_as_its_size_has_bits() {
    for size in 0..=130_u64 {
        let peaks = tree(size).frontier().peaks().to_vec();
        for other in (0..=140).filter(|other: &u64| other.count_ones() != size.count_ones()) {
            assert_eq!(Frontier::from_parts(other, peaks.clone()), Err(TreeError::Frontier));
        }
    }
    assert_eq!(Frontier::from_parts(0, vec![leaf(0).into()]), Err(TreeError::Frontier));
    let many = vec![NodeHash::from(leaf(0)); 64];
    assert_eq!(Frontier::from_parts(u64::MAX, many), Err(TreeError::Frontier));
    assert_eq!(Frontier::from_parts(MAX_SIZE + 1, vec![leaf(0).into(); 2]), Err(TreeError::Frontier));
}

#[test]
fn peaks_of_another_size_give_another_root() {
    let peaks = tree(5).frontier().peaks().to_vec();
    let six = Frontier::from_parts(6, peaks).unwrap();
    assert_ne!(six.root(), tree(6).root());
}

#[test]
fn a_full_tree_takes_no_leaf_more() {
    let last = vec![NodeHash::from(leaf(0)); 63];
    let mut frontier = Frontier::from_parts(MAX_SIZE - 1, last).unwrap();
    assert_eq!(frontier.append(leaf(1)), Ok(MAX_SIZE - 1));
    assert_eq!(frontier.peaks().len(), 1);
    let full = frontier.clone();
    assert_eq!(frontier.append(leaf(2)), Err(TreeError::Full));
    assert_eq!(frontier, full);
}
