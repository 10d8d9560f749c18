use countersign_canonical_json::{Canonical, Recipe, ValueRef, read, write_string};
use countersign_core::{ToolId, is_hidden};

use crate::error::{PlanError, PlanProblem};
use crate::limits::PlanLimits;
use crate::open::settle;
use crate::place::OpenPlace;
use crate::read::read_steps;

/// The longest description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1_024;

/// The most calls that one step may have.
const MAX_CALLS: u32 = 1_000;

/// Holds one step: a tool, its arguments with the places that are left open, how often it may be called, and what it is for.
///
/// Two texts that mean the same step make the same one: a place may be left open by [`DYNAMIC`](crate::DYNAMIC) in the
/// arguments or by naming it, and the members' order and the numbers' spelling do not count.
///
/// ```
/// use countersign_committed_plan::Step;
/// use countersign_core::ToolId;
/// let step = Step::new(ToolId::new("mail", "send")?, br#"{"to":"bob@example.com"}"#, &["/body"])?;
/// let same = Step::new(ToolId::new("mail", "send")?, br#"{"body":"<DYNAMIC>","to":"bob@example.com"}"#, &[])?;
/// assert_eq!(step, same);
/// assert_eq!(step.open().iter().map(|place| place.as_str()).collect::<Vec<_>>(), ["/body"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    tool: ToolId,
    args: Canonical,
    open: Vec<OpenPlace>,
    description: Option<Box<str>>,
    max_calls: u32,
}

impl Step {
    /// Makes a step that may be called once, from its arguments' JSON and the pointers of what it leaves open besides what
    /// [`DYNAMIC`](crate::DYNAMIC) marks.
    ///
    /// # Errors
    /// [`PlanError`] when the arguments are not a strict JSON object, or cannot be left open there.
    pub fn new(tool: ToolId, args: &[u8], open: &[&str]) -> Result<Self, PlanError> {
        let limits = countersign_canonical_json::Limits::default();
        let args = read(args, Recipe::Jcs1, &limits).map_err(PlanProblem::from)?;
        Self::from_value(tool, args.value(), open)
    }

    pub(crate) fn from_value(tool: ToolId, args: ValueRef<'_>, open: &[&str]) -> Result<Self, PlanError> {
        let open: Vec<OpenPlace> =
            open.iter().map(|place| OpenPlace::new(place)).collect::<Result<_, _>>()?;
        let (args, open) = settle(args, &open)?;
        Ok(Self { tool, args, open, description: None, max_calls: 1 })
    }

    /// Reads the steps of a plan to be, as a JSON array of objects with the members `tool` (`server` and `name`) and `args`,
    /// and optionally `dynamic` (JSON Pointers), `description` and `max_calls`.
    ///
    /// # Errors
    /// [`PlanError`] with the step's number where it is one step's fault.
    pub fn list_from_json(json: &[u8], limits: &PlanLimits) -> Result<Vec<Self>, PlanError> {
        let list = read(json, Recipe::Jcs1, limits.json()).map_err(PlanProblem::from)?;
        read_steps(list.value(), limits)
    }

    /// Says what the step is for, to whoever approves the plan.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_DESCRIPTION` above 1,024 bytes, or when a character hides in it.
    pub fn with_description(self, description: &str) -> Result<Self, PlanError> {
        if description.len() > MAX_DESCRIPTION_BYTES || description.chars().any(is_hidden) {
            return Err(PlanProblem::Description.into());
        }
        Ok(Self { description: Some(description.into()), ..self })
    }

    /// Lets the step be called more than once before the next one.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_MAX_CALLS` for no call, or more than 1,000.
    pub fn with_max_calls(self, calls: u32) -> Result<Self, PlanError> {
        if calls == 0 || calls > MAX_CALLS {
            return Err(PlanProblem::MaxCalls.into());
        }
        Ok(Self { max_calls: calls, ..self })
    }

    /// The tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The arguments, with [`DYNAMIC`](crate::DYNAMIC) in each place that is left open.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// The places that are left open, in the order of the arguments.
    #[must_use]
    pub fn open(&self) -> &[OpenPlace] {
        &self.open
    }

    /// What the step is for, where the plan says so.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// How often it may be called.
    #[must_use]
    pub const fn max_calls(&self) -> u32 {
        self.max_calls
    }

    /// Writes the step as canonical JSON, in the one form that every spelling of it has.
    pub(crate) fn write(&self, out: &mut String) {
        out.push_str("{\"args\":");
        out.push_str(self.args.as_str());
        if let Some(description) = &self.description {
            out.push_str(",\"description\":");
            write_string(out, description);
        }
        out.push_str(",\"max_calls\":");
        out.push_str(&self.max_calls.to_string());
        out.push_str(",\"tool\":{\"name\":");
        write_string(out, self.tool.name().as_str());
        out.push_str(",\"server\":");
        write_string(out, self.tool.server().as_str());
        out.push_str("}}");
    }

    /// The bytes of the step's leaf (recipe `plan-step-1`): `jcs-1` of the step, its index, and how many steps the plan has.
    pub(crate) fn leaf(&self, index: u64, steps: u64) -> String {
        let mut text = String::with_capacity(self.args.bytes().len().saturating_add(256));
        text.push_str("{\"index\":");
        text.push_str(&index.to_string());
        text.push_str(",\"recipe\":\"plan-step-1\",\"step\":");
        self.write(&mut text);
        text.push_str(",\"steps\":");
        text.push_str(&steps.to_string());
        text.push('}');
        text
    }
}
