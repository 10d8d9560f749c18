//! An accepted call cannot be cloned.
use countersign::tool_gate::AcceptedCall;

fn twice(call: AcceptedCall) -> (AcceptedCall, AcceptedCall) {
    (call.clone(), call)
}

fn main() {}
