//! An accepted call runs once: running consumes it.
use countersign::tool_gate::AcceptedCall;

fn twice(call: AcceptedCall) {
    let _ = call.run(|_| Ok::<(), ()>(()));
    let _ = call.run(|_| Ok::<(), ()>(()));
}

fn main() {}
