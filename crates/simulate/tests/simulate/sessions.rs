//! Renewals, questions and sums of refusals in a simulation.

use super::cases::{REDECIDED, all, fields};
use super::registries::load_draft;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::Record;
use countersign_core::*;
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::NegotiationRequest;

/// A desk that files no question.
#[derive(Debug)]
struct Failing(NotFiled);

impl ApprovalDesk for Failing {
    fn file(&self, _: &ApprovalRequest) -> Result<(), NotFiled> {
        Err(self.0)
    }

    fn withdraw(&self, _: &ApprovalRequest) {}
}

#[test]
fn simulation_takes_a_renewal_for_the_same_gate() {
    let world = World::new();
    let session = world.pin().session().clone();
    let pin = PinnedAsk::pin(GOAL, &session, hour(), start()).unwrap();
    let gate = world.full().pinned_ask(pin).recorded_fields(fields("scarce")).open().unwrap();
    let scarce = |id| ToolCall::new(id, "desk", "scarce", b"{}");
    assert_eq!((code(&gate, &scarce("a")), code(&gate, &scarce("b"))), (None, None));
    world.clock.advance(hour()).unwrap();
    let old = gate.contract();
    let request = NegotiationRequest::new(old.session().clone(), old.agent().clone());
    gate.renew(world.registry.negotiate(&request, world.clock.now().unwrap()).unwrap()).unwrap();
    assert_eq!((code(&gate, &scarce("c")), code(&gate, &scarce("d"))), (None, Some(CallLimit)));
    let fewer = Simulated::Changed {
        recorded: Answer::Accepted,
        now: Answer::Refused(CallLimit),
        basis: Basis::Redecided,
    };
    for (max_calls, third) in [(3, REDECIDED), (2, fewer)] {
        let (from, to) = (r#""max_calls": 3"#, format!(r#""max_calls": {max_calls}"#));
        let other = load_draft(&draft(2, NONE_REVOKED).replace(from, &to), Millis::from_secs(86_400)).view();
        assert_eq!(all(Simulation::new(other), &world), [REDECIDED, REDECIDED, third, REDECIDED]);
    }
}

#[test]
fn unfiled_question_comes_again_in_a_simulation() {
    for why in [NotFiled::Full, NotFiled::Unavailable] {
        let world = World::new();
        let gate = world.gate();
        gate.check_asking(&refund("c"), &Failing(why)).unwrap_err();
        let mut simulation = Simulation::new(world.registry.view()).host_checks(HostChecks::None);
        let records = world.sink.latest();
        let answers: Vec<_> = records.iter().filter_map(|(_, record)| simulation.feed(record)).collect();
        assert!(matches!(answers.as_slice(), [Simulated::Same(_)]), "{answers:?}");
    }
}

#[test]
fn summed_calls_are_undetermined_in_a_simulation() {
    let world = World::new();
    let gate = world.full().refused_calls(RefusalRate::new(1, 1).unwrap()).open().unwrap();
    for n in 0..5 {
        let name = format!("made-up-{n}");
        gate.check(&ToolCall::new("c", "desk", &name, b"{}")).unwrap_err();
    }
    assert_eq!(code(&gate, &search("c")), None);
    let mut simulation = Simulation::new(world.registry.view());
    let answers: Vec<_> =
        world.sink.latest().iter().filter_map(|(_, record)| simulation.feed(record)).collect();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[1], Simulated::Undetermined(Missing::Sum));
}

#[test]
fn sum_that_is_recorded_twice_counts_once() {
    let world = World::new();
    let gate = world.full().refused_calls(RefusalRate::new(1, 1).unwrap()).open().unwrap();
    for id in ["a", "b", "c"] {
        gate.check(&ToolCall::new(id, "desk", "made-up", b"{}")).unwrap_err();
    }
    gate.refusals().write(start()).unwrap();
    let records = world.sink.latest();
    let (_, sum) = records.iter().find(|(_, record)| matches!(record, Record::Refused(_))).unwrap();
    let mut simulation = Simulation::new(world.registry.view());
    let answers = [simulation.feed(sum), simulation.feed(sum)];
    assert_eq!(answers, [Some(Simulated::Undetermined(Missing::Sum)), None]);
}
