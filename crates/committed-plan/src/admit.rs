//! The one comparison of a call with a step.

use countersign_canonical_json::{Canonical, Kind, ValueRef};
use countersign_core::ToolId;

use crate::breach::PlanBreach;
use crate::open::{DYNAMIC, is_open};
use crate::step::Step;

/// Says whether the call is the one that the step is for: its tool, every fixed argument as planned, every open one
/// there, and none besides.
pub(crate) fn admit(step: &Step, tool: &ToolId, args: &Canonical) -> Result<(), PlanBreach> {
    if step.tool() != tool {
        return Err(PlanBreach::StepMismatch { reason: "other-tool" });
    }
    // Numbers that were rounded when they were read may be equal here and were not when they were written.
    if !args.value().is_exact() {
        return Err(PlanBreach::StepMismatch { reason: "inexact-argument" });
    }
    compare(step.args().value(), args.value()).map_err(|reason| PlanBreach::StepMismatch { reason })
}

/// Compares one value. It recurses as deep as the plan's value nests, which the reader bounds.
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
            // All of the plan's are there, so any more are added.
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
        // A kind of value that is not known here is none that was planned.
        _ => same(false),
    }
}

const fn same(equal: bool) -> Result<(), &'static str> {
    if equal { Ok(()) } else { Err("fixed-argument") }
}
