//! Measures the cost of one session to another: two threads that decide in different sessions of one registry, each
//! through a gate of its own, over one record, beside one thread alone. Target: at least 1.8 times the calls in
//! the same time. That is, a round of two threads (twice the calls) takes at most 1.11 times as long as a round of one.
//!
//! Each call is decided and run, and its outcome is recorded, so a call makes two records. In memory the aim is 1.9 times
//! the calls: only the number of a record and its place in the tree are taken in turns. Under `Group` each record
//! waits for its sync, which two sessions share. Under `System` it waits until the system has it; there, the calls that
//! check that the file is still this log's are made one at a time. The last line of each group is the same work with
//! only the machine shared: two threads over two records. The comparison needs a machine with two idle cores.

#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a bench that cannot be set up has to stop, and its numbers are small"
)]

#[path = "../../audit-log/benches/stated/mod.rs"]
mod stated;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_audit_log::{AuditSink, Durability, Log, LogOptions, MemorySink};
use countersign_core::{AgentId, Clock, ManualClock, Millis, Principal, SessionId, Timestamp};
use countersign_keys::{SigningKey, TrustRoot};
use countersign_registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, RegistryDraft,
};
use countersign_tlog::note::KeyName;
use countersign_tool_gate::{CallStats, ToolGate};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use stated::{SYNC, StatedDisk};

const DRAFT: &str = r#"{
  "format": "countersign-registry-1", "version": 1,
  "agents": [
   {"agent": "one", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
    "tools": [{"server": "desk", "name": "search"}]},
   {"agent": "two", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
    "tools": [{"server": "desk", "name": "search"}]}],
  "tools": [{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
    "args_schema": {"type": "object", "properties": {"ticket": {"type": "string"}}}}],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;

const ARGS: &[u8] =
    br#"{"ticket":"T-0123456789 is what the customer wrote about, and asked for an answer today"}"#;

/// A registry, the counts of a process, and the time.
struct World {
    registry: Arc<CapabilityRegistry>,
    stats: Arc<CallStats>,
    clock: Arc<dyn Clock>,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let now = Timestamp::from_millis(1_790_000_000_000).unwrap();
        let operator = SigningKey::from_seed([7; 32]);
        let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
        let draft = RegistryDraft::from_json(DRAFT.as_bytes()).unwrap();
        let end = now.checked_add(Millis::from_secs(86_400)).unwrap();
        let signed = draft.sign(now, end, &[&operator]).unwrap();
        let (marks, options) = (Arc::new(MemoryHighWater::new()), LoadOptions::default());
        let registry = CapabilityRegistry::load(signed.to_json().as_bytes(), &root, marks, options, now);
        let (registry, stats) = (Arc::new(registry.unwrap()), Arc::new(CallStats::new()));
        Self { registry, stats, clock: Arc::new(ManualClock::new(now)), now }
    }

    fn gate(&self, agent: &str, sink: &Arc<dyn AuditSink>) -> ToolGate {
        let session = SessionId::new(&format!("session-of-{agent}")).unwrap();
        let request = NegotiationRequest::new(session, AgentId::new(agent).unwrap());
        let contract = self.registry.negotiate(&request, self.now).unwrap();
        let (principal, sink) = (Principal::new("ada").unwrap(), Arc::clone(sink));
        let (registry, clock) = (Arc::clone(&self.registry), Arc::clone(&self.clock));
        let builder = ToolGate::builder(registry, contract, principal, clock, sink);
        builder.stats(Arc::clone(&self.stats)).open().unwrap()
    }
}

fn options(durability: Durability) -> LogOptions {
    let origin = KeyName::new("example.com/log").unwrap();
    LogOptions::new(origin, SigningKey::from_seed([7; 32])).durability(durability)
}

fn log(folder: &Path, durability: Durability) -> Arc<dyn AuditSink> {
    Arc::new(Log::open(folder, options(durability)).unwrap())
}

/// A log on a disk with a stated sync time.
fn stated(folder: &Path, durability: Durability) -> Arc<dyn AuditSink> {
    Arc::new(Log::open_on(StatedDisk::create(folder).unwrap(), options(durability)).unwrap())
}

/// Runs a round: each gate makes this many calls in a thread of its own.
fn round(gates: &[ToolGate], calls: u64, next: &AtomicU64) {
    let work = |gate: &ToolGate| {
        for _ in 0..calls {
            let id = format!("call-{}", next.fetch_add(1, Ordering::Relaxed));
            let accepted = gate.check(&countersign_tool_gate::ToolCall::new(&id, "desk", "search", ARGS));
            accepted.unwrap().run(|_| Ok::<_, ()>(())).unwrap();
        }
    };
    std::thread::scope(|scope| gates.iter().for_each(|gate| drop(scope.spawn(|| work(gate)))));
}

fn threads(c: &mut Criterion, name: &str, sink: impl Fn(&Path) -> Arc<dyn AuditSink>, calls: u64) {
    let world = World::new();
    let next = AtomicU64::new(0);
    let mut group = c.benchmark_group(name);
    group.sample_size(20);
    let mut measure = |what: &str, gates: &[ToolGate]| {
        group.throughput(Throughput::Elements(calls * gates.len() as u64));
        group.bench_function(BenchmarkId::new(what, calls), |b| b.iter(|| round(gates, calls, &next)));
    };
    let folder = tempfile::tempdir().unwrap();
    let shared = sink(&folder.path().join("shared"));
    let both = [world.gate("one", &shared), world.gate("two", &shared)];
    measure("one thread", both.get(..1).unwrap());
    measure("two threads", &both);
    let apart = ["one", "two"].map(|agent| {
        let of_its_own = World::new();
        of_its_own.gate(agent, &sink(&folder.path().join(agent)))
    });
    measure("floor: two threads over two records", &apart);
    group.finish();
}

fn bench(c: &mut Criterion) {
    threads(c, "two sessions, in memory", |_| Arc::new(MemorySink::new()), 2_048);
    threads(c, "two sessions, group", |folder| log(folder, Durability::Group), 64);
    let name = format!("two sessions, group, a sync takes {} ms", SYNC.as_millis());
    threads(c, &name, |folder| stated(folder, Durability::Group), 64);
    threads(c, "two sessions, system", |folder| log(folder, Durability::System), 2_048);
}

criterion_group!(benches, bench);
criterion_main!(benches);
