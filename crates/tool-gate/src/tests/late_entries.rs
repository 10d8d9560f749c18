//! Entries of another log that a replay receives after later ones.

use super::signals::agent;
use super::world::*;
use crate::RejectionCode::{ArgsSchema, UndisclosedTool};
use crate::*;
use countersign_audit_log::StandingChange::{Lifted, Quarantined};
use countersign_audit_log::{
    CallRecord, Record, RecordedTool, SessionRecord, StandingChange, StandingRecord, Verdict,
};
use countersign_core::*;

/// A number of seconds after the start.
fn at(seconds: u32) -> Timestamp {
    start().checked_add(Millis::from_secs(seconds)).unwrap()
}

fn of() -> (SessionId, Principal) {
    (SessionId::new("s").unwrap(), Principal::new("p").unwrap())
}

fn session(seconds: u32) -> Record {
    let (session, principal) = of();
    let time = at(seconds);
    Record::Session(SessionRecord::new(time, session, agent(), principal, 1, Vec::new(), time))
}

fn refused(seconds: u32, code: RejectionCode) -> Record {
    let ((session, principal), tool) = (of(), RecordedTool::new("desk", "search"));
    let mut call = CallRecord::new(at(seconds), session, agent(), principal, "c", tool, Verdict::Reject, 1);
    call.code = Some(code.as_str().into());
    Record::Decision(call)
}

fn standing(seconds: u32, change: StandingChange) -> Record {
    Record::Standing(StandingRecord::new(at(seconds), agent(), change, "ada"))
}

/// Nine refusals raise the alarm.
fn nine(seconds: u32) -> Vec<Record> {
    (0..9).map(|n| refused(seconds.checked_add(n).unwrap(), ArgsSchema)).collect()
}

/// Returns the state after these entries.
fn replayed(parts: &[&[Record]]) -> SavedReplay {
    let mut replay = CallStats::new().replay(&agent()).unwrap();
    parts.concat().iter().for_each(|entry| replay.add(entry));
    replay.save()
}

#[test]
fn late_session_does_not_end_a_later_alarm() {
    let (first, late) = ([session(0)], [session(5)]);
    let raised = nine(10);
    assert_eq!(replayed(&[&first, &raised, &late]), replayed(&[&first, &late, &raised]));
}

#[test]
fn session_ends_an_earlier_alarm() {
    let ended = replayed(&[&[session(0)], &nine(10), &[session(20)], &[refused(30, ArgsSchema)]]);
    let text = serde_json::to_string(&ended).unwrap();
    assert!(!text.contains("\"raised\":1"), "{text}");
}

#[test]
fn late_refusals_do_not_count_behind_a_later_session() {
    let earlier = [vec![session(0)], nine(10), vec![session(20)]].concat();
    let late = nine(5);
    assert_eq!(replayed(&[&earlier, &late]), replayed(&[&earlier]));
}

#[test]
fn late_refusals_raise_no_alarm_before_a_later_session() {
    let (first, later, late) = ([session(0)], [session(20)], nine(5));
    assert_eq!(replayed(&[&first, &later, &late]), replayed(&[&first, &late, &later]));
}

#[test]
fn late_refusal_counts_with_those_of_a_later_session() {
    let (sessions, later) = ([session(0), session(20)], nine(30));
    let raised = replayed(&[&sessions, &later[..8], &[refused(5, ArgsSchema)]]);
    let text = serde_json::to_string(&raised).unwrap();
    assert!(text.contains("\"score\":9210341"), "{text}");
}

#[test]
fn late_calls_raise_no_signal_before_a_later_session() {
    let (first, later) = ([session(0)], [session(50)]);
    let late: Vec<_> = (0..20).map(|n| refused(10 + n, UndisclosedTool)).collect();
    let signals = |saved: SavedReplay| serde_json::to_value(saved).unwrap()["signals"].clone();
    assert_eq!(signals(replayed(&[&first, &later, &late])), signals(replayed(&[&first, &late, &later])));
}

#[test]
fn late_lift_does_not_end_a_later_quarantine() {
    let earlier = [standing(10, Quarantined), standing(20, Lifted), standing(30, Quarantined)];
    let late = [standing(10, Quarantined), standing(20, Lifted)];
    assert_eq!(replayed(&[&earlier, &late]), replayed(&[&earlier]));
}

#[test]
fn late_quarantine_drops_no_evidence_behind_a_later_lift() {
    let earlier = [standing(10, Quarantined), standing(20, Lifted), refused(30, ArgsSchema)];
    let late = [standing(10, Quarantined), standing(20, Lifted)];
    assert_eq!(replayed(&[&earlier, &late]), replayed(&[&earlier]));
}

#[test]
fn late_call_raises_no_signal_with_much_later_ones() {
    let later: Vec<_> = (0..19).map(|n| refused(10_000 + n, UndisclosedTool)).collect();
    let late = [refused(100, UndisclosedTool)];
    let text = serde_json::to_string(&replayed(&[&later, &late])).unwrap();
    assert!(
        text.contains("\"undisclosed\":{\"count\":20") && !text.contains("\"calls\":[],\"raised\":1"),
        "{text}"
    );
    let near = [refused(9_999, UndisclosedTool)];
    let text = serde_json::to_string(&replayed(&[&later, &near])).unwrap();
    assert!(text.contains("\"calls\":[],\"raised\":1"), "{text}");
}

#[test]
fn late_session_does_not_end_a_later_signal() {
    let (first, late) = ([session(0)], [session(5)]);
    let raised: Vec<_> = (0..20).map(|n| refused(10 + n, UndisclosedTool)).collect();
    assert_eq!(replayed(&[&first, &raised, &late]), replayed(&[&first, &late, &raised]));
}

/// A clock that is a year ahead.
const AHEAD: u32 = 31_536_000;

/// Returns the state after these entries, as of the 100th second.
fn replayed_today(parts: &[&[Record]]) -> serde_json::Value {
    let mut replay = CallStats::new().replay(&agent()).unwrap().as_of(at(100));
    parts.concat().iter().for_each(|entry| replay.add(entry));
    serde_json::to_value(replay.save()).unwrap()
}

fn probes(seconds: u32, times: u32) -> Vec<Record> {
    (0..times).map(|n| refused(seconds.checked_add(n).unwrap(), UndisclosedTool)).collect()
}

#[test]
fn probes_count_behind_a_call_of_a_clock_that_was_ahead() {
    let ahead = [refused(AHEAD, UndisclosedTool)];
    let saved = replayed_today(&[&[session(0)], &ahead, &probes(10, 10), &[session(30)], &probes(40, 10)]);
    assert!(saved["signals"]["undisclosed"]["raised"].is_number(), "{saved}");
}

#[test]
fn refusals_count_behind_a_session_of_a_clock_that_was_ahead() {
    let saved = replayed_today(&[&[session(0)], &nine(10), &[session(AHEAD)], &nine(40)]);
    assert!(saved["raised"].is_number(), "{saved}");
}

#[test]
fn session_ends_an_alarm_that_a_clock_ahead_raised() {
    let saved = replayed_today(&[&[session(0)], &nine(AHEAD), &[session(30)]]);
    assert!(saved["raised"].is_null() && saved["alarm"]["score"] == 0, "{saved}");
}

#[test]
fn standing_counts_behind_one_of_a_clock_that_was_ahead() {
    let saved = replayed_today(&[&[standing(AHEAD, Quarantined), standing(20, Lifted)]]);
    assert!(saved["quarantined"].is_null(), "{saved}");
}

#[test]
fn state_of_a_clock_that_was_ahead_is_known_as_such() {
    for entry in [session(AHEAD), refused(AHEAD, ArgsSchema), standing(AHEAD, Quarantined)] {
        let saved = replayed(&[&[entry]]);
        assert!(saved.is_ahead_of(at(100)) && !saved.is_ahead_of(at(AHEAD)), "{saved:?}");
    }
}
