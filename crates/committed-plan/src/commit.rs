use countersign_canonical_json::Canonical;
use countersign_core::ToolId;
use countersign_merkle::{InclusionProof, LeafHash, MerkleTree, ProofError, TreeError, TreeHead};

use crate::admit::admit;
use crate::breach::PlanBreach;
use crate::header::PlanHeader;
use crate::header_proof::HeaderProof;
use crate::proof::StepProof;
use crate::root::PlanRoot;
use crate::step::Step;

/// Holds a plan that was checked and committed. Made by [`Plan::commit`](crate::Plan::commit) alone, and never changed.
///
/// Leaf 0 is the header; leaf `n` is step `n`, so steps count from 1. It takes memory in proportion to the plan.
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

    /// The root, which stands for the whole plan.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// What the plan says of itself.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// The steps, in order; the first one is step 1.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// One step, from 1 on.
    #[must_use]
    pub fn step(&self, index: u64) -> Option<&Step> {
        self.steps.get(usize::try_from(index.checked_sub(1)?).ok()?)
    }

    /// Proves the header, for somebody who has the root alone ([`PlanHeader::verify`]).
    ///
    /// # Errors
    /// [`TreeError`] never: every plan has a header.
    pub fn prove_header(&self) -> Result<InclusionProof, TreeError> {
        self.tree.prove_inclusion(0)
    }

    /// The header with the proof that it is this plan's, for a gate that has the root alone.
    #[must_use]
    pub fn header_proof(&self) -> Option<HeaderProof> {
        HeaderProof::new(self.header.clone(), self.prove_header().ok()?).ok()
    }

    /// Proves one step, for somebody who has the root alone.
    #[must_use]
    pub fn prove_step(&self, index: u64) -> Option<StepProof> {
        let step = self.step(index)?.clone();
        Some(StepProof::new(step, self.tree.prove_inclusion(index).ok()?))
    }

    /// Says whether the step is still the one that was committed, and then whether the call is the one that it is for.
    pub(crate) fn admits(&self, index: u64, tool: &ToolId, args: &Canonical) -> Result<(), PlanBreach> {
        let changed = PlanBreach::StepMismatch { reason: "leaf" };
        let step = self.step(index).ok_or(changed)?;
        self.verify_leaf(index, step).map_err(|_| changed)?;
        admit(step, tool, args)
    }

    fn verify_leaf(&self, index: u64, step: &Step) -> Result<(), ProofError> {
        let steps = self.header.steps();
        let leaf = LeafHash::of(step.leaf(index, steps).as_bytes());
        let head = TreeHead::new(steps.saturating_add(1), *self.root.hash()).map_err(|_| ProofError::Size)?;
        self.tree.prove_inclusion(index).map_err(|_| ProofError::Index)?.verify(&leaf, &head)
    }

    /// Says whether the header and the steps still have the root that was committed, from themselves alone.
    pub(crate) fn is_whole(&self) -> bool {
        let tree: MerkleTree = leaves(&self.header, &self.steps).collect();
        PlanRoot::new(tree.root()) == self.root
    }

    /// Changes a step behind the commitment's back, as nothing outside of tests can.
    #[cfg(test)]
    pub(crate) fn tamper(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }
}

/// The leaves: the header, then each step with its index.
fn leaves<'a>(header: &'a PlanHeader, steps: &'a [Step]) -> impl Iterator<Item = LeafHash> + 'a {
    let count = header.steps();
    let steps = (1..).zip(steps).map(move |(index, step)| step.leaf(index, count));
    std::iter::once(header.to_json()).chain(steps).map(|leaf| LeafHash::of(leaf.as_bytes()))
}
