use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan_world::{start_plan, steps};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditSink, StandingChange, StandingRecord};
use countersign_core::*;
use countersign_registry::{NegotiationRequest, SessionContract};

pub(super) fn agent() -> AgentId {
    AgentId::new("support-bot").unwrap()
}

pub(super) fn tool(name: &str) -> ToolId {
    ToolId::new("desk", name).unwrap()
}

pub(super) fn open(world: &World, stats: &Arc<CallStats>, session: &str) -> ToolGate {
    let sink = Arc::clone(&world.sink) as Arc<dyn AuditSink>;
    world.builder_for(session, sink).stats(Arc::clone(stats)).open().unwrap()
}

fn open_with(world: &World, stats: &Arc<CallStats>, contract: SessionContract) -> ToolGate {
    let clock = Arc::clone(&world.clock) as Arc<dyn Clock>;
    let sink = Arc::clone(&world.sink) as Arc<dyn AuditSink>;
    let principal = Principal::new("ada@example.com").unwrap();
    let builder = ToolGate::builder(Arc::clone(&world.registry), contract, principal, clock, sink);
    builder.stats(Arc::clone(stats)).open().unwrap()
}

pub(super) fn capped() -> AgentId {
    AgentId::new("capped-bot").unwrap()
}

/// A gate of another agent.
fn open_capped(world: &World, stats: &Arc<CallStats>) -> ToolGate {
    let request = NegotiationRequest::new(SessionId::new("session-9").unwrap(), capped());
    open_with(world, stats, world.registry.negotiate(&request, start()).unwrap())
}

pub(super) fn standing(agent: &AgentId, change: StandingChange, by: &str) -> StandingRecord {
    StandingRecord::new(start(), agent.clone(), change, by)
}

pub(super) fn quarantine(stats: &CallStats, agent: &AgentId) -> Standing {
    stats.set_standing(&standing(agent, StandingChange::Quarantined, "ada")).unwrap()
}

pub(super) fn lift(stats: &CallStats, agent: &AgentId) -> Standing {
    stats.set_standing(&standing(agent, StandingChange::Lifted, "ada")).unwrap()
}

fn none(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "none", b"{}")
}

/// A call to one of the agent's tools with arguments that do not fit: a rejection of step 3.
pub(super) fn misfit(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "search", br#"{"query":7}"#)
}

#[test]
fn every_answer_counts_once_in_each_of_its_rows() {
    let world = World::new();
    let gate = world.gate();
    let stats = gate.stats();
    for (call, wanted) in [
        (search("c"), None),
        (misfit("c"), Some(ArgsSchema)),
        (ToolCall::new("c", "desk", "search", b"["), Some(MalformedCall)),
        (ToolCall::by_name("c", "search", b"["), Some(MalformedCall)),
        (ToolCall::new("c", "desk", "delete_ticket", b"{}"), Some(UndisclosedTool)),
        (none("c"), Some(UndisclosedTool)),
        (ToolCall::new("c", "attic", "search", SEARCH), Some(UndisclosedTool)),
        (ToolCall::new("c", "d:e:s:k", "search", SEARCH), Some(MalformedCall)),
        (ToolCall::by_name("c", "twin", b"{}"), Some(UndisclosedTool)),
        (refund("c"), Some(ApprovalRequired)),
    ] {
        assert_eq!(code(&gate, &call), wanted);
    }
    assert_eq!(gate.refuse_malformed("c", "no call").code(), MalformedCall);
    let searches = stats.tool(&tool("search")).unwrap();
    assert_eq!((searches.accepted(), searches.rejected()), (1, 3));
    let hidden = stats.tool(&tool("delete_ticket")).unwrap();
    assert_eq!(
        hidden.rejected_with(UndisclosedTool),
        1,
        "it exists, and the operator may know that it was tried"
    );
    assert_eq!(stats.unknown_tools().total(), 5);
    assert_eq!(stats.tool(&tool("none")).map(|row| row.total()), None);
    let shown = stats.snapshot();
    let by_tool: u64 = shown.tools.iter().map(|(_, row)| row.total()).sum();
    assert_eq!(by_tool + shown.unknown_tools.total(), 11);
    assert_eq!((shown.overall.total(), shown.agents[0].counts.total(), gate.counts().total()), (11, 11, 11));
    assert_eq!(
        shown.overall.rejected_by_code(),
        [(MalformedCall, 4), (UndisclosedTool, 4), (ArgsSchema, 1), (ApprovalRequired, 1)]
    );
    assert_eq!((shown.overall.pending(), shown.overall.decided()), (1, 10));
}

#[test]
fn made_up_names_share_one_row() {
    let world = World::new();
    let gate = world.gate();
    let before = gate.stats().tools();
    assert_eq!(&before, &gate.contract().tools().iter().cloned().collect::<Vec<_>>());
    for n in 0..2_000 {
        let name = format!("made_up_{n}");
        assert_eq!(code(&gate, &ToolCall::new("c", &name, &name, b"{}")), Some(UndisclosedTool));
        let raw = format!(r#"{{"name":"{name}","arguments":{{}}}}"#);
        assert!(matches!(gate.observe(raw.as_bytes()), Observed::Undisclosed(_)));
    }
    assert_eq!(gate.stats().tools(), before);
    assert_eq!(gate.stats().agents(), [agent()]);
    assert_eq!(gate.stats().unknown_tools().rejected_with(UndisclosedTool), 4_000);
    assert_eq!(gate.attempted_undisclosed().count(), 4_000);
}

#[test]
#[ignore = "two million refusals: run in release mode, in a process of its own"]
fn a_million_made_up_names_leave_memory_flat() {
    let world = World::new();
    let gate = world.gate();
    let refuse = |from: u32, to: u32| {
        for n in from..to {
            let (id, name) = (format!("call-{n}"), format!("made_up_{n}"));
            assert_eq!(code(&gate, &ToolCall::new(&id, "desk", &name, b"{}")), Some(UndisclosedTool));
            let raw = format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}"#);
            assert!(matches!(gate.observe(raw.as_bytes()), Observed::Undisclosed(_)));
        }
    };
    refuse(0, 10_000);
    let before = resident_kib();
    refuse(10_000, 1_000_000);
    let grown = resident_kib().saturating_sub(before);
    println!("a million names, each called and observed: grown by {grown} KiB");
    assert!(grown < 8 << 10, "grown by {grown} KiB");
    assert_eq!(gate.stats().unknown_tools().total(), 2_000_000);
    assert_eq!(gate.stats().tools().len(), gate.contract().tools().len());
}

/// Resident memory of this process, from Linux.
pub(super) fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn eight_threads_on_two_sessions_are_counted_exactly() {
    let world = World::new();
    let stats = Arc::new(CallStats::new());
    let gates = [open(&world, &stats, "session-1"), open(&world, &stats, "session-2")];
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let gate = &gates[thread % 2];
            scope.spawn(move || {
                for n in 0..250 {
                    let call = [search("c"), misfit("c"), none("c"), refund("c")][n % 4].clone();
                    let _ = code(gate, &call);
                }
            });
        }
    });
    let shown = stats.snapshot();
    assert_eq!((shown.overall.total(), shown.overall.accepted()), (2_000, 504));
    assert_eq!(
        shown.overall.rejected_by_code(),
        [(UndisclosedTool, 496), (ArgsSchema, 504), (ApprovalRequired, 496)]
    );
    let of_agent = &shown.agents[0].counts;
    assert_eq!(of_agent.accepted(), shown.overall.accepted());
    assert_eq!(of_agent.rejected_by_code(), shown.overall.rejected_by_code());
    let by_session: u64 = gates.iter().map(|gate| gate.counts().total()).sum();
    let by_tool: u64 = shown.tools.iter().map(|(_, row)| row.total()).sum();
    assert_eq!((by_session, by_tool + shown.unknown_tools.total()), (2_000, 2_000));
}

#[test]
fn an_agent_whose_acceptance_drops_is_flagged_and_goes_on() {
    let world = World::new();
    let gate = world.gate();
    let stats = gate.stats();
    for _ in 0..100 {
        assert_eq!(code(&gate, &search("c")), None);
    }
    for rejected in 1..=9 {
        assert_eq!(stats.alarm_state(&agent()), AlarmState::Steady, "after {rejected}");
        world.clock.advance(Millis::from_secs(1)).unwrap();
        assert_eq!(code(&gate, &misfit("c")), Some(ArgsSchema));
    }
    assert_eq!(stats.alarm_state(&agent()), AlarmState::Raised);
    let shown = &stats.snapshot().agents[0];
    assert_eq!(shown.alarm_raised, start().checked_add(Millis::from_secs(9)).ok());
    assert_eq!((shown.alarm, shown.standing), (AlarmState::Raised, Standing::Free));
    assert!((shown.alarm_level - 1.0).abs() < f64::EPSILON);
    world.clock.advance(Millis::from_secs(1)).unwrap();
    assert_eq!(code(&gate, &search("c")), None, "a flag decides nothing");
    assert_eq!(stats.snapshot().agents[0].alarm_raised, shown.alarm_raised);
    stats.reset_alarm(&agent());
    let reset = &stats.snapshot().agents[0];
    assert_eq!((reset.alarm, reset.alarm_raised), (AlarmState::Steady, None));
    assert_eq!(reset.counts.accepted(), 101, "counts stay");
}

#[test]
fn quarantine_refuses_every_call_until_it_is_lifted() {
    let world = World::new();
    let stats = Arc::new(CallStats::new().alarm(AlarmRule::default(), AlarmAction::Quarantine));
    let (first, second) = (open(&world, &stats, "session-1"), open(&world, &stats, "session-2"));
    let other = open_capped(&world, &stats);
    for _ in 0..9 {
        assert_eq!(stats.standing(&agent()), Standing::Free);
        assert_eq!(code(&first, &misfit("c")), Some(ArgsSchema));
    }
    assert_eq!(stats.standing(&agent()), Standing::Quarantined);
    let third = open(&world, &stats, "session-3");
    for gate in [&first, &second, &third] {
        for call in [search("c"), none("c"), misfit("c"), refund("c")] {
            assert_eq!(code(gate, &call), Some(AgentQuarantined));
        }
        let record = gate.call_log().last().cloned().unwrap();
        assert_eq!(record.code.unwrap().as_str(), "AGENT_QUARANTINED");
    }
    let ran = second.call("search", SEARCH, |_| -> Result<(), ()> { panic!("the tool was touched") });
    assert!(matches!(ran, Err(CallError::Rejected(no)) if no.code() == AgentQuarantined));
    assert_eq!(code(&other, &search("c")), None, "another agent goes on");
    assert_eq!(lift(&stats, &agent()), Standing::Quarantined);
    assert_eq!(lift(&stats, &agent()), Standing::Free);
    for gate in [&first, &second, &third] {
        assert_eq!(code(gate, &search("c")), None);
    }
    assert_eq!(stats.alarm_state(&agent()), AlarmState::Steady);
    for _ in 0..9 {
        assert_eq!(code(&second, &misfit("c")), Some(ArgsSchema), "it can be raised again");
    }
    assert_eq!(code(&first, &search("c")), Some(AgentQuarantined));
}

#[test]
fn quarantined_agent_cannot_act_by_plan_or_child_agent() {
    let world = World::new();
    let stats = Arc::new(CallStats::new());
    let sink = Arc::clone(&world.sink) as Arc<dyn AuditSink>;
    let gate = world
        .builder_for("session-1", sink)
        .pinned_ask(world.pin())
        .stats(Arc::clone(&stats))
        .open()
        .unwrap();
    let request = NegotiationRequest::new(SessionId::new("session-2").unwrap(), capped());
    let contract = world.registry.negotiate_under(&gate.contract(), &request, start()).unwrap();
    let child = open_with(&world, &stats, contract);
    quarantine(&stats, &agent());
    let refused = start_plan(&gate, steps()).unwrap_err();
    assert_eq!((refused.code(), gate.plan_root()), ("AGENT_QUARANTINED", None));
    assert_eq!(code(&child, &search("c")), Some(AgentQuarantined));
    assert_eq!(stats.standing(&capped()), Standing::Free, "by itself it may go on");
    assert_eq!(code(&open_capped(&world, &stats), &search("c")), None);
    assert_eq!(lift(&stats, &agent()), Standing::Quarantined);
    assert_eq!(code(&child, &search("c")), None);
    start_plan(&gate, steps()).unwrap();
}

#[test]
fn refusals_of_a_quarantine_do_not_feed_the_alarm() {
    let world = World::new();
    let gate = world.gate();
    let stats = gate.stats();
    quarantine(stats, &agent());
    for _ in 0..100 {
        assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
    }
    let shown = &stats.snapshot().agents[0];
    assert_eq!(
        (shown.alarm, shown.alarm_level, shown.standing),
        (AlarmState::Steady, 0.0, Standing::Quarantined)
    );
    assert_eq!(shown.counts.rejected_with(AgentQuarantined), 100);
    stats.reset_alarm(&agent());
    assert_eq!(stats.standing(&agent()), Standing::Quarantined, "an alarm that is reset lifts nothing");
}

#[test]
fn quarantine_can_precede_the_first_gate() {
    let world = World::new();
    let stats = Arc::new(CallStats::new());
    quarantine(&stats, &agent());
    let gate = open(&world, &stats, "session-1");
    assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(code(&gate, &search("c")), Some(AgentRevoked));
    let unheard = AgentId::new("nobody").unwrap();
    assert_eq!((stats.standing(&unheard), stats.alarm_state(&unheard)), (Standing::Free, AlarmState::Steady));
    stats.reset_alarm(&unheard);
    assert_eq!(stats.agents(), [agent()], "asking makes no row");
}

#[test]
fn an_agent_can_be_watched_by_a_rule_of_its_own() {
    let world = World::new();
    let gate = world.gate();
    let strict = AlarmRule::new(0.99, 0.5, 2).unwrap();
    gate.stats().watch(&agent(), strict, AlarmAction::Quarantine);
    assert_eq!(gate.stats().snapshot().agents[0].alarm_rule, strict);
    assert_eq!(code(&gate, &misfit("c")), Some(ArgsSchema));
    assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
}

#[test]
fn pending_calls_or_host_faults_do_not_feed_the_alarm() {
    let world = World::new();
    let gate = world.gate();
    for _ in 0..50 {
        assert_eq!(code(&gate, &refund("c")), Some(ApprovalRequired), "it waits");
    }
    world.registry.reload(&sign(2, NONE_REVOKED, Millis::from_secs(60)), start()).unwrap();
    world.clock.advance(Millis::from_secs(60)).unwrap();
    for _ in 0..50 {
        assert_eq!(code(&gate, &search("c")), Some(RegistryStale));
    }
    world.clock.break_down();
    for _ in 0..50 {
        assert_eq!(code(&gate, &search("c")), Some(Internal));
    }
    let shown = &gate.stats().snapshot().agents[0];
    assert_eq!((shown.alarm, shown.alarm_level), (AlarmState::Steady, 0.0));
}

#[test]
fn the_hosts_own_checks_feed_the_alarm() {
    let world = World::new();
    let gate = world.full().user_check("no", |_: &CheckedCall<'_>| Err(String::new())).open().unwrap();
    for _ in 0..9 {
        assert_eq!(code(&gate, &search("c")), Some(CheckRefused));
    }
    assert_eq!(gate.stats().alarm_state(&agent()), AlarmState::Raised);
}

/// Ticks that advance by a fixed step at each reading.
#[derive(Debug, Default)]
struct Stepping {
    now: AtomicU64,
    step: AtomicU64,
}

impl Ticks for Stepping {
    fn nanos(&self) -> u64 {
        let step = self.step.load(Ordering::SeqCst);
        self.now.fetch_add(step, Ordering::SeqCst)
    }
}

#[test]
fn every_answer_is_timed_once_in_seconds() {
    let world = World::new();
    let ticks = Arc::new(Stepping::default());
    let stats = Arc::new(CallStats::new().ticks(Arc::clone(&ticks) as Arc<dyn Ticks>));
    let gate = open(&world, &stats, "session-1");
    for nanos in [0, 1_000, 1_001, 50_000, 10_000_000_000, 10_000_000_001] {
        ticks.step.store(nanos, Ordering::SeqCst);
        assert_eq!(code(&gate, &search("c")), None);
    }
    ticks.step.store(2_000_000_000, Ordering::SeqCst);
    assert_eq!(code(&gate, &none("c")), Some(UndisclosedTool));
    let _ = gate.observe(b"{}");
    let shown = stats.snapshot().answer_time.unwrap();
    let under = |seconds: f64| shown.buckets.iter().find(|(bound, _)| *bound == seconds).unwrap().1;
    assert_eq!((under(0.000_001), under(0.000_002_5), under(0.000_025)), (2, 3, 3));
    assert_eq!((under(0.000_05), under(1.0), under(2.5), under(10.0), shown.count), (4, 4, 5, 6, 7));
    assert!((shown.sum_seconds - 22.000_052_002).abs() < 1e-9, "{}", shown.sum_seconds);
    assert!(shown.buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    assert_eq!(world.gate().stats().snapshot().answer_time, None, "without ticks nothing is timed");
}

#[derive(Debug)]
struct BrokenTicks;

impl Ticks for BrokenTicks {
    fn nanos(&self) -> u64 {
        panic!("injected")
    }
}

#[test]
fn ticks_that_panic_or_run_back_change_no_answer() {
    let world = World::new();
    let stats = Arc::new(CallStats::new().ticks(Arc::new(BrokenTicks)));
    let gate = open(&world, &stats, "session-1");
    assert_eq!(code(&gate, &search("c")), None);
    assert_eq!(stats.snapshot().answer_time.unwrap().count, 0);
    let back = Stepping { now: AtomicU64::new(5), step: AtomicU64::new(u64::MAX) };
    let stats = Arc::new(CallStats::new().ticks(Arc::new(back)));
    let gate = open(&world, &stats, "session-2");
    assert_eq!(code(&gate, &search("c")), None);
    let shown = stats.snapshot().answer_time.unwrap();
    assert_eq!((shown.count, shown.sum_seconds), (1, 0.0));
}
