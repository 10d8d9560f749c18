//! A session contract comes from negotiation or from a seal, never from its parts.
use countersign::registry::SessionContract;

fn widen(contract: &mut SessionContract, wider: &SessionContract) {
    contract.tools = wider.tools().clone();
}

fn main() {}
