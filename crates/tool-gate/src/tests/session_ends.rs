//! The recorded end of a session.

use super::world::*;
use crate::*;
use countersign_audit_log::{EndReason, Record};

#[test]
fn session_ends_once_behind_its_sum() {
    let world = World::new();
    let gate = world.full().refused_calls(RefusalRate::new(1, 1).unwrap()).open().unwrap();
    for n in 0..5 {
        gate.check(&ToolCall::new("c", "desk", &format!("made-up-{n}"), b"{}")).unwrap_err();
    }
    gate.end_session(EndReason::Server).unwrap();
    gate.clone().end_session(EndReason::Error).unwrap();
    drop(gate);
    let records: Vec<_> = world.sink.latest().into_iter().map(|(_, record)| record).collect();
    let [.., Record::Refused(sum), Record::End(end)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((sum.total(), end.reason, end.time), (4, EndReason::Server, start()));
    assert_eq!((end.agent.as_str(), &end.session), ("support-bot", &sum.session));
}

#[test]
fn call_behind_the_end_is_refused() {
    let world = World::new();
    let gate = world.gate();
    gate.end_session(EndReason::Client).unwrap();
    assert_eq!(gate.check(&search("c")).unwrap_err().code(), RejectionCode::AuditUnavailable);
    assert!(!gate.may_call());
}
