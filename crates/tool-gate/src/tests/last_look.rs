//! Changes while a call is decided, or held before it runs.

use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use countersign_audit_log::{MemorySink, OutcomeRecord, Record, StandingChange, StandingRecord};
use countersign_core::*;
use countersign_registry::{NegotiationRequest, Wanted};
use serde_json::json;

use super::proposal_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// A change to a session in the middle of a call.
type Meanwhile = fn(&World, &ToolGate);

const REVOKED: Meanwhile = |world, gate| world.registry.revoke(gate.contract().agent());
const WITHDRAWN: Meanwhile =
    |world, _| world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
const ENDED: Meanwhile = |world, _| world.clock.advance(hour()).unwrap();
const QUARANTINED: Meanwhile = |_, gate| stands(gate, StandingChange::Quarantined);

const NARROWED: Meanwhile = |world, gate| {
    let only = Wanted::these([pinned_tool()]);
    let old = gate.contract();
    let request = NegotiationRequest::new(old.session().clone(), old.agent().clone()).wanted_tools(only);
    gate.renew(world.registry.negotiate(&request, start()).unwrap()).unwrap();
};

const CASES: [(Meanwhile, RejectionCode); 5] = [
    (REVOKED, AgentRevoked),
    (WITHDRAWN, AgentRevoked),
    (ENDED, ContractExpired),
    (QUARANTINED, AgentQuarantined),
    (NARROWED, UndisclosedTool),
];

fn pinned_tool() -> ToolId {
    ToolId::new("desk", "pinned").unwrap()
}

fn stands(gate: &ToolGate, standing: StandingChange) {
    let change = StandingRecord::new(start(), gate.contract().agent().clone(), standing, "ops");
    gate.stats().set_standing(&change).unwrap();
}

/// Makes the change once, when armed.
#[derive(Default)]
struct Trap(parking_lot::Mutex<Option<(Arc<World>, ToolGate, Meanwhile)>>);

impl std::fmt::Debug for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trap")
    }
}

impl Trap {
    fn spring(&self) {
        if let Some((world, gate, happens)) = self.0.lock().take() {
            happens(&world, &gate);
        }
    }
}

/// A slow store, during whose spend the change happens.
#[derive(Debug)]
struct SlowStore(Arc<Trap>, Arc<dyn SpentTokens>);

impl SpentTokens for SlowStore {
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        self.1.spend(ticket, now)?;
        self.0.spring();
        Ok(())
    }
}

/// Opens a gate with a slow check, during which the change happens.
fn with_slow_check(world: &World, trap: &Arc<Trap>) -> ToolGate {
    let trap = Arc::clone(trap);
    let check = move |_: &CheckedCall<'_>| {
        trap.spring();
        Ok(())
    };
    world.full().user_check("slow", check).open().unwrap()
}

fn outcomes(sink: &MemorySink) -> Vec<OutcomeRecord> {
    let outcome = |record: Record| if let Record::Outcome(outcome) = record { Some(outcome) } else { None };
    sink.latest().into_iter().filter_map(|(_, record)| outcome(record)).collect()
}

#[test]
fn change_during_a_user_check_is_seen() {
    for (happens, expected) in CASES {
        let (world, trap) = (Arc::new(World::new()), Arc::new(Trap::default()));
        let gate = with_slow_check(&world, &trap);
        *trap.0.lock() = Some((Arc::clone(&world), gate.clone(), happens));
        let no = gate.check(&search("c")).unwrap_err();
        assert_eq!((no.code(), no.approval_spent()), (expected, false));
        let record = last_decision(&world);
        assert_eq!(record.code.unwrap().as_str(), expected.as_str());
        assert_eq!(record.registry_version, world.registry.view().snapshot().version());
        assert_eq!(record.time, world.clock.now().unwrap());
        assert!(record.reason.unwrap().as_str().starts_with("meanwhile: "));
        assert!(outcomes(&world.sink).is_empty());
    }
}

#[test]
fn definition_changed_during_a_user_check_is_seen() {
    const REDEFINED: Meanwhile = |_, gate| gate.note_definition(&pinned_tool(), Digest::of(b"another"));
    const FORGOTTEN: Meanwhile = |_, gate| gate.forget_definition(&pinned_tool());
    for (happens, expected) in [(REDEFINED, ToolDefinitionChanged), (FORGOTTEN, ToolDefinitionUnknown)] {
        let (world, trap) = (Arc::new(World::new()), Arc::new(Trap::default()));
        let gate = with_slow_check(&world, &trap);
        gate.note_definition(&pinned_tool(), Digest::of(b"the pinned definition"));
        *trap.0.lock() = Some((Arc::clone(&world), gate.clone(), happens));
        let no = gate.check(&ToolCall::new("c", "desk", "pinned", b"{}")).unwrap_err();
        assert_eq!(no.code(), expected);
    }
}

#[test]
fn refusal_after_a_spend_reports_the_spent_attestation() {
    for (happens, expected) in CASES {
        let (world, trap) = (Arc::new(World::new()), Arc::new(Trap::default()));
        let store = SlowStore(Arc::clone(&trap), Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
        let settings = ProposalSettings::new(Arc::new(verifier().build().unwrap()), Arc::new(store));
        let gate = world.bare().pinned_ask(world.pin()).proposals(settings).open().unwrap();
        let proposal = world.attested_wire(&gate, "c", "n1");
        *trap.0.lock() = Some((Arc::clone(&world), gate.clone(), happens));
        let no = gate.check(&wire("c").proposal(&proposal)).unwrap_err();
        assert_eq!((no.code(), no.attestation_spent(), no.approval_spent()), (expected, true, false));
        let reason = last_decision(&world).reason.unwrap();
        assert!(reason.as_str().ends_with("; the attestation is spent"), "{}", reason.as_str());
        if expected == AgentQuarantined {
            stands(&gate, StandingChange::Lifted);
            let again = gate.check(&wire("c").proposal(&proposal)).unwrap_err();
            assert_eq!((again.code(), again.attestation_spent()), (PicEvidenceFailed, false));
        }
    }
}

#[test]
fn attestation_spent_before_a_spent_approval_is_reported() {
    let world = World::new();
    let gate = world.proving().open().unwrap();
    let draft = || Draft::new("refund", REFUND, "money");
    let token = world.approve(&gate, &refund("c"));
    let first = world.attested(&gate, "c", "refund", draft(), "n1");
    assert!(gate.check(&refund("c").approval(token.as_str()).proposal(&first)).is_ok());
    let second = world.attested(&gate, "c", "refund", draft(), "n2");
    let no = gate.check(&refund("c").approval(token.as_str()).proposal(&second)).unwrap_err();
    assert_eq!((no.code(), no.approval_spent(), no.attestation_spent()), (ApprovalSpent, false, true));
}

#[test]
fn attestation_spent_before_a_used_up_endorsement_is_reported() {
    let world = World::new();
    let gate = world.full().proposals(world.proposals(endorsing_payments(1))).open().unwrap();
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    assert!(gate.check(&wire("c").proposal(&endorsed)).is_ok());
    let mut both = Draft::wire();
    both.0["claims"][0]["evidence"] = json!(["mail", "invoice"]);
    let file =
        json!({"id": "mail", "type": "hash", "ref": "file://invoice.txt", "sha256": Digest::of(INVOICE)});
    let attested = world.attested(&gate, "d", "wire", both.with(&file.to_string()), "n1");
    let no = gate.check(&wire("d").proposal(&attested)).unwrap_err();
    assert_eq!((no.code(), no.attestation_spent()), (PicVerifierFailed, true));
}

#[test]
fn refusal_that_took_an_endorsement_use_has_an_entry() {
    let (world, trap) = (Arc::new(World::new()), Arc::new(Trap::default()));
    let store = SlowStore(Arc::clone(&trap), Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let settings = ProposalSettings::new(Arc::new(endorsing_payments(1).build().unwrap()), Arc::new(store));
    let rate = RefusalRate::new(1, 1).unwrap();
    let gate = world.bare().pinned_ask(world.pin()).proposals(settings).refused_calls(rate).open().unwrap();
    assert!(gate.refuse_malformed("b", "the last token").sequence().is_some());
    *trap.0.lock() = Some((Arc::clone(&world), gate.clone(), QUARANTINED));
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    let no = gate.check(&wire("c").proposal(&endorsed)).unwrap_err();
    assert_eq!((no.code(), no.sequence().is_some()), (AgentQuarantined, true));
}

#[test]
fn change_during_a_spend_is_seen_and_the_token_stays_spent() {
    for (happens, expected) in CASES {
        let (world, trap) = (Arc::new(World::new()), Arc::new(Trap::default()));
        let store = SlowStore(Arc::clone(&trap), Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
        let gate =
            world.bare().pinned_ask(world.pin()).approvals(world.settings(Arc::new(store))).open().unwrap();
        let token = world.approve(&gate, &refund("c"));
        let call = refund("c").approval(token.as_str());
        *trap.0.lock() = Some((Arc::clone(&world), gate.clone(), happens));
        let no = gate.check(&call).unwrap_err();
        assert_eq!((no.code(), no.approval_spent()), (expected, true));
        let reason = last_decision(&world).reason.unwrap();
        assert!(reason.as_str().ends_with("; the approval is spent"), "{}", reason.as_str());
        if expected == AgentQuarantined {
            stands(&gate, StandingChange::Lifted);
            let again = gate.check(&call).unwrap_err();
            assert_eq!((again.code(), again.approval_spent()), (ApprovalSpent, false));
        }
    }
}

/// Tries to run a call; the tool must not run.
type TryRun = fn(AcceptedCall) -> Rejection;

fn rejected<T, E: std::fmt::Debug>(ran: Result<T, CallError<E>>) -> Rejection {
    match ran {
        Err(CallError::Rejected(no)) => no,
        Err(CallError::Tool(error)) => panic!("{error:?}"),
        Ok(_) => panic!("it ran"),
    }
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    match Box::pin(future).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

const WAYS: [TryRun; 7] = [
    |call| rejected(call.run(|_| -> Result<(), ()> { panic!("run") })),
    |call| rejected(call.run_with_evidence(|_, _| -> Result<(), ()> { panic!("run") })),
    |call| rejected(call.run_step(|_| -> Result<Vec<u8>, ()> { panic!("run") })),
    |call| rejected(at_once(call.run_async(|_| -> std::future::Ready<Result<(), ()>> { panic!("run") }))),
    |call| {
        rejected(at_once(
            call.run_step_async(|_| -> std::future::Ready<Result<Vec<u8>, ()>> { panic!("run") }),
        ))
    },
    |call| call.dispatch().unwrap_err(),
    |call| call.dispatch_with_evidence().unwrap_err(),
];

#[test]
fn held_call_does_not_run_after_a_change() {
    for (happens, expected) in CASES {
        for way in WAYS {
            let world = World::new();
            let gate = world.gate();
            let call = gate.check(&search("c")).unwrap();
            let sequence = call.sequence();
            happens(&world, &gate);
            let no = way(call);
            assert_eq!((no.code(), no.sequence(), no.call_id()), (expected, Some(sequence), "c"));
            let ended = outcomes(&world.sink);
            let ended: Vec<_> =
                ended.iter().map(|end| (end.outcome, end.decision, end.code.clone())).collect();
            assert_eq!(ended, [(OutcomeKind::NotRun, sequence, Some(expected.as_str().into()))]);
        }
    }
}

#[test]
fn approved_call_does_not_run_under_another_registry() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c"));
    let call = gate.check(&refund("c").approval(token.as_str())).unwrap();
    let free = gate.check(&search("f")).unwrap();
    // The new registry may revoke the approval's key.
    world.reload(2, r#"{"agents": [], "keys": [], "snapshots": []}"#);
    let no = call.dispatch().unwrap_err();
    assert_eq!((no.code(), no.approval_spent()), (ApprovalInvalid, true));
    free.run(|_| Ok::<_, ()>(())).unwrap();
}

#[test]
fn held_call_does_not_run_once_its_definition_changed() {
    let world = World::new();
    let gate = world.gate();
    let tool = pinned_tool();
    gate.note_definition(&tool, Digest::of(b"the pinned definition"));
    let call = gate.check(&ToolCall::new("c", "desk", "pinned", b"{}")).unwrap();
    gate.note_definition(&tool, Digest::of(b"another"));
    assert_eq!(call.dispatch().unwrap_err().code(), ToolDefinitionChanged);
}

#[test]
fn call_held_for_a_day_does_not_run() {
    let world = World::new();
    let call = world.gate().check(&search("c")).unwrap();
    world.clock.advance(Millis::from_secs(25 * 3_600)).unwrap();
    assert_eq!(call.dispatch().unwrap_err().code(), ContractExpired);
}

#[test]
fn async_call_looks_when_it_is_polled() {
    let world = World::new();
    let gate = world.gate();
    let held = gate.check(&search("c")).unwrap().run_async(|_| ready(Ok::<_, ()>(())));
    REVOKED(&world, &gate);
    assert_eq!(rejected(at_once(held)).code(), AgentRevoked);
}

#[test]
fn holding_limit_ends_before_the_contract() {
    let world = World::new();
    let gate = world.full().holding_limit(Millis::from_secs(10)).open().unwrap();
    let (one, other) = (gate.check(&search("a")).unwrap(), gate.check(&search("b")).unwrap());
    world.clock.advance(Millis::new(9_999).unwrap()).unwrap();
    one.run(|_| Ok::<_, ()>(())).unwrap();
    world.clock.advance(Millis::new(1).unwrap()).unwrap();
    let no = rejected(other.run(|_| Ok::<_, ()>(())));
    assert_eq!((no.code(), no.retry()), (CallExpired, Retry::AfterChange));
    assert_eq!(outcomes(&world.sink).pop().unwrap().duration_ms, Some(Millis::from_secs(10)));
}

#[test]
fn holding_limit_does_not_outlast_the_contract() {
    let world = World::new();
    let gate = world.full().holding_limit(Millis::from_secs(86_400)).open().unwrap();
    let call = gate.check(&search("c")).unwrap();
    world.clock.advance(hour()).unwrap();
    assert_eq!(call.dispatch().unwrap_err().code(), ContractExpired);
}

#[test]
fn unrun_call_reports_its_spent_approval() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c"));
    let call = gate.check(&refund("c").approval(token.as_str())).unwrap();
    REVOKED(&world, &gate);
    assert!(call.dispatch().unwrap_err().approval_spent());
}

#[test]
fn unrun_call_is_counted_as_accepted_alone() {
    let world = World::new();
    let gate = world.gate();
    let call = gate.check(&search("c")).unwrap();
    REVOKED(&world, &gate);
    let _no = call.dispatch().unwrap_err();
    assert_eq!((gate.counts().accepted(), gate.counts().rejected()), (1, 0));
}

#[test]
fn clock_that_breaks_while_a_call_is_held_refuses() {
    let world = World::new();
    let call = world.gate().check(&search("c")).unwrap();
    world.clock.break_down();
    assert_eq!(call.dispatch().unwrap_err().code(), Internal);
}

#[test]
fn failed_record_reports_the_spent_approval() {
    #[derive(Debug)]
    struct Closing(Arc<MemorySink>, std::sync::atomic::AtomicU32);
    impl countersign_audit_log::AuditSink for Closing {
        fn record(&self, record: &Record) -> Result<u64, countersign_audit_log::AuditError> {
            if self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 1 {
                return Err(countersign_audit_log::AuditError::Poisoned);
            }
            self.0.record(record)
        }
    }
    let world = World::new();
    // The session and the refusal without an approval are recorded, and nothing after them.
    let sink = Arc::new(Closing(Arc::clone(&world.sink), 0.into()));
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let gate = world.builder_with(sink).pinned_ask(world.pin()).approvals(settings).open().unwrap();
    let token = world.approve(&gate, &refund("c"));
    let no = gate.check(&refund("c").approval(token.as_str())).unwrap_err();
    assert_eq!((no.code(), no.approval_spent()), (AuditUnavailable, true));
}
