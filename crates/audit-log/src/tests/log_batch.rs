//! Records enter the tree in order, whichever caller hashes them, and whenever.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use countersign_merkle::{Frontier, LeafHash};
use proptest::prelude::*;

use crate::log::batch::Batch;

/// Returns the line of a record, and its rest after the number; some are longer than one claim.
fn line(seq: u64) -> (String, String) {
    let body = format!(",\"n\":\"{}\"}}", "x".repeat(usize::try_from(seq).unwrap() % 5 * 4_500));
    (format!("{{\"seq\":{seq}{body}"), body)
}

/// Returns the tree of the first `records` records.
fn tree(records: u64) -> Frontier {
    let mut tree = Frontier::new();
    for seq in 1..=records {
        tree.append(LeafHash::of(line(seq).0.as_bytes())).unwrap();
    }
    tree
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Claim,
    /// One of the claims delivers its hashes, and perhaps once more later.
    Put(usize),
    /// A caller takes the batch to write it, and another batch begins.
    Write,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Push),
        3 => Just(Step::Claim),
        4 => (0_usize..8).prop_map(Step::Put),
        1 => Just(Step::Write),
    ]
}

proptest! {
    #[test]
    fn hashes_in_any_order_make_the_same_tree(
        before in 0_u64..20,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let (mut now, mut given, mut batch, mut claims) = (tree(before), before, Batch::default(), Vec::new());
        let (mut written, mut lines) = (Vec::new(), String::new());
        for step in steps {
            match step {
                Step::Push => {
                    given += 1;
                    batch.push(given, line(given).1.as_bytes(), 0);
                    lines += &(line(given).0 + "\n");
                }
                Step::Claim => claims.extend(batch.claim(&now)),
                Step::Put(which) => {
                    if let Some(claim) = claims.get(which) {
                        batch.put(claim, &claim.leaves(), &mut now);
                    }
                }
                Step::Write => {
                    batch.complete(&mut now).unwrap();
                    written.extend_from_slice(batch.bytes());
                    batch.clear();
                }
            }
            prop_assert_eq!(now.size() + batch.due(), given);
            prop_assert_eq!(&now, &tree(now.size()));
        }
        batch.complete(&mut now).unwrap();
        prop_assert_eq!(now, tree(given));
        written.extend_from_slice(batch.bytes());
        prop_assert!(written == lines.as_bytes());
    }
}
