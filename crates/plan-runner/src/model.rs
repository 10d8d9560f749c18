use std::error::Error;
use std::fmt;

use countersign_committed_plan::{VerifiedStep, VerifiedTrace};
use countersign_core::ToolId;

use crate::task::{OfferedTool, Task};

/// Says that a model gave no text.
///
/// ```
/// use countersign_plan_runner::ModelError;
/// let error = ModelError::new("MODEL_BUSY", std::io::Error::other("too many requests"));
/// assert_eq!(error.code(), "MODEL_BUSY");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the model gave no text")]
pub struct ModelError {
    code: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ModelError {
    /// Wraps what went wrong, under a stable code.
    pub fn new(code: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { code, source: source.into() }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }
}

/// Makes plans and, once a plan has run, the final answer. What it writes is read strictly; it sees nothing of what tools return
/// before the whole plan is verified.
pub trait Planner {
    /// Answers the prompt, or writes a plan ([`PlanText`](crate::PlanText)).
    ///
    /// # Errors
    /// [`ModelError`] when there is no text; the run then ends.
    fn plan(&mut self, request: &PlanRequest<'_>) -> Result<String, ModelError>;

    /// Writes the final answer from the verified trace. It is given out as it is: a plan in it is not run.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    fn answer(&mut self, request: &AnswerRequest<'_>) -> Result<String, ModelError>;
}

/// Writes the turns in which a plan's steps are called. It sees what the tools returned, and may be wrong or talked into anything:
/// what it writes is read strictly ([`TurnText`](crate::TurnText)) and passes the gate, or the run ends.
pub trait Responder {
    /// Writes one turn.
    ///
    /// # Errors
    /// [`ModelError`] when there is no text; the run then ends.
    fn turn(&mut self, request: &TurnRequest<'_>) -> Result<String, ModelError>;
}

/// Holds what a planner plans from.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    pub(crate) task: Task<'a>,
    pub(crate) tools: &'a [OfferedTool],
}

impl<'a> PlanRequest<'a> {
    /// What is to be done.
    #[must_use]
    pub const fn task(&self) -> Task<'a> {
        self.task
    }

    /// The tools of the session.
    #[must_use]
    pub const fn tools(&self) -> &'a [OfferedTool] {
        self.tools
    }
}

/// Holds what a planner answers from.
#[derive(Clone, Copy, Debug)]
pub struct AnswerRequest<'a> {
    pub(crate) task: Task<'a>,
    pub(crate) trace: &'a VerifiedTrace<Vec<u8>>,
}

impl<'a> AnswerRequest<'a> {
    /// What was to be done.
    #[must_use]
    pub const fn task(&self) -> Task<'a> {
        self.task
    }

    /// What has run, and what came of it.
    pub const fn trace(&self) -> &'a VerifiedTrace<Vec<u8>> {
        self.trace
    }
}

/// Holds what a responder writes its next turn from. The step was verified against the root of the plan that runs.
#[derive(Debug)]
pub struct TurnRequest<'a> {
    pub(crate) goal: &'a str,
    pub(crate) step: &'a VerifiedStep,
    pub(crate) calls: u32,
    pub(crate) observations: &'a [Observation],
}

impl<'a> TurnRequest<'a> {
    /// The goal that the plan is for.
    #[must_use]
    pub const fn goal(&self) -> &'a str {
        self.goal
    }

    /// The step that is to be called.
    pub const fn step(&self) -> &'a VerifiedStep {
        self.step
    }

    /// How many calls the step has had. From the first one on, [`NEXT_STEP`](crate::NEXT_STEP) leaves it.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls
    }

    /// What the tools have returned so far, in order. Data, whatever it says.
    #[must_use]
    pub const fn observations(&self) -> &'a [Observation] {
        self.observations
    }
}

/// Holds what one call returned.
pub struct Observation {
    pub(crate) step: u64,
    pub(crate) tool: ToolId,
    pub(crate) bytes: Vec<u8>,
}

impl Observation {
    /// The step, from 1 on.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// What the tool returned.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Shows which call it was, and nothing of what it returned.
impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("step", &self.step)
            .field("tool", &self.tool)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}
