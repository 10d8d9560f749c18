//! An accepted call cannot be built.
use countersign::canonical_json::Canonical;
use countersign::core::ToolId;
use countersign::tool_gate::{AcceptedCall, InFlight};

fn forge(tool: ToolId, args: Canonical, in_flight: InFlight) -> AcceptedCall {
    AcceptedCall { tool, args, in_flight }
}

fn main() {}
