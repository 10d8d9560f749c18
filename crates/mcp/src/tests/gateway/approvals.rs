use countersign_approval_token::PendingApprovals as _;
use countersign_core::{CallId, Millis};
use serde_json::json;

use super::desk::{Desk, NOW, definitions, signed, time};

/// The approval id in the refusal that the client gets next.
fn asked(desk: &Desk) -> String {
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision["retry"], "after_approval");
    let id = decision["approval_id"].as_str().unwrap().to_owned();
    assert!(line["result"]["content"][0]["text"].as_str().unwrap().contains(&id), "{line}");
    id
}

#[test]
fn an_approved_call_runs_exactly_once() {
    let mut desk = Desk::open();
    let args = json!({ "ticket": 7, "amount": 10 });
    desk.call(1, "refund", &args);
    desk.list(&definitions());
    let id = asked(&desk);
    // A retry before the approval asks for the same one.
    desk.call(2, "refund", &json!({ "amount": 10.0, "ticket": 7 }));
    assert_eq!(asked(&desk), id);
    desk.approve(&id);
    desk.call(3, "refund", &args);
    assert_eq!(desk.run_call()["params"]["arguments"], args);
    assert_eq!(desk.client_got()["id"], 3);
    // Used up: the same call again needs a new approval.
    desk.call(4, "refund", &args);
    assert_ne!(asked(&desk), id);
    desk.nothing_reached_the_server();
    assert_eq!(
        desk.record(),
        ["APPROVAL_REQUIRED", "APPROVAL_REQUIRED", "ACCEPT", "Returned", "APPROVAL_REQUIRED"]
    );
}

#[test]
fn two_equal_calls_in_one_turn_and_one_approval_run_once() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({ "ticket": 7 }));
    desk.list(&definitions());
    desk.approve(&asked(&desk));
    desk.call(2, "refund", &json!({ "ticket": 7 }));
    desk.call(3, "refund", &json!({ "ticket": 7 }));
    assert_eq!(desk.run_call()["id"], 2);
    let (first, second) = (desk.client_got(), desk.client_got());
    let refused = if first["id"] == 3 { first } else { second };
    assert_eq!(refused["result"]["_meta"]["dev.countersign/decision"]["code"], "APPROVAL_REQUIRED");
    desk.nothing_reached_the_server();
}

#[test]
fn an_approval_fits_no_other_arguments_and_no_other_tool() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({ "ticket": 7, "amount": 10 }));
    desk.list(&definitions());
    let id = asked(&desk);
    desk.approve(&id);
    desk.call(2, "refund", &json!({ "ticket": 7, "amount": 1000 }));
    assert_ne!(asked(&desk), id);
    desk.call(3, "refund", &json!({ "ticket": 7, "amount": 10, "note": null }));
    assert_ne!(asked(&desk), id);
    desk.nothing_reached_the_server();
}

#[test]
fn an_approval_that_has_expired_is_asked_for_again_under_a_new_id() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({}));
    desk.list(&definitions());
    let id = asked(&desk);
    desk.approve(&id);
    desk.clock.advance(Millis::from_secs(60)).unwrap();
    desk.call(2, "refund", &json!({}));
    let again = asked(&desk);
    assert_ne!(again, id);
    desk.nothing_reached_the_server();
    desk.approve(&again);
    desk.call(3, "refund", &json!({}));
    assert_eq!(desk.run_call()["id"], 3);
}

#[test]
fn a_denied_call_stays_refused_and_the_others_stay_as_they_are() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({ "ticket": 1 }));
    desk.list(&definitions());
    let first = asked(&desk);
    desk.call(2, "refund", &json!({ "ticket": 2 }));
    let second = asked(&desk);
    desk.pending.deny(&CallId::new(&first).unwrap()).unwrap();
    desk.approve(&second);
    desk.call(3, "refund", &json!({ "ticket": 1 }));
    assert_ne!(asked(&desk), first);
    desk.call(4, "refund", &json!({ "ticket": 2 }));
    assert_eq!(desk.run_call()["id"], 4);
}

#[test]
fn an_approval_under_an_older_registry_is_asked_for_anew() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({}));
    desk.list(&definitions());
    let id = asked(&desk);
    desk.approve(&id);
    desk.registry.reload(signed(2).as_bytes(), time(NOW)).unwrap();
    desk.call(2, "refund", &json!({}));
    assert_ne!(asked(&desk), id);
    desk.nothing_reached_the_server();
}

#[test]
fn a_call_whose_approval_cannot_be_asked_for_is_not_told_to_wait_for_one() {
    let mut desk = Desk::open();
    desk.call(0, "refund", &json!({ "ticket": 0 }));
    desk.list(&definitions());
    asked(&desk);
    for ticket in 1..64 {
        desk.call(ticket, "refund", &json!({ "ticket": ticket }));
        asked(&desk);
    }
    desk.call(64, "refund", &json!({ "ticket": 64 }));
    let (line, code) = desk.refusal();
    assert_eq!(code, "STORE_UNAVAILABLE");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision.get("approval_id"), None);
    assert_eq!(decision["retry"], "after_change");
    assert_eq!(decision["unlock"], "the operator's attention");
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("approvals cannot be used at the moment"), "{text}");
    assert!(!text.contains("a person must approve"), "{text}");
    // The gate decided as it did, and the store's answer stands beside it.
    assert_eq!(desk.record()[64..], ["APPROVAL_REQUIRED", "PENDING_FULL"]);
    desk.nothing_reached_the_server();
}
