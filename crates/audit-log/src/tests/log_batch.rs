//! Records come into the tree in their order, whoever hashes them and when.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use countersign_merkle::{Frontier, LeafHash};
use proptest::prelude::*;

use crate::log::batch::Batch;

/// The line of a record, and what comes behind its number.
fn line(seq: u64) -> (String, String) {
    let body = format!(",\"n\":\"{}\"}}", "x".repeat(usize::try_from(seq).unwrap() % 7));
    (format!("{{\"seq\":{seq}{body}"), body)
}

proptest! {
    #[test]
    fn hashes_that_come_in_any_order_late_twice_or_never_make_the_same_tree(
        before in 0_u64..20,
        count in 0_u64..20,
        come in prop::collection::vec(0_u64..60, 0..60),
    ) {
        let (mut tree, mut due) = (Frontier::new(), Frontier::new());
        for seq in 1..=before + count {
            let leaf = LeafHash::of(line(seq).0.as_bytes());
            due.append(leaf).unwrap();
            if seq <= before {
                tree.append(leaf).unwrap();
            }
        }
        let mut batch = Batch::default();
        (before + 1..=before + count).for_each(|seq| batch.push(seq, line(seq).1.as_bytes()));
        prop_assert_eq!(batch.due(), count);
        for seq in come {
            // Those of records that are in the tree, or in no batch yet, are left aside.
            batch.put(seq, LeafHash::of(line(seq).0.as_bytes()), &mut tree).unwrap();
            prop_assert_eq!(tree.size() + batch.due(), before + count);
        }
        batch.complete(&mut tree).unwrap();
        prop_assert_eq!(&tree, &due);
        let lines: String = (before + 1..=before + count).map(|seq| line(seq).0 + "\n").collect();
        prop_assert_eq!(batch.bytes(), lines.as_bytes());
    }
}
