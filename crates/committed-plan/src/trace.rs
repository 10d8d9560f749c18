use std::fmt;

use countersign_core::{Digest, ToolId};

use crate::root::PlanRoot;

/// Holds what ran, in order, with what came of it. Made by [`PlanCursor::finish`](crate::PlanCursor::finish) alone, after
/// every step has run and the root was found again.
///
/// What the tools returned is what the tools returned: that it is in here does not make it true, nor safe to follow.
#[must_use]
pub struct VerifiedTrace<O> {
    roots: Vec<PlanRoot>,
    steps: Vec<TraceStep<O>>,
}

impl<O> VerifiedTrace<O> {
    pub(crate) const fn new(roots: Vec<PlanRoot>, steps: Vec<TraceStep<O>>) -> Self {
        Self { roots, steps }
    }

    /// The root of the plan and of each amendment, in order.
    #[must_use]
    pub fn roots(&self) -> &[PlanRoot] {
        &self.roots
    }

    /// The calls that ran, in order.
    #[must_use]
    pub fn steps(&self) -> &[TraceStep<O>] {
        &self.steps
    }

    /// The calls that ran, in order, to keep.
    #[must_use]
    pub fn into_steps(self) -> Vec<TraceStep<O>> {
        self.steps
    }
}

/// Shows how many calls ran, and nothing of what they returned.
impl<O> fmt::Debug for VerifiedTrace<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedTrace")
            .field("roots", &self.roots)
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// Holds one call that ran: which step of which plan it was, and what came of it.
pub struct TraceStep<O> {
    pub(crate) root: PlanRoot,
    pub(crate) index: u64,
    pub(crate) tool: ToolId,
    pub(crate) description: Option<Box<str>>,
    pub(crate) args: Digest,
    pub(crate) observation: O,
    pub(crate) record: u64,
}

impl<O> TraceStep<O> {
    /// The root of the plan or amendment that the step is of.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// The step's index there, from 1 on.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// What the step was for, where the plan said so.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The digest of the arguments that it was called with.
    #[must_use]
    pub const fn args(&self) -> &Digest {
        &self.args
    }

    /// What the tool returned.
    #[must_use]
    pub const fn observation(&self) -> &O {
        &self.observation
    }

    /// The number under which the call is on record.
    #[must_use]
    pub const fn record(&self) -> u64 {
        self.record
    }

    /// What the tool returned, to keep.
    #[must_use]
    pub fn into_observation(self) -> O {
        self.observation
    }
}

/// Shows which call it was, and nothing of what it returned.
impl<O> fmt::Debug for TraceStep<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceStep")
            .field("index", &self.index)
            .field("tool", &self.tool)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
