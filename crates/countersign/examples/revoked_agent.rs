//! Revoked agent: the operator signs a new registry while the agent runs. The agent's next call is refused, and an
//! older registry cannot be loaded again.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/operator.rs"]
mod operator;

use countersign::Countersign;
use countersign::audit_log::MemorySink;
use countersign::core::{AgentId, Principal, SessionId};
use countersign::keys::trusted::write_public;
use countersign::tool_gate::{RejectionCode, ToolCall};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = operator::desk("revoked-agent")?;
    let registry = folder.join("registry.json");
    let countersign =
        Countersign::load(&registry, folder.join("trust-root.json"), folder.join("registry.state"))?;
    let gate = countersign
        .session(
            AgentId::new("support-bot")?,
            SessionId::new("session-1")?,
            Principal::new("ada@example.com")?,
        )
        .open(MemorySink::new())?;
    let call = |id| ToolCall::new(id, "desk", "search", br#"{"query":"T-1001"}"#);

    gate.check(&call("call-1"))?.run(|_| Ok::<(), std::io::Error>(()))?;
    println!("registry 1: accepted");

    let old = std::fs::read(&registry)?;
    operator::sign(&folder, 2, &["support-bot"])?;
    println!("registry 2 signed: support-bot is revoked");
    let no = gate.check(&call("call-2")).err().ok_or("revoked, yet allowed")?;
    println!("registry 2: {no}");
    assert_eq!(no.code(), RejectionCode::AgentRevoked);

    write_public(&registry, &old)?;
    let rollback = countersign.reload().err().ok_or("rolled back, yet loaded")?;
    println!("the old file put back: {}", rollback.code());
    assert_eq!(gate.check(&call("call-3")).err().map(|no| no.code()), Some(RejectionCode::AgentRevoked));
    Ok(())
}
