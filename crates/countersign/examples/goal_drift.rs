//! Goal drift: the goal is pinned when the session opens. Other words are another goal, and the call is refused. Other
//! spacing and other letter case are the same goal.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "common/operator.rs"]
mod operator;

use countersign::Countersign;
use countersign::audit_log::{MemorySink, OutcomeKind};
use countersign::core::{AgentId, Principal, SessionId};
use countersign::tool_gate::{AcceptedCall, RejectionCode, ToolCall};

const GOAL: &str = "Answer ticket T-1001 and refund the double charge";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = operator::desk("goal-drift")?;
    let countersign = Countersign::load(
        folder.join("registry.json"),
        folder.join("trust-root.json"),
        folder.join("registry.state"),
    )?;
    let gate = countersign
        .session(
            AgentId::new("support-bot")?,
            SessionId::new("session-1")?,
            Principal::new("ada@example.com")?,
        )
        .goal(GOAL)
        .open(MemorySink::new())?;

    let restated = [
        ("as it was", GOAL, None),
        ("other spacing and case", "  answer TICKET t-1001\n and refund the double charge ", None),
        (
            "one word more",
            "Answer ticket T-1001 and refund every double charge",
            Some(RejectionCode::AskDrift),
        ),
    ];
    for (number, (how, goal, expected)) in restated.into_iter().enumerate() {
        let id = format!("call-{number}");
        let call = ToolCall::new(&id, "desk", "search", br#"{"query":"T-1001"}"#).ask(goal);
        let accepted = gate.check(&call).and_then(AcceptedCall::dispatch);
        let refused = accepted.map(|(_, in_flight)| in_flight.finish(OutcomeKind::Returned)).err();
        println!("{how}: {}", refused.as_ref().map_or_else(|| "accepted".to_owned(), ToString::to_string));
        assert_eq!(refused.map(|no| no.code()), expected);
    }
    if let Some(drift) = gate.call_log().last() {
        println!(
            "the record has the two digests, not the texts: {:?} and {:?}",
            drift.ask, drift.ask_restated
        );
    }
    Ok(())
}
