//! An accepted call cannot be built.
use countersign::canonical_json::Canonical;
use countersign::core::CallFacts;
use countersign::tool_gate::{AcceptedCall, InFlight};

fn forge(facts: CallFacts, args: Canonical, in_flight: InFlight) -> AcceptedCall {
    AcceptedCall { facts, args, in_flight }
}

fn main() {}
