use std::sync::Arc;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::Record;
use countersign_core::Clock as _;
use countersign_registry::{AgentClaims, NegotiationRequest};

#[test]
fn invented_tool_name_runs_no_implementation() {
    let world = World::new();
    let gate = world.gate();
    let mut touched = 0;
    for n in 0..50 {
        let name = format!("tool_{n}");
        let result = gate.call(&name, b"{}", |_| {
            touched += 1;
            Ok::<(), ()>(())
        });
        assert!(matches!(result, Err(CallError::Rejected(no)) if no.code() == UndisclosedTool));
    }
    assert_eq!(touched, 0);
    let tried = gate.attempted_undisclosed();
    assert_eq!((tried.count(), tried.recent().len()), (50, 50));
    let recorded =
        world.sink.latest().iter().filter(|(_, record)| matches!(record, Record::Decision(_))).count();
    assert_eq!(recorded, 50);
}

#[test]
fn undisclosed_tool_is_answered_like_an_unknown_one() {
    let world = World::new();
    let gate = world.gate();
    let told = |name| {
        let no = gate.check(&ToolCall::new("c", "desk", name, b"{}")).unwrap_err();
        (no.code(), no.message(), no.retry(), no.unlock(), no.to_string(), no.approval_request().is_some())
    };
    assert_eq!(told("delete_ticket"), told("no_such_tool"));
}

#[test]
fn same_tool_name_on_another_server_is_undisclosed() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(code(&gate, &ToolCall::new("c", "desk2", "search", SEARCH)), Some(UndisclosedTool));
    let by_name = |name| code(&gate, &ToolCall::by_name("c", name, b"{}"));
    assert_eq!(by_name("mail"), None, "one server has it");
    assert_eq!(gate.call_log().last().unwrap().tool.server.as_str(), "desk");
    assert_eq!(by_name("delete_ticket"), Some(UndisclosedTool));
    assert_eq!(by_name("twin"), Some(UndisclosedTool), "two servers have it, so the name alone is nobody's");
}

#[test]
fn the_tool_gets_the_value_that_was_digested() {
    let world = World::new();
    let gate = world.gate();
    // The caller's buffer changes after the check; the checked value runs.
    let mut buffer = SEARCH.to_vec();
    let accepted = gate.check(&ToolCall::new("c", "desk", "search", &buffer)).unwrap();
    buffer.fill(b' ');
    let digest = accepted.args().digest();
    let ran = accepted.run(|args| Ok::<_, ()>(args.clone())).unwrap();
    assert_eq!(ran.digest(), digest);
    assert_eq!(ran.value().get("query").unwrap().as_str(), Some("T-1001"));
    assert_eq!(gate.call_log().last().unwrap().args, Some(digest));
}

#[test]
fn a_revoked_agents_next_call_is_refused_while_it_runs() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    assert_eq!(code(&gate, &search("c")), None);
    world.registry.revoke(gate.contract().agent());
    assert_eq!(code(&gate, &search("c")), Some(AgentRevoked));
    assert_eq!(
        code(&gate, &refund("c1").approval(token.as_str())),
        Some(AgentRevoked),
        "running approvals are dead"
    );
}

#[test]
fn registry_swap_before_dispatch_keeps_the_decision() {
    let world = World::new();
    let gate = world.gate();
    let accepted = gate.check(&search("c1")).unwrap();
    world.reload(2, NONE_REVOKED);
    accepted.run(|_| Ok::<_, ()>(())).unwrap();
    assert_eq!(code(&gate, &search("c2")), None);
    let versions: Vec<u64> = gate.call_log().iter().map(|record| record.registry_version).collect();
    assert_eq!(versions, [1, 2]);
}

#[test]
fn claims_change_nothing_but_the_record() {
    let world = World::new();
    let claims =
        AgentClaims::from_json(br#"{"tools":["delete_ticket"],"output_tags":["admin"],"role":"root"}"#);
    let request = |claims: Option<AgentClaims>| {
        let request = NegotiationRequest::new(
            countersign_core::SessionId::new("session-1").unwrap(),
            countersign_core::AgentId::new("support-bot").unwrap(),
        );
        let request = match claims {
            Some(claims) => request.claims(claims),
            None => request,
        };
        world.registry.negotiate(&request, start()).unwrap()
    };
    assert_eq!(request(None), request(Some(claims.clone())));
    let gate = world.full().claims(claims).open().unwrap();
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "delete_ticket", b"{}")), Some(UndisclosedTool));
    let session = world.sink.latest().into_iter().find_map(|(_, record)| {
        let Record::Session(session) = record else { return None };
        session.claims
    });
    assert!(session.unwrap().differing().iter().any(|name| name.as_str().contains("delete_ticket")));
}

#[test]
fn hostile_names_cannot_break_a_line_of_the_record() {
    let world = World::new();
    let gate = world.gate();
    let nasty = "x\n{\"seq\":1}\u{1b}[2J\u{202e}\0";
    for call in
        [ToolCall::new(nasty, nasty, nasty, b"{}"), ToolCall::new("c", "desk", nasty, nasty.as_bytes())]
    {
        assert_eq!(code(&gate, &call), Some(MalformedCall));
    }
    for record in gate.call_log() {
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.chars().any(countersign_core::is_hidden), "{line}");
    }
}

#[test]
fn a_call_that_a_gateway_could_not_read_is_counted_and_recorded() {
    let world = World::new();
    let gate = world.gate();
    world.clock.advance(countersign_core::Millis::from_secs(5)).unwrap();
    let no = gate.refuse_malformed("7", "arguments are an array");
    assert_eq!(gate.call_log().pop().unwrap().time, world.clock.now().unwrap());
    assert_eq!((no.code(), no.call_id()), (MalformedCall, "7"));
    assert_eq!(gate.counts().rejected_with(MalformedCall), 1);
    assert!(gate.call_log().pop().unwrap().reason.unwrap().as_str().contains("an array"));
}

#[test]
fn a_user_check_sees_the_call_and_nothing_that_it_could_change() {
    let world = World::new();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let check = move |call: &CheckedCall<'_>| {
        notes.lock().push(format!(
            "{} {} {} {}",
            call.call_id(),
            call.tool(),
            call.principal(),
            call.args().as_str()
        ));
        Ok(())
    };
    let gate = world.full().user_check("notes", check).open().unwrap();
    assert_eq!(code(&gate, &search("c9")), None);
    assert_eq!(*seen.lock(), [r#"c9 desk:search ada@example.com {"query":"T-1001"}"#]);
}
