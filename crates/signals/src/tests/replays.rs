//! Replays over recorded facts.

use crate::*;
use countersign_core::{AgentId, Digest, Millis, SessionId, Signal, Timestamp};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + seconds * 1_000).unwrap()
}

fn signals(count: u32) -> AgentSignals {
    let rule = SignalRule::new(count, Millis::from_secs(60), AlarmAction::Quarantine).unwrap();
    AgentSignals::new(AlarmRule::default(), AlarmAction::Quarantine, Probing::new(rule, rule))
}

fn replay(count: u32) -> ReplayedSignals {
    signals(count).replay(AgentId::new("bot").unwrap(), None)
}

fn refused(second: u64) -> AgentFact {
    let (time, probe) = (at(second), Some(Probe::Undisclosed));
    AgentFact::Decided { time, accepted: Some(false), probe }
}

fn sum(session: &str, second: u64, conduct: u64) -> AgentFact {
    let session = SessionId::new(session).unwrap();
    let key = Some(Digest::of(session.as_str().as_bytes()));
    AgentFact::Refused(RefusedFact { session, time: at(second), to: at(second), conduct, key })
}

#[test]
fn replay_has_the_state_of_the_counted_answers() {
    let (mut counted, mut replayed) = (signals(20), replay(20));
    for second in 0..6 {
        counted.decide(at(second), false);
        counted.probe(at(second), Probe::Undisclosed);
        replayed.add(&refused(second));
    }
    assert_eq!(replayed.alarm().score(), counted.alarm().score());
    assert_eq!(replayed.probing().save(), counted.probing().save());
}

#[test]
fn next_session_ends_a_raised_alarm_and_signal() {
    let mut replayed = replay(4);
    (0..9).for_each(|second| replayed.add(&refused(second)));
    assert_eq!(replayed.raised(), Some(at(8)));
    assert_eq!(replayed.probing().find(Signal::Undisclosed).1, Some(at(3)));
    replayed.add(&AgentFact::Began(at(10)));
    assert_eq!((replayed.raised(), replayed.alarm().score()), (None, 0));
    assert_eq!(replayed.probing().find(Signal::Undisclosed).1, None);
}

#[test]
fn repeated_sum_counts_once() {
    let mut replayed = replay(20);
    replayed.add(&sum("s", 1, 3));
    let score = replayed.alarm().score();
    assert!(score > 0);
    replayed.add(&sum("s", 2, 3));
    assert_eq!(replayed.alarm().score(), score);
}

#[test]
fn release_drops_the_evidence() {
    let mut replayed = replay(20);
    replayed.add(&sum("s", 1, 3));
    replayed.add(&AgentFact::Standing { time: at(2), is_lifted: false });
    assert_eq!(replayed.quarantined(), Some(at(2)));
    replayed.add(&AgentFact::Standing { time: at(3), is_lifted: true });
    assert_eq!((replayed.quarantined(), replayed.alarm().score()), (None, 0));
}

#[test]
fn saved_replay_resumes_under_its_own_rules_only() {
    let mut replayed = replay(20);
    (0..6).for_each(|second| replayed.add(&refused(second)));
    let saved = replayed.save();
    assert_eq!(replay(20).resumed(&saved).unwrap().save(), saved);
    assert!(replay(19).resumed(&saved).is_none());
    let other = signals(20).replay(AgentId::new("other").unwrap(), None);
    assert!(other.resumed(&saved).is_none());
}
