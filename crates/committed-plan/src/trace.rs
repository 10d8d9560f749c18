use std::fmt;

use countersign_core::{Digest, ToolId};

use crate::root::PlanRoot;

/// The calls of a finished plan in order, with their results. Only [`PlanCursor::finish`](crate::PlanCursor::finish)
/// creates one, after every step has run and the root was recomputed.
///
/// Results are tools' outputs. The trace does not make them true or safe to follow.
#[must_use]
pub struct VerifiedTrace<O> {
    roots: Vec<PlanRoot>,
    steps: Vec<TraceStep<O>>,
}

impl<O> VerifiedTrace<O> {
    pub(crate) const fn new(roots: Vec<PlanRoot>, steps: Vec<TraceStep<O>>) -> Self {
        Self { roots, steps }
    }

    /// The roots of the plan and of its amendments, in order.
    #[must_use]
    pub fn roots(&self) -> &[PlanRoot] {
        &self.roots
    }

    /// The calls that ran, in order.
    #[must_use]
    pub fn steps(&self) -> &[TraceStep<O>] {
        &self.steps
    }

    /// The calls that ran, in order, by value.
    #[must_use]
    pub fn into_steps(self) -> Vec<TraceStep<O>> {
        self.steps
    }
}

/// Shows the number of calls, never results.
impl<O> fmt::Debug for VerifiedTrace<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedTrace")
            .field("roots", &self.roots)
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// One call that ran: its step, its plan and its result.
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
    /// The root of the step's plan or amendment.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// The step's index in it, from 1.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The step's description.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The digest of the call's arguments.
    #[must_use]
    pub const fn args(&self) -> &Digest {
        &self.args
    }

    /// The result of the tool.
    #[must_use]
    pub const fn observation(&self) -> &O {
        &self.observation
    }

    /// The number of the call's record.
    #[must_use]
    pub const fn record(&self) -> u64 {
        self.record
    }

    /// The result of the tool, by value.
    #[must_use]
    pub fn into_observation(self) -> O {
        self.observation
    }
}

/// Shows the call, never its result.
impl<O> fmt::Debug for TraceStep<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceStep")
            .field("index", &self.index)
            .field("tool", &self.tool)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
