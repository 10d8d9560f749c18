//! The gateway's own tool, with which a client submits a plan, and the parser of plans in JSON.

use countersign_canonical_json::{Kind, Limits, Recipe, ValueRef, read};
use countersign_committed_plan::{CommitError, Plan, PlanContext, PlanError, PlanLimits, PlanProblem, Step};
use countersign_core::ServerName;
use countersign_tool_gate::StartPlanError;

use crate::compose::Object;

/// Name of the gateway's own tool, with which a client submits a plan. A server's tool of this name is never listed and
/// never called.
pub const SUBMIT_PLAN: &str = "countersign.submit_plan";

/// Nesting depth of a submission above a step's arguments: the object, the list, the step.
const ENVELOPE_DEPTH: usize = 3;

/// The tool as `tools/list` shows it. Its bounds are those of [`PlanLimits`] and [`Step`]; a test compares them.
pub(crate) const DEFINITION: &str = concat!(
    r#"{"description":"Commits the calls that you are going to make, in their order, before the first of them. "#,
    r#"From then on exactly these calls pass, and the first other one ends the plan. Fix every argument that you can: "#,
    r#"an argument that you cannot know yet is left open by the value <DYNAMIC> or by its JSON Pointer in `dynamic`, "#,
    r#"and only content may be left open, never a recipient, a path or an address. If a person has to approve, "#,
    r#"the answer is an approval id: submit the same steps again once it is approved. While a plan runs, what you submit "#,
    r#"takes the place of the steps that have not run, and a person has to approve it.","#,
    r#""inputSchema":{"additionalProperties":false,"properties":{"steps":{"items":{"additionalProperties":false,"#,
    r#""properties":{"args":{"description":"Its arguments","type":"object"},"#,
    r#""description":{"description":"What the step is for","maxLength":1024,"type":"string"},"#,
    r#""dynamic":{"description":"JSON Pointers of the arguments that are left open","items":{"type":"string"},"#,
    r#""maxItems":64,"type":"array"},"#,
    r#""max_calls":{"default":1,"description":"How often it may be called","maximum":1000,"minimum":1,"type":"integer"},"#,
    r#""tool":{"description":"Name of the tool to call","type":"string"}},"required":["tool","args"],"#,
    r#""type":"object"},"maxItems":1024,"minItems":1,"type":"array"}},"required":["steps"],"type":"object"},"#,
    r#""name":"countersign.submit_plan","title":"Submit a plan"}"#,
);

/// Reads a plan for the tools of one server. Accepts the steps as a client submits them (`{"steps": [..]}`, where a tool is
/// `name` or `server:name`), the bare list of steps, or a whole plan ([`Plan::from_json`]), which states its own context.
///
/// ```
/// use countersign_committed_plan::PlanContext;
/// use countersign_core::{Digest, ServerName, SessionId};
/// let context = PlanContext::new(Digest::of(b"goal"), SessionId::new("s-1")?, 7)?;
/// let steps = br#"{"steps":[{"tool":"search","args":{"query":"<DYNAMIC>"}}]}"#;
/// let plan = countersign_mcp::read_plan(steps, &ServerName::new("desk")?, context)?;
/// assert_eq!(plan.steps()[0].tool().to_string(), "desk:search");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`StartPlanError`] if `json` has none of these forms, exceeds a limit, or has a step to another server's tool.
pub fn read_plan(json: &[u8], server: &ServerName, context: PlanContext) -> Result<Plan, StartPlanError> {
    let limits = PlanLimits::default();
    let inner = Limits::default();
    let deep = inner.depth(inner.max_depth().saturating_add(ENVELOPE_DEPTH)).unwrap_or(inner);
    let message =
        read(json, Recipe::Jcs1, &deep).map_err(|error| PlanError::from(PlanProblem::from(error)))?;
    let value = message.value();
    let plan = if value.get("recipe").is_some() {
        Plan::from_json(json, &limits)?
    } else {
        Plan::new(context, read_steps(value, server, &limits)?)?
    };
    match (1..).zip(plan.steps()).find(|(_, step)| step.tool().server() != server) {
        // A tool of another server cannot be called here, even if it is disclosed.
        Some((step, _)) => Err(CommitError::Undisclosed { step }.into()),
        None => Ok(plan),
    }
}

/// Reads the steps of `{"steps": [..]}` or of a bare list. Expands the tool of each step and passes the step on;
/// [`Step::list_from_json`] reports its faults.
fn read_steps(value: ValueRef<'_>, server: &ServerName, limits: &PlanLimits) -> Result<Vec<Step>, PlanError> {
    let is_object = value.kind() == Kind::Object;
    let list = if is_object { value.get("steps").filter(|_| value.len() == 1) } else { Some(value) };
    let list = list.filter(|list| list.kind() == Kind::Array).ok_or(PlanProblem::Shape)?;
    let steps: Vec<String> = list.elements().map(|step| spelled_out(step, server)).collect();
    Step::list_from_json(format!("[{}]", steps.join(",")).as_bytes(), limits)
}

/// The step with its tool expanded to server and name. A tool that is not a text stays: it is a plan's own form, or an error later.
fn spelled_out(step: ValueRef<'_>, own: &ServerName) -> String {
    if step.kind() != Kind::Object {
        return step.canonical_text();
    }
    step.members()
        .fold(Object::new(), |object, (member, value)| match (member, value.as_str()) {
            ("tool", Some(tool)) => {
                let (server, name) = tool.split_once(':').unwrap_or((own.as_str(), tool));
                object.raw(member, &Object::new().string("name", name).string("server", server).finish())
            }
            _ => object.value(member, value),
        })
        .finish()
}

/// Counts the remaining calls of the plan's last step, by the calls that the gate accepted. The gate decides which calls may
/// run; this count only shows when no call is left, so that the plan is finished then and not earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastStep {
    index: u64,
    calls_left: u32,
}

impl LastStep {
    /// The last step of a plan, or of an amendment, of which nothing has run.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { index: plan.header().steps(), calls_left: plan.steps().last().map_or(1, Step::max_calls) }
    }

    /// Counts an accepted call of this step.
    pub(crate) const fn accepted(&mut self, step: u64) {
        if step == self.index {
            self.calls_left = self.calls_left.saturating_sub(1);
        }
    }

    /// Returns whether the plan has no call left.
    pub(crate) const fn is_over(&self) -> bool {
        self.calls_left == 0
    }
}
