use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use countersign_audit_log::{AuditSink, Durability, Log, LogOptions, MemorySink};
use countersign_core::{AgentId, Clock, ManualClock, Principal, SessionId};
use countersign_keys::SigningKey;
use countersign_registry::{CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest};
use countersign_testing::{TestRegistry, TestTool, World};
use countersign_tlog::note::KeyName;
use countersign_tool_gate::{CallStats, ToolCall, ToolGate};
use sha2::{Digest as _, Sha256};

use crate::{Bound, Row, Sampling, Unit, interleave, pin_to_core};

/// Calls of one thread in a sample. Each is decided and run, so each makes two records.
const CALLS: u32 = 16_384;

const ARGS: &[u8] =
    br#"{"ticket":"T-0123456789 is what the customer wrote about, and asked for an answer today"}"#;

/// Gates of two sessions of one registry, with the same sink.
fn gates(sink: &Arc<dyn AuditSink>) -> [ToolGate; 2] {
    let now = World::start();
    let signed = TestRegistry::of([TestTool::read("search")]).agent("other-bot", ["search"]).sign(now);
    let (root, marks) = (TestRegistry::trust_root(), Arc::new(MemoryHighWater::new()));
    let registry = CapabilityRegistry::load(&signed, &root, marks, LoadOptions::default(), now).unwrap();
    let (registry, stats) = (Arc::new(registry), Arc::new(CallStats::new()));
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(now));
    ["support-bot", "other-bot"].map(|agent| {
        let session = SessionId::new(&format!("session-of-{agent}")).unwrap();
        let request = NegotiationRequest::new(session, AgentId::new(agent).unwrap());
        let contract = registry.negotiate(&request, now).unwrap();
        let principal = Principal::new("ada@example.com").unwrap();
        let (registry, clock, sink) = (Arc::clone(&registry), Arc::clone(&clock), Arc::clone(sink));
        ToolGate::builder(registry, contract, principal, clock, sink)
            .stats(Arc::clone(&stats))
            .open()
            .unwrap()
    })
}

fn calls(gate: &ToolGate, times: u32) {
    for _ in 0..times {
        let accepted = gate.check(&ToolCall::new("call-1", "desk", "search", ARGS)).unwrap();
        accepted.run(|_| Ok::<_, ()>(())).unwrap();
    }
}

/// Work that shares nothing: SHA-256 of as many bytes as a call hashes, again and again.
fn hashes(times: u32) {
    let mut bytes = [7; 1_024];
    for _ in 0..times {
        let digest = Sha256::digest(bytes);
        bytes[..digest.len()].copy_from_slice(&digest);
    }
    black_box(bytes);
}

/// Each worker does its work in a thread on a core of its own. Returns the time from the first start to the last end, which the
/// workers read themselves: the calling thread is on the core of one of them, and may go on only when that one is done.
#[expect(clippy::disallowed_methods, reason = "a bench takes real time")]
fn at_once(workers: usize, work: impl Fn(usize) + Sync) -> Duration {
    let barrier = Barrier::new(workers);
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let work_at = |at| {
            let _ = pin_to_core(at);
            barrier.wait();
            let began = Instant::now();
            work(at);
            (began, Instant::now())
        };
        let workers: Vec<_> = (0..workers).map(|at| scope.spawn(move || work_at(at))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let began = times.iter().map(|(began, _)| *began).min();
    let ended = times.iter().map(|(_, ended)| *ended).max();
    ended.zip(began).map_or(Duration::ZERO, |(ended, began)| ended - began)
}

/// How many times as many calls two threads make as one, in different sessions; and how many times as many hashes, which
/// is all that this machine has to give.
fn gain(sampling: Sampling, gates: &[ToolGate; 2]) -> crate::Rounds {
    let sampling = Sampling { samples: 3, target: Duration::from_nanos(1), ..sampling };
    let of_calls = |workers, times| at_once(workers, |at| calls(&gates[at], CALLS * times));
    let of_hashes = |workers, times| at_once(workers, |_| hashes(CALLS * times));
    interleave(
        sampling,
        &mut [
            &mut |times| of_calls(1, times),
            &mut |times| of_calls(2, times) / 2,
            &mut |times| of_hashes(1, times),
            &mut |times| of_hashes(2, times) / 2,
        ],
    )
}

fn log(folder: &Path) -> Arc<dyn AuditSink> {
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    Arc::new(Log::open(folder, options.durability(Durability::System)).unwrap())
}

pub(super) fn threads(sampling: Sampling) -> Vec<Row> {
    let row = |name: &str, sink: Arc<dyn AuditSink>, goal: f64| {
        let rounds = gain(sampling, &gates(&sink));
        let one = rounds.nanos(0).median / f64::from(CALLS);
        Row::new(format!("two threads on different sessions / one, {name}"), rounds.ratio(0, 1), Unit::Times)
            .goal(Bound::AtLeast(goal))
            .note(format!(
                "one thread: {one:.0} ns a call with its outcome; two threads that only hash / one: {:.2}",
                rounds.ratio(2, 3).median
            ))
    };
    let folder = tempfile::tempdir().unwrap();
    let memory = row("memory sink", Arc::new(MemorySink::new()), 1.9);
    let rows = vec![memory, row("`system` log", log(&folder.path().join("log")), 1.8)];
    let _ = pin_to_core(0);
    rows
}
