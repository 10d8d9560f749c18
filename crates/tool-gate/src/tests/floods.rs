//! Refusals beyond the rate are recorded as sums, and every counter stays exact.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::*;
use countersign_core::*;
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;
use proptest::prelude::*;

/// A sink that fails on demand.
#[derive(Debug)]
struct Switch(Arc<MemorySink>, AtomicBool);

impl AuditSink for Switch {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if self.1.load(Ordering::SeqCst) { Err(AuditError::Poisoned) } else { self.0.record(record) }
    }
}

fn rate(burst: u32, per_second: u32) -> RefusalRate {
    RefusalRate::new(burst, per_second).unwrap()
}

/// A gate with this rate of refused calls.
fn slow_gate(world: &World, burst: u32) -> ToolGate {
    world.full().refused_calls(rate(burst, 1)).open().unwrap()
}

fn sums(sink: &MemorySink) -> Vec<RefusedRecord> {
    let sum = |(_, record)| if let Record::Refused(sum) = record { Some(sum) } else { None };
    sink.latest().into_iter().filter_map(sum).collect()
}

/// Number of refused decisions with entries of their own.
fn entries(sink: &MemorySink) -> usize {
    sink.latest()
        .iter()
        .filter(|(_, record)| matches!(record, Record::Decision(call) if call.code.is_some()))
        .count()
}

fn made_up(gate: &ToolGate, n: usize) -> Rejection {
    gate.check(&ToolCall::new("c", "desk", &format!("made-up-{n}"), b"{}")).unwrap_err()
}

#[test]
fn flood_of_refused_calls_is_summed() {
    let world = World::new();
    let gate = world.gate();
    for n in 0..5_000 {
        let numbered = made_up(&gate, n).sequence().is_some();
        assert_eq!(numbered, n < 1_000, "{n}");
    }
    assert_eq!((entries(&world.sink), sums(&world.sink).len()), (1_000, 0));
    world.clock.advance(Millis::from_secs(10)).unwrap();
    made_up(&gate, 0);
    let [sum] = sums(&world.sink).try_into().unwrap();
    assert_eq!((sum.total(), sum.made_up, sum.rows.len(), sum.names.len()), (4_000, 4_000, 1, 16));
    assert_eq!((sum.names[0].as_str(), sum.rows[0].code.as_str()), ("desk:made-up-1000", "UNDISCLOSED_TOOL"));
    assert_eq!((sum.from, sum.to), (start(), start()));
    assert_eq!(gate.counts().rejected_with(UndisclosedTool), 5_001);
    assert_eq!(gate.call_log().len(), 1_024, "memory has the last ones, summed or not");
}

#[test]
fn bucket_fills_by_the_gates_clock() {
    let world = World::new();
    let gate = slow_gate(&world, 2);
    let mut numbered = Vec::new();
    for step in [0, 0, 0, 1_000, 0, 500, 500, 60_000, 0, 0] {
        world.clock.advance(Millis::new(step).unwrap_or(Millis::ZERO)).unwrap();
        numbered.push(made_up(&gate, 0).sequence().is_some());
    }
    assert_eq!(numbered, [true, true, false, true, false, false, true, true, true, false]);
}

#[test]
fn sum_counts_known_tools_by_code() {
    let world = World::new();
    let gate = slow_gate(&world, 1);
    for call in [search("a"), refund("b"), ToolCall::new("c", "desk", "search", b"{\"x\":1}")] {
        for _ in 0..3 {
            let _ = gate.check(&call);
        }
    }
    gate.refusals().write(start()).unwrap();
    let [sum] = sums(&world.sink).try_into().unwrap();
    let rows =
        sum.rows.iter().map(|row| (row.code.as_str(), row.tool.as_ref().unwrap().name.as_str(), row.count));
    // The first question has an entry from a bucket of its own, and so has the first other refusal.
    assert_eq!(rows.collect::<Vec<_>>(), [("APPROVAL_REQUIRED", "refund", 2), ("ARGS_SCHEMA", "search", 2)]);
}

#[test]
fn question_has_an_entry_in_a_flood() {
    let world = World::new();
    let gate = slow_gate(&world, 1);
    for n in 0..100 {
        made_up(&gate, n);
    }
    let asked = gate.check(&refund("c")).unwrap_err();
    assert!(asked.sequence().is_some() && asked.approval_request().is_some());
}

#[test]
fn sum_is_recorded_before_the_next_acceptance() {
    let world = World::new();
    let gate = slow_gate(&world, 1);
    for n in 0..10 {
        made_up(&gate, n);
    }
    assert_eq!(code(&gate, &search("c")), None);
    let kinds: Vec<_> = world
        .sink
        .latest()
        .into_iter()
        .map(|(_, record)| match record {
            Record::Decision(call) => call.code.map_or("ACCEPT".into(), |code| code.to_string()),
            Record::Refused(sum) => format!("{} refused", sum.total()),
            Record::Outcome(_) => "outcome".into(),
            Record::Session(_) | _ => "session".into(),
        })
        .collect();
    assert_eq!(kinds, ["session", "UNDISCLOSED_TOOL", "9 refused", "ACCEPT", "outcome"]);
}

#[test]
fn last_sum_is_recorded_when_the_gate_is_dropped() {
    let world = World::new();
    let gate = slow_gate(&world, 1);
    for n in 0..10 {
        made_up(&gate, n);
    }
    drop(gate);
    assert_eq!(sums(&world.sink).iter().map(RefusedRecord::total).sum::<u64>(), 9);
}

#[test]
fn sum_that_cannot_be_recorded_is_kept() {
    let world = World::new();
    let sink = Arc::new(Switch(Arc::clone(&world.sink), false.into()));
    let gate = world.builder_with(Arc::clone(&sink) as _).refused_calls(rate(1, 1)).open().unwrap();
    for n in 0..10 {
        made_up(&gate, n);
    }
    sink.1.store(true, Ordering::SeqCst);
    assert_eq!(code(&gate, &search("c")), Some(AuditUnavailable), "no acceptance before the sum");
    for n in 10..20 {
        world.clock.advance(Millis::from_secs(10)).unwrap();
        made_up(&gate, n);
    }
    sink.1.store(false, Ordering::SeqCst);
    assert_eq!(code(&gate, &search("c")), None);
    let unavailable = gate.counts().rejected_with(AuditUnavailable);
    let summed: u64 = sums(&world.sink).iter().map(RefusedRecord::total).sum();
    // Those that had a token during the outage were refused as unrecorded, as usual.
    assert_eq!((summed, unavailable), (9, 11));
    assert_eq!(gate.counts().rejected(), 1 + summed + unavailable);
}

/// A sink that keeps the first sum and reports a failure, like a log whose sync failed and whose batch is later found
/// whole.
#[derive(Debug)]
struct FoundWhole(Arc<MemorySink>, AtomicBool);

impl AuditSink for FoundWhole {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let number = self.0.record(record)?;
        let is_first = matches!(record, Record::Refused(_)) && !self.1.swap(true, Ordering::SeqCst);
        if is_first { Err(AuditError::Poisoned) } else { Ok(number) }
    }
}

#[test]
fn sum_that_was_found_whole_later_counts_once() {
    let world = World::new();
    let stats: Arc<CallStats> = Arc::default();
    let sink = Arc::new(FoundWhole(Arc::clone(&world.sink), false.into()));
    let gate =
        world.builder_with(sink as _).refused_calls(rate(1, 1)).stats(Arc::clone(&stats)).open().unwrap();
    for n in 0..3 {
        made_up(&gate, n);
    }
    gate.refusals().write(start()).unwrap_err();
    made_up(&gate, 3);
    gate.refusals().write(start()).unwrap();
    let numbers: Vec<_> = sums(&world.sink).iter().map(|sum| (sum.number.unwrap(), sum.total())).collect();
    assert_eq!(numbers, [(1, 2), (1, 2), (2, 1)]);
    let mut alarm = ReplayedAlarm::new(AlarmRule::default());
    for (_, record) in world.sink.latest() {
        alarm.replay(&record);
    }
    assert_eq!(alarm.alarm().level(), stats.snapshot().agents[0].alarm_level);
}

/// A gate with an empty bucket, whose clock was an hour ahead and is right again.
fn gate_set_back(world: &World, burst: u32) -> ToolGate {
    world.clock.advance(Millis::from_secs(3_600)).unwrap();
    let gate = slow_gate(world, burst);
    for n in 0..burst as usize {
        assert!(made_up(&gate, n).sequence().is_some());
    }
    world.clock.set(start());
    gate
}

#[test]
fn bucket_fills_after_the_clock_was_set_back() {
    let world = World::new();
    let gate = gate_set_back(&world, 2);
    assert!(made_up(&gate, 0).sequence().is_none(), "going back gains nothing");
    for _ in 0..3 {
        world.clock.advance(Millis::from_secs(1)).unwrap();
        assert!(made_up(&gate, 0).sequence().is_some());
        assert!(made_up(&gate, 0).sequence().is_none());
    }
}

#[test]
fn sum_is_due_after_the_clock_was_set_back() {
    let world = World::new();
    let gate = gate_set_back(&world, 1);
    made_up(&gate, 0);
    assert!(sums(&world.sink).is_empty());
    world.clock.advance(Millis::from_secs(10)).unwrap();
    made_up(&gate, 0);
    assert_eq!(sums(&world.sink).len(), 1);
}

#[test]
fn clock_that_fails_gains_no_tokens() {
    let world = World::new();
    let gate = gate_set_back(&world, 2);
    assert!(made_up(&gate, 0).sequence().is_none());
    for _ in 0..10 {
        world.clock.break_down();
        assert_eq!(gate.check(&search("c")).unwrap_err().sequence(), None);
        world.clock.set(start());
        assert_eq!(made_up(&gate, 0).sequence(), None);
    }
}

#[test]
fn flood_between_acceptances_adds_little() {
    let (session, agent) = (SessionId::new("s-1").unwrap(), AgentId::new("bot").unwrap());
    let (mut bytes, mut total, mut before) = (0, 0, start());
    let sink = Arc::new(MemorySink::keeping(1));
    let refused = Refusals::new(Arc::clone(&sink) as _, session, Some(agent), RefusalRate::CALLS);
    for n in 0..500 {
        let now = start().saturating_add(Millis::new(n * 120 + 1).unwrap());
        for tool in 0..64 {
            let mut row = RefusedRow::new("ARGS_SCHEMA");
            row.tool = Some(RecordedTool::new("desk", &format!("tool-{tool}")));
            refused.add(now, row, None);
        }
        // Done by each acceptance.
        refused.write(now).unwrap();
        let sum = sums(&sink).pop().unwrap();
        assert!(before < sum.from && sum.to == now);
        (before, total) = (sum.to, total + sum.total());
        bytes += serde_json::to_string(&Record::Refused(sum)).unwrap().len();
    }
    assert_eq!(total, 500 * 64);
    assert!(bytes < 384 << 10, "{bytes}");
}

#[test]
fn sum_from_before_a_lift_does_not_count_behind_it() {
    let (session, agent) = (SessionId::new("s-2").unwrap(), AgentId::new("bot").unwrap());
    let at = |seconds| start().saturating_add(Millis::from_secs(seconds));
    let sum = |from: u32| {
        let mut sum = RefusedRecord::new(session.clone(), Some(agent.clone()), at(from));
        sum.time = at(20);
        sum.add(RefusedRow::new("ARGS_SCHEMA"));
        Record::Refused(sum)
    };
    let standing =
        |time, change| Record::Standing(StandingRecord::new(at(time), agent.clone(), change, "ada"));
    let mut alarm = ReplayedAlarm::new(AlarmRule::default());
    alarm.replay(&standing(5, StandingChange::Quarantined));
    alarm.replay(&standing(10, StandingChange::Lifted));
    alarm.replay(&sum(4));
    assert_eq!(alarm.alarm().level(), 0.0);
    alarm.replay(&sum(10));
    assert!(alarm.alarm().level() > 0.0);
}

#[test]
fn sums_count_after_a_lift_by_a_clock_that_was_ahead() {
    let (session, agent) = (SessionId::new("s-2").unwrap(), AgentId::new("bot").unwrap());
    let at = |seconds| start().saturating_add(Millis::from_secs(seconds));
    let standing =
        |time, change| Record::Standing(StandingRecord::new(at(time), agent.clone(), change, "ada"));
    let mut alarm = ReplayedAlarm::new(AlarmRule::default());
    alarm.replay(&standing(3_600, StandingChange::Quarantined));
    alarm.replay(&standing(3_601, StandingChange::Lifted));
    for from in [4, 5] {
        let mut sum = RefusedRecord::new(session.clone(), Some(agent.clone()), at(from));
        sum.add(RefusedRow::new("ARGS_SCHEMA"));
        alarm.replay(&Record::Refused(sum));
    }
    assert!(alarm.alarm().level() > 0.0);
}

#[test]
fn plans_that_are_refused_are_summed_apart_from_calls() {
    let world = World::new();
    let gate = slow_gate(&world, 1);
    for _ in 0..5 {
        let plan = super::plan_world::plan_of(&gate, vec![super::plan_world::step("gone", "{}")]);
        gate.start_plan(PlanSettings::new(plan)).unwrap_err();
    }
    gate.refusals().write(start()).unwrap();
    let [sum] = sums(&world.sink).try_into().unwrap();
    assert_eq!((sum.rows.len(), sum.rows[0].about_plan, sum.rows[0].count), (1, true, 4));
    let mut alarm = ReplayedAlarm::new(AlarmRule::default());
    alarm.replay(&Record::Refused(sum));
    assert_eq!(alarm.alarm().level(), 0.0);
    assert_eq!(gate.counts().total(), 0);
}

#[test]
fn rates_are_within_bounds() {
    for (burst, per_second) in [(0, 1), (1, 0), (10_001, 1), (1, 1_001)] {
        assert_eq!(RefusalRate::new(burst, per_second), Err(RefusalRateError));
    }
    assert!(RefusalRate::new(10_000, 1_000).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An alarm replayed over sums has the state of the gate's own, and the counts add up.
    #[test]
    fn replayed_alarm_is_the_gates_own(
        calls in prop::collection::vec((0_u8..6, 0_u64..3_000), 1..200), burst in 1_u32..5,
    ) {
        let world = World::new();
        let stats: Arc<CallStats> = Arc::default();
        let gate = world.full().refused_calls(rate(burst, 1)).stats(Arc::clone(&stats)).open().unwrap();
        for (kind, wait) in &calls {
            world.clock.advance(Millis::new(*wait).unwrap_or(Millis::ZERO)).unwrap();
            match kind {
                0 | 1 => drop(gate.check(&search("a"))),
                2 => drop(gate.check(&refund("b"))),
                3 => drop(gate.refuse_malformed("c", "x")),
                4 => drop(gate.refuse_too_many("c", "x")),
                _ => drop(made_up(&gate, 0)),
            }
        }
        gate.refusals().write(world.clock.now().unwrap()).unwrap();
        let (mut alarm, mut refused) = (ReplayedAlarm::new(AlarmRule::default()), 0);
        for (_, record) in world.sink.latest() {
            alarm.replay(&record);
            refused += match record {
                Record::Decision(call) => u64::from(call.code.is_some()),
                Record::Refused(sum) => sum.total(),
                Record::Session(_) | _ => 0,
            };
        }
        prop_assert_eq!(refused, gate.counts().rejected());
        prop_assert_eq!(alarm.alarm().level(), stats.snapshot().agents[0].alarm_level);
    }
}

/// Bytes added to a real log by a minute of refused calls, a thousand a second.
fn bytes_of_a_flood(revoke: bool) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("log");
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    let log = Arc::new(Log::open(&folder, options).unwrap());
    let size = || -> u64 {
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let world = World::new();
    let gate = world.builder_with(Arc::clone(&log) as _).open().unwrap();
    if revoke {
        world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    }
    let before = size();
    for n in 0..60_000 {
        if n % 10 == 0 {
            world.clock.advance(Millis::new(10).unwrap()).unwrap();
        }
        if n % 3 == 0 {
            gate.check(&ToolCall::new(&format!("call-{n}"), "desk", "search", b"{\"n\":1}")).unwrap_err();
        } else {
            made_up(&gate, n);
        }
    }
    assert_eq!(gate.counts().rejected(), 60_000);
    drop(gate);
    size() - before
}

#[test]
fn minute_of_refused_calls_adds_under_two_mebibytes() {
    let added = bytes_of_a_flood(false);
    assert!(added < 2 << 20, "{added}");
}

#[test]
fn revoked_agents_minute_of_calls_adds_under_two_mebibytes() {
    let added = bytes_of_a_flood(true);
    assert!(added < 2 << 20, "{added}");
}

#[test]
fn servers_minute_of_refused_messages_adds_little() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("log");
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    let log = Arc::new(Log::open(&folder, options).unwrap());
    let session = SessionId::new("s-1").unwrap();
    let refused = Refusals::new(Arc::clone(&log) as _, session.clone(), None, RefusalRate::MESSAGES);
    for n in 0..60_000 {
        let now = start().saturating_add(Millis::new(n + 1).unwrap());
        if refused.takes(now) {
            let mut record = GatewayRecord::new(now, Direction::ToClient, "METHOD_NOT_ALLOWED");
            record.session = Some(session.clone());
            record.method = Some("notifications/made_up".into());
            record.reason = Some("the gateway does not allow the method".into());
            log.record(&Record::Gateway(record)).unwrap();
        } else {
            refused.add(now, RefusedRow::new("METHOD_NOT_ALLOWED"), Some(&format!("notifications/{n}")));
        }
        if refused.is_due(now) {
            refused.write(now).unwrap();
        }
    }
    drop(refused);
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    let added: u64 = files.sum();
    assert!(added < 256 << 10, "{added}");
}

/// Adds a refusal during each record, like a flood.
#[derive(Debug, Default)]
struct InAFlood {
    refusals: OnceLock<Weak<Refusals>>,
    records: AtomicUsize,
}

impl AuditSink for InAFlood {
    fn record(&self, _: &Record) -> Result<u64, AuditError> {
        let refusals = self.refusals.get().and_then(Weak::upgrade).unwrap();
        if self.records.fetch_add(1, Ordering::SeqCst) < 100 {
            refusals.add(start(), RefusedRow::new("MALFORMED_CALL"), None);
        }
        Ok(1)
    }
}

#[test]
fn write_ends_while_a_flood_goes_on() {
    let sink = Arc::new(InAFlood::default());
    let session = SessionId::new("s").unwrap();
    let refusals = Arc::new(Refusals::new(Arc::clone(&sink) as _, session, None, RefusalRate::MESSAGES));
    sink.refusals.set(Arc::downgrade(&refusals)).unwrap();
    refusals.add(start(), RefusedRow::new("MALFORMED_CALL"), None);
    refusals.write(start()).unwrap();
    assert_eq!(sink.records.load(Ordering::SeqCst), 1);
}
