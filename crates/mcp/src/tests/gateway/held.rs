//! Calls that were accepted but must no longer be sent.

use countersign_core::Millis;
use serde_json::json;

use super::desk::{Desk, Setup, definitions};

fn hasty() -> Desk {
    Desk::with(Setup { holding: Some(Millis::ZERO), ..Setup::default().patient() })
}

#[test]
fn call_that_was_held_too_long_is_not_sent() {
    let mut desk = hasty();
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    let (line, code) = desk.refusal();
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!((code.as_str(), &decision["retry"]), ("CALL_EXPIRED", &json!("after_change")));
    assert!(decision.get("approval").is_none(), "{line}");
    desk.nothing_reached_the_server();
    assert_eq!(desk.record(), ["ACCEPT", "NotRun"]);
}

#[test]
fn refusal_states_that_the_approval_is_spent() {
    let mut desk = hasty();
    let args = json!({ "ticket": 7 });
    desk.call(1, "refund", &args);
    desk.list(&definitions());
    let (line, _) = desk.refusal();
    let asked = line["result"]["_meta"]["dev.countersign/decision"]["approval_id"].clone();
    desk.approve(asked.as_str().unwrap());
    desk.call(2, "refund", &args);
    let (line, code) = desk.refusal();
    assert_eq!(
        (code.as_str(), &line["result"]["_meta"]["dev.countersign/decision"]["approval"]),
        ("CALL_EXPIRED", &json!("spent"))
    );
    assert!(
        line["result"]["content"][0]["text"].as_str().unwrap().ends_with(" The approval is spent."),
        "{line}"
    );
    // Another try needs another approval.
    desk.call(3, "refund", &args);
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    assert_ne!(line["result"]["_meta"]["dev.countersign/decision"]["approval_id"], asked);
    desk.nothing_reached_the_server();
}
