//! A fault in a dependency of step 8: the tool never runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use countersign_action_proposal::{EvidenceBudget, EvidenceResolver, ResolveError, ResolvedEvidence};
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_core::*;

use super::proposal_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Missing,
    Io,
    Panic,
    /// Takes a second.
    Slow,
    /// Breaks the clock, then continues to read.
    NoTime,
    TooMuch,
}

#[derive(Debug)]
struct FaultyFolder(Fault, Arc<ManualClock>);

impl EvidenceResolver for FaultyFolder {
    fn resolve(&self, _: &str, budget: &mut EvidenceBudget<'_>) -> Result<ResolvedEvidence, ResolveError> {
        match self.0 {
            Fault::Missing => Err(ResolveError::NotFound),
            Fault::Io => Err(ResolveError::Io(std::io::Error::other("secret.txt"))),
            Fault::Panic => panic!("injected"),
            Fault::Slow => {
                self.1.advance(Millis::from_secs(1)).unwrap();
                budget.read(INVOICE)
            }
            Fault::NoTime => {
                self.1.break_down();
                budget.read(INVOICE)
            }
            Fault::TooMuch => Err(ResolveError::Budget),
        }
    }
}

/// Checks the call and runs it if it is accepted. Returns the code, and how often the tool ran.
fn attempt(gate: &ToolGate, call: &ToolCall<'_>) -> (Option<RejectionCode>, u32) {
    let mut ran = 0;
    let mut run = |call: AcceptedCall| {
        call.run(|_| {
            ran += 1;
            Ok::<(), ()>(())
        })
    };
    let refused = match gate.check(call) {
        Ok(call) => {
            run(call).unwrap();
            None
        }
        Err(no) => Some(no.code()),
    };
    (refused, ran)
}

#[test]
fn a_resolver_that_fails_panics_or_dawdles_refuses() {
    for (fault, expected) in [
        (Fault::Missing, PicEvidenceFailed),
        (Fault::Io, PicEvidenceFailed),
        (Fault::Panic, Internal),
        (Fault::Slow, PicLimitExceeded),
        (Fault::NoTime, PicLimitExceeded),
        (Fault::TooMuch, PicLimitExceeded),
    ] {
        let world = World::new();
        let resolver = Arc::new(FaultyFolder(fault, Arc::clone(&world.clock)));
        let settings = world.proposals(verifier().resolver(resolver));
        let gate = world.full().proposals(settings).open().unwrap();
        let proposal = world.attested_wire(&gate, "c", "n1");
        assert_eq!(attempt(&gate, &wire("c").proposal(&proposal)), (Some(expected), 0), "{fault:?}");
        let record = serde_json::to_string(gate.call_log().last().unwrap()).unwrap();
        assert!(!record.contains("secret"), "{record}");
        if matches!(fault, Fault::Panic) {
            assert!(record.contains("verifying the proposal panicked"), "{record}");
        }
        if !matches!(fault, Fault::NoTime) {
            assert_eq!(attempt(&gate, &search("c")), (None, 1), "the gate is still there");
            let unhurried = world.proving().open().unwrap();
            let call = wire("c").proposal(&proposal);
            assert_eq!(attempt(&unhurried, &call), (None, 1), "nothing was used up: {fault:?}");
        }
    }
}

#[derive(Debug)]
struct FaultyStore {
    panics: bool,
}

impl SpentTokens for FaultyStore {
    fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        assert!(!self.panics, "injected");
        Err(SpendError::Unavailable("injected".into()))
    }
}

#[test]
fn a_store_that_is_down_refuses_and_costs_no_approval() {
    for (panics, expected) in [(false, StoreUnavailable), (true, Internal)] {
        let world = World::new();
        let verifier = Arc::new(verifier().build().unwrap());
        let settings = ProposalSettings::new(verifier, Arc::new(FaultyStore { panics }));
        let gate = world.full().proposals(settings).open().unwrap();
        let proposal = world.attested_wire(&gate, "c", "n1");
        assert_eq!(attempt(&gate, &wire("c").proposal(&proposal)), (Some(expected), 0));
        let unattested = Draft::new("search", SEARCH, "read").json();
        assert_eq!(
            attempt(&gate, &search("c").proposal(&unattested)),
            (None, 1),
            "nothing is asked of the store"
        );
        let proposal = world.attested(&gate, "r", "refund", Draft::new("refund", REFUND, "money"), "n2");
        let token = world.approve(&gate, &refund("r"));
        let call = refund("r").approval(token.as_str()).proposal(&proposal);
        assert_eq!(attempt(&gate, &call), (Some(expected), 0));
        let whole = world.proving().open().unwrap();
        assert_eq!(attempt(&whole, &call), (None, 1));
    }
}

/// A sink that takes this many records and no more.
#[derive(Debug)]
struct FullSink(MemorySink, AtomicU32);

impl AuditSink for FullSink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let left = self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        left.map_err(|_| AuditError::Poisoned)?;
        self.0.record(record)
    }
}

#[test]
fn a_record_that_is_down_refuses_and_the_attestation_stays_used() {
    let world = World::new();
    let sink = Arc::new(FullSink(MemorySink::new(), AtomicU32::new(1)));
    let settings = world.proposals(verifier());
    let gate = world.builder_with(sink).pinned_ask(world.pin()).proposals(settings).open().unwrap();
    let proposal = world.attested_wire(&gate, "c", "n1");
    let call = wire("c").proposal(&proposal);
    assert_eq!(attempt(&gate, &call), (Some(AuditUnavailable), 0));
    let whole = world.proving().open().unwrap();
    assert_eq!(attempt(&whole, &call), (Some(PicEvidenceFailed), 0), "unknown stays used");
}

#[test]
fn attestation_expiring_during_the_checks_is_refused() {
    let world = World::new();
    let clock = Arc::clone(&world.clock);
    let dawdle = move |_: &CheckedCall<'_>| {
        clock.advance(Millis::from_secs(300)).unwrap();
        Ok(())
    };
    let gate = world.proving().user_check("dawdles", dawdle).open().unwrap();
    let proposal = world.attested_wire(&gate, "c", "n1");
    let expired = (PicEvidenceFailed, "attestation: the ticket has expired".to_owned());
    assert_eq!(refusal(&gate, &wire("c").proposal(&proposal)), expired);
}
