//! A plan's turn cannot be cloned: one call takes it.
use countersign::committed_plan::PlannedCall;

fn twice(call: PlannedCall) -> (PlannedCall, PlannedCall) {
    (call.clone(), call)
}

fn main() {}
