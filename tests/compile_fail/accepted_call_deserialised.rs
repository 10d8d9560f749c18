//! An accepted call cannot be read from anywhere.
use countersign::tool_gate::AcceptedCall;

fn read(text: &str) -> AcceptedCall {
    serde_json::from_str::<AcceptedCall>(text).unwrap()
}

fn main() {}
