//! Millions of decisions in one process: every counter is exact, and memory does not grow after warm-up.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::signals::resident_kib;
use super::world::*;
use crate::*;
use countersign_audit_log::{
    AuditSink, Durability, Log, LogEntry, LogError, LogOptions, MemorySink, Record, read_log,
};
use countersign_core::*;
use countersign_keys::SigningKey;
use countersign_registry::NegotiationRequest;
use countersign_tlog::note::KeyName;

/// Set in the child process that measures memory; names one of the two tests.
const CHILD: &str = "COUNTERSIGN_ENDURANCE_CHILD";

/// Maximum growth of resident memory after warm-up.
const BOUND_KIB: u64 = 8 << 10;

/// Answers to one thread, by agent, tool of the registry and code.
#[derive(Default)]
struct Answers(BTreeMap<(&'static str, Option<&'static str>, Option<RejectionCode>), u64>);

impl Answers {
    fn add(&mut self, other: Self) {
        for (what, count) in other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    fn sum(&self, of: impl Fn(&str, Option<&str>, Option<RejectionCode>) -> bool) -> u64 {
        let found = self.0.iter().filter(|((agent, tool, code), _)| of(agent, *tool, *code));
        found.map(|(_, count)| count).sum()
    }
}

const AGENTS: [&str; 2] = ["support-bot", "capped-bot"];

/// A session of an agent, on counts that all sessions share.
fn session(
    world: &World,
    stats: &Arc<CallStats>,
    sink: &Arc<dyn AuditSink>,
    agent: &str,
    id: &str,
) -> ToolGate {
    let request = NegotiationRequest::new(SessionId::new(id).unwrap(), AgentId::new(agent).unwrap());
    let contract = world.registry.negotiate(&request, start()).unwrap();
    let (clock, sink) = (Arc::clone(&world.clock) as Arc<dyn Clock>, Arc::clone(sink));
    let principal = Principal::new("ada@example.com").unwrap();
    let builder = ToolGate::builder(Arc::clone(&world.registry), contract, principal, clock, sink);
    builder.stats(Arc::clone(stats)).open().unwrap()
}

/// Makes or observes one call, and notes the answer.
fn answer(gate: &ToolGate, agent: &'static str, n: u64, answers: &mut Answers) {
    let (id, made_up) = (format!("call-{n}"), format!("made_up_{n}"));
    let (tool, call) = match n % 16 {
        0..3 => (Some("search"), search(&id)),
        3 => (Some("search"), ToolCall::new(&id, "desk", "search", br#"{"query":7}"#)),
        4 => (Some("search"), ToolCall::new(&id, "desk", "search", b"[")),
        5 => (Some("mail"), ToolCall::new(&id, "desk", "mail", br#"{"to":"a@elsewhere.example"}"#)),
        6 => (Some("refund"), refund(&id)),
        7 => (Some("asking"), ToolCall::new(&id, "desk", "asking", b"{}")),
        8 => (Some("planned"), ToolCall::new(&id, "desk", "planned", b"{}")),
        9 => (Some("pinned"), ToolCall::new(&id, "desk", "pinned", b"{}")),
        10 => (Some("scarce"), ToolCall::new(&id, "desk", "scarce", b"{}")),
        11 => (Some("delete_ticket"), ToolCall::new(&id, "desk", "delete_ticket", b"{}")),
        12 | 13 => (None, ToolCall::new(&id, "desk", &made_up, b"{}")),
        14 => (None, ToolCall::new(&id, &made_up, "search", SEARCH)),
        _ => {
            let raw = format!(r#"{{"name":"{made_up}","arguments":{{}}}}"#);
            let Observed::Undisclosed(no) = gate.observe(raw.as_bytes()) else { panic!("{raw}") };
            *answers.0.entry((agent, None, Some(no.code()))).or_default() += 1;
            return;
        }
    };
    *answers.0.entry((agent, tool, code(gate, &call))).or_default() += 1;
}

/// Runs `decisions` decisions in two threads: sessions of `each` decisions one after another, for each agent in turn.
fn drive(
    world: &World,
    stats: &Arc<CallStats>,
    sink: &Arc<dyn AuditSink>,
    (round, decisions, each): (u64, u64, u64),
) -> Answers {
    let thread = |number: u64| {
        let mut answers = Answers::default();
        let mut left = decisions / 2;
        for turn in 0.. {
            if left == 0 {
                break;
            }
            let agent = AGENTS[usize::try_from(turn % 2).unwrap()];
            let gate = session(world, stats, sink, agent, &format!("session-{round}-{number}-{turn}"));
            let these = left.min(each);
            (0..these).for_each(|n| answer(&gate, agent, turn * each + n, &mut answers));
            assert_eq!(gate.counts().total(), these);
            left -= these;
        }
        answers
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| thread(1));
        let mut answers = thread(0);
        answers.add(other.join().unwrap());
        answers
    })
}

/// Compares every counter with the answers that were given.
fn is_exact(stats: &CallStats, answers: &Answers) {
    let shown = stats.snapshot();
    let same = |counts: &CountsSnapshot, of: &dyn Fn(&str, Option<&str>) -> bool| {
        assert_eq!(counts.accepted(), answers.sum(|agent, tool, code| of(agent, tool) && code.is_none()));
        for wanted in RejectionCode::ALL {
            let given = answers.sum(|agent, tool, code| of(agent, tool) && code == Some(*wanted));
            assert_eq!(counts.rejected_with(*wanted), given, "{wanted}");
        }
    };
    same(&shown.overall, &|_, _| true);
    same(&shown.unknown_tools, &|_, tool| tool.is_none());
    for row in &shown.agents {
        same(&row.counts, &|agent, _| agent == row.agent.as_str());
    }
    for (tool, row) in &shown.tools {
        // No call uses the registry's one tool of that server.
        let name = (tool.server().as_str() == "desk").then(|| tool.name().as_str());
        same(row, &|_, called| name.is_some() && called == name);
    }
    let by_agent: u64 = shown.agents.iter().map(|row| row.counts.total()).sum();
    let by_tool: u64 = shown.tools.iter().map(|(_, row)| row.total()).sum();
    let by_code: u64 = shown.overall.rejected_by_code().iter().map(|(_, count)| count).sum();
    let all = shown.overall.total();
    assert_eq!((by_agent, by_tool + shown.unknown_tools.total()), (all, all));
    assert_eq!(by_code + shown.overall.accepted(), all);
    assert_eq!(shown.agents.len(), AGENTS.len());
    assert!(shown.overall.rejected_by_code().len() >= 9, "{:?}", shown.overall.rejected_by_code());
}

/// Warms up with a tenth, runs the rest, and returns the growth of the process meanwhile, in KiB.
fn endure(sink: &Arc<dyn AuditSink>, decisions: u64, each: u64) -> u64 {
    let world = World::new();
    let stats = Arc::new(CallStats::new().ticks(Arc::new(SystemTicks::new())));
    let mut answers = drive(&world, &stats, sink, (0, decisions / 10, each));
    let before = resident_kib();
    answers.add(drive(&world, &stats, sink, (1, decisions - decisions / 10, each)));
    let grown = resident_kib().saturating_sub(before);
    assert_eq!(stats.overall().total(), decisions);
    // Observed calls are counted and not timed.
    let timed = stats.snapshot().answer_time.unwrap().count;
    assert_eq!(timed, decisions - decisions / 16);
    is_exact(&stats, &answers);
    println!("{decisions} decisions: grown by {grown} KiB");
    grown
}

#[test]
fn counters_are_exact_over_sessions_agents_tools_and_codes() {
    let sink: Arc<dyn AuditSink> = Arc::new(MemorySink::keeping(16));
    endure(&sink, 16_000, 400);
}

/// Runs [`in_a_process_of_its_own`] in a child process, where no other test's memory is measured.
#[cfg(target_os = "linux")]
fn alone(what: &str) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tests::endurance::in_a_process_of_its_own", "--nocapture"])
        .env(CHILD, what)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let measured = said.lines().find(|line| line.contains("grown by"));
    println!("{}", measured.expect("the measurement ran"));
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "ten million decisions: run in release mode"]
fn ten_million_decisions_leave_memory_flat() {
    alone("memory");
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "a million decisions on a log: run in release mode"]
fn million_logged_decisions_leave_memory_flat() {
    alone("log");
}

/// Number of decisions that a log records, in entries of their own and in sums.
fn recorded(log: &Path) -> u64 {
    let counted = |entry: Result<LogEntry, LogError>| {
        let record = entry.unwrap().into_record();
        if let Record::Refused(sum) = &record {
            sum.total()
        } else {
            u64::from(matches!(record, Record::Decision(_)))
        }
    };
    read_log(log).unwrap().map(counted).sum()
}

#[test]
#[ignore = "runs in a child process of the tests above"]
fn in_a_process_of_its_own() {
    let Ok(what) = std::env::var(CHILD) else { return };
    if what == "memory" {
        let sink: Arc<dyn AuditSink> = Arc::new(MemorySink::keeping(1_024));
        let grown = endure(&sink, 10_000_000, 50_000);
        return assert!(grown < BOUND_KIB, "grown by {grown} KiB");
    }
    let folder = tempfile::tempdir().unwrap();
    let origin = KeyName::new("example.com/log").unwrap();
    let options = LogOptions::new(origin, SigningKey::from_seed([3; 32])).durability(Durability::System);
    let log = Arc::new(Log::open(folder.path().join("log"), options.opened_at(start())).unwrap());
    let grown = endure(&(Arc::clone(&log) as Arc<dyn AuditSink>), 1_000_000, 10_000);
    assert!(grown < BOUND_KIB, "grown by {grown} KiB");
    log.checkpoint().unwrap();
    assert_eq!(
        recorded(&folder.path().join("log")),
        1_000_000,
        "each decision has an entry or is in one sum"
    );
}
