use countersign_merkle::{InclusionProof, LeafHash, MerkleTree, TreeError};

use crate::breach::PlanBreach;
use crate::header::PlanHeader;
use crate::proof::{HeaderProof, StepProof};
use crate::root::PlanRoot;
use crate::step::Step;

/// A checked, committed and immutable plan. Only [`Plan::commit`](crate::Plan::commit) creates one.
///
/// Leaf 0 is the header; leaf `n` is step `n`, so steps count from 1. Memory is linear in the size of the plan.
#[derive(Debug)]
pub struct CommittedPlan {
    header: PlanHeader,
    steps: Vec<Step>,
    tree: MerkleTree,
    root: PlanRoot,
}

impl CommittedPlan {
    pub(crate) fn new(header: PlanHeader, steps: Vec<Step>) -> Self {
        let tree: MerkleTree = leaves(&header, &steps).collect();
        let root = PlanRoot::new(tree.root());
        Self { header, steps, tree, root }
    }

    /// The root, which commits to the whole plan.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// The steps, in order; the first one is step 1.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step with that index, from 1.
    #[must_use]
    pub fn step(&self, index: u64) -> Option<&Step> {
        self.steps.get(usize::try_from(index.checked_sub(1)?).ok()?)
    }

    /// Proves the header to a verifier that has the root only ([`PlanHeader::verify`]).
    ///
    /// # Errors
    /// Never: every plan has a header.
    pub fn prove_header(&self) -> Result<InclusionProof, TreeError> {
        self.tree.prove_inclusion(0)
    }

    /// The header with its proof, for a gate that has the root only.
    #[must_use]
    pub fn header_proof(&self) -> Option<HeaderProof> {
        HeaderProof::new(self.header.clone(), self.prove_header().ok()?).ok()
    }

    /// Proves one step to a verifier that has the root only.
    #[must_use]
    pub fn prove_step(&self, index: u64) -> Option<StepProof> {
        let step = self.step(index)?.clone();
        Some(StepProof::new(step, self.tree.prove_inclusion(index).ok()?))
    }

    /// Verifies that the step is the committed one. `text` is a buffer for the step's leaf.
    ///
    /// why: the root was computed from the tree's leaves, and the tree does not change. So comparing with the tree's
    /// leaf is verifying its path, which [`is_whole`](Self::is_whole) recomputes at the end.
    pub(crate) fn holds(&self, index: u64, text: &mut String) -> Result<(), PlanBreach> {
        let leaf = self.step(index).map(|step| step.leaf_hash(index, self.header.steps(), text));
        let is_committed = leaf.is_some() && leaf == self.tree.leaf(index);
        if is_committed { Ok(()) } else { Err(PlanBreach::StepMismatch { reason: "leaf" }) }
    }

    /// Recomputes the root from the header and the steps and compares it with the committed one.
    pub(crate) fn is_whole(&self) -> bool {
        let tree: MerkleTree = leaves(&self.header, &self.steps).collect();
        PlanRoot::new(tree.root()) == self.root
    }

    /// Gives tests write access to the committed steps.
    #[cfg(test)]
    pub(crate) fn tamper(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }
}

/// The leaves: the header, then each step with its index.
fn leaves<'a>(header: &'a PlanHeader, steps: &'a [Step]) -> impl Iterator<Item = LeafHash> + 'a {
    let count = header.steps();
    let mut text = String::new();
    let steps = (1..).zip(steps).map(move |(index, step)| step.leaf_hash(index, count, &mut text));
    std::iter::once(LeafHash::of(header.to_json().as_bytes())).chain(steps)
}
