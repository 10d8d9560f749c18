use std::error::Error;
use std::fmt;

use countersign_committed_plan::{VerifiedStep, VerifiedTrace};
use countersign_core::ToolId;

use crate::task::{OfferedTool, Task};

/// Error of a model that returned no text.
///
/// ```
/// use countersign_plan_runner::ModelError;
/// let error = ModelError::new("MODEL_BUSY", std::io::Error::other("too many requests"));
/// assert_eq!(error.code(), "MODEL_BUSY");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("no text from the model")]
pub struct ModelError {
    code: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ModelError {
    /// Wraps the cause, under a stable code.
    pub fn new(code: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { code, source: source.into() }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }
}

countersign_core::coded!(ModelError);

/// Makes plans and, once a plan has run, the final answer. Its texts are parsed strictly. It sees no tool result before the
/// whole plan is verified.
pub trait Planner {
    /// Answers the prompt, or writes a plan ([`PlanText`](crate::PlanText)).
    ///
    /// # Errors
    /// [`ModelError`] if there is no text; the run then ends.
    fn plan(&mut self, request: &PlanRequest<'_>) -> Result<String, ModelError>;

    /// Writes the final answer from the verified trace. The answer is returned unchanged: a plan in it is not run.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    fn answer(&mut self, request: &AnswerRequest<'_>) -> Result<String, ModelError>;
}

/// Writes the turns that call a plan's steps. It sees the results of tools, and may err or be manipulated by them: each turn is
/// parsed strictly ([`TurnText`](crate::TurnText)) and must pass the gate, or the run ends.
pub trait Responder {
    /// Writes one turn.
    ///
    /// # Errors
    /// [`ModelError`] if there is no text; the run then ends.
    fn turn(&mut self, request: &TurnRequest<'_>) -> Result<String, ModelError>;
}

/// Input of a planner for a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    pub(crate) task: Task<'a>,
    pub(crate) tools: &'a [OfferedTool],
}

impl<'a> PlanRequest<'a> {
    /// The task.
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

/// Input of a planner for the final answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerRequest<'a> {
    pub(crate) task: Task<'a>,
    pub(crate) trace: &'a VerifiedTrace<Vec<u8>>,
}

impl<'a> AnswerRequest<'a> {
    /// The task.
    #[must_use]
    pub const fn task(&self) -> Task<'a> {
        self.task
    }

    /// The calls that ran, with their results.
    pub const fn trace(&self) -> &'a VerifiedTrace<Vec<u8>> {
        self.trace
    }
}

/// Input of a responder for its next turn. The step was verified against the root of the running plan.
#[derive(Debug)]
pub struct TurnRequest<'a> {
    pub(crate) goal: &'a str,
    pub(crate) step: &'a VerifiedStep,
    pub(crate) calls: u32,
    pub(crate) observations: &'a [Observation],
}

impl<'a> TurnRequest<'a> {
    /// The plan's goal.
    #[must_use]
    pub const fn goal(&self) -> &'a str {
        self.goal
    }

    /// The step to call.
    pub const fn step(&self) -> &'a VerifiedStep {
        self.step
    }

    /// Number of calls of the step so far. After the first, [`NEXT_STEP`](crate::NEXT_STEP) ends the step.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls
    }

    /// The results of tools so far, in order. They are untrusted data.
    #[must_use]
    pub const fn observations(&self) -> &'a [Observation] {
        self.observations
    }
}

/// Result of one call.
pub struct Observation {
    pub(crate) step: u64,
    pub(crate) tool: ToolId,
    pub(crate) bytes: Vec<u8>,
}

impl Observation {
    /// The step, counted from 1.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The tool's result.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Shows the step, the tool and the size of the result, but not the result.
impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("step", &self.step)
            .field("tool", &self.tool)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}
