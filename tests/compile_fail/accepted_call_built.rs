//! An accepted call cannot be built.
use countersign::tool_gate::{AcceptedCall, InFlight};

fn forge(in_flight: InFlight) -> AcceptedCall {
    AcceptedCall { in_flight, call: unreachable!() }
}

fn main() {}
