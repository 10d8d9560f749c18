use super::world::*;
use crate::*;

#[test]
fn rejection_never_shows_the_arguments() {
    let world = World::new();
    let gate = world.gate();
    let secret = "hunter2-secret";
    let args = format!(r#"{{"query":"{secret}","x":1}}"#);
    let mail = format!(r#"{{"to":"{secret}@evil.example"}}"#);
    let refund_args = format!(r#"{{"ticket":"{secret}","amount":1}}"#);
    let broken = format!("{{\"{secret}\":");
    for call in [
        ToolCall::new("c", "desk", "search", args.as_bytes()),
        ToolCall::new("c", "desk", "mail", mail.as_bytes()),
        ToolCall::new("c", "desk", "refund", refund_args.as_bytes()),
        ToolCall::new("c", "desk", "search", broken.as_bytes()),
        ToolCall::new("c", "desk", "search", SEARCH).ask(secret),
        ToolCall::new("c", "desk", "refund", REFUND).approval(secret),
    ] {
        let no = gate.check(&call).unwrap_err();
        let told = format!("{no} {} {:?} {:?} {}", no.message(), no.retry(), no.unlock(), no.call_id());
        assert!(!told.contains(secret), "{told}");
        let record = serde_json::to_string(gate.call_log().last().unwrap()).unwrap();
        assert!(!record.contains(secret), "no argument's value is recorded either: {record}");
    }
}

#[test]
fn every_code_has_a_fixed_sentence_and_never_is_never() {
    for code in RejectionCode::ALL {
        assert!(code.message().starts_with(|c: char| c.is_ascii_lowercase()), "{code}");
        assert!(!code.message().ends_with('.'), "{code}");
        assert!(code.as_str().bytes().all(|b| b.is_ascii_uppercase() || b == b'_'), "{code}");
    }
    assert_eq!(RejectionCode::ApprovalRequired.retry().as_str(), "after_approval");
    assert_eq!(RejectionCode::UndisclosedTool.retry().as_str(), "never");
    assert_eq!(RejectionCode::ArgsSchema.retry().as_str(), "after_change");
}

#[test]
fn pending_call_carries_its_approval_request() {
    let world = World::new();
    let gate = world.gate();
    let no = gate.check(&refund("c1")).unwrap_err();
    let request = no.approval_request().unwrap();
    assert_eq!(request.args().as_str(), r#"{"amount":49,"ticket":"T-1001"}"#);
    assert_eq!(&request.binding().args, &request.args().digest());
    assert_eq!(request.binding().call_id.as_str(), "c1");
    let binding = request.binding();
    assert_eq!(binding.registry_version, Some(1));
    assert_eq!(binding.agent.as_ref(), Some(gate.contract().agent()));
    assert_eq!(binding.session.as_ref(), Some(gate.contract().session()));
    assert_eq!(binding.audience.as_ref().map(|audience| audience.as_str()), Some("gate-1"));
    assert_eq!(&binding.principal, gate.principal());
    assert_eq!(binding.ask, gate.pinned_ask().map(|pin| pin.digest()));
    assert!(
        gate.check(&ToolCall::new("c1", "desk", "delete_ticket", REFUND))
            .unwrap_err()
            .approval_request()
            .is_none()
    );
}
