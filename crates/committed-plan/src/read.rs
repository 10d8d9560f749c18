//! Parser of plans from strict JSON: no unknown or repeated members, every member of its kind.

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{SessionId, ToolId};

use crate::error::{PlanError, PlanProblem};
use crate::header::{Amends, PlanContext, PlanHeader, RECIPE};
use crate::limits::PlanLimits;
use crate::step::Step;

/// Parses the header of a plan or of its leaf. The member `steps` differs between them, so the caller passes its value.
pub(crate) fn read_header(value: ValueRef<'_>, steps: u64) -> Result<PlanHeader, PlanProblem> {
    object(value, &["amends", "goal", "recipe", "registry_version", "session", "steps"])?;
    if text(value, "recipe")? != RECIPE {
        return Err(PlanProblem::Recipe);
    }
    let goal = text(value, "goal")?.parse().map_err(|_| PlanProblem::Id)?;
    let session = SessionId::new(text(value, "session")?).map_err(|_| PlanProblem::Id)?;
    let version = number(value, "registry_version")?;
    let context = PlanContext::new(goal, session, version).map_err(|error| error.problem())?;
    let amends = value.get("amends").map(read_amends).transpose()?;
    Ok(PlanHeader::new(context, amends, steps))
}

fn read_amends(value: ValueRef<'_>) -> Result<Amends, PlanProblem> {
    object(value, &["position", "root"])?;
    let root = text(value, "root")?.parse().map_err(|_| PlanProblem::Id)?;
    Ok(Amends::new(root, number(value, "position")?))
}

/// Parses a list of steps.
pub(crate) fn read_steps(value: ValueRef<'_>, limits: &PlanLimits) -> Result<Vec<Step>, PlanError> {
    if value.kind() != Kind::Array {
        return Err(PlanProblem::Shape.into());
    }
    if value.len() > limits.max_steps() {
        return Err(PlanProblem::Limit.into());
    }
    if value.is_empty() {
        return Err(PlanProblem::Empty.into());
    }
    (1..).zip(value.elements()).map(|(at, step)| read_step(step).map_err(|error| error.at_step(at))).collect()
}

/// Parses one step.
pub(crate) fn read_step(value: ValueRef<'_>) -> Result<Step, PlanError> {
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
    let mut step = Step::from_value(tool, args, &open)?;
    if value.get("description").is_some() {
        step = step.with_description(text(value, "description")?)?;
    }
    if value.get("max_calls").is_some() {
        let calls = number(value, "max_calls")?;
        step = step.with_max_calls(u32::try_from(calls).map_err(|_| PlanProblem::MaxCalls)?)?;
    }
    Ok(step)
}

/// Requires an object with no members but these.
pub(crate) fn object(value: ValueRef<'_>, known: &[&str]) -> Result<(), PlanProblem> {
    let fits = value.kind() == Kind::Object && value.members().all(|(name, _)| known.contains(&name));
    if fits { Ok(()) } else { Err(PlanProblem::Shape) }
}

pub(crate) fn text<'a>(value: ValueRef<'a>, name: &str) -> Result<&'a str, PlanProblem> {
    value.get(name).and_then(|member| member.as_str()).ok_or(PlanProblem::Shape)
}

pub(crate) fn number(value: ValueRef<'_>, name: &str) -> Result<u64, PlanProblem> {
    value.get(name).and_then(|member| member.as_u64()).ok_or(PlanProblem::Shape)
}
