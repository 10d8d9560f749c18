use countersign_canonical_json::Canonical;
use countersign_core::{Digest, ToolId};

use crate::breach::PlanBreach;
use crate::proof::StepProof;
use crate::root::PlanRoot;

/// Holds what a call says that matters to a plan.
#[derive(Clone, Copy, Debug)]
pub struct StepCall<'a> {
    pub(crate) tool: &'a ToolId,
    pub(crate) args: &'a Canonical,
    pub(crate) registry_version: u64,
    pub(crate) step: Option<u64>,
    pub(crate) proof: Option<&'a StepProof>,
}

impl<'a> StepCall<'a> {
    /// Puts a call together. `registry_version` is that of the registry which the call is decided under.
    #[must_use]
    pub const fn new(tool: &'a ToolId, args: &'a Canonical, registry_version: u64) -> Self {
        Self { tool, args, registry_version, step: None, proof: None }
    }

    /// Says which step the caller means, from 1 on. Left out, it is the step under way while that has calls left and the
    /// call fits it, and the next one otherwise.
    #[must_use]
    pub const fn at_step(self, step: u64) -> Self {
        Self { step: Some(step), ..self }
    }

    /// Brings a proof of the step that the caller means. A [`RootCursor`](crate::RootCursor) takes no call without one.
    #[must_use]
    pub const fn proved_by(self, proof: &'a StepProof) -> Self {
        Self { proof: Some(proof), ..self }
    }

    /// The step that the caller means, where it says so: verified against the root, where it is proved.
    pub(crate) fn named(&self, root: &PlanRoot) -> Result<Option<u64>, PlanBreach> {
        let Some(proof) = self.proof else {
            return Ok(self.step);
        };
        proof.holds(root)?;
        match self.step {
            Some(step) if step != proof.index() => Err(PlanBreach::StepMismatch { reason: "other-index" }),
            Some(_) | None => Ok(Some(proof.index())),
        }
    }
}

/// Proves that a call is the plan's next one, and holds its turn. Made by [`PlanCursor::check`](crate::PlanCursor::check) and
/// [`RootCursor::check`](crate::RootCursor::check) alone; it cannot be copied.
///
/// The turn is held until the call is [accepted](crate::PlanCursor::accept) or [given back](crate::PlanCursor::give_back), and no other call
/// passes before.
#[derive(Debug)]
#[must_use]
pub struct PlannedCall {
    pub(crate) turn: Turn,
}

/// One call's turn, which no other call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Counts the turns of one cursor.
    pub(crate) number: u64,
    pub(crate) root: PlanRoot,
    pub(crate) index: u64,
    pub(crate) args: Digest,
}

impl PlannedCall {
    /// The root of the plan, or of the amendment, that the step is of.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.turn.root
    }

    /// The step's index, which is its leaf's, from 1 on.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.turn.index
    }
}

/// Holds the place of an accepted call in the trace, for what comes of it. It cannot be copied; when it is lost, the plan
/// does not finish.
#[derive(Debug)]
#[must_use]
pub struct StepRun {
    pub(crate) turn: Turn,
}
