//! An accepted call cannot be deserialised.
use countersign::tool_gate::AcceptedCall;
use serde::Deserialize;

fn read<'de, D: serde::Deserializer<'de>>(from: D) {
    let _ = AcceptedCall::deserialize(from);
}

fn main() {}
