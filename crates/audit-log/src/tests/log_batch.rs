//! Records enter the tree in order, whichever caller hashes them, and whenever.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use countersign_merkle::{Frontier, LeafHash};
use proptest::prelude::*;

use crate::log::batch::Batch;

/// Returns the line of a record, and its rest after the number.
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
    /// A caller delivers the hash of its record, and perhaps once more later.
    Put(u64),
    /// A caller takes the batch to write it, and another batch begins.
    Write,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Push),
        7 => (0_u64..8).prop_map(Step::Put),
        1 => Just(Step::Write),
    ]
}

proptest! {
    #[test]
    fn hashes_in_any_order_make_the_same_tree(
        before in 0_u64..20,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let (mut now, mut given, mut batch) = (tree(before), before, Batch::default());
        let (mut written, mut lines) = (Vec::new(), String::new());
        for step in steps {
            match step {
                Step::Push => {
                    given += 1;
                    batch.push(given, line(given).1.as_bytes(), 0);
                    lines += &(line(given).0 + "\n");
                }
                Step::Put(behind) if behind < given => {
                    let seq = given - behind;
                    batch.put(seq, LeafHash::of(line(seq).0.as_bytes()), &mut now);
                }
                Step::Put(_) => {}
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
