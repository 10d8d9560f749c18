use std::sync::atomic::Ordering;

use countersign_core::{Clock as _, Millis};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions, signed, signed_with};

/// A desk whose session is renewed after ten minutes. Its tools' definitions are known.
fn renewing() -> Desk {
    let mut desk =
        Desk::with(Setup { renewed_after: Some(Millis::from_secs(600)), ..Setup::default().patient() });
    desk.call("first", "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    assert_eq!(desk.ran(), "first");
    desk
}

/// Advances the clock by ten minutes.
fn end(desk: &Desk) {
    desk.clock.advance(Millis::from_secs(600)).unwrap();
}

fn search(desk: &mut Desk, id: u64) {
    desk.call(id, "search", &json!({ "q": "x" }));
    assert_eq!(desk.ran(), id);
}

fn reload(desk: &Desk, signed: &str) {
    desk.registry.reload(signed.as_bytes(), desk.clock.now().unwrap()).unwrap();
}

/// The agent's tools in a draft.
fn listed(draft: &mut Value) -> &mut Vec<Value> {
    draft["agents"][0]["tools"].as_array_mut().unwrap()
}

fn is_notified_of_tools(desk: &Desk) {
    assert_eq!(desk.client_got()["method"], "notifications/tools/list_changed");
}

/// The approval id in the client's next refusal.
fn asked(desk: &Desk) -> String {
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    line["result"]["_meta"]["dev.countersign/decision"]["approval_id"].as_str().unwrap().to_owned()
}

fn tools_now(desk: &mut Desk) -> Vec<String> {
    desk.send(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#);
    let list = desk.wire_id();
    desk.answer(&list, &json!({ "tools": definitions() }));
    let page = desk.client_got();
    let tools = page["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn renewed_session_takes_calls_unnoticed_by_the_client() {
    let mut desk = renewing();
    for round in 1..4 {
        end(&desk);
        search(&mut desk, round);
        assert_eq!(desk.notice(), "SESSION_RENEWED");
    }
    desk.nothing_reached_the_client();
    assert_eq!(desk.record(), ["ACCEPT", "Returned"].repeat(4));
}

#[test]
fn list_at_the_end_is_that_of_the_renewed_session() {
    let mut desk = renewing();
    end(&desk);
    assert_eq!(tools_now(&mut desk), ["search", "refund", "summarize", "send_email"]);
    desk.nothing_reached_the_client();
}

#[test]
fn session_is_renewed_without_a_call() {
    let desk = renewing();
    end(&desk);
    assert_eq!(desk.notice(), "SESSION_RENEWED");
}

#[test]
fn client_is_notified_where_a_renewal_takes_a_tool_away() {
    let mut desk = renewing();
    reload(&desk, &signed_with(2, |draft| drop(listed(draft).remove(0))));
    end(&desk);
    is_notified_of_tools(&desk);
    desk.call(1, "search", &json!({ "q": "x" }));
    assert_eq!(desk.refusal().1, "UNDISCLOSED_TOOL");
    assert_eq!(tools_now(&mut desk), ["refund", "summarize", "send_email"]);
}

#[test]
fn client_is_notified_where_a_renewal_brings_a_tool() {
    let mut desk = renewing();
    let more = json!({ "server": "desk", "name": "delete_ticket" });
    reload(&desk, &signed_with(2, |draft| listed(draft).push(more)));
    desk.call(1, "delete_ticket", &json!({}));
    assert_eq!(desk.refusal().1, "UNDISCLOSED_TOOL");
    end(&desk);
    is_notified_of_tools(&desk);
    desk.call(2, "delete_ticket", &json!({}));
    desk.list(&definitions());
    assert_eq!(desk.ran(), 2);
}

#[test]
fn client_is_notified_where_a_tool_is_pinned_otherwise() {
    let mut desk = renewing();
    let other = countersign_core::Digest::of(b"another definition");
    reload(&desk, &signed_with(2, |draft| draft["tools"][2]["definition"] = json!(other)));
    end(&desk);
    is_notified_of_tools(&desk);
    assert_eq!(tools_now(&mut desk), ["search", "refund", "send_email"]);
    desk.call(1, "summarize", &json!({}));
    assert_eq!(desk.refusal().1, "TOOL_DEFINITION_CHANGED");
}

#[test]
fn session_of_a_revoked_agent_ends() {
    let mut desk = renewing();
    desk.registry.revoke(desk.gate.contract().agent());
    end(&desk);
    is_notified_of_tools(&desk);
    assert_eq!((desk.notice(), desk.notice()), ("AGENT_REVOKED", "SESSION_EXPIRED"));
    for id in 1..3 {
        desk.call(id, "search", &json!({ "q": "x" }));
        assert_eq!(desk.refusal().1, "CONTRACT_EXPIRED");
    }
    let ended =
        ["ACCEPT", "AGENT_REVOKED", "CONTRACT_EXPIRED", "CONTRACT_EXPIRED", "Returned", "SESSION_EXPIRED"];
    assert_eq!(desk.sorted_record(), ended);
}

#[test]
fn unrecorded_renewal_ends_the_session_until_it_is_recorded() {
    let mut desk = renewing();
    desk.sessions_fail.store(true, Ordering::SeqCst);
    end(&desk);
    is_notified_of_tools(&desk);
    assert_eq!((desk.notice(), desk.notice()), ("AUDIT_UNAVAILABLE", "SESSION_EXPIRED"));
    desk.call(1, "search", &json!({ "q": "x" }));
    assert_eq!(desk.refusal().1, "CONTRACT_EXPIRED");
    assert_eq!(tools_now(&mut desk), [""; 0]);
    desk.sessions_fail.store(false, Ordering::SeqCst);
    is_notified_of_tools(&desk);
    assert_eq!(desk.notice(), "SESSION_RENEWED");
    desk.call(2, "search", &json!({ "q": "x" }));
    desk.list(&definitions());
    assert_eq!(desk.ran(), 2);
}

#[test]
fn denial_holds_over_renewals() {
    let mut desk = renewing();
    desk.call(1, "refund", &json!({ "ticket": 7 }));
    desk.deny(&asked(&desk));
    for id in 2..5 {
        end(&desk);
        desk.call(id, "refund", &json!({ "ticket": id }));
        asked(&desk);
        desk.call("again", "refund", &json!({ "ticket": 7 }));
        assert_eq!(desk.refusal().1, "APPROVAL_DENIED");
    }
}

#[test]
fn denial_after_a_renewal_of_an_earlier_question_holds() {
    let mut desk = renewing();
    desk.call(1, "refund", &json!({ "ticket": 7 }));
    let id = asked(&desk);
    end(&desk);
    search(&mut desk, 2);
    desk.deny(&id);
    end(&desk);
    desk.call(3, "refund", &json!({ "ticket": 7 }));
    assert_eq!(desk.refusal().1, "APPROVAL_DENIED");
}

#[test]
fn approval_before_a_renewal_counts_after_it() {
    let mut desk = renewing();
    desk.clock.advance(Millis::from_secs(590)).unwrap();
    desk.call(1, "refund", &json!({ "ticket": 7 }));
    desk.approve(&asked(&desk));
    desk.clock.advance(Millis::from_secs(20)).unwrap();
    desk.call(2, "refund", &json!({ "ticket": 7 }));
    assert_eq!(desk.ran(), 2);
    assert_eq!(desk.notice(), "SESSION_RENEWED");
}

#[test]
fn restated_goal_is_the_pinned_one_after_a_renewal() {
    let mut desk = renewing();
    reload(&desk, &signed(2));
    end(&desk);
    desk.call_with(1, "send_email", &json!({}), &json!({ "dev.countersign/ask": super::desk::GOAL }));
    assert_eq!(desk.ran(), 1);
    desk.call_with(2, "send_email", &json!({}), &json!({ "dev.countersign/ask": "Another goal" }));
    assert_eq!(desk.refusal().1, "ASK_DRIFT");
}
