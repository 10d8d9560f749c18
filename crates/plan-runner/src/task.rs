use std::fmt;

use countersign_core::{ImpactClass, ToolId};
use countersign_tool_gate::ToolGate;

/// The task of a run: the user's prompt, and the text of the session's pinned goal.
///
/// ```
/// use countersign_plan_runner::Task;
/// let task = Task::new("Please answer ticket T-1001, kindly.").goal("Answer ticket T-1001");
/// assert_eq!(task.stated_goal(), "Answer ticket T-1001");
/// ```
#[derive(Clone, Copy)]
pub struct Task<'a> {
    prompt: &'a str,
    goal: &'a str,
}

impl<'a> Task<'a> {
    /// Creates a task whose prompt is also the pinned goal.
    #[must_use]
    pub const fn new(prompt: &'a str) -> Self {
        Self { prompt, goal: prompt }
    }

    /// Sets the pinned goal, if it differs from the prompt. A plan must restate it.
    #[must_use]
    pub const fn goal(self, goal: &'a str) -> Self {
        Self { goal, ..self }
    }

    /// The user's prompt.
    #[must_use]
    pub const fn prompt(&self) -> &'a str {
        self.prompt
    }

    /// The goal that a plan must restate.
    #[must_use]
    pub const fn stated_goal(&self) -> &'a str {
        self.goal
    }
}

/// Shows the lengths of the texts, but no text.
impl fmt::Debug for Task<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("prompt_bytes", &self.prompt.len())
            .field("goal_bytes", &self.goal.len())
            .finish()
    }
}

/// One tool of the session as a planner sees it.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    tool: ToolId,
    impact: ImpactClass,
    args_schema: String,
    data_args: Vec<String>,
}

impl OfferedTool {
    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The tool's impact class.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// The JSON Schema of its arguments, as JSON text.
    #[must_use]
    pub fn args_schema(&self) -> &str {
        &self.args_schema
    }

    /// The arguments that a plan may leave open, as JSON Pointers.
    #[must_use]
    pub fn data_args(&self) -> &[String] {
        &self.data_args
    }
}

/// The tools that the gate's session currently discloses.
pub(crate) fn offered(gate: &ToolGate) -> Vec<OfferedTool> {
    let (contract, view) = (gate.contract(), gate.registry().view());
    let rules = contract.tools().iter().filter_map(|tool| contract.disclosed(&view, tool));
    rules
        .map(|rules| OfferedTool {
            tool: rules.entry().tool().clone(),
            impact: rules.entry().impact(),
            args_schema: rules.entry().args_schema().to_string(),
            data_args: rules.entry().data_args().iter().map(|place| place.as_str().to_owned()).collect(),
        })
        .collect()
}
