//! Calls that are decided together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::plan_world::{start_plan, step};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{
    AuditError, AuditSink, DecisionLine, MemorySink, OutcomeKind, Record, SubmittedDecision,
};

/// A sink that takes no decision after the first wait, and may fail then.
#[derive(Debug, Default)]
struct Batching {
    sink: MemorySink,
    submitted: AtomicUsize,
    waited: AtomicUsize,
    fails: AtomicBool,
}

impl AuditSink for Batching {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        self.sink.record(record)
    }

    fn submit_decision(&self, decision: &DecisionLine<'_>) -> Result<SubmittedDecision, AuditError> {
        assert_eq!(self.waited.load(Ordering::SeqCst), 0, "submitted after the first wait");
        self.submitted.fetch_add(1, Ordering::SeqCst);
        self.sink.submit_decision(decision)
    }

    fn wait_decision(&self, submitted: SubmittedDecision) -> Result<u64, AuditError> {
        self.waited.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(AuditError::Poisoned);
        }
        self.sink.wait_decision(submitted)
    }
}

fn world_and_sink() -> (World, Arc<Batching>, ToolGate) {
    let (world, sink) = (World::new(), Arc::new(Batching::default()));
    let settings = world.settings(Arc::clone(&world.spent) as _);
    let gate = world.builder_with(Arc::clone(&sink) as _).pinned_ask(world.pin()).approvals(settings);
    let gate = gate.open().unwrap();
    (world, sink, gate)
}

fn codes(answers: &[Result<AcceptedCall, Rejection>]) -> Vec<Option<RejectionCode>> {
    answers.iter().map(|answer| answer.as_ref().err().map(Rejection::code)).collect()
}

#[test]
fn each_call_of_a_batch_gets_its_own_answer() {
    let (_, sink, gate) = world_and_sink();
    let unknown = ToolCall::new("c2", "desk", "made-up", b"{}");
    let answers = gate.check_many(&[search("c1"), unknown, refund("c3"), search("c4")]);
    assert_eq!(codes(&answers), [None, Some(UndisclosedTool), Some(ApprovalRequired), None]);
    assert_eq!((sink.submitted.load(Ordering::SeqCst), sink.waited.load(Ordering::SeqCst)), (2, 2));
    let log = gate.call_log();
    for answer in answers {
        let (id, sequence) = match answer {
            Ok(call) => {
                let told = (call.call_id().to_string(), Some(call.sequence()));
                call.dispatch().unwrap().1.finish(OutcomeKind::Returned);
                told
            }
            Err(no) => (no.call_id().to_owned(), no.sequence()),
        };
        let kept = sink.sink.latest().into_iter().find(|(number, _)| Some(*number) == sequence);
        assert!(matches!(kept, Some((_, Record::Decision(it))) if it.call_id.as_str() == id), "{id}");
    }
    assert_eq!(log.len(), 4);
    assert_eq!((gate.counts().accepted(), gate.counts().rejected()), (2, 2));
    assert!(gate.check_many(&[]).is_empty());
}

#[test]
fn one_approval_is_spent_once_in_a_batch() {
    let (world, _, gate) = world_and_sink();
    let token = world.approve(&gate, &refund("c1"));
    let call = refund("c1").approval(token.as_str());
    let answers = gate.check_many(&[call.clone(), call.clone(), call]);
    assert_eq!(codes(&answers), [None, Some(ApprovalSpent), Some(ApprovalSpent)]);
}

#[test]
fn no_call_of_an_unrecorded_batch_is_accepted() {
    let (world, sink, gate) = world_and_sink();
    let token = world.approve(&gate, &refund("c2"));
    sink.fails.store(true, Ordering::SeqCst);
    let answers = gate.check_many(&[search("c1"), refund("c2").approval(token.as_str())]);
    assert_eq!(codes(&answers), [Some(AuditUnavailable), Some(AuditUnavailable)]);
    let spent = answers.iter().map(|answer| answer.as_ref().unwrap_err().approval_spent());
    assert_eq!(spent.collect::<Vec<_>>(), [false, true]);
    assert_eq!(gate.counts().accepted(), 0);
}

#[test]
fn a_batch_takes_one_step_of_a_plan() {
    let (_, sink, gate) = world_and_sink();
    let again = || step("search", r#"{"query":"T-1001"}"#);
    start_plan(&gate, vec![again(), again()]).unwrap();
    let answers = gate.check_many(&[search("c1"), search("c2")]);
    assert!(answers[0].is_ok(), "{answers:?}");
    assert!(answers[1].is_err(), "a later step was taken before the earlier one had run");
    answers.into_iter().flatten().for_each(|call| call.dispatch().unwrap().1.finish(OutcomeKind::Returned));
    sink.waited.store(0, Ordering::SeqCst);
    assert_eq!(codes(&gate.check_many(&[search("c3")])), [None]);
}

#[test]
fn a_cap_counts_the_calls_of_a_batch() {
    let world = World::new();
    let gate = world.capped();
    let calls: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(search).into();
    let together = codes(&gate.check_many(&calls));
    let gate = World::new().capped();
    let alone: Vec<_> = calls.iter().map(|call| code(&gate, call)).collect();
    assert_eq!(together, alone);
    assert!(together.iter().any(Option::is_some), "{together:?}");
}
