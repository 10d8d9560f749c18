use std::fmt::Write as _;

use countersign_canonical_json::{Canonical, Kind, Recipe, ValueRef, read, write_string};
use countersign_core::{ToolId, is_hidden};
use countersign_merkle::LeafHash;

use crate::breach::PlanBreach;
use crate::error::{PlanError, PlanProblem};
use crate::json::{number, object, text};
use crate::limits::PlanLimits;
use crate::open::{DYNAMIC, OpenPlace, is_open, settle};

/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1_024;

/// Maximum number of calls of one step.
const MAX_CALLS: u32 = 1_000;

/// One step: a tool, its arguments with open places, the maximum number of calls, and a description.
///
/// Equal steps compare equal in any notation: an open place may be marked by [`DYNAMIC`] in the arguments or listed, and
/// the order of members and the spelling of numbers do not matter.
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
    /// [`DYNAMIC`] does not mark.
    ///
    /// # Errors
    /// [`PlanError`] if the arguments are not a strict JSON object, or a pointer is not a valid open place.
    pub fn new(tool: ToolId, args: &[u8], open: &[&str]) -> Result<Self, PlanError> {
        let limits = countersign_canonical_json::Limits::default();
        let args = read(args, Recipe::Jcs1, &limits).map_err(PlanProblem::from)?;
        Self::from_value(tool, &args, args.value(), open)
    }

    /// Creates a step from its arguments, a value in `source`.
    fn from_value(
        tool: ToolId,
        source: &Canonical,
        args: ValueRef<'_>,
        open: &[&str],
    ) -> Result<Self, PlanError> {
        let open: Vec<OpenPlace> =
            open.iter().map(|place| OpenPlace::new(place)).collect::<Result<_, _>>()?;
        let (args, open) = settle(source, args, &open)?;
        Ok(Self { tool, args, open, description: None, max_calls: 1 })
    }

    /// Parses the steps of a future plan: a JSON array of objects with the members `tool` (`server` and `name`) and
    /// `args`, and optionally `dynamic` (JSON Pointers), `description` and `max_calls`.
    ///
    /// # Errors
    /// [`PlanError`] with the index of the faulty step, if the problem is in one step.
    pub fn list_from_json(json: &[u8], limits: &PlanLimits) -> Result<Vec<Self>, PlanError> {
        let list = read(json, Recipe::Jcs1, limits.json()).map_err(PlanProblem::from)?;
        read_steps(&list, list.value(), limits)
    }

    /// Sets the description shown to the approver.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_DESCRIPTION` above 1,024 bytes, or if it contains an invisible character.
    pub fn describe(self, description: &str) -> Result<Self, PlanError> {
        if description.len() > MAX_DESCRIPTION_BYTES || description.chars().any(is_hidden) {
            return Err(PlanProblem::Description.into());
        }
        Ok(Self { description: Some(description.into()), ..self })
    }

    /// Sets the maximum number of calls of the step.
    ///
    /// # Errors
    /// [`PlanError`] `PLAN_MAX_CALLS` for 0 or above 1,000.
    pub fn calls(self, calls: u32) -> Result<Self, PlanError> {
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

    /// The arguments, with [`DYNAMIC`] at each open place.
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

    /// Checks that the call matches the step: the tool, every fixed argument as planned, every open one present and
    /// filled in, no other argument.
    pub(crate) fn admit(&self, tool: &ToolId, args: &Canonical) -> Result<(), PlanBreach> {
        if &self.tool != tool {
            return Err(PlanBreach::StepMismatch { reason: "other-tool" });
        }
        // why: rounded numbers may be equal here although their texts had different values.
        if !args.value().is_exact() {
            return Err(PlanBreach::StepMismatch { reason: "inexact-argument" });
        }
        if self.open.is_empty() && self.args.bytes() == args.bytes() {
            return Ok(());
        }
        compare(self.args.value(), args.value()).map_err(|reason| PlanBreach::StepMismatch { reason })
    }

    /// Writes the step's canonical JSON.
    pub(crate) fn write(&self, out: &mut String) {
        out.push_str("{\"args\":");
        out.push_str(self.args.as_str());
        if let Some(description) = &self.description {
            out.push_str(",\"description\":");
            write_string(out, description);
        }
        // Writing to a `String` cannot fail.
        let _ = write!(out, ",\"max_calls\":{},\"tool\":{{\"name\":", self.max_calls);
        write_string(out, self.tool.name().as_str());
        out.push_str(",\"server\":");
        write_string(out, self.tool.server().as_str());
        out.push_str("}}");
    }

    /// Writes the bytes of the step's leaf (recipe `plan-step-1`) over `text`: `jcs-1` of the step, its index, and the
    /// plan's number of steps.
    pub(crate) fn write_leaf(&self, index: u64, steps: u64, text: &mut String) {
        text.clear();
        let _ = write!(text, "{{\"index\":{index},\"recipe\":\"plan-step-1\",\"step\":");
        self.write(text);
        let _ = write!(text, ",\"steps\":{steps}}}");
    }

    #[cfg(test)]
    pub(crate) fn leaf(&self, index: u64, steps: u64) -> String {
        let mut text = String::new();
        self.write_leaf(index, steps, &mut text);
        text
    }

    /// Hashes the step's leaf. `text` is overwritten: a buffer that calls share.
    pub(crate) fn leaf_hash(&self, index: u64, steps: u64, text: &mut String) -> LeafHash {
        self.write_leaf(index, steps, text);
        LeafHash::of(text.as_bytes())
    }
}

/// Parses a list of steps.
pub(crate) fn read_steps(
    source: &Canonical,
    value: ValueRef<'_>,
    limits: &PlanLimits,
) -> Result<Vec<Step>, PlanError> {
    if value.kind() != Kind::Array {
        return Err(PlanProblem::Shape.into());
    }
    if value.len() > limits.max_steps() {
        return Err(PlanProblem::Limit.into());
    }
    if value.is_empty() {
        return Err(PlanProblem::Empty.into());
    }
    let read = |(at, step)| read_step(source, step).map_err(|error| error.at_step(at));
    (1..).zip(value.elements()).map(read).collect()
}

/// Parses one step, a value in `source`.
pub(crate) fn read_step(source: &Canonical, value: ValueRef<'_>) -> Result<Step, PlanError> {
    object(value, &["args", "description", "dynamic", "max_calls", "tool"])?;
    let tool = value.get("tool").ok_or(PlanProblem::Shape)?;
    object(tool, &["name", "server"])?;
    let tool = ToolId::new(text(tool, "server")?, text(tool, "name")?).map_err(|_| PlanProblem::Id)?;
    let open = match value.get("dynamic") {
        None => Vec::new(),
        Some(list) if list.kind() == Kind::Array => {
            let places = list.elements().map(|place| place.as_str().ok_or(PlanProblem::Shape));
            places.collect::<Result<_, _>>()?
        }
        Some(_) => return Err(PlanProblem::Shape.into()),
    };
    let args = value.get("args").ok_or(PlanProblem::Shape)?;
    let mut step = Step::from_value(tool, source, args, &open)?;
    if value.get("description").is_some() {
        step = step.describe(text(value, "description")?)?;
    }
    if value.get("max_calls").is_some() {
        let calls = number(value, "max_calls")?;
        step = step.calls(u32::try_from(calls).map_err(|_| PlanProblem::MaxCalls)?)?;
    }
    Ok(step)
}

/// Compares one value. The reader's depth limit bounds the recursion.
fn compare(planned: ValueRef<'_>, called: ValueRef<'_>) -> Result<(), &'static str> {
    if is_open(planned) {
        let filled = called.as_str() != Some(DYNAMIC);
        return if filled { Ok(()) } else { Err("left-open") };
    }
    if planned.kind() != called.kind() {
        return Err("fixed-argument");
    }
    match planned.kind() {
        Kind::Object => {
            let mut next = called.members();
            for (name, value) in planned.members() {
                // Both are in canonical order, so in a call that fits the next member is the one.
                let other = match next.next() {
                    Some((other, value)) if other == name => value,
                    _ => called.get(name).ok_or("missing-argument")?,
                };
                compare(value, other)?;
            }
            // All planned members are present, so any other was added.
            if called.len() == planned.len() { Ok(()) } else { Err("added-argument") }
        }
        Kind::Array => {
            if called.len() < planned.len() {
                return Err("missing-argument");
            }
            for (value, other) in planned.elements().zip(called.elements()) {
                compare(value, other)?;
            }
            if called.len() == planned.len() { Ok(()) } else { Err("added-argument") }
        }
        Kind::String => same(planned.as_str() == called.as_str()),
        Kind::Number => same(planned.as_f64() == called.as_f64()),
        Kind::Bool => same(planned.as_bool() == called.as_bool()),
        Kind::Null => Ok(()),
        // `Kind` is non-exhaustive: refuse a kind that is unknown here.
        _ => same(false),
    }
}

const fn same(equal: bool) -> Result<(), &'static str> {
    if equal { Ok(()) } else { Err("fixed-argument") }
}
