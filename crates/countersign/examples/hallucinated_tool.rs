//! Hallucinated tool: the agent calls a tool that does not exist, and one that exists but is not its own. Both are
//! refused alike, before any implementation runs. The attempts are in a log that verifies.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/operator.rs"]
mod operator;

use countersign::Countersign;
use countersign::audit_log::{Log, LogOptions, verify_log};
use countersign::canonical_json::Canonical;
use countersign::core::{AgentId, Principal, SessionId};
use countersign::keys::SigningKey;
use countersign::tlog::note::KeyName;
use countersign::tool_gate::{CallError, RejectionCode, Window};

/// Signing key of the log. For the examples only: a real one comes from `countersign keys generate --kind log`.
const LOG_SEED: [u8; 32] = [9; 32];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = operator::desk("hallucinated-tool")?;
    let countersign = Countersign::load(
        folder.join("registry.json"),
        folder.join("trust-root.json"),
        folder.join("registry.state"),
    )?;
    let options = LogOptions::new(KeyName::new("example.com/log")?, SigningKey::from_seed(LOG_SEED));
    let log = Log::open(folder.join("log"), options)?;
    let log_key = log.key();
    let gate = countersign
        .session(
            AgentId::new("support-bot")?,
            SessionId::new("session-1")?,
            Principal::new("ada@example.com")?,
        )
        .open(log)?;

    let mut touched = Vec::new();
    for (tool, args) in
        [("search", r#"{"query":"T-1001"}"#), ("issue_gift_card", "{}"), ("delete_ticket", "{}")]
    {
        let answer = gate.call(tool, args.as_bytes(), |args: &Canonical| -> Result<String, std::io::Error> {
            touched.push(tool);
            Ok(format!("{tool} ran with {}", args.as_str()))
        });
        match answer {
            Ok(answer) => println!("{tool}: accepted, {answer}"),
            Err(CallError::Rejected(no)) => {
                println!("{tool}: {no}");
                assert_eq!(no.code(), RejectionCode::UndisclosedTool);
            }
            Err(error) => return Err(error.into()),
        }
    }
    println!("attempted and not disclosed: {:?}", gate.attempted_undisclosed().recent());
    println!("acceptance rate: {:?}", gate.acceptance_rate(Window::All));
    let verified = verify_log(folder.join("log"), &log_key, &[])?;
    println!("{} entries verified, under {} checkpoints", verified.records, verified.checkpoints);
    assert_eq!(verified.records, 5, "the session, three decisions, one outcome");
    assert_eq!((touched.as_slice(), gate.attempted_undisclosed().count()), (&["search"][..], 2));
    Ok(())
}
