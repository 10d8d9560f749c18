//! The one comparison of a call with a step.

use countersign_canonical_json::{Canonical, Kind, ValueRef};
use countersign_core::ToolId;

use crate::breach::PlanBreach;
use crate::open::{DYNAMIC, is_open};
use crate::step::Step;

/// Checks that the call matches the step: the tool, every fixed argument as planned, every open one present and filled
/// in, no other argument.
pub(crate) fn admit(step: &Step, tool: &ToolId, args: &Canonical) -> Result<(), PlanBreach> {
    if step.tool() != tool {
        return Err(PlanBreach::StepMismatch { reason: "other-tool" });
    }
    // why: rounded numbers may be equal here although their texts had different values.
    if !args.value().is_exact() {
        return Err(PlanBreach::StepMismatch { reason: "inexact-argument" });
    }
    compare(step.args().value(), args.value()).map_err(|reason| PlanBreach::StepMismatch { reason })
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
            for (name, value) in planned.members() {
                compare(value, called.get(name).ok_or("missing-argument")?)?;
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
