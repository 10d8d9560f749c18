//! Causes of quarantines.

use crate::*;
use countersign_core::{Digest, Millis, Signal, Timestamp};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + seconds * 1_000).unwrap()
}

/// Two calls to undisclosed tools in a minute raise the signal.
fn signals(alarm: AlarmAction, undisclosed: AlarmAction) -> AgentSignals {
    let rule = SignalRule::new(2, Millis::from_secs(60), undisclosed).unwrap();
    let probing = Probing::new(SignalRule::usual(Signal::Asked), rule);
    AgentSignals::new(AlarmRule::default(), alarm, probing)
}

/// Refuses calls until the alarm is raised.
fn refuse(signals: &mut AgentSignals) -> Vec<QuarantineCause> {
    (0..20).filter_map(|second| signals.decide(at(second), false)).collect()
}

#[test]
fn raised_alarm_is_a_cause_once() {
    let mut signals = signals(AlarmAction::Quarantine, AlarmAction::Flag);
    assert_eq!(refuse(&mut signals), [QuarantineCause::Alarm(AlarmRule::default())]);
    assert_eq!(signals.raised(), Some(at(8)));
}

#[test]
fn flagging_alarm_is_no_cause() {
    let mut signals = signals(AlarmAction::Flag, AlarmAction::Flag);
    assert!(refuse(&mut signals).is_empty());
    assert_eq!(signals.alarm().state(), AlarmState::Raised);
}

#[test]
fn calls_further_apart_than_the_rule_raise_no_signal() {
    let mut signals = signals(AlarmAction::Flag, AlarmAction::Flag);
    assert_eq!(signals.probe(at(0), Probe::Undisclosed), None);
    assert_eq!(signals.probe(at(60), Probe::Undisclosed), None);
    let (signal, _) = signals.probe(at(119), Probe::Undisclosed).unwrap();
    assert_eq!(signal, Signal::Undisclosed);
}

#[test]
fn approved_call_does_not_count_as_asked() {
    let rule = SignalRule::new(2, Millis::from_secs(60), AlarmAction::Flag).unwrap();
    let mut probing = Probing::new(rule, rule);
    let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
    assert_eq!(probing.observe(at(0), Probe::Asked(one)), None);
    assert_eq!(probing.observe(at(1), Probe::Approved(one)), None);
    assert_eq!(probing.observe(at(2), Probe::Asked(two)), None);
    assert_eq!(probing.observe(at(3), Probe::Asked(one)), Some(Signal::Asked));
}

#[test]
fn settling_returns_unkept_causes() {
    let mut signals = signals(AlarmAction::Quarantine, AlarmAction::Quarantine);
    refuse(&mut signals);
    signals.probe(at(0), Probe::Undisclosed);
    let (signal, rule) = signals.probe(at(1), Probe::Undisclosed).unwrap();
    let causes = [
        (at(1), QuarantineCause::Signal(signal, rule)),
        (at(8), QuarantineCause::Alarm(AlarmRule::default())),
    ];
    assert_eq!(signals.clone().settle(true), causes);
    assert!(signals.settle(false).is_empty());
    assert_eq!((signals.raised(), signals.alarm().score()), (None, 0));
}
