//! Signals: an agent that probes too rarely for the drop alarm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::quarantines::Unsteady;
use super::signals::{agent, lift, open};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_core::*;

fn stats() -> Arc<CallStats> {
    Arc::new(CallStats::new())
}

fn quarantining(signal: Signal) -> CallStats {
    let usual = SignalRule::usual(signal);
    let rule = SignalRule::new(usual.count(), usual.within(), AlarmAction::Quarantine).unwrap();
    CallStats::new().signal(signal, rule)
}

fn full(world: &World, stats: &Arc<CallStats>) -> ToolGate {
    world.full().stats(Arc::clone(stats)).open().unwrap()
}

fn undisclosed(gate: &ToolGate) -> Option<RejectionCode> {
    code(gate, &ToolCall::new("c", "desk", "made_up", b"{}"))
}

/// Calls refunds of these amounts, none of them approved.
fn ask(gate: &ToolGate, amounts: std::ops::Range<u32>) {
    for amount in amounts {
        let args = format!(r#"{{"ticket":"T-1001","amount":{amount}}}"#);
        assert_eq!(
            code(gate, &ToolCall::new("c", "desk", "refund", args.as_bytes())),
            Some(ApprovalRequired)
        );
    }
}

fn raised(stats: &CallStats, signal: Signal) -> bool {
    stats.signal_raised(&agent(), signal).is_some()
}

/// The recorded signals.
fn recorded(sink: &MemorySink) -> Vec<(Signal, u32, Millis)> {
    let signal = |record| {
        let Record::Signal(raised) = record else { return None };
        Some((raised.signal, raised.count, raised.within_ms))
    };
    sink.latest().into_iter().filter_map(|(_, record)| signal(record)).collect()
}

#[test]
fn calls_that_get_no_approval_raise_a_signal() {
    let (world, stats) = (World::new(), stats());
    let gate = full(&world, &stats);
    ask(&gate, 0..31);
    assert!(!raised(&stats, Signal::Asked));
    ask(&gate, 31..200);
    assert!(raised(&stats, Signal::Asked));
    assert_eq!(stats.alarm_state(&agent()), AlarmState::Steady, "the drop alarm counts none of them");
    assert_eq!(stats.snapshot().agents[0].signals, [(Signal::Asked, start())]);
    assert_eq!(recorded(&world.sink), [(Signal::Asked, 32, Millis::from_secs(600))], "once");
    assert_eq!(code(&gate, &search("c")), None, "it is flagged, and its calls go on");
}

#[test]
fn one_call_that_is_asked_again_counts_once() {
    let (world, stats) = (World::new(), stats());
    let gate = full(&world, &stats);
    for _ in 0..200 {
        assert_eq!(code(&gate, &refund("c")), Some(ApprovalRequired));
    }
    assert!(!raised(&stats, Signal::Asked));
}

#[test]
fn an_approved_retry_does_not_count() {
    let (world, stats) = (World::new(), stats());
    let gate = full(&world, &stats);
    ask(&gate, 100..130);
    let token = world.approve(&gate, &refund("c"));
    assert_eq!(code(&gate, &refund("c").approval(token.as_str())), None);
    ask(&gate, 130..131);
    assert!(!raised(&stats, Signal::Asked), "31 have no approval");
    ask(&gate, 131..132);
    assert!(raised(&stats, Signal::Asked));
}

#[test]
fn a_probe_at_every_seventh_call_raises_a_signal() {
    let (world, stats) = (World::new(), stats());
    let gate = open(&world, &stats, "session-1");
    for number in 0..5_000 {
        world.clock.advance(Millis::from_millis(500)).unwrap();
        let answer = if number % 7 == 0 { undisclosed(&gate) } else { code(&gate, &search("c")) };
        assert_eq!(answer.is_some(), number % 7 == 0);
    }
    assert_eq!(stats.alarm_state(&agent()), AlarmState::Steady);
    assert!(raised(&stats, Signal::Undisclosed));
}

#[test]
fn probes_outside_of_the_window_do_not_count() {
    let (world, stats) = (World::new(), stats());
    let gate = open(&world, &stats, "session-1");
    for _ in 0..100 {
        world.clock.advance(Millis::from_secs(32)).unwrap();
        assert_eq!(undisclosed(&gate), Some(UndisclosedTool));
    }
    assert!(!raised(&stats, Signal::Undisclosed), "19 in 10 minutes");
    world.clock.advance(Millis::from_secs(1)).unwrap();
    assert_eq!(undisclosed(&gate), Some(UndisclosedTool));
    assert!(raised(&stats, Signal::Undisclosed));
}

#[test]
fn observed_attempts_raise_the_signal() {
    let (world, stats) = (World::new(), stats());
    let gate = open(&world, &stats, "session-1");
    for _ in 0..20 {
        assert!(matches!(gate.observe(br#"{"name":"made_up","arguments":{}}"#), Observed::Undisclosed(_)));
    }
    assert!(raised(&stats, Signal::Undisclosed));
}

#[test]
fn a_signal_can_quarantine_the_agent() {
    for (signal, times) in [(Signal::Asked, 32), (Signal::Undisclosed, 20)] {
        let (world, stats) = (World::new(), Arc::new(quarantining(signal)));
        let gate = full(&world, &stats);
        if signal == Signal::Asked {
            ask(&gate, 0..times);
        } else {
            (0..times).for_each(|_| assert_eq!(undisclosed(&gate), Some(UndisclosedTool)));
        }
        assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined), "{signal:?}");
        let by = |(_, record)| {
            let Record::Standing(change) = record else { return None };
            Some(change.by.as_str().to_owned())
        };
        let by: Vec<_> = world.sink.latest().into_iter().filter_map(by).collect();
        assert_eq!(by, [BY_SIGNAL], "{signal:?}");
    }
}

#[test]
fn a_lift_starts_the_signals_anew() {
    let (world, stats) = (World::new(), Arc::new(quarantining(Signal::Undisclosed)));
    let gate = open(&world, &stats, "session-1");
    (0..20).for_each(|_| assert_eq!(undisclosed(&gate), Some(UndisclosedTool)));
    assert_eq!(lift(&stats, &agent()), Standing::Quarantined);
    assert!(!raised(&stats, Signal::Undisclosed));
    for _ in 0..19 {
        assert_eq!(undisclosed(&gate), Some(UndisclosedTool));
    }
    assert_eq!(stats.standing(&agent()), Standing::Free);
    assert_eq!(undisclosed(&gate), Some(UndisclosedTool));
    assert_eq!(stats.standing(&agent()), Standing::Quarantined);
}

#[test]
fn short_sessions_raise_a_signal_together() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let process = || {
        let store = Arc::clone(&store) as Arc<dyn Quarantines>;
        let stats = quarantining(Signal::Undisclosed).kept_in(store);
        let records = world.sink.latest().into_iter().map(|(_, record)| Ok::<_, QuarantineError>(record));
        stats.take_up(&agent(), records).unwrap();
        let stats = Arc::new(stats);
        (open(&world, &stats, "session-1"), stats)
    };
    for _ in 0..2 {
        world.clock.advance(Millis::from_secs(1)).unwrap();
        let (gate, stats) = process();
        (0..10).for_each(|_| assert_eq!(undisclosed(&gate), Some(UndisclosedTool)));
        drop(stats);
    }
    let (gate, _) = process();
    assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
}

#[test]
fn a_flagged_session_does_not_flag_the_next() {
    let world = World::new();
    let first = stats();
    let gate = open(&world, &first, "session-1");
    (0..25).for_each(|_| assert_eq!(undisclosed(&gate), Some(UndisclosedTool)));
    let next = CallStats::new();
    let records = world.sink.latest().into_iter().map(|(_, record)| Ok::<_, QuarantineError>(record));
    next.take_up(&agent(), records).unwrap();
    assert!(raised(&first, Signal::Undisclosed) && !raised(&next, Signal::Undisclosed));
}

/// Fails on the first signal.
#[derive(Debug, Default)]
struct FailsOnce(MemorySink, AtomicBool);

impl AuditSink for FailsOnce {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if matches!(record, Record::Signal(_)) && !self.1.swap(true, Ordering::SeqCst) {
            return Err(AuditError::Poisoned);
        }
        self.0.record(record)
    }
}

#[test]
fn a_signal_that_is_not_recorded_waits_for_the_next_answer() {
    let (world, sink) = (World::new(), Arc::new(FailsOnce::default()));
    let gate = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>).open().unwrap();
    (0..20).for_each(|_| assert_eq!(undisclosed(&gate), Some(UndisclosedTool)));
    assert_eq!(recorded(&sink.0), []);
    assert_eq!(code(&gate, &search("c")), None);
    assert_eq!(recorded(&sink.0).len(), 1);
}

#[test]
fn rules_out_of_bounds_are_refused() {
    let rule = |count, seconds| SignalRule::new(count, Millis::from_secs(seconds), AlarmAction::Flag);
    assert_eq!(rule(0, 60), Err(SignalRuleError::Count));
    assert_eq!(rule(1_025, 60), Err(SignalRuleError::Count));
    assert_eq!(rule(1, 0), Err(SignalRuleError::Within));
    assert_eq!(rule(1, 86_401), Err(SignalRuleError::Within));
    assert!(rule(1, 1).is_ok() && rule(1_024, 86_400).is_ok());
}
