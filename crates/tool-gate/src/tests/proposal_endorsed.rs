//! An operator's endorsement of a payment is spent like an attestation.

use std::thread;

use countersign_audit_log::CallRecord;
use countersign_core::*;

use super::proposal_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

fn paying(world: &World, uses: u32) -> ToolGate {
    world.full().proposals(world.proposals(endorsing_payments(uses))).open().unwrap()
}

fn last(gate: &ToolGate) -> CallRecord {
    gate.call_log().pop().unwrap()
}

/// Number of the endorsement's use in the last call's record.
fn recorded_use(gate: &ToolGate) -> Option<u32> {
    last(gate).proposal.unwrap().evidence().first().and_then(|piece| piece.endorsement_use)
}

#[test]
fn endorsement_is_used_up_across_sessions() {
    let world = World::new();
    let (gate, other) = (paying(&world, 1), paying(&world, 1));
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    let accepted = gate.check(&wire("c1").proposal(&endorsed)).unwrap();
    let spent = *accepted.evidence()[0].endorsement().unwrap();
    assert_eq!(spent.number(), 1);
    let record = last(&gate).proposal.unwrap();
    assert_eq!(record.evidence()[0].endorsement, Some(spent.id()));
    assert_eq!(recorded_use(&gate), Some(1));
    let again = (PicVerifierFailed, "endorsement: the ticket was used already".to_owned());
    assert_eq!(refusal(&gate, &wire("c2").proposal(&endorsed)), again);
    assert_eq!(refusal(&other, &wire("c1").proposal(&endorsed)), again);
    assert_eq!(recorded_use(&other), None);
}

#[test]
fn an_endorsement_is_for_the_arguments_of_the_call() {
    let world = World::new();
    let gate = paying(&world, 1);
    for args in [&br#"{"to":"DE02","amount":50}"#[..], br#"{"to":"MALLORY","amount":49}"#] {
        let draft = file_of_the_invoice(Draft::new("wire", args, "money")).json();
        let call = ToolCall::new("c", "desk", "wire", args).proposal(&draft);
        let (code, reason) = refusal(&gate, &call);
        assert_eq!(code, PicVerifierFailed);
        assert!(reason.ends_with("the endorsement of the file is for other arguments"), "{reason}");
    }
}

#[test]
fn a_call_that_is_refused_before_spending_takes_no_use() {
    let world = World::new();
    let refusing = |call: &CheckedCall<'_>| {
        if call.call_id().as_str() == "no" { Err("no".to_owned()) } else { Ok(()) }
    };
    let settings = world.proposals(endorsing_payments(1));
    let gate = world.full().proposals(settings).user_check("no", refusing).open().unwrap();
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    assert_eq!(code(&gate, &wire("no").proposal(&endorsed)), Some(CheckRefused));
    assert_eq!(code(&gate, &wire("c").proposal(&endorsed)), None);
}

#[test]
fn sessions_at_once_never_take_more_uses_than_there_are() {
    let world = World::new();
    let gates: Vec<_> = (0..4).map(|_| paying(&world, 3)).collect();
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    let paid: usize = thread::scope(|scope| {
        let runs: Vec<_> = gates
            .iter()
            .map(|gate| {
                let pay = |id: &str| code(gate, &wire(id).proposal(&endorsed)).is_none();
                scope.spawn(move || ["a", "b", "c"].into_iter().filter(|id| pay(id)).count())
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    assert_eq!(paid, 3);
}

#[test]
fn an_endorsement_older_than_the_store_backs_nothing() {
    let world = World::new();
    let later = start().checked_add(Millis::from_secs(1)).unwrap();
    let store = std::sync::Arc::new(countersign_approval_token::MemorySpentTokens::since(later));
    let verifier = std::sync::Arc::new(endorsing_payments(1).build().unwrap());
    let gate = world.full().proposals(ProposalSettings::new(verifier, store)).open().unwrap();
    world.clock.advance(Millis::from_secs(2)).unwrap();
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    assert_eq!(code(&gate, &wire("c").proposal(&endorsed)), Some(StoreTooNew));
}
