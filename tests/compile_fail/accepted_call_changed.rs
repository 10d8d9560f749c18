//! The arguments of an accepted call cannot be changed.
use countersign::canonical_json::Canonical;
use countersign::tool_gate::AcceptedCall;

fn change(mut call: AcceptedCall, other: Canonical) {
    *call.args() = other;
}

fn main() {}
