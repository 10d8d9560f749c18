use std::fmt::Write as _;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_committed_plan::CommittedPlan;
use countersign_merkle::{LeafHash, NodeHash};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::internal;

/// Number of hexadecimal digits of a hash in a drawing.
const SHOWN_DIGITS: usize = 12;

/// A node of a plan's tree with its subtree.
#[derive(Debug, Serialize)]
pub(super) struct TreeNode {
    hash: NodeHash,
    first: u64,
    last: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    halves: Option<Box<[Self; 2]>>,
}

impl TreeNode {
    /// Rebuilds the tree from the plan's own text (recipes `plan-1` and `plan-step-1`) and checks that it has the
    /// plan's root.
    pub(super) fn of(plan: &CommittedPlan, whole: &str) -> Result<Self, Failure> {
        let json = read(whole.as_bytes(), Recipe::Jcs1, &Limits::hard_caps())
            .map_err(|_| internal("a plan's own text cannot be read"))?;
        let count = plan.header().steps();
        let steps = json.value().get("steps").into_iter().flat_map(|steps| steps.elements());
        let steps = (1_u64..).zip(steps).map(|(index, step)| {
            let step = step.canonical_text();
            format!(r#"{{"index":{index},"recipe":"plan-step-1","step":{step},"steps":{count}}}"#)
        });
        let leaves = std::iter::once(plan.header().to_json()).chain(steps);
        let leaves: Vec<_> = leaves.map(|leaf| NodeHash::from(LeafHash::of(leaf.as_bytes()))).collect();
        let tree = Self::over(0, &leaves).ok_or_else(|| internal("a plan has no leaves"))?;
        if tree.hash.digest() == plan.root().digest() {
            Ok(tree)
        } else {
            Err(internal("a plan's tree does not have its root"))
        }
    }

    /// Builds the tree over these leaves (RFC 9162, section 2.1.1): the left half is the largest power of two below the
    /// number of leaves. The recursion depth is that of the tree, which has at most a million leaves.
    fn over(first: u64, leaves: &[NodeHash]) -> Option<Self> {
        if let [leaf] = leaves {
            return Some(Self { hash: *leaf, first, last: first, halves: None });
        }
        let left = 1_usize.checked_shl(leaves.len().checked_sub(1)?.checked_ilog2()?)?;
        let (left, right) = leaves.split_at_checked(left)?;
        let middle = first.saturating_add(left.len() as u64);
        let (left, right) = (Self::over(first, left)?, Self::over(middle, right)?);
        let (hash, last) = (NodeHash::of(&left.hash, &right.hash), right.last);
        Some(Self { hash, first, last, halves: Some(Box::new([left, right])) })
    }

    /// Draws the tree with one line per node. `label` supplies the text beside a leaf.
    pub(super) fn draw(&self, label: &impl Fn(u64) -> String) -> String {
        let mut text = String::new();
        self.draw_below(&mut text, "", "", label);
        text
    }

    fn draw_below(&self, text: &mut String, here: &str, below: &str, label: &impl Fn(u64) -> String) {
        let hash: String = self.hash.to_string().chars().take(SHOWN_DIGITS).collect();
        let beside = match &self.halves {
            None => format!("leaf {}  {}", self.first, label(self.first)),
            Some(_) => format!("leaves {} to {}", self.first, self.last),
        };
        let end = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{end}{here}{hash}  {beside}");
        if let Some(halves) = &self.halves {
            let [left, right] = halves.as_ref();
            left.draw_below(text, &format!("{below}├─ "), &format!("{below}│  "), label);
            right.draw_below(text, &format!("{below}└─ "), &format!("{below}   "), label);
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_merkle::{LeafHash, MerkleTree, NodeHash};

    use super::TreeNode;

    #[test]
    fn the_tree_that_is_drawn_is_the_one_that_is_hashed() {
        let leaf = |at: u64| LeafHash::of(&at.to_be_bytes());
        for size in 1..=40 {
            let leaves: Vec<_> = (0..size).map(|at| NodeHash::from(leaf(at))).collect();
            let tree: MerkleTree = (0..size).map(leaf).collect();
            let drawn = TreeNode::over(0, &leaves).unwrap();
            assert_eq!(drawn.hash.digest(), tree.root().digest(), "{size}");
            let lines = drawn.draw(&|at| format!("<{at}>"));
            assert_eq!(lines.lines().count() as u64, 2 * size - 1, "{lines}");
            assert!((0..size).all(|at| lines.contains(&format!("leaf {at}  <{at}>"))), "{lines}");
        }
        assert!(TreeNode::over(0, &[]).is_none());
    }
}
