//! Members of JSON objects, by kind.

use countersign_canonical_json::{Kind, ValueRef};

use crate::error::PlanProblem;

/// Requires an object with no members but these.
pub(crate) fn object(value: ValueRef<'_>, known: &[&str]) -> Result<(), PlanProblem> {
    let fits = value.kind() == Kind::Object && value.members().all(|(name, _)| known.contains(&name));
    if fits { Ok(()) } else { Err(PlanProblem::Shape) }
}

/// Returns the string member `name`.
pub(crate) fn text<'a>(value: ValueRef<'a>, name: &str) -> Result<&'a str, PlanProblem> {
    value.get(name).and_then(|member| member.as_str()).ok_or(PlanProblem::Shape)
}

/// Returns the integer member `name`.
pub(crate) fn number(value: ValueRef<'_>, name: &str) -> Result<u64, PlanProblem> {
    value.get(name).and_then(|member| member.as_u64()).ok_or(PlanProblem::Shape)
}
