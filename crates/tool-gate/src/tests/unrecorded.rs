//! Answers that cannot be recorded: the sink counts each once, with the approval that was spent for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::world::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record, UnrecordedAnswer};
use countersign_core::SpentTokens;
use parking_lot::Mutex;

/// A sink that fails on demand, with the answers that it was notified of.
#[derive(Debug)]
struct Failing {
    sink: Arc<MemorySink>,
    fails: AtomicBool,
    noted: Mutex<Vec<(String, Option<String>)>>,
}

impl AuditSink for Failing {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if self.fails.load(Ordering::SeqCst) { Err(AuditError::Poisoned) } else { self.sink.record(record) }
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let approval = answer.approval.map(|id| id.as_str().to_owned());
        self.noted.lock().push((answer.code.to_owned(), approval));
    }
}

#[test]
fn unrecorded_answers_are_noted_with_spent_approvals() {
    let world = World::new();
    let (fails, noted) = (AtomicBool::new(false), Mutex::default());
    let sink = Arc::new(Failing { sink: Arc::clone(&world.sink), fails, noted });
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let gate = world
        .builder_with(Arc::clone(&sink) as _)
        .pinned_ask(world.pin())
        .approvals(settings)
        .open()
        .unwrap();
    let token = world.approve(&gate, &refund("paid"));
    drop(gate.check(&search("recorded")).unwrap());
    let taken = || std::mem::take(&mut *sink.noted.lock());
    assert_eq!(taken(), []);

    sink.fails.store(true, Ordering::SeqCst);
    let unavailable = |approval: Option<&str>| ("AUDIT_UNAVAILABLE".to_owned(), approval.map(str::to_owned));
    gate.check(&search("c")).unwrap_err();
    gate.check(&ToolCall::new("c", "desk", "made-up", b"{}")).unwrap_err();
    assert_eq!(taken(), [unavailable(None), unavailable(None)]);
    let no = gate.check(&refund("paid").approval(token.as_str())).unwrap_err();
    assert_eq!((no.code(), no.approval_spent()), (RejectionCode::AuditUnavailable, true));
    let spent = taken();
    assert!(spent.len() == 1 && spent[0].1.is_some(), "{spent:?}");
}
