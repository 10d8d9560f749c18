use countersign_canonical_json::Canonical;
use countersign_core::{Digest, ToolId};

use crate::breach::PlanBreach;
use crate::proof::StepProof;
use crate::root::PlanRoot;

/// The facts of a call that a plan checks.
#[derive(Clone, Copy, Debug)]
pub struct StepCall<'a> {
    pub(crate) tool: &'a ToolId,
    pub(crate) args: &'a Canonical,
    pub(crate) registry_version: u64,
    pub(crate) step: Option<u64>,
    pub(crate) proof: Option<&'a StepProof>,
}

impl<'a> StepCall<'a> {
    /// Creates a call. `registry_version` is that of the registry that decides the call.
    #[must_use]
    pub const fn new(tool: &'a ToolId, args: &'a Canonical, registry_version: u64) -> Self {
        Self { tool, args, registry_version, step: None, proof: None }
    }

    /// Names the step of the call, from 1. Without a name, it is the current step while that has calls left and
    /// matches the call, and otherwise the next one.
    #[must_use]
    pub const fn at_step(self, step: u64) -> Self {
        Self { step: Some(step), ..self }
    }

    /// Adds the proof of the call's step. [`RootCursor`](crate::RootCursor) requires one.
    #[must_use]
    pub const fn proved_by(self, proof: &'a StepProof) -> Self {
        Self { proof: Some(proof), ..self }
    }

    /// The step that the caller names, if any. A proof is verified against the root first; `text` is a buffer for its
    /// leaf.
    pub(crate) fn named(&self, root: &PlanRoot, text: &mut String) -> Result<Option<u64>, PlanBreach> {
        let Some(proof) = self.proof else {
            return Ok(self.step);
        };
        proof.holds(root, text)?;
        self.check_index(proof)?;
        Ok(Some(proof.index()))
    }

    /// Checks that the caller names no other step than that of the proof.
    pub(crate) fn check_index(&self, proof: &StepProof) -> Result<(), PlanBreach> {
        match self.step {
            Some(step) if step != proof.index() => Err(PlanBreach::StepMismatch { reason: "other-index" }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Proof that a call is the plan's next one. Only [`PlanCursor::check`](crate::PlanCursor::check) and
/// [`RootCursor::check`](crate::RootCursor::check) create one; it cannot be copied.
///
/// It holds the plan's step until the call is [accepted](crate::PlanCursor::accept) or
/// [given back](crate::PlanCursor::give_back). Until then every other call is refused.
#[derive(Debug)]
#[must_use]
pub struct PlannedCall {
    pub(crate) turn: Turn,
}

/// The claim of one call or amendment on the plan's step. Unique within a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Sequence number within the cursor.
    pub(crate) number: u64,
    pub(crate) root: PlanRoot,
    pub(crate) index: u64,
    pub(crate) args: Digest,
}

impl PlannedCall {
    /// The root of the step's plan or amendment.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.turn.root
    }

    /// The step's index, which is its leaf's, from 1.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.turn.index
    }
}

/// The place of an accepted call in the trace, which awaits its result. It cannot be copied. If it is lost, the plan
/// cannot finish.
#[derive(Debug)]
#[must_use]
pub struct StepRun {
    pub(crate) turn: Turn,
}
