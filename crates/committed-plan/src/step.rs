use countersign_canonical_json::{Canonical, Recipe, ValueRef, read, write_string};
use countersign_core::{ToolId, is_hidden};

use crate::error::{PlanError, PlanProblem};
use crate::limits::PlanLimits;
use crate::open::settle;
use crate::place::OpenPlace;
use crate::read::read_steps;

/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1_024;

/// Maximum number of calls of one step.
const MAX_CALLS: u32 = 1_000;

/// One step: a tool, its arguments with open places, the maximum number of calls, and a description.
///
/// A step has one form: an open place may be marked by [`DYNAMIC`](crate::DYNAMIC) in the arguments or listed, and
/// order of members and spelling of numbers are ignored.
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
    /// Creates a step of one call from its arguments as JSON and pointers to the open places that
    /// [`DYNAMIC`](crate::DYNAMIC) does not mark.
    ///
    /// # Errors
    /// [`PlanError`] if the arguments are not a strict JSON object, or a pointer is not a valid open place.
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

    /// Parses the steps of a future plan: a JSON array of objects with the members `tool` (`server` and `name`) and
    /// `args`, and optionally `dynamic` (JSON Pointers), `description` and `max_calls`.
    ///
    /// # Errors
    /// [`PlanError`] with the index of the faulty step, if the problem is in one step.
    pub fn list_from_json(json: &[u8], limits: &PlanLimits) -> Result<Vec<Self>, PlanError> {
        let list = read(json, Recipe::Jcs1, limits.json()).map_err(PlanProblem::from)?;
        read_steps(list.value(), limits)
    }

    /// Sets the description shown to the approver.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_DESCRIPTION` above 1,024 bytes, or if it contains an invisible character.
    pub fn with_description(self, description: &str) -> Result<Self, PlanError> {
        if description.len() > MAX_DESCRIPTION_BYTES || description.chars().any(is_hidden) {
            return Err(PlanProblem::Description.into());
        }
        Ok(Self { description: Some(description.into()), ..self })
    }

    /// Sets the maximum number of calls of the step.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_MAX_CALLS` for 0 or above 1,000.
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

    /// The arguments, with [`DYNAMIC`](crate::DYNAMIC) at each open place.
    #[must_use]
    pub const fn args(&self) -> &Canonical {
        &self.args
    }

    /// The open places, in the order of the arguments.
    #[must_use]
    pub fn open(&self) -> &[OpenPlace] {
        &self.open
    }

    /// The description.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Maximum number of calls.
    #[must_use]
    pub const fn max_calls(&self) -> u32 {
        self.max_calls
    }

    /// Writes the step's canonical JSON.
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

    /// The bytes of the step's leaf (recipe `plan-step-1`): `jcs-1` of the step, its index, and the plan's number of
    /// steps.
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
