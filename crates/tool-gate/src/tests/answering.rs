use std::sync::Arc;

use countersign_approval_token::{MintError, MintTerms};
use countersign_audit_log::{AnswerVerdict, Record};
use countersign_core::*;
use proptest::prelude::*;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

fn asked(gate: &ToolGate, call: &ToolCall<'_>) -> ApprovalRequest {
    gate.check(call).unwrap_err().approval_request().unwrap().clone()
}

fn bob() -> OperatorId {
    OperatorId::new("bob").unwrap()
}

const TTL: Millis = Millis::from_secs(60);

#[test]
fn a_host_approval_runs_the_call_once() {
    let world = World::new();
    let gate = world.gate();
    let token = gate.approve(&asked(&gate, &refund("c1")), &bob(), TTL).unwrap();
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), Some(ApprovalSpent));
}

#[test]
fn a_host_approval_is_recorded_before_it_counts() {
    let world = World::new();
    let gate = world.gate();
    let token = gate.approve(&asked(&gate, &refund("c1")), &bob(), TTL).unwrap();
    let (_, last) = world.sink.latest().pop().unwrap();
    let Record::Answer(answer) = last else { panic!("{last:?}") };
    assert_eq!((answer.verdict, answer.approver), (AnswerVerdict::Approved, bob()));
    assert_eq!(answer.expires, token.claimed_expiry());
}

#[test]
fn equal_terms_mint_equal_tokens() {
    let world = World::new();
    let gate = world.gate();
    let request = asked(&gate, &refund("c1"));
    let terms = MintTerms::new(TokenId::new("t-1").unwrap(), bob(), start(), TTL);
    let [one, two] = [gate.approve_as(&request, &terms).unwrap(), gate.approve_as(&request, &terms).unwrap()];
    assert_eq!(one.as_str(), two.as_str());
}

#[test]
fn an_agent_cannot_approve_its_own_call() {
    let world = World::new();
    let gate = world.gate();
    let request = asked(&gate, &refund("c1"));
    for name in ["support-bot", "Support-Bot", "supp\u{43e}rt-bot"] {
        let answer = gate.approve(&request, &OperatorId::new(name).unwrap(), TTL);
        assert!(matches!(answer, Err(AnswerError::Mint(MintError::SelfApproval))), "{name}");
    }
}

#[test]
fn a_lifetime_outside_of_the_gates_is_refused() {
    let world = World::new();
    let gate = world.gate();
    let request = asked(&gate, &refund("c1"));
    for ttl in [Millis::from_secs(0), Millis::from_secs(3_601)] {
        assert!(matches!(gate.approve(&request, &bob(), ttl), Err(AnswerError::Mint(MintError::Ttl))));
    }
}

#[test]
fn requests_of_another_gate_or_registry_are_foreign() {
    let world = World::new();
    let gate = world.gate();
    let request = asked(&gate, &refund("c1"));
    let spent = || Arc::clone(&world.spent) as Arc<dyn SpentTokens>;
    let sink = Arc::clone(&world.sink);
    let other = world.builder_for("session-2", sink).approvals(world.settings(spent())).open().unwrap();
    assert!(matches!(other.approve(&request, &bob(), TTL), Err(AnswerError::Foreign)));
    assert!(matches!(other.deny(&request, "bob"), Err(AnswerError::Foreign)));
    world.reload(2, NONE_REVOKED);
    assert!(matches!(gate.approve(&request, &bob(), TTL), Err(AnswerError::Foreign)));
}

#[test]
fn a_gate_without_approvals_approves_nothing() {
    let world = World::new();
    let request = asked(&world.gate(), &refund("c1"));
    let gate = world.builder_for("session-1", world.sink.clone()).open().unwrap();
    assert!(matches!(gate.approve(&request, &bob(), TTL), Err(AnswerError::NotNeeded)));
}

#[test]
fn a_denial_is_a_recorded_refusal() {
    let world = World::new();
    let gate = world.gate();
    let rejection = gate.deny(&asked(&gate, &refund("c1")), "bob").unwrap();
    assert_eq!(rejection.code(), ApprovalDenied);
    let record = gate.call_log().pop().unwrap();
    assert_eq!(record.denied_by.unwrap().as_str(), "bob");
    assert_eq!(Some(world.sink.count()), rejection.sequence());
}

#[test]
fn a_request_survives_as_json() {
    let world = World::new();
    let gate = world.gate();
    let text = asked(&gate, &refund("c1")).to_json();
    let read = ApprovalRequest::from_json(text.as_bytes()).unwrap();
    assert_eq!(read.to_json(), text);
    let token = gate.approve(&read, &bob(), TTL).unwrap();
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
}

#[test]
fn other_arguments_in_the_json_are_refused() {
    let world = World::new();
    let text = asked(&world.gate(), &refund("c1")).to_json();
    let text = text.replace(r#""amount":49"#, r#""amount":4900"#);
    let error = ApprovalRequest::from_json(text.as_bytes()).unwrap_err();
    assert_eq!(error.code(), "REQUEST_ARGS_MISMATCH");
}

#[test]
fn malformed_json_is_no_request() {
    let world = World::new();
    let text = asked(&world.gate(), &refund("c1")).to_json();
    let broken = [
        String::new(),
        "[]".to_owned(),
        text.replacen('{', r#"{"more":1,"#, 1),
        text.replacen('{', r#"{"args":{},"#, 1),
        text.replace(r#""args":{"amount":49,"ticket":"T-1001"},"#, ""),
        text.replace("approval-request-1", "approval-request-2"),
        text.replace(r#""needs_approval":true"#, r#""needs_approval":1"#),
        format!("{text} {text}"),
    ];
    for text in broken {
        let error = ApprovalRequest::from_json(text.as_bytes()).unwrap_err();
        assert_eq!(error.code(), "REQUEST_MALFORMED", "{text}");
    }
}

#[test]
fn json_never_loosens_how_a_token_is_verified() {
    let world = World::new();
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let loose = settings.dangerous_accept_partial_bindings();
    let gate = world.builder_for("session-1", world.sink.clone()).approvals(loose).open().unwrap();
    let request = asked(&gate, &refund("c1"));
    assert!(!request.to_json().contains("partial"));
    let read = ApprovalRequest::from_json(request.to_json().as_bytes()).unwrap();
    assert_eq!(read.partial, countersign_approval_token::Partial::Refuse);
}

proptest! {
    #[test]
    fn a_changed_byte_is_no_other_approved_call(at in 0_usize..10_000, byte in any::<u8>()) {
        let world = World::new();
        let gate = world.gate();
        let request = asked(&gate, &refund("c1"));
        let mut text = request.to_json().into_bytes();
        let at = at % text.len();
        *text.get_mut(at).unwrap() = byte;
        if let Ok(read) = ApprovalRequest::from_json(&text)
            && let Ok(token) = gate.approve(&read, &bob(), TTL)
        {
            let approved = code(&gate, &refund("c1").approval(token.as_str())).is_none();
            prop_assert_eq!(approved, read.binding() == request.binding());
        }
    }
}
