use std::fmt;

use countersign_canonical_json::{Canonical, Kind, Recipe, ValueRef, read, write_string};
use countersign_committed_plan::Step;
use countersign_registry::SessionContract;

use crate::limits::RunLimits;
use crate::plan_text_error::{PlanTextError, PlanTextProblem};
use crate::written_tool::WrittenTool;

/// Marks a planner's text as a plan instead of an answer.
pub const PLAN_TOKEN: &str = "<planthenexecute>";

/// Optional end of a plan.
pub const PLAN_END_TOKEN: &str = "</planthenexecute>";

/// A plan as a planner wrote it. It is not yet checked against the session.
///
/// A text without [`PLAN_TOKEN`] is an answer. A text with it is a plan and nothing else, and has exactly one reading:
///
/// - only whitespace may precede the token; the token occurs once;
/// - one JSON object follows, strictly read: `{"goal", "steps"}`, each step `{"id", "tool", "args", "description"}` and
///   optionally `"max_calls"`; other members and repeated members are errors;
/// - `id` is the step's position in the plan, counted from 1; `tool` is `name` or `server:name`; `args` is an object, in which the
///   text `<DYNAMIC>` leaves a place open;
/// - [`PLAN_END_TOKEN`] may follow once, and then only whitespace.
///
/// ```
/// use countersign_plan_runner::{PlanText, RunLimits};
/// let text = r#"<planthenexecute>{"goal": "Greet Bob", "steps": [
///   {"id": 1, "tool": "mail:send", "args": {"to": "bob@example.com", "body": "<DYNAMIC>"}, "description": "Say hello"}
/// ]}</planthenexecute>"#;
/// let plan = PlanText::parse(text, &RunLimits::default())?.ok_or("an answer")?;
/// assert_eq!((plan.goal(), plan.steps().len()), ("Greet Bob", 1));
/// assert_eq!(PlanText::parse(&plan.to_string(), &RunLimits::default())?, Some(plan));
/// assert_eq!(PlanText::parse("Hello Bob!", &RunLimits::default())?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanText {
    goal: Box<str>,
    steps: Vec<PlanTextStep>,
}

impl PlanText {
    /// Parses a planner's text. Returns `None` if the text is an answer.
    ///
    /// # Errors
    /// [`PlanTextError`] if the text is too long, or has a plan token but is not a plan.
    pub fn parse(text: &str, limits: &RunLimits) -> Result<Option<Self>, PlanTextError> {
        if text.len() > limits.text_bytes {
            return Err(PlanTextProblem::TooLarge.into());
        }
        let Some((before, after)) = text.split_once(PLAN_TOKEN) else {
            return Ok(None);
        };
        let after = after.trim_end();
        let json = after.strip_suffix(PLAN_END_TOKEN).unwrap_or(after);
        if json.contains(PLAN_TOKEN) || text.matches(PLAN_END_TOKEN).count() > usize::from(json != after) {
            return Err(PlanTextProblem::Token.into());
        }
        if !before.trim_start().is_empty() {
            return Err(PlanTextProblem::Before.into());
        }
        let json = read(json.as_bytes(), Recipe::Jcs1, &limits.json()).map_err(PlanTextProblem::Json)?;
        Self::from_json(&json, limits).map(Some)
    }

    fn from_json(json: &Canonical, limits: &RunLimits) -> Result<Self, PlanTextError> {
        let plan = json.value();
        only(plan, &["goal", "steps"])?;
        let goal = text(plan, "goal")?.into();
        let steps = plan.get("steps").filter(|steps| steps.kind() == Kind::Array);
        let steps = steps.ok_or(PlanTextProblem::Shape)?;
        if steps.is_empty() || steps.len() > limits.steps {
            return Err(PlanTextProblem::Steps.into());
        }
        let steps = (1..).zip(steps.elements()).map(|(id, step)| {
            PlanTextStep::read(json, step, id).map_err(|problem| PlanTextError::at_step(problem, id))
        });
        Ok(Self { goal, steps: steps.collect::<Result<_, _>>()? })
    }

    /// The goal that the plan states.
    #[must_use]
    pub fn goal(&self) -> &str {
        &self.goal
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[PlanTextStep] {
        &self.steps
    }

    /// Resolves the tools' names in a session and returns the steps.
    ///
    /// # Errors
    /// [`PlanTextError`] at the first step whose name resolves to no tool, or that is not a valid step.
    pub fn to_steps(&self, contract: &SessionContract) -> Result<Vec<Step>, PlanTextError> {
        let steps = (1..)
            .zip(&self.steps)
            .map(|(id, step)| step.to_step(contract).map_err(|problem| PlanTextError::at_step(problem, id)));
        steps.collect()
    }
}

/// Writes a text that parses to the same plan.
impl fmt::Display for PlanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = String::from("{\"goal\":");
        write_string(&mut json, &self.goal);
        json.push_str(",\"steps\":");
        let mut before = '[';
        for (id, step) in (1_u64..).zip(&self.steps) {
            json.push(before);
            step.write(&mut json, id);
            before = ',';
        }
        json.push_str("]}");
        // Escapes tokens inside strings, so that they do not count as tokens.
        let json = json.replace(PLAN_TOKEN, "\\u003cplanthenexecute>");
        let json = json.replace(PLAN_END_TOKEN, "\\u003c/planthenexecute>");
        write!(f, "{PLAN_TOKEN}\n{json}\n{PLAN_END_TOKEN}")
    }
}

/// One step of a written plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTextStep {
    tool: WrittenTool,
    args: Canonical,
    description: Box<str>,
    max_calls: u32,
}

impl PlanTextStep {
    /// Reads one step from the plan's JSON.
    fn read(json: &Canonical, step: ValueRef<'_>, id: u64) -> Result<Self, PlanTextProblem> {
        only(step, &["args", "description", "id", "max_calls", "tool"])?;
        let said = step.get("id").and_then(ValueRef::as_u64).ok_or(PlanTextProblem::Shape)?;
        if said != id {
            return Err(PlanTextProblem::StepId);
        }
        let tool = text(step, "tool")?.parse().map_err(|_| PlanTextProblem::Tool)?;
        let args = step.get("args").filter(|args| args.kind() == Kind::Object);
        let args = json.subtree(args.ok_or(PlanTextProblem::Shape)?);
        let description = text(step, "description")?.into();
        let max_calls = match step.get("max_calls") {
            None => 1,
            Some(calls) => {
                let calls = calls.as_u64().and_then(|calls| u32::try_from(calls).ok());
                calls.ok_or(PlanTextProblem::Shape)?
            }
        };
        Ok(Self { tool, args, description, max_calls })
    }

    /// The tool as written.
    #[must_use]
    pub const fn tool(&self) -> &WrittenTool {
        &self.tool
    }

    /// The arguments, with `<DYNAMIC>` in each place that the plan leaves open.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// The purpose of the step.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Maximum number of calls of the step.
    #[must_use]
    pub const fn max_calls(&self) -> u32 {
        self.max_calls
    }

    fn to_step(&self, contract: &SessionContract) -> Result<Step, PlanTextProblem> {
        let tool = self.tool.resolve(contract).ok_or(PlanTextProblem::UnknownTool)?;
        Step::new(tool, self.args.bytes(), &[])
            .and_then(|step| step.describe(&self.description))
            .and_then(|step| step.calls(self.max_calls))
            .map_err(PlanTextProblem::Step)
    }

    fn write(&self, out: &mut String, id: u64) {
        out.push_str("{\"id\":");
        out.push_str(&id.to_string());
        out.push_str(",\"tool\":");
        write_string(out, &self.tool.to_string());
        out.push_str(",\"args\":");
        out.push_str(self.args.as_str());
        out.push_str(",\"description\":");
        write_string(out, &self.description);
        out.push_str(",\"max_calls\":");
        out.push_str(&self.max_calls.to_string());
        out.push('}');
    }
}

/// Requires an object that has only known members.
fn only(value: ValueRef<'_>, known: &[&str]) -> Result<(), PlanTextProblem> {
    let fits = value.kind() == Kind::Object && value.members().all(|(name, _)| known.contains(&name));
    if fits { Ok(()) } else { Err(PlanTextProblem::Shape) }
}

fn text<'a>(value: ValueRef<'a>, name: &str) -> Result<&'a str, PlanTextProblem> {
    value.get(name).and_then(ValueRef::as_str).ok_or(PlanTextProblem::Shape)
}
