//! An accepted call cannot be built.
use countersign::tool_gate::{AcceptedCall, InFlight};

fn forge(in_flight: InFlight) -> AcceptedCall {
    AcceptedCall { call: unreachable!(), in_flight }
}

fn main() {}
