//! Calls that wait for an attestation, from clients that name no call and no proposal when they try again.

use std::thread;

use countersign_action_proposal::{ActionProposal, AttestationDraft, ProposalLimits, ProposedCall};
use countersign_approval_token::{AttestedProposal, PendingApprovals as _};
use countersign_core::{Audience, CallId, Digest, Millis, OperatorId};
use serde_json::{Value, json};

use super::desk::{Desk, GOAL, Setup, definitions};
use crate::{PROPOSE, ProposalHint};

use super::proposals::{decisions, desk, finance, mail, proposal, settings, with};

/// Metadata of a client that knows the goal and nothing else of Countersign.
fn goal() -> Value {
    json!({ "dev.countersign/ask": GOAL })
}

fn decision(line: &Value) -> &Value {
    &line["result"]["_meta"]["dev.countersign/decision"]
}

/// Calls `send_email` with this proposal among the arguments, and returns the id of the question.
fn refused(desk: &mut Desk, id: u64, args: &Value) -> String {
    desk.call_with(id, "send_email", args, &goal());
    if desk.record().is_empty() {
        desk.list(&definitions());
    }
    desk.refusal().0["result"]["_meta"]["dev.countersign/decision"]["attestation_id"]
        .as_str()
        .expect("a question for an attestation")
        .to_owned()
}

/// A proposal of the operator's own, for a call that came without one.
fn own(tool: &str, impact: &str, args: &Value) -> Value {
    let mut own = proposal();
    (own["action"], own["impact"]) = (json!({ "tool": tool, "args": args }), json!(impact));
    own
}

/// Attests to the call that waits under this id: to this proposal, as its signer would.
fn attest_to(desk: &Desk, id: &str, nonce: u64, mut proposal: Value) {
    let id = CallId::new(id).unwrap();
    let (asked, _) = desk.pending.get(&id).unwrap().unwrap();
    let read = ActionProposal::parse(proposal.to_string().as_bytes(), &ProposalLimits::default()).unwrap();
    let expires = desk.now().saturating_add(Millis::from_secs(60));
    let signed = AttestationDraft::for_proposal(&read, "boss")
        .call(&ProposedCall::of(asked.binding()))
        .audience(&Audience::new("desk-gateway").unwrap())
        .issued(desk.now())
        .expires(expires)
        .nonce(&format!("nonce-{nonce:016}"))
        .sign(&finance(), "finance-1")
        .unwrap();
    proposal["evidence"] = json!([serde_json::from_str::<Value>(&signed.to_entry_json()).unwrap()]);
    let by = OperatorId::new("finance").unwrap();
    let answer = AttestedProposal::new(&proposal.to_string(), expires, "finance-1", by).unwrap();
    desk.pending.attest(&id, &answer, desk.now()).unwrap();
}

fn attest(desk: &Desk, id: &str, nonce: u64) {
    attest_to(desk, id, nonce, proposal());
}

#[test]
fn plain_retry_uses_the_attestation_up() {
    for brings_proposal in [true, false] {
        let mut desk = desk();
        let id = refused(&mut desk, 1, &with(mail(), "__pic", &proposal()));
        attest(&desk, &id, 1);
        let again = if brings_proposal { with(mail(), "__pic", &proposal()) } else { mail() };
        desk.call_with(2, "send_email", &again, &goal());
        assert_eq!(desk.run_call()["params"], json!({ "name": "send_email", "arguments": mail() }));
        desk.client_got();
        let ran = decisions(&desk).pop().unwrap();
        assert_eq!((ran.call_id.as_str(), ran.code), (id.as_str(), None), "under the waiting id");
        // The attestation counts once.
        assert_ne!(refused(&mut desk, 3, &with(mail(), "__pic", &proposal())), id);
        desk.nothing_reached_the_server();
    }
}

#[test]
fn call_without_proposal_is_attested_to() {
    let mut desk = desk();
    let id = refused(&mut desk, 1, &mail());
    attest(&desk, &id, 1);
    desk.call_with(2, "send_email", &mail(), &goal());
    desk.run_call();
    desk.client_got();
    assert_eq!(decisions(&desk).len(), 2);
}

#[test]
fn refusal_says_what_is_missing() {
    let mut desk = desk();
    let mut hashed = proposal();
    hashed["evidence"] = json!([]);
    for (number, args, code, missing) in [
        (1, mail(), "PIC_INVALID_REQUEST", "proposal"),
        (2, with(mail(), "__pic", &proposal()), "PIC_EVIDENCE_REQUIRED", "evidence"),
        (3, with(mail(), "__pic", &hashed), "PIC_EVIDENCE_REQUIRED", "evidence"),
    ] {
        desk.call_with(number, "send_email", &args, &goal());
        if number == 1 {
            desk.list(&definitions());
        }
        let (line, found) = desk.refusal();
        assert_eq!((found.as_str(), &decision(&line)["missing"]), (code, &json!(missing)));
        assert_eq!(decision(&line)["retry"], "after_approval");
        let text = line["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(" Missing: ") && !text.contains("boss"), "{text}");
    }
    assert_eq!(desk.pending.list(desk.now()).unwrap().len(), 1, "tries of one call are one question");
}

#[test]
fn question_keeps_the_newest_proposal() {
    let mut desk = desk();
    let id = refused(&mut desk, 1, &mail());
    let mut other = proposal();
    other["intent"] = json!("Another reason");
    refused(&mut desk, 2, &with(mail(), "__pic", &other));
    let (asked, _) = desk.pending.get(&CallId::new(&id).unwrap()).unwrap().unwrap();
    let kept: Value = serde_json::from_str(asked.evidence().unwrap().proposal_text().unwrap()).unwrap();
    assert_eq!((kept, asked.needs_approval()), (other.clone(), false));
    refused(&mut desk, 3, &mail());
    let (asked, _) = desk.pending.get(&CallId::new(&id).unwrap()).unwrap().unwrap();
    assert!(asked.evidence().unwrap().proposal_text().is_some(), "a try without one takes none away");
}

#[test]
fn changed_arguments_do_not_use_an_attestation() {
    let mut desk = desk();
    let id = refused(&mut desk, 1, &mail());
    attest(&desk, &id, 1);
    let other = refused(&mut desk, 2, &json!({ "to": "eve" }));
    assert_ne!(other, id);
    desk.nothing_reached_the_server();
    desk.call_with(3, "send_email", &mail(), &goal());
    desk.run_call();
    desk.client_got();
}

#[test]
fn attestation_of_another_call_is_void() {
    let mut desk = desk();
    let (first, second) = (refused(&mut desk, 1, &mail()), refused(&mut desk, 2, &json!({ "to": "eve" })));
    attest(&desk, &first, 1);
    // The store is not trusted: the first answer is put in the second's place.
    let of_first = desk.pending.attestation(&CallId::new(&first).unwrap()).unwrap().unwrap();
    desk.pending.attest(&CallId::new(&second).unwrap(), &of_first, desk.now()).unwrap();
    desk.call_with(3, "send_email", &json!({ "to": "eve" }), &goal());
    assert_eq!(desk.refusal().1, "PIC_ARG_BINDING_MISMATCH");
    desk.nothing_reached_the_server();
    // It is dropped, so the next try asks again.
    assert_ne!(refused(&mut desk, 4, &json!({ "to": "eve" })), second);
}

#[test]
fn replayed_attestation_is_spent() {
    let mut desk = desk();
    let id = refused(&mut desk, 1, &mail());
    attest(&desk, &id, 1);
    let answer = desk.pending.attestation(&CallId::new(&id).unwrap()).unwrap().unwrap();
    desk.call_with(2, "send_email", &mail(), &goal());
    desk.run_call();
    desk.client_got();
    let replayed: Value = serde_json::from_str(answer.proposal()).unwrap();
    let named = json!({ "dev.countersign/ask": GOAL, "dev.countersign/call_id": id });
    desk.call_with(3, "send_email", &with(mail(), "__pic", &replayed), &named);
    assert_eq!(desk.refusal().1, "PIC_EVIDENCE_FAILED");
    desk.nothing_reached_the_server();
}

#[test]
fn denial_of_missing_evidence_is_final() {
    let mut desk = desk();
    let id = refused(&mut desk, 1, &mail());
    desk.deny(&id);
    desk.call_with(2, "send_email", &with(mail(), "__pic", &proposal()), &goal());
    assert_eq!(desk.refusal().1, "APPROVAL_DENIED");
    assert!(desk.pending.list(desk.now()).unwrap().is_empty());
    desk.nothing_reached_the_server();
}

/// A desk of a server whose tool `refund` needs an approval and evidence.
fn strict_desk(hold: bool) -> Desk {
    let setup = Setup { proposals: Some(settings()), ..Setup::default().patient() };
    let settings = setup.settings.clone();
    let settings = if hold { settings.hold(Millis::from_secs(60)).unwrap() } else { settings };
    Desk::with(Setup { settings, ..setup })
}

fn refund() -> Value {
    json!({ "ticket": 7 })
}

#[test]
fn call_that_needs_both_answers_takes_them_in_any_order() {
    for approval_first in [true, false] {
        let mut desk = strict_desk(false);
        desk.call(1, "refund", &refund());
        desk.list(&definitions());
        let (line, code) = desk.refusal();
        assert_eq!((code.as_str(), &decision(&line)["missing"]), ("APPROVAL_REQUIRED", &json!("proposal")));
        let id = decision(&line)["approval_id"].as_str().unwrap().to_owned();
        assert_eq!(decision(&line)["attestation_id"], id);
        let attest = |desk: &Desk| attest_to(desk, &id, 1, own("refund", "irreversible", &refund()));
        if approval_first {
            desk.approve(&id)
        } else {
            attest(&desk)
        }
        // One answer is not enough, and the other is asked for under the same id.
        desk.call(2, "refund", &refund());
        let (line, code) = desk.refusal();
        let (wanted, name) = if approval_first {
            ("PIC_INVALID_REQUEST", "attestation_id")
        } else {
            ("APPROVAL_REQUIRED", "approval_id")
        };
        assert_eq!((code.as_str(), &decision(&line)[name]), (wanted, &json!(id)));
        if approval_first {
            attest(&desk)
        } else {
            desk.approve(&id)
        }
        desk.call(3, "refund", &refund());
        assert_eq!(desk.run_call()["params"]["arguments"], refund());
        desk.client_got();
        let ran = decisions(&desk).pop().unwrap();
        assert!(ran.approver.is_some() && ran.proposal.unwrap().evidence().len() == 1);
        desk.call(4, "refund", &refund());
        assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
        desk.nothing_reached_the_server();
    }
}

#[test]
fn held_call_runs_once_it_has_both_answers() {
    let mut desk = strict_desk(true);
    desk.call_with(1, "refund", &refund(), &json!({ "progressToken": "p" }));
    desk.list(&definitions());
    let told = desk.client_got();
    let message = told["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("waits for approval and evidence: "), "{message}");
    let id = desk.pending.list(desk.now()).unwrap()[0].id().to_string();
    desk.approve(&id);
    thread::sleep(std::time::Duration::from_millis(500));
    desk.nothing_reached_the_server();
    attest_to(&desk, &id, 1, own("refund", "irreversible", &refund()));
    assert_eq!(desk.ran(), 1);
    assert_eq!(desk.record(), ["APPROVAL_REQUIRED", "ACCEPT", "Returned"]);
}

#[test]
fn of_two_equal_calls_one_uses_the_attestation() {
    let setup = Setup { proposals: Some(settings()), ..Setup::default().patient() };
    let settings = setup.settings.clone().hold(Millis::from_secs(60)).unwrap();
    let mut desk = Desk::with(Setup { settings, ..setup });
    for id in [1, 2] {
        desk.call_with(
            id,
            "send_email",
            &mail(),
            &json!({ "dev.countersign/ask": GOAL, "progressToken": id }),
        );
        if id == 1 {
            desk.list(&definitions());
        }
        assert_eq!(desk.client_got()["method"], "notifications/progress");
    }
    let id = desk.pending.list(desk.now()).unwrap()[0].id().to_string();
    attest(&desk, &id, 1);
    desk.run_call();
    // The other one asks anew.
    let asks: Vec<Value> = (0..2).map(|_| desk.client_got()).collect();
    assert_eq!(asks.iter().filter(|line| line["method"] == "notifications/progress").count(), 1, "{asks:?}");
    let accepted = decisions(&desk).iter().filter(|call| call.code.is_none()).count();
    assert_eq!(accepted, 1);
}

#[test]
fn digest_of_the_question_is_of_the_own_arguments() {
    let mut desk = desk();
    let id = refused(&mut desk, 1, &with(mail(), "__pic", &proposal()));
    let (asked, _) = desk.pending.get(&CallId::new(&id).unwrap()).unwrap().unwrap();
    assert_eq!((asked.args(), asked.binding().args), (r#"{"to":"ada"}"#, Digest::of(br#"{"to":"ada"}"#)));
}

/// The tools that a client of this desk sees, by name.
fn listed(desk: &mut Desk, tools: &Value) -> serde_json::Map<String, Value> {
    desk.send(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#);
    let id = desk.server_got()["id"].clone();
    desk.answer(&id, &json!({ "tools": tools }));
    let line = desk.client_got();
    let tools = line["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone())).collect()
}

fn hinting(hint: ProposalHint) -> Desk {
    let setup = Setup { proposals: Some(settings()), ..Setup::default().patient() };
    let settings = setup.settings.clone().proposals(hint);
    Desk::with(Setup { settings, ..setup })
}

#[test]
fn tools_that_need_evidence_announce_it() {
    for (hint, in_schema, as_tool) in [
        (ProposalHint::Nothing, false, false),
        (ProposalHint::Schema, true, false),
        (ProposalHint::Tool, false, true),
        (ProposalHint::Both, true, true),
    ] {
        let mut desk = hinting(hint);
        let tools = listed(&mut desk, &definitions());
        assert_eq!(tools.contains_key(PROPOSE), as_tool, "{hint:?}");
        let has = |name: &str| tools[name]["inputSchema"]["properties"].get("__pic").is_some();
        assert_eq!((has("send_email"), has("search")), (in_schema, false), "{hint:?}");
    }
}

#[test]
fn bytes_of_other_tools_stay_when_one_is_announced() {
    let mut desk = hinting(ProposalHint::Schema);
    let all = definitions();
    let tools = listed(&mut desk, &all);
    for tool in all.as_array().unwrap() {
        let Some(shown) = tools.get(tool["name"].as_str().unwrap()) else { continue };
        let mut own = shown.clone();
        let schema = own["inputSchema"].as_object_mut().unwrap();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove("__pic");
        }
        // A schema without properties gets some for the member.
        if tool["inputSchema"].get("properties").is_none() {
            schema.remove("properties");
        }
        assert_eq!(&own, tool);
    }
    // The pinned definition is the server's own, so the call is decided, and lacks evidence alone.
    desk.call_with(2, "send_email", &mail(), &goal());
    assert_eq!(desk.refusal().1, "PIC_INVALID_REQUEST");
}

/// The arguments with which a client proposes a call of `send_email`.
fn proposing(args: &Value) -> Value {
    let mut proposing = proposal();
    let members = proposing.as_object_mut().unwrap();
    for name in ["action", "protocol"] {
        members.remove(name);
    }
    members.extend([("tool".to_owned(), json!("send_email")), ("args".to_owned(), args.clone())]);
    proposing
}

#[test]
fn proposed_call_brings_its_proposal() {
    let mut desk = hinting(ProposalHint::Tool);
    desk.call(1, PROPOSE, &proposing(&mail()));
    let kept = desk.client_got();
    assert_eq!(kept["result"]["isError"], false, "{kept}");
    // Another call does not get it.
    desk.call_with(2, "send_email", &json!({ "to": "eve" }), &goal());
    desk.list(&definitions());
    assert_eq!(decision(&desk.refusal().0)["missing"], "proposal");
    desk.call_with(3, "send_email", &mail(), &goal());
    let (line, _) = desk.refusal();
    assert_eq!(decision(&line)["missing"], "evidence");
    // It serves one call.
    desk.call_with(4, "send_email", &mail(), &goal());
    assert_eq!(decision(&desk.refusal().0)["missing"], "proposal");
    attest(&desk, decision(&line)["attestation_id"].as_str().unwrap(), 1);
    desk.call_with(5, "send_email", &mail(), &goal());
    desk.run_call();
    desk.client_got();
}

#[test]
fn malformed_proposal_ahead_of_its_call_is_refused() {
    let mut desk = hinting(ProposalHint::Tool);
    let big = json!("x".repeat(64_000));
    for odd in [
        json!({}),
        with(proposing(&mail()), "more", &json!(1)),
        with(proposing(&mail()), "args", &json!([])),
        with(proposing(&mail()), "tool", &json!("a b\u{202e}")),
        with(proposing(&mail()), "intent", &big),
    ] {
        desk.call(1, PROPOSE, &odd);
        assert_eq!(desk.refusal().1, "MALFORMED_CALL");
    }
    desk.nothing_reached_the_server();
}

#[test]
fn proposals_ahead_of_their_calls_are_bounded() {
    let mut desk = hinting(ProposalHint::Tool);
    for number in 0..=64 {
        desk.call(number, PROPOSE, &proposing(&json!({ "to": number.to_string() })));
        desk.client_got();
    }
    desk.call_with(100, "send_email", &json!({ "to": "0" }), &goal());
    desk.list(&definitions());
    assert_eq!(decision(&desk.refusal().0)["missing"], "proposal", "the oldest made room");
    desk.call_with(101, "send_email", &json!({ "to": "1" }), &goal());
    assert_ne!(decision(&desk.refusal().0)["missing"], "proposal");
}

#[test]
fn a_server_gets_no_call_of_the_proposing_tool() {
    for hint in [ProposalHint::Schema, ProposalHint::Tool] {
        let mut desk = hinting(hint);
        let mut tools = definitions();
        tools.as_array_mut().unwrap().push(json!({ "name": PROPOSE, "inputSchema": { "type": "object" } }));
        let own = listed(&mut desk, &tools);
        let shown = own.get(PROPOSE).map(|tool| tool["title"].clone());
        assert_eq!(shown, (hint == ProposalHint::Tool).then(|| json!("Propose a call")));
        desk.call(2, PROPOSE, &json!({}));
        desk.refusal();
        desk.nothing_reached_the_server();
    }
}
