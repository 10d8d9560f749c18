use std::sync::Arc;

use countersign_action_proposal::{
    ActionProposal, AttestationDraft, EvidenceKeyring, Profile, ProposalLimits, ProposalVerifier,
};
use countersign_approval_token::MemorySpentTokens;
use countersign_audit_log::{CallRecord, Record};
use countersign_core::{AgentId, Audience, CallId, Millis, Principal, ServerName, SessionId};
use countersign_keys::SigningKey;
use countersign_tool_gate::ProposalSettings;
use serde_json::{Value, json};

use super::desk::{Desk, GOAL, NOW, Setup, definitions, time};

pub(super) fn finance() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

/// A desk whose gate requires evidence for a call with a high impact, `send_email` among them.
pub(super) fn desk() -> Desk {
    desk_holding(None)
}

/// Like [`desk`], with a maximum holding time of accepted calls.
pub(super) fn desk_holding(holding: Option<Millis>) -> Desk {
    Desk::with(Setup { proposals: Some(settings()), holding, ..Setup::default().patient() })
}

/// Settings of a gate that requires evidence for high impacts and external ones.
pub(super) fn settings() -> ProposalSettings {
    let keyring = json!({ "finance-1": finance().verifying_key().to_base64() }).to_string();
    let verifier = ProposalVerifier::builder(Profile::Strict)
        .keyring(EvidenceKeyring::from_json(keyring.as_bytes()).unwrap())
        .high([countersign_core::ImpactClass::External].into_iter().collect())
        .audience(Audience::new("desk-gateway").unwrap())
        .build()
        .unwrap();
    ProposalSettings::new(Arc::new(verifier), Arc::new(MemorySpentTokens::new()))
}

pub(super) fn mail() -> Value {
    json!({ "to": "ada" })
}

pub(super) fn proposal() -> Value {
    json!({
        "protocol": "PIC/1.0", "intent": "Answer", "impact": "external",
        "provenance": [{ "id": "boss", "trust": "trusted" }],
        "claims": [{ "text": "The boss wants it", "evidence": ["boss"] }],
        "action": { "tool": "send_email", "args": mail() },
    })
}

/// The proposal with a signature for the call of this id in this desk's session.
fn attested(desk: &Desk, call_id: &str) -> Value {
    let mut proposal = proposal();
    let read = ActionProposal::parse(proposal.to_string().as_bytes(), &ProposalLimits::default()).unwrap();
    let signed = AttestationDraft::for_proposal(&read, "boss")
        .audience(&Audience::new("desk-gateway").unwrap())
        .issued(time(NOW))
        .expires(time(NOW + 60_000))
        .call_id(&CallId::new(call_id).unwrap())
        .principal(&Principal::new("alice").unwrap())
        .agent(&AgentId::new("support-bot").unwrap())
        .session(&SessionId::new("s-1").unwrap())
        .server(&ServerName::new("desk").unwrap())
        .registry_version(1)
        .ask(desk.gate.pinned_ask().unwrap().digest())
        .nonce("0123456789abcdef")
        .sign(&finance(), "finance-1")
        .unwrap();
    let entry: Value = serde_json::from_str(&signed.to_entry_json()).unwrap();
    proposal["evidence"] = json!([entry]);
    proposal
}

pub(super) fn with(mut args: Value, name: &str, value: &Value) -> Value {
    args[name] = value.clone();
    args
}

/// The recorded decisions, oldest first.
pub(super) fn decisions(desk: &Desk) -> Vec<CallRecord> {
    let decision = |record| if let Record::Decision(decision) = record { Some(decision) } else { None };
    desk.sink.latest().into_iter().filter_map(|(_, record)| decision(record)).collect()
}

fn request_ids(desk: &Desk) -> Vec<Option<String>> {
    decisions(desk).into_iter().map(|call| call.request_id.map(|id| id.as_str().to_owned())).collect()
}

#[test]
fn reserved_members_are_stripped_without_proposals() {
    let mut desk = Desk::open();
    let args = json!({ "q": "x", "deep": { "__pic": 1 } });
    let sent =
        with(with(args.clone(), "__pic", &json!({ "any": "thing" })), "__pic_request_id", &json!("r-7"));
    desk.call(1, "search", &sent);
    desk.list(&definitions());
    assert_eq!(desk.run_call()["params"], json!({ "name": "search", "arguments": args }));
    desk.client_got();
    for (id, odd) in [(2, Value::Null), (3, json!("")), (4, json!([])), (5, json!("text"))] {
        desk.call(id, "search", &with(args.clone(), "__pic", &odd));
        assert_eq!(desk.run_call()["params"]["arguments"], args, "{odd}");
        desk.client_got();
    }
    let name = |id: &str| Some(id.to_owned());
    assert_eq!(request_ids(&desk), [name("r-7"), name("2"), name("3"), name("4"), name("5")]);
}

#[test]
fn a_correlating_id_that_is_none_is_refused() {
    let mut desk = Desk::open();
    for odd in [Value::Null, json!(7), json!(""), json!(" r"), json!("a\u{202e}b"), json!("x".repeat(257))] {
        desk.call(1, "search", &with(json!({ "q": "x" }), "__pic_request_id", &odd));
        if desk.record().is_empty() {
            desk.list(&definitions());
        }
        assert_eq!(desk.refusal().1, "MALFORMED_CALL", "{odd}");
    }
    desk.nothing_reached_the_server();
    assert_eq!(request_ids(&desk), vec![None; 6], "the connection's own id does not stand in for it");
}

#[test]
fn approval_binds_the_call_without_reserved_members() {
    let mut desk = Desk::open();
    let args = json!({ "ticket": 7 });
    desk.call(1, "refund", &with(args.clone(), "__pic", &json!({ "first": 1 })));
    desk.list(&definitions());
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    let id = line["result"]["_meta"]["dev.countersign/decision"]["approval_id"].as_str().unwrap().to_owned();
    let waiting = countersign_approval_token::PendingApprovals::list(&*desk.pending, time(NOW)).unwrap();
    assert_eq!(waiting[0].args(), args.to_string());
    desk.approve(&id);
    desk.call(2, "refund", &with(args.clone(), "__pic_request_id", &json!("r")));
    assert_eq!(desk.run_call()["params"]["arguments"], args);
}

#[test]
fn a_client_names_its_call_until_an_approval_does() {
    let mut desk = Desk::open();
    let named = |id: &str| json!({ "dev.countersign/call_id": id });
    desk.call_with(1, "refund", &json!({}), &named("mine-1"));
    desk.list(&definitions());
    let (line, _) = desk.refusal();
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!((&decision["call_id"], &decision["approval_id"]), (&json!("mine-1"), &json!("mine-1")));
    desk.approve("mine-1");
    desk.call_with(2, "refund", &json!({}), &named("mine-2"));
    assert_eq!(desk.run_call()["params"], json!({ "name": "refund", "arguments": {} }));
    desk.client_got();
    // A call id is for one question: no new question can be filed under a used one. Only the client can choose another.
    desk.call_with(3, "refund", &json!({}), &named("mine-1"));
    let (line, code) = desk.refusal();
    assert_eq!(code, "APPROVAL_REQUIRED");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!(decision.get("approval_id"), None);
    assert_eq!(
        (&decision["call_id"], &decision["retry"], &decision["unlock"]),
        (&json!("mine-1"), &json!("after_change"), &json!("the call under another call id"))
    );
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("What would help: the call under another call id. Call id: mine-1."), "{text}");
    assert!(desk.record().contains(&"PENDING_CONFLICT".into()));
    desk.call_with(4, "refund", &json!({}), &named("mine-3"));
    assert_eq!(desk.refusal().1, "APPROVAL_REQUIRED");
    desk.nothing_reached_the_server();
    let ids: Vec<_> = decisions(&desk).iter().map(|call| call.call_id.as_str().to_owned()).collect();
    assert_eq!(ids, ["mine-1", "mine-1", "mine-1", "mine-3"]);
    for odd in ["a b", "list"] {
        desk.call_with(5, "refund", &json!({}), &named(odd));
        assert_eq!(desk.refusal().1, "MALFORMED_CALL", "{odd}");
    }
}

#[test]
fn attested_call_runs_only_once() {
    let mut desk = desk();
    let meta = |more: Value| {
        let mut meta = json!({ "dev.countersign/ask": GOAL, "dev.countersign/call_id": "c-77" });
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        meta
    };
    let attested = attested(&desk, "c-77");
    let beside = with(mail(), "__pic", &attested);
    desk.call_with(1, "send_email", &mail(), &meta(json!({})));
    desk.list(&definitions());
    let (line, code) = desk.refusal();
    assert_eq!(code, "PIC_INVALID_REQUEST");
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!((&decision["call_id"], &decision["retry"]), (&json!("c-77"), &json!("after_approval")));
    assert!(
        line["result"]["content"][0]["text"].as_str().unwrap().ends_with(" Attestation id: c-77."),
        "{line}"
    );
    desk.call_with(2, "send_email", &with(mail(), "__pic", &proposal()), &meta(json!({})));
    assert_eq!(desk.refusal().1, "PIC_EVIDENCE_REQUIRED");
    desk.call_with(3, "send_email", &with(beside.clone(), "to", &json!("eve")), &meta(json!({})));
    assert_eq!(desk.refusal().1, "PIC_ARG_BINDING_MISMATCH");
    // Under the gateway's own id it is a different call.
    desk.call_with(4, "send_email", &beside, &json!({ "dev.countersign/ask": GOAL }));
    let (line, code) = desk.refusal();
    assert_eq!(code, "PIC_EVIDENCE_FAILED");
    let told = line["result"].to_string();
    assert!(
        !["boss", "finance", "x_call_id", "evidence/0"].iter().any(|inner| told.contains(inner)),
        "{told}"
    );
    assert!(desk.reasons().last().unwrap().contains("x_call_id"), "{:?}", desk.reasons());
    desk.call_with(5, "send_email", &beside, &meta(json!({ "dev.countersign/proposal": attested })));
    assert_eq!(desk.refusal().1, "MALFORMED_CALL");
    desk.nothing_reached_the_server();

    desk.call_with(6, "send_email", &mail(), &meta(json!({ "dev.countersign/proposal": attested, "__pic": attested, "__pic_request_id": "r", "k": 1 })));
    let sent = desk.run_call();
    assert_eq!(sent["params"], json!({ "_meta": { "k": 1 }, "name": "send_email", "arguments": mail() }));
    desk.client_got();
    desk.call_with(7, "send_email", &beside, &meta(json!({})));
    assert_eq!(desk.refusal().1, "PIC_EVIDENCE_FAILED");
    desk.nothing_reached_the_server();
    let profiles: Vec<_> = decisions(&desk).iter().map(|call| call.proposal.is_some()).collect();
    assert_eq!(profiles, [true; 7]);
}

#[test]
fn a_proposal_that_is_null_or_text_is_refused() {
    for mut desk in [desk(), Desk::open()] {
        for (id, odd) in [(1, Value::Null), (2, json!("text")), (3, json!([])), (4, json!(7))] {
            desk.call_with(
                id,
                "send_email",
                &mail(),
                &json!({ "dev.countersign/proposal": odd, "dev.countersign/ask": GOAL }),
            );
            if id == 1 {
                desk.list(&definitions());
            }
            assert_eq!(desk.refusal().1, "PIC_INVALID_REQUEST", "{odd}");
        }
        desk.nothing_reached_the_server();
    }
}

#[test]
fn refusal_states_that_the_attestation_is_spent() {
    let mut desk = desk_holding(Some(Millis::ZERO));
    let meta = json!({ "dev.countersign/ask": GOAL, "dev.countersign/call_id": "c-77" });
    let attested = with(mail(), "__pic", &attested(&desk, "c-77"));
    desk.call_with(1, "send_email", &attested, &meta);
    desk.list(&definitions());
    let (line, code) = desk.refusal();
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!((code.as_str(), &decision["attestation"]), ("CALL_EXPIRED", &json!("spent")));
    assert!(decision.get("approval").is_none(), "{line}");
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(" The attestation is spent."), "{line}");
    desk.nothing_reached_the_server();
}
