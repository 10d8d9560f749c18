//! Attacks on counts and alarms: by a host's parts that meddle, by a server that changes its tools, and by time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::signals::{agent, capped, lift, misfit, open, quarantine, tool};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record};
use countersign_core::*;

/// Reads and changes everything while a decision is recorded.
#[derive(Debug)]
struct MeddlingSink(Arc<CallStats>, MemorySink, AtomicU64);

impl AuditSink for MeddlingSink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let _seen = (self.0.snapshot(), self.0.standing(&agent()), self.0.alarm_state(&agent()));
        self.0.watch(&capped(), AlarmRule::default(), AlarmAction::Flag);
        quarantine(&self.0, &capped());
        lift(&self.0, &capped());
        let is_about_the_agent = matches!(record, Record::Standing(_) | Record::Signal(_));
        self.2.fetch_add(u64::from(is_about_the_agent), Ordering::SeqCst);
        self.1.record(record)
    }
}

#[test]
fn concurrent_calls_lifts_or_reads_lose_no_count() {
    const ROUNDS: u64 = 300;
    let world = World::new();
    let stats = Arc::new(CallStats::new().alarm(AlarmRule::default(), AlarmAction::Quarantine));
    let sink = Arc::new(MeddlingSink(Arc::clone(&stats), MemorySink::new(), AtomicU64::new(0)));
    let builder = world.builder_for("session-1", Arc::clone(&sink) as Arc<dyn AuditSink>);
    let rate = RefusalRate::new(10_000, 1_000).unwrap();
    let gate = builder.stats(Arc::clone(&stats)).refused_calls(rate).open().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(gate.check(&search("c")))));
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(gate.check(&misfit("c")))));
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(gate.observe(br#"{"name":"delete_all"}"#))));
            scope.spawn(|| (0..ROUNDS).for_each(|_| drop(gate.observe(b"{"))));
        }
        scope.spawn(|| (0..ROUNDS).map(|_| lift(&stats, &agent())).collect::<Vec<_>>());
        scope.spawn(|| (0..ROUNDS).for_each(|_| drop(stats.snapshot())));
    });
    let shown = stats.snapshot();
    let tools = shown.tools.iter().map(|(_, row)| row.total()).sum::<u64>();
    let own = shown.agents.iter().find(|row| row.agent == agent()).unwrap();
    let rows = [&shown.overall, &own.counts, &gate.counts().snapshot()];
    for row in rows {
        assert_eq!((row.total(), row.accepted() + row.rejected()), (8 * ROUNDS, 8 * ROUNDS));
        assert_eq!(row.rejected_with(UndisclosedTool), 2 * ROUNDS);
        assert_eq!(row.rejected_with(MalformedCall), 2 * ROUNDS);
    }
    assert_eq!(tools + shown.unknown_tools.total(), 8 * ROUNDS);
    // The session, each decision once, an outcome (unknown) of each accepted call, the agent's standing, and its
    // signals.
    let about_the_agent = sink.2.load(Ordering::SeqCst);
    assert_eq!(sink.1.count(), 1 + 8 * ROUNDS + shown.overall.accepted() + about_the_agent);
}

#[test]
fn changed_tool_definition_quarantines_no_agent() {
    let world = World::new();
    let stats = Arc::new(CallStats::new().alarm(AlarmRule::default(), AlarmAction::Quarantine));
    let gate = open(&world, &stats, "session-1");
    let call = ToolCall::new("c", "desk", "pinned", b"{}");
    let unknown = (None, ToolDefinitionUnknown);
    for (definition, refused) in [unknown, (Some(Digest::of(b"a rug pull")), ToolDefinitionChanged)] {
        definition.iter().for_each(|definition| gate.note_definition(&tool("pinned"), *definition));
        for _ in 0..50 {
            assert_eq!(code(&gate, &call), Some(refused));
        }
    }
    let shown = &stats.snapshot().agents[0];
    assert_eq!((shown.alarm_level, shown.standing), (0.0, Standing::Free));
    for refused in [ToolDefinitionUnknown, ToolDefinitionChanged] {
        assert_eq!(shown.counts.rejected_with(refused), 50, "it is counted, and seen in the rate");
    }
    assert_eq!(code(&gate, &search("c")), None, "other servers' tools go on");
}

#[test]
fn expired_goal_does_not_feed_the_alarm() {
    let world = World::new();
    let gate = world.gate();
    world.clock.advance(Millis::from_secs(1_800)).unwrap();
    for _ in 0..50 {
        assert_eq!(code(&gate, &search("c")), Some(AskExpired));
    }
    assert_eq!(gate.stats().snapshot().agents[0].alarm_level, 0.0);
}
