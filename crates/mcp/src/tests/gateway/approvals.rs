use countersign_approval_token::{PendingApproval, PendingApprovals as _};
use countersign_audit_log::{CallRecord, Record};
use countersign_core::{Digest, Millis, ToolId};
use countersign_tool_gate::{RejectionCode, ToolCall};
use serde_json::json;

use super::desk::{Desk, NOW, Setup, definitions, signed, time};

/// The approval id in the client's next refusal.
fn asked(desk: &Desk) -> String {
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision["retry"], "after_approval");
    let id = decision["approval_id"].as_str().unwrap().to_owned();
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Approval id: call"), "{line}");
    id
}

#[test]
fn an_approved_call_runs_exactly_once() {
    let mut desk = Desk::open();
    let args = json!({ "ticket": 7, "amount": 10 });
    desk.call(1, "refund", &args);
    desk.list(&definitions());
    let id = asked(&desk);
    // A retry before the approval has the same approval id.
    desk.call(2, "refund", &json!({ "amount": 10.0, "ticket": 7 }));
    assert_eq!(asked(&desk), id);
    desk.approve(&id);
    desk.call(3, "refund", &args);
    assert_eq!(desk.run_call()["params"]["arguments"], args);
    assert_eq!(desk.client_got()["id"], 3);
    // The approval is spent: the same call again needs a new one.
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
    desk.run_call();
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
fn expired_approval_is_asked_for_under_a_new_id() {
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
    assert_eq!(desk.ran(), 3);
}

#[test]
fn a_denied_call_stays_refused_and_the_others_stay_as_they_are() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({ "ticket": 1 }));
    desk.list(&definitions());
    let first = asked(&desk);
    desk.call(2, "refund", &json!({ "ticket": 2 }));
    let second = asked(&desk);
    desk.deny(&first);
    desk.approve(&second);
    for id in 3..6 {
        desk.call(id, "refund", &json!({ "ticket": 1 }));
        denied(&desk);
    }
    assert!(desk.pending.list(time(NOW)).unwrap().is_empty(), "nobody is asked again");
    desk.call(6, "refund", &json!({ "ticket": 2 }));
    assert_eq!(desk.ran(), 6);
    let deniers: Vec<_> = decisions(&desk).into_iter().map(|call| call.denied_by).collect();
    let olga = Some("olga".into());
    assert_eq!(deniers, [None, None, olga.clone(), olga.clone(), olga, None]);
    assert_eq!(desk.gate.counts().rejected_with(RejectionCode::ApprovalDenied), 3);
}

/// Checks a denial: it is final, and the client has nothing to wait for.
fn denied(desk: &Desk) {
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_DENIED");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision["retry"], "never");
    assert_eq!((decision.get("approval_id"), decision.get("unlock")), (None, None));
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "Refused by Countersign: APPROVAL_DENIED. a person refused this call.");
}

fn decisions(desk: &Desk) -> Vec<CallRecord> {
    let decision = |(_, record)| {
        let Record::Decision(call) = record else { return None };
        Some(call)
    };
    desk.sink.latest().into_iter().filter_map(decision).collect()
}

#[test]
fn denial_lasts_for_the_whole_session() {
    let mut desk = Desk::with(Setup { goal: None, ..Setup::default().patient() });
    desk.call(1, "refund", &json!({}));
    desk.list(&definitions());
    desk.deny(&asked(&desk));
    // The question would have expired after ten minutes.
    desk.clock.advance(Millis::from_secs(3_500)).unwrap();
    desk.call(2, "refund", &json!({}));
    denied(&desk);
    desk.nothing_reached_the_server();
}

#[test]
fn denial_does_not_outlast_a_registry_reload() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({}));
    desk.list(&definitions());
    let first = asked(&desk);
    desk.deny(&first);
    desk.registry.reload(signed(2).as_bytes(), time(NOW)).unwrap();
    desk.call(2, "refund", &json!({}));
    let second = asked(&desk);
    assert_ne!(second, first);
    desk.approve(&second);
    desk.call(3, "refund", &json!({}));
    assert_eq!(desk.ran(), 3);
}

#[test]
fn denial_does_not_cover_a_changed_definition() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({}));
    desk.list(&definitions());
    let first = asked(&desk);
    desk.deny(&first);
    let refund = ToolId::new("desk", "refund").unwrap();
    desk.gate.note_definition(&refund, Digest::of(b"another"));
    desk.call(2, "refund", &json!({}));
    assert_ne!(asked(&desk), first);
    desk.nothing_reached_the_server();
}

#[test]
fn denial_filed_elsewhere_is_found_before_a_question() {
    let mut desk = Desk::open();
    // Filed outside of this gateway, or by its own run before its memory was full.
    desk.call(1, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    desk.run_call();
    desk.client_got();
    let call = ToolCall::new("elsewhere", "desk", "refund", b"{}");
    let refused = desk.gate.check(&call).unwrap_err();
    let request = refused.approval_request().unwrap();
    let minute = Millis::from_secs(60);
    let question =
        PendingApproval::new(request.binding().clone(), request.args(), time(NOW), minute).unwrap();
    desk.deny(desk.pending.request(&question).unwrap().as_str());
    for id in 2..4 {
        desk.call(id, "refund", &json!({}));
        denied(&desk);
        desk.stop.wait_recorded();
    }
    let told: Vec<_> = desk.record().into_iter().skip_while(|code| code != "APPROVAL_REQUIRED").collect();
    assert_eq!(told, ["APPROVAL_REQUIRED", "APPROVAL_DENIED", "APPROVAL_DENIED"]);
    desk.nothing_reached_the_server();
}

#[test]
fn denied_questions_are_limited_to_sixty_four() {
    let mut desk = Desk::with(Setup { goal: None, ..Setup::default().patient() });
    desk.call(0, "refund", &json!({ "ticket": 0 }));
    desk.list(&definitions());
    desk.deny(&asked(&desk));
    for ticket in 1..64 {
        desk.call(ticket, "refund", &json!({ "ticket": ticket }));
        desk.deny(&asked(&desk));
        // Expired questions do not make room for more denials.
        desk.clock.advance(Millis::from_secs(50)).unwrap();
    }
    desk.call(64, "refund", &json!({ "ticket": 64 }));
    let (_, code) = desk.refusal();
    assert_eq!(code, "APPROVALS_FULL");
    assert!(desk.pending.list(time(NOW)).unwrap().is_empty());
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
fn full_approval_store_gives_no_approval_id() {
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
    assert_eq!(code, "APPROVALS_FULL");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision.get("approval_id"), None);
    assert_eq!(decision["retry"], "after_change");
    assert_eq!(decision["unlock"], "answers to the approvals that wait");
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too many calls wait for an approval"), "{text}");
    assert!(!text.contains("a person must approve"), "{text}");
    // Record and counters agree.
    assert_eq!(desk.record()[64..], ["APPROVALS_FULL"]);
    assert_eq!(decision["record"], desk.sink.count());
    assert_eq!(desk.gate.counts().rejected_with(RejectionCode::ApprovalsFull), 1);
    assert_eq!(desk.gate.counts().rejected_with(RejectionCode::ApprovalRequired), 64);
    desk.nothing_reached_the_server();
}

#[test]
fn every_answer_agrees_with_its_record_entry() {
    let mut desk = Desk::open();
    desk.call(0, "refund", &json!({ "ticket": 0 }));
    desk.list(&definitions());
    let mut answers = vec![desk.refusal()];
    for n in 1..300 {
        match n % 7 {
            0 => desk.call(n, "made_up", &json!({})),
            1 => desk.call(n, "search", &json!({ "q": n })),
            2 => desk.send(
                &json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": { "name": n } })
                    .to_string(),
            ),
            3 => desk.call(n, "refund", &json!({ "ticket": n % 20 })),
            _ => desk.call(n, "refund", &json!({ "ticket": n })),
        }
        answers.push(desk.refusal());
    }
    let records = desk.sink.latest();
    let mut seen = std::collections::BTreeSet::new();
    for (line, code) in answers {
        let number = line["result"]["_meta"]["dev.countersign/decision"]["record"].as_u64().unwrap();
        let (_, record) = records.iter().find(|(sequence, _)| *sequence == number).unwrap();
        let Record::Decision(call) = record else { panic!("{record:?}") };
        assert_eq!(call.code.as_ref().unwrap().as_str(), code);
        seen.insert(code);
    }
    assert!(seen.contains("APPROVALS_FULL") && seen.contains("APPROVAL_REQUIRED"), "{seen:?}");
}

#[test]
fn host_is_notified_once_of_each_question() {
    let mut desk = Desk::open();
    desk.call(1, "refund", &json!({ "ticket": 1 }));
    desk.list(&definitions());
    let (first, again) = (asked(&desk), json!({ "ticket": 1 }));
    desk.call(2, "refund", &again);
    assert_eq!(asked(&desk), first);
    desk.call(3, "refund", &json!({ "ticket": 2 }));
    let second = asked(&desk);
    let notices: Vec<_> = desk.questions.try_iter().collect();
    // Only the second id had another one beside it.
    assert_eq!(notices, [(first, "call".to_owned()), (second.clone(), second)]);
}
