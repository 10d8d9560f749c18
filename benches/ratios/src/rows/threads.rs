use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
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

/// A file that two threads append to, and the files that are looked at before and after each write.
struct SharedFile {
    end: Mutex<u64>,
    file: File,
    paths: [PathBuf; 2],
}

impl SharedFile {
    fn in_folder(folder: &Path) -> Self {
        let paths = ["segment", "lock"].map(|name| folder.join(name));
        let [file, _] = paths.each_ref().map(|path| File::create(path).unwrap());
        Self { end: Mutex::new(0), file, paths }
    }

    /// What two records under `system` ask of the operating system if each is written alone, with as many hashes: each line
    /// is written under a lock, and the same files are looked at. The log can write two records together.
    fn write(&self, times: u32) {
        let [segment, lock] = &self.paths;
        let look = |path: &PathBuf| path.metadata().unwrap().len();
        for _ in 0..times * 2 {
            hashes(1);
            let mut end = self.end.lock().unwrap();
            black_box((look(segment), look(lock)));
            self.file.write_all_at(&[b'x'; 400], *end).unwrap();
            *end += 400;
            black_box(look(lock));
        }
    }
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

/// How many times as many calls two threads make as one, in different sessions; and how many times as much of other work.
fn gain(sampling: Sampling, gates: &[ToolGate; 2], other: impl Fn(u32) + Sync) -> crate::Rounds {
    let sampling = Sampling { samples: 3, target: Duration::from_nanos(1), ..sampling };
    let of_calls = |workers, times| at_once(workers, |at| calls(&gates[at], CALLS * times));
    let of_other = |workers, times| at_once(workers, |_| other(CALLS * times));
    interleave(
        sampling,
        &mut [
            &mut |times| of_calls(1, times),
            &mut |times| of_calls(2, times) / 2,
            &mut |times| of_other(1, times),
            &mut |times| of_other(2, times) / 2,
        ],
    )
}

fn log(folder: &Path) -> Arc<dyn AuditSink> {
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    Arc::new(Log::open(folder, options.durability(Durability::System)).unwrap())
}

pub(super) fn threads(sampling: Sampling) -> Vec<Row> {
    let row = |name: &str, goal: f64, sink: Arc<dyn AuditSink>, other: &(dyn Fn(u32) + Sync), what: &str| {
        let rounds = gain(sampling, &gates(&sink), other);
        let one = rounds.nanos(0).median / f64::from(CALLS);
        Row::new(format!("two threads on different sessions / one, {name}"), rounds.ratio(0, 1), Unit::Times)
            .goal(Bound::AtLeast(goal))
            .note(format!(
                "one thread: {one:.0} ns a call with its outcome; two threads that only {what} / one: {:.2}",
                rounds.ratio(2, 3).median
            ))
    };
    let folder = tempfile::tempdir().unwrap();
    let shared = SharedFile::in_folder(folder.path());
    let (memory, system) = (Arc::new(MemorySink::new()), log(&folder.path().join("log")));
    let rows = vec![
        row("memory sink", 1.9, memory, &hashes, "hash"),
        row("`system` log", 1.8, system, &|times| shared.write(times), "hash and write a file under a lock"),
    ];
    let _ = pin_to_core(0);
    rows
}
