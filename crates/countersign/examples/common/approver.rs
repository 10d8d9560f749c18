// Shared by the approver and the host: the approval key, and a gate that takes approvals.

use countersign::Countersign;
use countersign::approval_token::{ApprovalToken, MemorySpentTokens, MintTerms, mint};
use countersign::audit_log::MemorySink;
use countersign::core::{
    AgentId, Audience, Clock as _, KeyId, Millis, OperatorId, Principal, RunId, SessionId, SystemClock,
    TokenId,
};
use countersign::keys::{Keyring, RunKeys, ServerSecret};
use countersign::tool_gate::{ApprovalSettings, Rejection, ToolCall, ToolGate};

/// Secret that mints and verifies approvals. For the examples only: a real one comes from `countersign keys generate`.
const SECRET: [u8; 32] = [9; 32];

const GOAL: &str = "Answer ticket T-1001 and refund the double charge";

fn run_keys() -> Result<RunKeys, Box<dyn std::error::Error>> {
    let secret = ServerSecret::new(KeyId::new("approvals-2026")?, &SECRET)?;
    Ok(Keyring::new(secret).for_run(&RunId::new("run-1")?))
}

/// Opens a gate that takes approvals.
pub(crate) fn open(name: &str) -> Result<ToolGate, Box<dyn std::error::Error>> {
    let folder = crate::operator::desk(name)?;
    let countersign = Countersign::load(
        folder.join("registry.json"),
        folder.join("trust-root.json"),
        folder.join("registry.state"),
    )?;
    let spent = std::sync::Arc::new(MemorySpentTokens::new());
    Ok(countersign
        .session(
            AgentId::new("support-bot")?,
            SessionId::new("session-1")?,
            Principal::new("ada@example.com")?,
        )
        .goal(GOAL)
        .approvals(ApprovalSettings::new(run_keys()?, spent, Audience::new("desk-gate")?))
        .open(MemorySink::new())?)
}

/// Mints an approval of exactly the refused call, as a person does who has seen it.
pub(crate) fn approve(refused: &Rejection) -> Result<ApprovalToken, Box<dyn std::error::Error>> {
    let request = refused.approval_request().ok_or("nothing waits for approval")?;
    println!("approver sees: {} {}", request.binding().tool, request.args().as_str());
    let terms = MintTerms::new(
        TokenId::new("approval-1")?,
        OperatorId::new("grace@example.com")?,
        SystemClock::new().now()?,
        Millis::from_secs(300),
    );
    Ok(mint(&run_keys()?, request.binding(), &terms, Millis::from_secs(3_600))?)
}

/// Builds the call for a refund, with the restated goal.
pub(crate) fn refund<'a>(call_id: &'a str, args: &'a str) -> ToolCall<'a> {
    ToolCall::new(call_id, "desk", "refund", args.as_bytes()).ask(GOAL)
}
